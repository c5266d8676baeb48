//! The test suites of the crates for Windows, run by Wine.
//!
//! The same binaries as on Linux, built for `x86_64-pc-windows-gnu`. Wine has real completion ports. What it cannot
//! honour is marked where the test is: `#[cfg_attr(windows, ignore = "Wine: …")]`.

mod kit;

use kit::Kit;

use crate::steps::Context;
use crate::suites::{CRATES, Options, Report, build};

pub(crate) const TARGET: &str = "x86_64-pc-windows-gnu";

/// What has been brought to Windows so far.
pub(crate) const PACKAGES: &[&str] = &["bast-coro"];

/// The drivers that there are.
const DRIVERS: [&str; 2] = ["iocp", "sim"];

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &["--debian"])?;
    let packages = options.of(PACKAGES);
    if packages.is_empty() {
        return Err(format!("only {} can be run so far", PACKAGES.join(", ")));
    }
    let kit = match Kit::new(&context.target, options.flags.iter().any(|flag| flag == "--debian"))?
    {
        Ok(kit) => kit,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let suites = build(kit.cargo(), TARGET, &packages)?;
    let mut report = Report::default();
    kit.serve()?;
    for _ in 0..options.repeat {
        for suite in &suites {
            if !CRATES.contains(&(&suite.package, true)) {
                report.run(suite, &kit.wine(), "", &[])?;
                continue;
            }
            for driver in DRIVERS {
                report.run(suite, &kit.wine().env("BAST_DRIVER", driver), driver, &[])?;
            }
        }
    }
    report.print("Windows (Wine)", &[]);
    Ok(())
}
