//! Programs written against std, each compiled twice: once as it is, and once with bast in std's place. What
//! they print must be the same, so that "a program moves by its `use` lines" is no matter of opinion.
//!
//! ```text
//!   walk.rs: use super::std::{fs, io, …}     ┌─ on_std:  use ::std    ─▶ walk ─▶ output ─┐
//!            fn main(…, out)                 └─ on_bast: use ::bast   ─▶ walk ─▶ output ─┴─▶ equal
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use crate::fs::Temp;
use crate::harness::{self, needs_kernel};

macro_rules! programs {
    ($($root:ident: $module:ident;)*) => {$(
        #[path = "."]
        #[allow(clippy::duplicate_mod)]
        mod $module {
            use ::$root as std;

            #[path = "kv.rs"]
            pub(super) mod kv;
            #[cfg(unix)] // modes, and `wc`
            #[path = "rotate.rs"]
            pub(super) mod rotate;
            #[path = "walk.rs"]
            pub(super) mod walk;
        }
    )*};
}

programs! {
    std: on_std;
    bast: on_bast;
}

/// Runs a program on both, each in a place of its own, and compares what they print and leave.
fn compare(
    prepare: fn(&Path),
    on_std: fn(&Path, &mut Vec<u8>) -> std::io::Result<()>,
    on_bast: fn(&Path, &mut Vec<u8>) -> std::io::Result<()>,
    proof: &'static str,
) {
    let run = move |program: fn(&Path, &mut Vec<u8>) -> std::io::Result<()>| {
        let dir = Temp::new();
        prepare(&dir);
        let mut out = Vec::new();
        program(&dir, &mut out).unwrap();
        let mut left = BTreeMap::new();
        for entry in std::fs::read_dir(&*dir).unwrap().map(Result::unwrap) {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            left.insert(entry.file_name(), text);
        }
        let out = String::from_utf8(out).unwrap().replace(dir.to_str().unwrap(), "DIR");
        (out.replace(std::path::MAIN_SEPARATOR, "/"), left)
    };
    let compared = move || {
        let (std, bast) = (run(on_std), run(on_bast));
        assert_eq!(std, bast);
        assert!(bast.0.contains(proof), "{}", bast.0);
    };
    // From a plain thread, and from a fiber; the watchdog is the same.
    harness::on_std::run(compared);
    harness::on_bast::run(compared);
}

#[test]
fn a_walk_through_directories() {
    needs_kernel!();
    let prepare = |dir: &Path| {
        for n in 0..5 {
            let below = dir.join(format!("d{n}/inner"));
            std::fs::create_dir_all(&below).unwrap();
            for m in 0..8 {
                let text = format!("nothing\nneedle {n} {m}\nnothing\n");
                std::fs::write(below.join(format!("f{m}")), text).unwrap();
            }
            std::fs::write(dir.join(format!("d{n}/binary")), [0xff, b'\n']).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("..", dir.join("d0/up")).unwrap();
    };
    compare(prepare, on_std::walk::main, on_bast::walk::main, "DIR/d3/inner/f7:2: needle 3 7\n");
}

#[test]
fn a_server_of_keys_and_values() {
    needs_kernel!();
    compare(|_| {}, on_std::kv::main, on_bast::kv::main, "client 3: 9 = <value 9 of 3>\n");
}

#[cfg(unix)]
#[test]
fn a_log_that_is_rotated() {
    needs_kernel!();
    compare(|_| {}, on_std::rotate::main, on_bast::rotate::main, "log.1: 10 lines, mode 640\n");
}
