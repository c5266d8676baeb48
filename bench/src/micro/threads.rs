//! std threads, pinned to one core by the harness so that a yield is a switch.

use super::{Job, Lateness, TICK, Values, ns, unknown};
use crate::stats::{Gate, Meter};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

pub(super) fn run(job: &Job) -> Result<Values, String> {
    match (job.bench.as_str(), job.param.as_str()) {
        ("yield", _) => yields(job),
        ("spawn-join", "one") => one(job),
        ("spawn-join", "batch") => batch(job),
        ("ping-pong", "park") => park(job),
        ("timer-delay", _) => timer_delay(job),
        _ => unknown(job),
    }
}

fn yields(job: &Job) -> Result<Values, String> {
    let tasks = job.tasks()?;
    let gate = Gate::new();
    let watcher = gate.watch(tasks, job.span);
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let mut count = gate.enter();
                loop {
                    thread::yield_now();
                    if !gate.step(&mut count) {
                        break;
                    }
                }
                gate.leave();
            })
        })
        .collect();
    for t in all {
        t.join().map_err(|_| "a thread panicked")?;
    }
    ns(watcher.join().map_err(|_| "the watcher panicked")?)
}

fn one(job: &Job) -> Result<Values, String> {
    let mut meter = Meter::new(job.span);
    while let Some(n) = meter.next() {
        for i in 0..n {
            let got = thread::spawn(move || black_box(i)).join();
            assert_eq!(got.expect("the thread does not panic"), i);
        }
    }
    ns(meter.ns())
}

fn batch(job: &Job) -> Result<Values, String> {
    let mut meter = Meter::fixed(job.span, super::BATCH);
    while let Some(n) = meter.next() {
        let all: Vec<_> = (0..n).map(|i| thread::spawn(move || black_box(i))).collect();
        let sum: u64 = all.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert_eq!(sum, super::sum(n));
    }
    ns(meter.ns())
}

fn park(job: &Job) -> Result<Values, String> {
    // Whose turn it is: 0 the meter, 1 the echo, 2 nobody's any more.
    let turn = Arc::new(AtomicU32::new(0));
    let me = thread::current();
    let echo = {
        let turn = Arc::clone(&turn);
        thread::spawn(move || {
            loop {
                match turn.load(Ordering::Acquire) {
                    0 => thread::park(),
                    1 => {
                        turn.store(0, Ordering::Release);
                        me.unpark();
                    }
                    _ => return,
                }
            }
        })
    };
    let mut meter = Meter::new(job.span);
    while let Some(n) = meter.next() {
        for _ in 0..n {
            turn.store(1, Ordering::Release);
            echo.thread().unpark();
            while turn.load(Ordering::Acquire) != 0 {
                thread::park();
            }
        }
    }
    turn.store(2, Ordering::Release);
    echo.thread().unpark();
    echo.join().map_err(|_| "the echo panicked")?;
    ns(meter.ns())
}

fn timer_delay(job: &Job) -> Result<Values, String> {
    let gate = Gate::new();
    let hog = {
        let gate = Arc::clone(&gate);
        thread::spawn(move || {
            let mut count = gate.enter();
            while gate.step(&mut count) {
                thread::yield_now();
            }
        })
    };
    let mut late = Lateness::new(job.span);
    while late.more() {
        let start = Instant::now();
        thread::sleep(TICK);
        late.record(start);
    }
    gate.stop();
    hog.join().map_err(|_| "the hog panicked")?;
    late.values()
}
