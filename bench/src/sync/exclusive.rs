//! One value that one task at a time may change: mutexes, and `MVar` by take and put.
//!
//! * `lock`: nobody else wants it.
//! * `contended held-N`: N tasks in a loop, each lets the others run while it holds the value. A thread
//!   outside counts (a [`Gate`]).
//! * `contended N@2`: N tasks on two workers add one to the value, over and over, and do nothing else. Each
//!   chunk starts its tasks and joins them, since a task that never yields would keep others from starting.
//! * `mvar`: the three of them, for `MVar`.

use super::host::{Fibers, Host, Threads};
use super::{LOCKS, not_run, steps, tasks};
use crate::micro::Job;
use crate::stats::{Gate, Meter};
use bast::sync::MVar;
use std::hint::black_box;
use std::sync::Arc;

/// A value under a lock, whatever its kind.
pub(super) trait Exclusive: Send + Sync + 'static {
    fn new() -> Self;
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;
}

impl Exclusive for std::sync::Mutex<u64> {
    fn new() -> Self {
        std::sync::Mutex::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock().expect("not poisoned"))
    }
}

impl Exclusive for parking_lot::Mutex<u64> {
    fn new() -> Self {
        parking_lot::Mutex::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock())
    }
}

impl Exclusive for bast::sync::Mutex<u64> {
    fn new() -> Self {
        bast::sync::Mutex::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock().expect("not poisoned"))
    }
}

impl Exclusive for MVar<u64> {
    fn new() -> Self {
        MVar::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let mut value = self.take();
        let result = f(&mut value);
        self.put(value);
        result
    }
}

type Bast = bast::sync::Mutex<u64>;
type Std = std::sync::Mutex<u64>;
type ParkingLot = parking_lot::Mutex<u64>;

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    let meter = Meter::new(job.span);
    match (job.bench.as_str(), job.param.as_str(), subject) {
        ("lock", "mutex", "bast") => uncontended::<Fibers, Bast>(job),
        ("lock", "mutex", "threads") => uncontended::<Threads, Std>(job),
        ("lock", "mutex", "std-in-fiber") => uncontended::<Fibers, Std>(job),
        ("lock", "mutex", "parking_lot") => uncontended::<Threads, ParkingLot>(job),
        ("lock", "rwlock-read", "bast") => Fibers::enter(job, move || {
            let lock = bast::sync::RwLock::new(1);
            steps(meter, || {
                black_box(*black_box(&lock).read().expect("not poisoned"));
            })
        }),
        ("lock", "rwlock-read", "threads") => {
            let lock = std::sync::RwLock::new(1);
            Ok(steps(meter, || {
                black_box(*black_box(&lock).read().expect("not poisoned"));
            }))
        }
        ("lock", "rwlock-read", "parking_lot") => {
            let lock = parking_lot::RwLock::new(1);
            Ok(steps(meter, || {
                black_box(*black_box(&lock).read());
            }))
        }
        ("contended", "held-1000", "bast") => held::<Fibers, Bast>(job),
        ("contended", _, "bast") => short::<Fibers, Bast>(job),
        ("mvar", "uncontended", "bast") => uncontended::<Fibers, MVar<u64>>(job),
        ("mvar", "held-1000", "bast") => held::<Fibers, MVar<u64>>(job),
        ("mvar", _, "bast") => short::<Fibers, MVar<u64>>(job),
        ("contended", _, "threads") => short::<Threads, Std>(job),
        ("contended", _, "parking_lot") => short::<Threads, ParkingLot>(job),
        _ => not_run(subject, job),
    }
}

fn uncontended<H: Host, E: Exclusive>(job: &Job) -> Result<f64, String> {
    let meter = Meter::new(job.span);
    H::enter(job, move || {
        let value = E::new();
        let mut times = 0_u64;
        let ns = steps(meter, || {
            black_box(&value).with(|v| *v += 1);
            times += 1;
        });
        assert_eq!(value.with(|v| *v), times);
        ns
    })
}

/// Every task yields while it holds the value.
fn held<H: Host, E: Exclusive>(job: &Job) -> Result<f64, String> {
    let tasks = tasks(job)?;
    let gate = Gate::new();
    let watcher = gate.watch(tasks, job.span);
    H::enter(job, move || {
        let value = Arc::new(E::new());
        let all: Vec<_> = (0..tasks)
            .map(|_| {
                let (gate, value) = (Arc::clone(&gate), Arc::clone(&value));
                H::spawn(0, move || {
                    let mut count = gate.enter();
                    let mut times = 0_u64;
                    loop {
                        times += 1;
                        value.with(|v| {
                            *v += 1;
                            H::yield_now();
                        });
                        if !gate.step(&mut count) {
                            break;
                        }
                    }
                    gate.leave();
                    times
                })
            })
            .collect();
        let times: u64 = all.into_iter().map(|join| join()).sum();
        assert_eq!(value.with(|v| *v), times);
    })?;
    watcher.join().map_err(|_| "the watcher panicked".to_owned())
}

/// The tasks hold the value for one addition.
fn short<H: Host, E: Exclusive>(job: &Job) -> Result<f64, String> {
    let (tasks, workers) = (tasks(job)?, job.workers);
    let mut meter = Meter::fixed(job.span, LOCKS);
    H::enter(job, move || {
        while let Some(n) = meter.next() {
            let value = Arc::new(E::new());
            let each = n / tasks as u64;
            let all: Vec<_> = (0..tasks)
                .map(|i| {
                    let value = Arc::clone(&value);
                    H::spawn(i % workers, move || {
                        for _ in 0..each {
                            value.with(|v| *v += 1);
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|join| join());
            assert_eq!(value.with(|v| *v), each * tasks as u64);
        }
        meter.ns()
    })
}
