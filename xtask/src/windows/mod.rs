//! The test suites of the crates for Windows, and the example programs, run by Wine.
//!
//! The same binaries as on Linux, built for `x86_64-pc-windows-gnu`. Wine has real completion ports. What it cannot
//! honour is marked where the test is: `#[cfg_attr(windows, ignore = "Wine: …")]`.

mod kit;
mod programs;

use kit::Kit;

use crate::steps::Context;
use crate::suites::{CRATES, Options, Report, build};

pub(crate) const TARGET: &str = "x86_64-pc-windows-gnu";

/// What has been brought to Windows so far.
pub(crate) const PACKAGES: &[&str] = &["bast-coro", "bast-io", "bast-rt", "bast-sync", "bast"];

/// Rounds of bast-io's randomised tests, a fifth of what they do on Linux: each of them asks Wine's server many times.
/// `BAST_ROUNDS` says otherwise.
const ROUNDS: &str = "4000";

/// The drivers that there are.
const DRIVERS: [&str; 2] = ["iocp", "sim"];

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &["--debian", "--programs"])?;
    let has = |flag| options.flags.iter().any(|given| given == flag);
    let packages = options.of(PACKAGES);
    if packages.is_empty() {
        return Err(format!("only {} can be run so far", PACKAGES.join(", ")));
    }
    let kit = match Kit::new(&context.target, has("--debian"))? {
        Ok(kit) => kit,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    kit.serve()?;
    if options.packages.is_empty() {
        programs::run(&kit, context)?;
    }
    if has("--programs") {
        return Ok(());
    }
    let suites = build(kit.cargo(), TARGET, &packages)?;
    let mut report = Report::default();
    kit.serve()?;
    let rounds = std::env::var("BAST_ROUNDS").unwrap_or_else(|_| ROUNDS.into());
    let wine = kit.wine().env("BAST_ROUNDS", rounds);
    for _ in 0..options.repeat {
        for suite in &suites {
            if !CRATES.contains(&(&suite.package, true)) {
                report.run(suite, &wine, "", &[])?;
                continue;
            }
            // As on Linux, the simulator is not for bast-rt's own tests.
            let drivers = if suite.package == "bast-rt" { &DRIVERS[..1] } else { &DRIVERS[..] };
            for driver in drivers {
                report.run(suite, &wine.clone().env("BAST_DRIVER", driver), driver, &[])?;
            }
        }
    }
    // The face's examples: 24 s of a processor, most of it the compiler's.
    if packages.contains(&"bast") {
        let cargo = kit.cargo_that_runs().env("BAST_DRIVER", DRIVERS[0]);
        cargo.args("test -q --doc -p bast --target").args(TARGET).run()?;
    }
    report.print("Windows (Wine)", &[]);
    Ok(())
}
