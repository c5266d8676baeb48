//! bast, through the same calls a user of `std::thread` would write.

use super::{ASLEEP, Job, Lateness, Sleepers, TICK, Values, ns, unknown};
use crate::stats::{Gate, Meter};
use bast::sync::mpsc;
use bast::{DriverKind, Runtime};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

pub(super) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let rt = runtime(subject, job.workers)?;
    let span = job.span;
    match (job.bench.as_str(), job.param.as_str()) {
        ("yield", _) => {
            let tasks = job.tasks()?;
            let gate = Gate::new();
            let watcher = gate.watch(tasks, span);
            rt.run(move || yields(gate, tasks));
            ns(watcher.join().map_err(|_| "the watcher panicked")?)
        }
        ("spawn-join", "one") => ns(rt.run(move || one(Meter::new(span)))),
        ("spawn-join", "batch") => ns(rt.run(move || batch(Meter::fixed(span, super::BATCH)))),
        ("ping-pong", "park") => ns(rt.run(move || park(Meter::new(span)))),
        ("ping-pong", "channel") => ns(rt.run(move || channel(Meter::new(span)))),
        ("timer-delay", _) => rt.run(move || timer_delay(Lateness::new(span))),
        ("sleepers", _) => {
            let tasks = job.tasks()?;
            rt.run(move || sleepers(tasks))
        }
        _ => unknown(job),
    }
}

/// A runtime with the driver that the subject names.
pub(crate) fn runtime(subject: &str, workers: usize) -> Result<Runtime, String> {
    let driver = match subject {
        "bast-uring" => DriverKind::Uring,
        "bast-epoll" => DriverKind::Epoll,
        _ => DriverKind::Auto,
    };
    Runtime::builder().workers(workers).driver(driver).build().map_err(|e| e.to_string())
}

fn yields(gate: Arc<Gate>, tasks: usize) {
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            let gate = Arc::clone(&gate);
            bast::spawn(move || {
                let mut count = gate.enter();
                loop {
                    bast::yield_now();
                    if !gate.step(&mut count) {
                        break;
                    }
                }
                gate.leave();
            })
        })
        .collect();
    for t in all {
        t.join().expect("no panic");
    }
}

fn one(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for i in 0..n {
            let got = bast::spawn(move || black_box(i)).join();
            assert_eq!(got.expect("no panic"), i);
        }
    }
    meter.ns()
}

fn batch(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        let all: Vec<_> = (0..n).map(|i| bast::spawn(move || black_box(i))).collect();
        let sum: u64 = all.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert_eq!(sum, super::sum(n));
    }
    meter.ns()
}

fn park(mut meter: Meter) -> f64 {
    // Whose turn it is: 0 the meter, 1 the echo, 2 nobody's any more.
    let turn = Arc::new(AtomicU32::new(0));
    let me = bast::current();
    let echo = {
        let turn = Arc::clone(&turn);
        bast::spawn(move || {
            loop {
                match turn.load(Ordering::Acquire) {
                    0 => bast::park(),
                    1 => {
                        turn.store(0, Ordering::Release);
                        me.unpark();
                    }
                    _ => return,
                }
            }
        })
    };
    let other = echo.fiber();
    while let Some(n) = meter.next() {
        for _ in 0..n {
            turn.store(1, Ordering::Release);
            other.unpark();
            while turn.load(Ordering::Acquire) != 0 {
                bast::park();
            }
        }
    }
    turn.store(2, Ordering::Release);
    other.unpark();
    echo.join().expect("no panic");
    meter.ns()
}

fn channel(mut meter: Meter) -> f64 {
    let (ping, pings) = mpsc::sync_channel::<u64>(1);
    let (pong, pongs) = mpsc::sync_channel::<u64>(1);
    let echo = bast::spawn(move || {
        for v in pings {
            if pong.send(v).is_err() {
                return;
            }
        }
    });
    while let Some(n) = meter.next() {
        for i in 0..n {
            ping.send(i).expect("the echo lives");
            assert_eq!(pongs.recv(), Ok(i));
        }
    }
    drop(ping);
    echo.join().expect("no panic");
    meter.ns()
}

fn timer_delay(mut late: Lateness) -> Result<Values, String> {
    let gate = Gate::new();
    let hog = {
        let gate = Arc::clone(&gate);
        bast::spawn(move || {
            let mut count = gate.enter();
            while gate.step(&mut count) {
                bast::yield_now();
            }
        })
    };
    while late.more() {
        let start = Instant::now();
        bast::sleep(TICK);
        late.record(start);
    }
    gate.stop();
    hog.join().expect("no panic");
    late.values()
}

fn sleepers(tasks: usize) -> Result<Values, String> {
    let mut figures = Sleepers::begin(tasks);
    let deadline = bast::time::Instant::from(figures.deadline);
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            bast::spawn(move || {
                ASLEEP.fetch_add(1, Ordering::Relaxed);
                bast::sleep_until(deadline);
            })
        })
        .collect();
    while ASLEEP.load(Ordering::Relaxed) < tasks {
        bast::yield_now();
    }
    figures.all_asleep();
    for t in all {
        t.join().expect("no panic");
    }
    figures.end()
}
