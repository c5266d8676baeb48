//! COVERAGE.md: every stable item of std that bast has a counterpart for, or the reason why not.
//!
//! ```text
//!   rust-docs of the toolchain ─ --relist ─▶ xtask/coverage/std-items.txt ─┐
//!   cargo doc -p bast ─▶ its pages ────────────────────────────────────────┼─▶ COVERAGE.md
//!   xtask/coverage/reasons.txt: what is left out, and why ─────────────────┘    (--write, else compared)
//! ```
//!
//! An item is *re-exported* if bast's module of the same path says so, *covered* if that has a page of
//! its own for it, with every method, field and trait; what is neither needs a reason, and a reason that
//! nothing needs is an error. `std::os::windows` is compared with bast's pages for Windows, so it takes a
//! compiler that has a std for Windows.

mod list;
mod page;
mod reasons;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{self, Context};
use crate::{debian, windows};
use list::List;

/// The modules of std that bast has the shape of.
const MODULES: [&str; 20] = [
    "fs",
    "io",
    "net",
    "os",
    "os::fd",
    "os::linux",
    "os::linux::fs",
    "os::linux::net",
    "os::linux::process",
    "os::unix::fs",
    "os::unix::io",
    "os::unix::net",
    "os::unix::process",
    "os::unix::thread",
    "process",
    "sync",
    "sync::atomic",
    "sync::mpsc",
    "thread",
    "time",
];

/// As above, on Windows.
const WINDOWS: [&str; 5] = [
    "os::windows",
    "os::windows::ffi",
    "os::windows::fs",
    "os::windows::io",
    "os::windows::process",
];

/// The step.
pub(crate) fn run(context: &Context) -> Result<(), String> {
    let dir = context.root.join("xtask/coverage");
    let items = dir.join("std-items.txt");
    match context.args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["--write"] => {}
        ["--relist"] => return relist(&items),
        ref other => {
            return Err(format!("coverage takes --write or --relist, not {:?}", other.join(" ")));
        }
    }
    let std = list::parse(&read(&items)?)?;
    steps::docs(context)?;
    let mut bast = modules(&context.target.join("doc/bast"), &MODULES)?;
    if let Err(why) = debian::provide_target(windows::TARGET) {
        println!("skipped: {why}");
        return Ok(());
    }
    steps::document("-p bast --target", windows::TARGET)?;
    bast.append(&mut modules(&context.target.join(windows::TARGET).join("doc/bast"), &WINDOWS)?);
    let reasons = reasons::parse(&read(&dir.join("reasons.txt"))?)?;
    let report = report::make(&std, &bast, &reasons)?;
    let path = context.root.join("COVERAGE.md");
    if context.args.is_empty() {
        if read(&path)? != report {
            return Err("COVERAGE.md is stale: `cargo xtask coverage --write` makes it anew".into());
        }
    } else {
        fs::write(&path, report).map_err(|e| format!("COVERAGE.md: {e}"))?;
    }
    Ok(())
}

/// The items of those modules that have pages.
fn modules(docs: &Path, modules: &[&str]) -> Result<List, String> {
    let mut list = List::new();
    let there = |module: &&&str| docs.join(module.replace("::", "/")).is_dir();
    for module in modules.iter().filter(there) {
        list::add_module(&mut list, docs, module)?;
    }
    Ok(list)
}

/// Makes the list of std's items from the pages that come with the toolchain.
fn relist(path: &Path) -> Result<(), String> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.map_err(|e| format!("rustc: {e}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let docs = sysroot.join("share/doc/rust/html/std");
    if !docs.is_dir() {
        return Err(format!(
            "{} is not there: `rustup component add rust-docs` brings it",
            docs.display()
        ));
    }
    let list = list::write(&modules(&docs, &[&MODULES[..], &WINDOWS].concat())?);
    let head = "# The stable items of std's modules that bast has the shape of.\n\
                # Made by `cargo xtask coverage --relist`; after a change of the toolchain, make it again.\n";
    fs::write(path, format!("{head}{list}")).map_err(|e| format!("{}: {e}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
