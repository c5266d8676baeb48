//! Files: random reads with 64 in flight, and many small files.
//!
//! ```text
//! sample.rs  the big file and the directory of small ones, made once and kept until the process ends
//! random.rs  4 KiB reads at random offsets: fibers, threads, tokio        file-read
//! ring.rs    the same by a plain io_uring loop: no runtime at all         file-read
//! small.rs   10,000 files of 1 to 8 KiB are read whole                    small-files
//! ```
//!
//! Every read is checked: the sample's bytes say where they belong.

mod random;
mod ring;
mod sample;
mod small;

use crate::micro::{Job, Values};
use crate::registry::units;
use crate::sys;
use std::time::{Duration, Instant};

/// Reads in flight.
const DEPTH: usize = 64;
/// Bytes of a read.
const BLOCK: usize = 4096;

pub(crate) fn has(job: &Job) -> bool {
    ["file-read", "small-files"].contains(&job.bench.as_str())
}

pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let values = match (job.bench.as_str(), subject) {
        ("small-files", _) => small::run(subject, job),
        (_, "plain-uring") => ring::run(job),
        _ => random::run(subject, job),
    };
    values.map_err(|e| e.to_string())
}

fn unknown(subject: &str, job: &Job) -> std::io::Error {
    std::io::Error::other(format!("{subject} does not run {} {}", job.bench, job.param))
}

/// Wall time and CPU time of this process, kernel threads that work for it included, since it was made.
struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> std::io::Result<Stopwatch> {
        Ok(Stopwatch { wall: Instant::now(), cpu: sys::process_cpu(std::process::id())? })
    }

    /// Microseconds of each for one of `n`.
    fn each(&self, n: u64) -> std::io::Result<Values> {
        let cpu = sys::process_cpu(std::process::id())? - self.cpu;
        let us = |d: Duration| d.as_secs_f64() * 1e6 / n as f64;
        Ok(vec![(units::CPU_FILE, us(cpu)), (units::WALL_FILE, us(self.wall.elapsed()))])
    }
}
