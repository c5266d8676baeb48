//! What `run-all` does: many commands, a few at a time, none longer than it may.
//!
//! ```text
//!   lines ─▶ jobs ─▶ par_map_unordered: a fiber for each, `limit` at a time
//!                      │ child, leader of a group of its own ── ends ───────────────▶ report
//!                      │   └ its time is up, or all are to stop: TERM, grace, KILL ─▶ report
//!                      └ two fibers read its output
//! ```
//!
//! * [`job`]: lines become commands.
//! * [`child`]: one command, from its start to its end.
//! * [`report`]: what is said about it.

pub mod child;
pub mod job;
pub mod report;

use std::time::{Duration, Instant};

use bast::CancelToken;
use bast::group::par_map_unordered;

use child::Line;
use job::Job;
use report::{End, Report, Summary};

/// How commands are run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Most at a time.
    pub limit: usize,
    /// The longest that each may take.
    pub timeout: Option<Duration>,
    /// How long one that is asked to end may take for that.
    pub grace: Duration,
    /// Whether a failure leaves the others alone.
    pub keep_going: bool,
    /// Whether output is given line by line, as it comes, and not with the report.
    pub by_line: bool,
}

/// What ends a run early.
#[derive(Debug, Default)]
pub struct Stop {
    /// Starts nothing more, and asks what runs to end.
    pub gently: CancelToken,
    /// Kills what runs.
    pub now: CancelToken,
}

/// Runs all jobs. `line` gets the lines of their output, from many fibers; `each` the reports, as jobs end.
pub fn run(
    plan: &Plan,
    stop: &Stop,
    jobs: Vec<Job>,
    line: &(dyn Fn(&Job, Line<'_>) + Sync),
    mut each: impl FnMut(&Report),
) -> Summary {
    let begun = Instant::now();
    let mut summary = Summary::default();
    let work = |job: Job| {
        if stop.gently.is_cancelled() {
            return Report::new(job, End::NotRun);
        }
        let report = child::run(plan, stop, job, line);
        if !plan.keep_going && !report.end.is_success() {
            stop.gently.cancel();
        }
        report
    };
    par_map_unordered(jobs, plan.limit, work, |report| {
        summary.count(&report.end);
        each(&report);
    });
    summary.seconds = begun.elapsed().as_secs_f64();
    summary
}
