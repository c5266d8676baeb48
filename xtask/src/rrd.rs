//! The tests that need rrdtool: of the RRD format and of the export, against rrdtool itself.
//!
//! They are the ignored ones of the packages `rrd-*`, so that `cargo test` needs nothing but Rust.

use std::time::Duration;

use crate::binaries::passed;
use crate::cmd::{Cmd, is_installed};
use crate::debian;
use crate::steps::Context;

pub(crate) fn run(context: &Context) -> Result<(), String> {
    if !is_installed("rrdtool") {
        debian::install("rrdtool", Duration::from_secs(120));
    }
    if !is_installed("rrdtool") {
        println!("skipped: no rrdtool here (Debian: apt install rrdtool)");
        return Ok(());
    }
    let packages = context.metadata["packages"].as_array().into_iter().flatten();
    let names = packages.filter_map(|package| package["name"].as_str());
    for package in names.filter(|name| name.starts_with("rrd-")) {
        let test = Cmd::cargo("test --lib --tests -p").args(package).args("-- --ignored");
        match passed(&test.run_and_read()?) {
            0 => return Err(format!("{package}: no test has been run")),
            tests => println!("{package}: {tests} tests with rrdtool"),
        }
    }
    Ok(())
}
