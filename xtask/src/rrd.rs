//! The tests that need rrdtool: of the RRD format and of the export, against rrdtool itself.
//!
//! They are the ignored ones of the packages `rrd-*`, so that `cargo test` needs nothing but Rust.

use std::time::Duration;

use crate::binaries::{self, beside_each_other};
use crate::cmd::{Cmd, is_installed};
use crate::debian;
use crate::steps::Context;

pub(crate) fn run(_: &Context) -> Result<(), String> {
    if !is_installed("rrdtool") {
        debian::install("rrdtool", Duration::from_secs(120));
    }
    if !is_installed("rrdtool") {
        println!("skipped: no rrdtool here (Debian: apt install rrdtool)");
        return Ok(());
    }
    let binaries = binaries::build(Cmd::cargo("test --workspace"))?;
    for package in ["rrd-file", "rrd-export"] {
        let of_this = binaries.iter().filter(|binary| binary.package == package);
        match beside_each_other(of_this.map(|binary| binary.cmd().args("--ignored")).collect())? {
            0 => return Err(format!("{package}: no test has been run")),
            tests => println!("{package}: {tests} tests with rrdtool"),
        }
    }
    Ok(())
}
