//! Timeouts and cancellation, of bast.
//!
//! * `timeout ready`: a limit of one second around something that is ready at once.
//! * `cancel parked`: a parked task is cancelled and joined, one after another of 1,000.

use super::{READY, not_run, steps};
use crate::micro::{self, Job};
use crate::stats::Meter;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The limit that is never reached.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// Tasks of `cancel` that are about to park.
pub(super) static PARKING: AtomicU64 = AtomicU64::new(0);

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    let rt = micro::bast_runtime(subject, job.workers)?;
    let span = job.span;
    match (job.bench.as_str(), subject) {
        ("timeout", "bast") => Ok(rt.run(move || timeout(Meter::new(span)))),
        ("cancel", "bast") => Ok(rt.run(move || cancel(Meter::fixed(span, READY)))),
        _ => not_run(subject, job),
    }
}

fn timeout(meter: Meter) -> f64 {
    let mut i = 0_u64;
    steps(meter, || {
        i += 1;
        assert_eq!(bast::timeout(black_box(LONG), || black_box(i)), Ok(i));
    })
}

fn cancel(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        PARKING.store(0, Ordering::Relaxed);
        let all: Vec<_> = (0..n)
            .map(|_| {
                bast::spawn(|| {
                    PARKING.fetch_add(1, Ordering::Relaxed);
                    loop {
                        bast::park();
                    }
                })
            })
            .collect();
        // One worker: whoever has counted has parked by the time that this runs again.
        while PARKING.load(Ordering::Relaxed) < n {
            bast::yield_now();
        }
        meter.restart();
        for task in all {
            task.cancel();
            let end: Result<(), _> = task.join();
            assert!(end.expect_err("it parks for ever").is::<bast::Cancelled>());
        }
    }
    meter.ns()
}
