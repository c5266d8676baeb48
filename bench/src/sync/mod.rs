//! Locks, channels, select, timeouts and cancellation: what makes a task wait for a task.
//!
//! ```text
//! host.rs       fibers of bast, and std's threads, behind one trait: for code that blocks
//! exclusive.rs  one value, one task at a time: mutexes, RwLock, MVar      lock, contended, mvar
//! channel.rs    messages between tasks that block                         channel, ping-pong oneshot
//! select.rs     a receive from one channel and from either of two         select
//! interrupt.rs  timeouts and cancellation of bast                         timeout, cancel
//! awaiting.rs  fibers that wait for futures                                await
//! sink.rs       whole records of many tasks to one file or pipe             sink
//! tokio.rs      the same with `async`: locks, timeout, cancel
//! flow.rs       the same with `async`: channels and select
//! ```
//!
//! Go's part is `rivals/go/{exclusive,channel,interrupt}.go`. Whatever is measured computes a sum or
//! a count that is checked, so that none of it can be optimised away.

mod awaiting;
mod channel;
mod exclusive;
mod flow;
mod host;
mod interrupt;
mod select;
mod sink;
mod tokio;

use crate::micro::{Job, Values, ns};
use crate::stats::Meter;

/// Messages of a burst: a producer sends its part of one, then waits for the next.
const BURST: u64 = 10_000;
/// The room of a bounded channel.
const ROOM: usize = 128;
/// Messages that lie ready before `select` begins to receive, and fibers parked before `cancel` begins.
const READY: u64 = 1000;
/// Locks in one chunk of `contended`, by all its tasks together.
const LOCKS: u64 = 200_000;

/// Whether this module has the benchmark.
pub(crate) fn has(job: &Job) -> bool {
    let names =
        ["lock", "contended", "mvar", "channel", "select", "timeout", "cancel", "await", "sink"];
    names.contains(&job.bench.as_str()) || (job.bench == "ping-pong" && job.param == "oneshot")
}

pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let figure = match (subject, job.bench.as_str()) {
        (_, "sink") => sink::run(subject, job),
        ("tokio-current" | "tokio-multi" | "flume-tokio", "channel" | "select" | "ping-pong") => {
            flow::run(subject, job)
        }
        (_, "await") => awaiting::run(subject, job),
        ("tokio-current" | "tokio-multi", _) => tokio::run(subject, job),
        (_, "lock" | "contended" | "mvar") => exclusive::run(subject, job),
        (_, "channel" | "ping-pong") => channel::run(subject, job),
        (_, "select") => select::run(subject, job),
        _ => interrupt::run(subject, job),
    };
    ns(figure?)
}

/// The answer to a case that a subject does not have.
fn not_run<T>(subject: &str, job: &Job) -> Result<T, String> {
    Err(format!("{subject} does not run {} {}", job.bench, job.param))
}

/// The number of tasks in a parameter such as `1000` or `held-1000`.
fn tasks(job: &Job) -> Result<usize, String> {
    let digits = job.param.rsplit('-').next().unwrap_or_default();
    digits.parse().map_err(|_| format!("no number of tasks: {}", job.param))
}

/// Repeats what cannot suspend or suspends by itself.
fn steps(mut meter: Meter, mut step: impl FnMut()) -> f64 {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            step();
        }
    }
    meter.ns()
}
