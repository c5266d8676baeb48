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

mod direct;
mod stackless;

use crate::micro::{self, Job, Values, ns};
use crate::stats::Meter;

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
        "tokio-current" => {
            let rt = micro::tokio_runtime(subject, job.workers)?;
            rt.block_on(rt.spawn(stackless::tokio(case, meter))).map_err(|e| e.to_string())?
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
