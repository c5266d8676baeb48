//! `cargo xtask ci`: all steps, in two lanes.
//!
//! ```text
//!   steps::ALL, in order ──► lane 1: fmt, test ........., loom, ...     each step a process of its own,
//!                       └──► lane 2: clippy, tidy, docs, asan, ...      its output shown when it has ended
//! ```
//!
//! A lane takes the next step when it is through with one. So one compiles while the tests of the other wait. Cargo
//! itself lets nobody build into a directory that another builds into. After a failure the step in the other lane is
//! let end, so that nothing is left behind, and no further one is begun.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::cmd::Cmd;
use crate::find;
use crate::steps::{ALL, Step};

/// Longer than any step: each of its commands has a limit of its own.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// By hand, as they take too long: the emulated machine, and what finds more the longer it is run.
const BY_HAND: [&str; 2] = ["aarch64", "stalls"];

/// What was asked for.
struct Options {
    lanes: usize,
    steps: VecDeque<&'static Step>,
}

/// What the lanes share.
struct State {
    waiting: VecDeque<&'static Step>,
    passed: Vec<(&'static str, f64)>,
    failed: Vec<String>,
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if args == ["--list"] {
        ALL.iter().for_each(|step| println!("{:<10} {}", step.name, step.about));
        return Ok(());
    }
    let options = parse(args)?;
    let begun = Instant::now();
    let state =
        Mutex::new(State { waiting: options.steps, passed: Vec::new(), failed: Vec::new() });
    thread::scope(|scope| {
        for _ in 0..options.lanes {
            scope.spawn(|| lane(&state, begun));
        }
    });
    let state = state.into_inner().map_err(|_| "a lane panicked")?;
    if !state.failed.is_empty() {
        return Err(state.failed.join("\n"));
    }
    println!("\n=== passed");
    for (name, seconds) in state.passed {
        println!("{name:<10} {seconds:>7.1} s");
    }
    println!("{:<10} {:>7.1} s", "total", begun.elapsed().as_secs_f64());
    Ok(())
}

fn parse(args: &[String]) -> Result<Options, String> {
    let (mut lanes, mut first, mut skipped) = (2, ALL[0].name, BY_HAND.to_vec());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = |what| rest.next().ok_or(format!("{arg} wants {what}"));
        match arg.as_str() {
            "--lanes" => {
                let n = value("a number")?;
                lanes = n.parse().map_err(|e| format!("--lanes {n}: {e}"))?;
            }
            "--from" => first = find(value("a step")?)?.name,
            "--skip" => {
                for name in value("steps")?.split(',') {
                    skipped.push(find(name)?.name);
                }
            }
            other => return Err(format!("ci does not know {other:?}; see `cargo xtask --help`")),
        }
    }
    if lanes == 0 {
        return Err("--lanes 0: at least one is needed".into());
    }
    let steps = ALL.iter().skip_while(|step| step.name != first);
    Ok(Options { lanes, steps: steps.filter(|step| !skipped.contains(&step.name)).collect() })
}

fn lane(state: &Mutex<State>, begun: Instant) {
    let next = || {
        let mut state = state.lock().ok()?;
        if state.failed.is_empty() { state.waiting.pop_front() } else { None }
    };
    while let Some(step) = next() {
        println!("... {} begins at {:.0} s", step.name, begun.elapsed().as_secs_f64());
        let start = Instant::now();
        let outcome = run_aside(step);
        let Ok(mut state) = state.lock() else { return };
        match outcome {
            Ok(()) => state.passed.push((step.name, start.elapsed().as_secs_f64())),
            Err(fault) => state.failed.push(fault),
        }
    }
}

fn run_aside(step: &Step) -> Result<(), String> {
    let this = std::env::current_exe().map_err(|e| format!("where is xtask? {e}"))?;
    // Nothing is built twice here, and to prepare for that takes a tenth of the time to compile our own crates.
    let cmd = Cmd::new(this).args(step.name).env("CARGO_INCREMENTAL", 0).limit(LIMIT);
    let (status, output) = cmd.run_aside()?;
    print!("{output}");
    if status.success() {
        return Ok(());
    }
    // Again what it says in the end, as the output of another step may come between.
    let fault = output.rsplit_once("\nerror: ").map_or("", |(_, fault)| fault).trim_end();
    Err(if fault.is_empty() { format!("{} ended with {status}", step.name) } else { fault.into() })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn options_choose_the_steps() {
        let parse = |text: &str| {
            let args: Vec<String> = text.split_whitespace().map(String::from).collect();
            parse(&args)
                .map(|o| (o.lanes, o.steps.iter().map(|step| step.name).collect::<Vec<_>>()))
        };
        let (lanes, steps) = parse("").unwrap();
        assert_eq!((lanes, steps.len()), (2, super::ALL.len() - super::BY_HAND.len()));
        assert!(super::BY_HAND.iter().all(|step| !steps.contains(step)));
        let (lanes, steps) = parse("--lanes 1 --from races --skip stress,fmt").unwrap();
        assert_eq!((lanes, steps.first()), (1, Some(&"races")));
        assert!(!steps.contains(&"stress"));
        for bad in ["--lanes", "--lanes 0", "--lanes x", "--from", "--from x", "--skip x", "--fast"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
