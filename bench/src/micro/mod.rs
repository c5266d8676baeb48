//! The micro-benchmarks, one file per runtime, all with the same five functions. Each runs in a
//! child process of its own and gives `(unit, value)` pairs.

mod bast;
mod may;
mod threads;
mod tokio;

pub(crate) use bast::runtime as bast_runtime;
pub(crate) use may::configure as configure_may;
pub(crate) use tokio::runtime as tokio_runtime;

use crate::registry::units;
use crate::stats::{Span, median};
use std::fs;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// What a child process is asked to do.
pub(crate) struct Job {
    pub(crate) bench: String,
    /// The parameter without its `@workers`.
    pub(crate) param: String,
    pub(crate) workers: usize,
    pub(crate) span: Span,
}

impl Job {
    /// Takes `100@2` apart.
    pub(crate) fn new(bench: &str, param: &str, span: Span) -> Job {
        let (param, workers) = split(param);
        Job { bench: bench.to_owned(), param: param.to_owned(), workers, span }
    }

    /// The parameter as a number of tasks.
    fn tasks(&self) -> Result<usize, String> {
        self.param.parse().map_err(|_| format!("not a number of tasks: {}", self.param))
    }
}

/// A parameter and its number of workers (`100@2` is 100 on 2; without `@`, one).
pub(crate) fn split(param: &str) -> (&str, usize) {
    match param.split_once('@') {
        Some((p, w)) => (p, w.parse().unwrap_or(1)),
        None => (param, 1),
    }
}

/// Values with their units, as a child reports them.
pub(crate) type Values = Vec<(&'static str, f64)>;

/// Runs one benchmark in this process.
pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    if crate::children::has(job) {
        return crate::children::run(subject, job);
    }
    if crate::export::has(job) {
        return crate::export::run(subject, job);
    }
    if crate::diet::has(job) {
        return crate::diet::run(subject, job);
    }
    if crate::delimcc::has(job) {
        return crate::delimcc::run(subject, job);
    }
    if crate::sync::has(job) {
        return crate::sync::run(subject, job);
    }
    if crate::files::has(job) {
        return crate::files::run(subject, job);
    }
    if job.bench == "udp" {
        return crate::udp::run(subject, job);
    }
    match subject {
        "bast" | "bast-uring" | "bast-epoll" => bast::run(subject, job),
        "tokio-current" | "tokio-multi" => tokio::run(subject, job),
        "may" => may::run(job),
        "threads" => threads::run(job),
        _ => Err(format!("no subject {subject} in this build")),
    }
}

/// Tasks of a batch in `spawn-join`.
const BATCH: u64 = 10_000;

/// The sum of 0..n: what the tasks of a batch give together.
pub(crate) fn sum(n: u64) -> u64 {
    n * (n - 1) / 2
}

pub(crate) fn ns(value: f64) -> Result<Values, String> {
    Ok(vec![(units::NS, value)])
}

fn unknown(job: &Job) -> Result<Values, String> {
    Err(format!("this subject does not run {} {}", job.bench, job.param))
}

/// Resident memory of this process with its page tables, in KiB.
fn resident_kib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    crate::proc::status_kib(&status, "VmRSS") + crate::proc::status_kib(&status, "VmPTE")
}

/// The three figures of `sleepers`, and what every subject needs to take them.
struct Sleepers {
    tasks: usize,
    before_kib: f64,
    t0: Instant,
    deadline: Instant,
    spawned: Option<(Duration, f64)>,
}

/// How many sleepers have begun to sleep. One set per process is enough.
static ASLEEP: AtomicUsize = AtomicUsize::new(0);

impl Sleepers {
    fn begin(tasks: usize) -> Sleepers {
        let before_kib = resident_kib();
        let t0 = Instant::now();
        // All sleep until one deadline, which leaves 20 µs to start each.
        let deadline = t0 + Duration::from_millis(500) + Duration::from_micros(20) * tasks as u32;
        Sleepers { tasks, before_kib, t0, deadline, spawned: None }
    }

    /// To be called once every task sleeps.
    fn all_asleep(&mut self) {
        let took = self.t0.elapsed();
        self.spawned = Some((took, resident_kib()));
    }

    /// To be called once every task has been joined.
    fn end(self) -> Result<Values, String> {
        let now = Instant::now();
        let (spawn, kib) = self.spawned.ok_or("not all tasks slept")?;
        if self.t0 + spawn >= self.deadline {
            return Err(format!("starting the sleepers took {spawn:?}: the first woke before"));
        }
        Ok(vec![
            (units::KIB, (kib - self.before_kib) / self.tasks as f64),
            (units::SPAWN_S, spawn.as_secs_f64()),
            (units::END_S, now.saturating_duration_since(self.deadline).as_secs_f64()),
        ])
    }
}

/// Median lateness of a 1 ms timer.
struct Lateness {
    until: Instant,
    late_us: Vec<f64>,
}

const TICK: Duration = Duration::from_millis(1);

impl Lateness {
    fn new(span: Span) -> Lateness {
        Lateness { until: Instant::now() + span.measure * 3, late_us: Vec::new() }
    }

    fn more(&self) -> bool {
        self.late_us.len() < 20 || Instant::now() < self.until
    }

    fn record(&mut self, start: Instant) {
        self.late_us.push((start.elapsed().as_nanos() as f64 - TICK.as_nanos() as f64) / 1e3);
    }

    fn values(&self) -> Result<Values, String> {
        Ok(vec![(units::LATE_US, median(&self.late_us).ok_or("no timer fired")?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_part_of_the_parameter() {
        assert_eq!(split("100@2"), ("100", 2));
        assert_eq!(split("100"), ("100", 1));
        assert_eq!(split("batch@2"), ("batch", 2));
    }

    #[test]
    fn an_unknown_subject_is_an_error() {
        let span = Span { warm: TICK, measure: TICK };
        assert!(run("nobody", &Job::new("yield", "1", span)).is_err());
        assert!(run("threads", &Job::new("sleepers", "1", span)).is_err());
    }
}
