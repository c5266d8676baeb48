//! The tests with threads that the system does not run for a while: what a busy machine does now and then, done all the
//! time.
//!
//! ```text
//!   a suite of tests ◀── starts, stops up to three threads, goes on with them, ... ── `xtask stalled`, of its own
//!                                                                                     for each run (tracer.rs)
//! ```
//!
//! A wake-up that is lost, a sleep that stands for an order, a system call that bears no interruption: each shows itself
//! sooner or later as a hang or a failure. What happens is never the same twice, so this is run by hand, repeatedly.

#[cfg(target_os = "linux")]
mod tracer;

use crate::binaries;
use crate::cmd::Cmd;
use crate::steps::{Context, DRIVERS};
use crate::suites::{Options, Report};

/// What has drivers.
const PACKAGES: &[&str] = &["bast-io", "bast-rt", "bast-sync", "bast"];

/// How long a thread stands still at most, and how long none does, in milliseconds: many short stops find other things
/// than a few that are longer than any timeout of a test.
const STOPS: [(u64, u64); 3] = [(100, 10), (300, 50), (1500, 300)];

const WORKERS: [u32; 3] = [2, 1, 8];

/// The hidden command that runs a program so.
pub(crate) const RUNNER: &str = "stalled";

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &[])?;
    if !cfg!(target_os = "linux") {
        println!("skipped: threads are stopped by Linux's ptrace");
        return Ok(());
    }
    let this = std::env::current_exe().map_err(|e| format!("where is xtask? {e}"))?;
    let packages = options.some_of(PACKAGES)?;
    let mut cargo = Cmd::cargo("test --lib --test it");
    for package in &packages {
        cargo = cargo.args("-p").args(package);
    }
    let suites = binaries::build(cargo)?;
    let mut report = Report::default();
    for round in 0..options.repeat as usize {
        let (stop, pause) = STOPS[round % STOPS.len()];
        let workers = WORKERS[round % WORKERS.len()];
        for driver in DRIVERS {
            let runner = Cmd::new(&this)
                .args(&format!("{RUNNER} {stop} {pause}"))
                .env("BAST_DRIVER", driver)
                .env("BAST_WORKERS", workers);
            for suite in &suites {
                report.run(suite, &runner, driver, &[])?;
            }
        }
    }
    report.print("stalled threads", &[]);
    Ok(())
}

/// `xtask stalled STOP PAUSE PROGRAM ARGS...`
#[cfg(target_os = "linux")]
pub(crate) fn stalled(args: &[String]) -> Result<(), String> {
    let [stop, pause, program, args @ ..] = args else {
        return Err(format!("{RUNNER} wants two numbers of milliseconds and a program"));
    };
    let number = |text: &String| text.parse::<u64>().map_err(|e| format!("{RUNNER} {text}: {e}"));
    let (stop, pause) = (number(stop)?.max(1), number(pause)?.max(1));
    tracer::run(std::process::Command::new(program).args(args), stop, pause)
}
