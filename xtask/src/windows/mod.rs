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

/// The example programs, which have tests of their own, and the directory of these.
const PROGRAMS: (&str, &str) = ("bast-examples", "examples");

/// Rounds of bast-io's randomised tests, a fifth of what they do on Linux: each of them asks Wine's server many times.
/// `BAST_ROUNDS` says otherwise.
const ROUNDS: &str = "4000";

/// The drivers that there are. The simulator asks nothing of the system, and what it shows is shown on Linux: it is run
/// for a package that is asked for by name.
const DRIVERS: [&str; 2] = ["iocp", "sim"];

/// What the simulator is for, as on Linux.
const SIMULATED: &[&str] = &["bast-sync", "bast"];

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &["--debian", "--programs"])?;
    let has = |flag| options.flags.iter().any(|given| given == flag);
    let mut packages = options.of(&CRATES.map(|(name, _)| name));
    let with_programs = options.packages.is_empty();
    if with_programs {
        packages.push(PROGRAMS.0);
    }
    let kit = match Kit::new(&context.target, has("--debian"))? {
        Ok(kit) => kit,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let mut suites = build(kit.cargo(), TARGET, &packages)?;
    if has("--programs") {
        suites.retain(|suite| suite.package == PROGRAMS.1);
    }
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
            let simulated = !with_programs && SIMULATED.contains(&suite.package.as_str());
            let drivers = if simulated { &DRIVERS[..] } else { &DRIVERS[..1] };
            for driver in drivers {
                report.run(suite, &wine.clone().env("BAST_DRIVER", driver), driver, &[])?;
            }
        }
    }
    if with_programs {
        programs::run(&kit, context)?;
    }
    // The face's examples: 24 s of a processor, most of it the compiler's.
    if packages.contains(&"bast") && !has("--programs") {
        let cargo = kit.cargo_that_runs().env("BAST_DRIVER", DRIVERS[0]);
        cargo.args("test -q --doc -p bast --target").args(TARGET).run()?;
    }
    report.print("Windows (Wine)", &[]);
    Ok(())
}
