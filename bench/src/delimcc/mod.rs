//! Waits in a loop and under recursion: the benchmark of "Delimited Continuations vs Lwt for Threads".
//!
//! ```text
//!   basic      for _ in 0..n { wait() }                                n waits, a shallow stack
//!   recurse    sum(n): n + sum(n - 1);          sum(0): wait()         one wait under n frames
//!   recurse2   sum(n): wait(); n + sum(n - 1);  sum(0): wait()         n + 1 waits, one at every level
//!
//!   quick      something that is there already: a ready future, `Lwt.return ()`
//!   medium     a yield: `Lwt.pause ()`
//!   slow       a sleep of no time: `Lwt_unix.sleep 0.`, which goes by the timers
//! ```
//!
//! A fiber is suspended with its stack where it is, so a wait costs the same under any number of frames. A
//! delimited continuation copied the frames, and a chain of boxed futures is polled from its top: with those
//! `recurse2` is quadratic.
//!
//! Every pattern gives the sum of its levels and the number of its waits, which is checked in each round. A figure is
//! the time of one round; the document's is that of 15,000.

mod curves;
mod direct;
mod fit;
mod promise;
mod stackless;

pub(crate) use curves::study;
pub(crate) use fit::table;

use crate::micro::{self, Job, Values, ns};
use crate::stats::Meter;
use stackless::{Bast, Tokio};

/// Whether this module has the benchmark.
pub(crate) fn has(job: &Job) -> bool {
    Pattern::of(&job.bench).is_some()
}

pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let case = Case::of(job)?;
    let meter = Meter::new(job.span);
    ns(match subject {
        "plain" => direct::plain(case, meter),
        "bast" => {
            let rt = micro::bast_runtime(subject, job.workers)?;
            rt.run(move || direct::fiber(case, meter))
        }
        "bast-task" => {
            let rt = micro::bast_runtime(subject, job.workers)?;
            let task = move || bast::task::spawn(stackless::task::<Bast>(case, meter)).join();
            rt.run(task).map_err(|_| "the task panicked")?
        }
        "bast-promise" => {
            let rt = micro::bast_runtime(subject, job.workers)?;
            rt.run(move || promise::fiber(case, meter))
        }
        "tokio-current" => {
            let rt = micro::tokio_runtime(subject, job.workers)?;
            rt.block_on(rt.spawn(stackless::task::<Tokio>(case, meter)))
                .map_err(|e| e.to_string())?
        }
        _ => return Err(format!("{subject} does not run {} {}", job.bench, job.param)),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Basic,
    Recurse,
    Recurse2,
}

impl Pattern {
    fn of(bench: &str) -> Option<Pattern> {
        Some(match bench {
            "basic" => Pattern::Basic,
            "recurse" => Pattern::Recurse,
            "recurse2" => Pattern::Recurse2,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Quick,
    Medium,
    Slow,
}

/// What one round does.
#[derive(Clone, Copy, Debug)]
struct Case {
    pattern: Pattern,
    mode: Mode,
    /// Yields, or depth.
    n: u64,
}

impl Case {
    fn of(job: &Job) -> Result<Case, String> {
        let bad = || format!("not MODE-SIZE, such as medium-50: {}", job.param);
        let (mode, n) = job.param.split_once('-').ok_or_else(bad)?;
        let mode = match mode {
            "quick" => Mode::Quick,
            "medium" => Mode::Medium,
            "slow" => Mode::Slow,
            _ => return Err(bad()),
        };
        let pattern = Pattern::of(&job.bench).ok_or_else(bad)?;
        Ok(Case { pattern, mode, n: n.parse().map_err(|_| bad())? })
    }

    /// What a round gives: the sum of the levels and the number of waits.
    fn answer(self) -> u64 {
        let levels = self.n * (self.n + 1) / 2;
        match self.pattern {
            Pattern::Basic => self.n,
            Pattern::Recurse => levels + 1,
            Pattern::Recurse2 => levels + self.n + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{BENCHES, Kind};
    use crate::stats::Span;
    use std::time::Duration;

    #[test]
    fn answers_are_sums_of_levels_and_waits() {
        let span = Span { warm: Duration::ZERO, measure: Duration::ZERO };
        let answer = |bench| Case::of(&Job::new(bench, "slow-50", span)).unwrap().answer();
        assert_eq!(["basic", "recurse", "recurse2"].map(answer), [50, 1275 + 1, 1275 + 51]);
        assert!(Case::of(&Job::new("basic", "slow", span)).is_err());
        assert!(Case::of(&Job::new("basic", "late-50", span)).is_err());
    }

    /// The smallest size of each curve, in this process, for every subject that is part of it. Each round checks
    /// its answer.
    #[test]
    fn every_subject_gives_the_right_answers() {
        let span = Span { warm: Duration::ZERO, measure: Duration::ZERO };
        let mut ran = 0;
        for bench in BENCHES.iter().filter(|b| b.kind == Kind::Curve) {
            for param in bench.params.iter().filter(|p| p.name.ends_with("-50")) {
                let ours = |s: &&&str| !crate::go::is(s) && !crate::ocaml::is(s);
                for subject in param.subjects.iter().filter(ours) {
                    let figures = run(subject, &Job::new(bench.name, param.name, span)).unwrap();
                    assert!(figures[0].1 > 0.0, "{} {} {subject}", bench.name, param.name);
                    ran += 1;
                }
            }
        }
        assert!(ran >= 30, "{ran} subjects");
    }
}
