//! `cargo xtask aarch64`: the test suites on a real kernel for aarch64, in a machine that QEMU emulates.
//!
//! Under QEMU's user mode (`cargo xtask cross`) system calls are this machine's, by a translation that lacks some, io_uring
//! first. Here all is as on such a machine: both drivers, `madvise`, guards of stacks, limits, descriptors, signals.
//! Only the memory is not: QEMU makes aarch64's loads and stores of x86's, which are ordered almost as SeqCst is. What a
//! weakly ordered machine may do besides is shown by loom, not by this.
//!
//! It takes long (each suite some ten times what it takes natively), so it is run by hand.

mod guest;
mod kernel;

use guest::{Qemu, Run};

use crate::cross;
use crate::steps::{Context, DRIVERS};
use crate::suites::{CRATES, Options, Report, Unfit, build};

/// Debian's suite whose kernel is taken: the newest, as guards of stacks that take no mapping are there from 6.13 on.
/// `BAST_KERNEL` names another (`bookworm` has 6.1).
const SUITE: &str = "trixie-backports";

/// Rounds of bast-io's randomised tests, a tenth of what they do natively. `BAST_ROUNDS` says otherwise.
const ROUNDS: &str = "2000";

/// What is run unless packages are named: what has been seen to pass there to its end.
const SEEN: &[&str] = &["bast-coro"];

/// What the emulated machine lacks.
const LACKS: &[Unfit] = &[];

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &[])?;
    let suite = std::env::var("BAST_KERNEL").unwrap_or_else(|_| SUITE.into());
    let dir = context.target.join("aarch64");
    let found = match cross::aarch64_cargo().and_then(|cargo| Ok((cargo, Qemu::provide()?))) {
        Ok(found) => kernel::provide(&dir, &suite)?.map(|kernel| (found, kernel)),
        Err(why) => Err(why),
    };
    let ((cargo, qemu), kernel) = match found {
        Ok(found) => found,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let packages = match options.packages.is_empty() {
        true => SEEN.to_vec(),
        false => options.of(&CRATES.map(|(name, _)| name)),
    };
    let suites = build(cargo, cross::AARCH64, &packages)?;
    let rounds = std::env::var("BAST_ROUNDS").unwrap_or_else(|_| ROUNDS.into());
    let mut runs = Vec::new();
    for _ in 0..options.repeat {
        for suite in &suites {
            let lacks = LACKS.iter().filter(|unfit| unfit.package == suite.package);
            let args: Vec<String> =
                lacks.flat_map(|unfit| ["--skip".into(), unfit.test.into()]).collect();
            let any: &[&str] = &[""];
            let drivers = if CRATES.contains(&(&suite.package, true)) { &DRIVERS[..] } else { any };
            for driver in drivers {
                let mut env = vec![format!("BAST_ROUNDS={rounds}")];
                if !driver.is_empty() {
                    env.push(format!("BAST_DRIVER={driver}"));
                }
                let title = format!("{} {} {driver}", suite.package, suite.target);
                runs.push(Run { suite, title, env, args: args.clone() });
            }
        }
    }
    let outcomes = qemu.run(&dir, &kernel, &runs)?;
    let mut report = Report::default();
    let mut failed = Vec::new();
    for (run, outcome) in runs.iter().zip(outcomes) {
        match outcome {
            Some(o) if o.status == "0" => {
                let how = run.title.rsplit(' ').next().unwrap_or_default();
                report.add(run.suite, how, &o.output, o.seconds);
            }
            Some(o) => failed.push(format!("{}: ended with {}", run.title, o.status)),
            None => failed.push(format!("{}: the machine did not get to its end", run.title)),
        }
    }
    report.print(&format!("aarch64 Linux ({suite})"), LACKS);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}
