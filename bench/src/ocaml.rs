//! Builds the OCaml rivals on first use, next to this program; nothing is fetched.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The OCaml rival, built; or why there is none.
pub(crate) fn program() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(|| build("delimcc", include_str!("../rivals/ocaml/delimcc.ml"))).clone()
}

/// That of `rrd-export`.
pub(crate) fn exporter() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(|| build("export", include_str!("../rivals/ocaml/export.ml"))).clone()
}

/// Whether the subject is a part of the OCaml rival: `lwt`, or `lwt-select`.
pub(crate) fn is(subject: &str) -> bool {
    subject.split('-').next() == Some("lwt")
}

/// What is needed to build it with, if it is not there: how to install it.
pub(crate) fn missing() -> Option<&'static str> {
    let query = Command::new("ocamlfind").args(["query", "lwt.unix"]).output();
    let native = Command::new("ocamlfind").args(["ocamlopt", "-version"]).output();
    let there = [query, native].into_iter().all(|o| o.is_ok_and(|o| o.status.success()));
    (!there).then_some(
        "OCaml and Lwt are not installed: apt-get install -y ocaml-nox ocaml-findlib liblwt-ocaml-dev",
    )
}

/// The compiler writes beside the source, so it gets a copy of it.
fn build(name: &str, source: &str) -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| e.to_string())?;
    let folder = here.with_file_name("bast-bench-ocaml");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let file = format!("{name}.ml");
    fs::write(folder.join(&file), source).map_err(|e| e.to_string())?;
    // Without flambda -O3 is accepted and does nothing.
    let built = Command::new("ocamlfind")
        .args(["ocamlopt", "-O3", "-unsafe", "-inline", "100", "-thread"])
        .args(["-package", "lwt,lwt.unix", "-linkpkg", &file, "-o", name])
        .current_dir(&folder)
        .output()
        .map_err(|e| format!("ocamlfind: {e}"))?;
    if !built.status.success() {
        return Err(format!("ocamlfind ocamlopt: {}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(folder.join(name))
}
