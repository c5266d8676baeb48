//! may: stackful coroutines that move between workers.
//!
//! Its own worker pinning is off (the harness pins the process), and its pool of stacks is as large
//! as the batch, so that it recycles them as bast does.

use super::{Job, Lateness, TICK, Values, ns, unknown};
use crate::stats::{Gate, Meter};
use may::coroutine;
use may::go;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

pub(super) fn run(job: &Job) -> Result<Values, String> {
    configure(job.workers);
    match (job.bench.as_str(), job.param.as_str()) {
        ("yield", _) => yields(job),
        ("spawn-join", "one") => one(job),
        ("spawn-join", "batch") => batch(job),
        ("ping-pong", "park") => park(job),
        ("ping-pong", "channel") => channel(job),
        ("timer-delay", _) => timer_delay(job),
        _ => unknown(job),
    }
}

/// Sets may up; it takes effect only before its first coroutine.
pub(crate) fn configure(workers: usize) {
    let config = may::config();
    config.set_workers(workers).set_pool_capacity(super::BATCH as usize);
    config.set_worker_pin(false);
}

fn panicked<E>(_: E) -> String {
    "a coroutine panicked".to_owned()
}

fn yields(job: &Job) -> Result<Values, String> {
    let tasks = job.tasks()?;
    let gate = Gate::new();
    let watcher = gate.watch(tasks, job.span);
    // Spawned from a coroutine: what a plain thread spawns waits until the worker has nothing else
    // to do, which beside a yielding coroutine is never.
    let main = go!(move || {
        let all: Vec<_> = (0..tasks)
            .map(|_| {
                let gate = Arc::clone(&gate);
                go!(move || {
                    let mut count = gate.enter();
                    loop {
                        coroutine::yield_now();
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
    });
    main.join().map_err(panicked)?;
    ns(watcher.join().map_err(panicked)?)
}

fn one(job: &Job) -> Result<Values, String> {
    let mut meter = Meter::new(job.span);
    let main = go!(move || {
        while let Some(n) = meter.next() {
            for i in 0..n {
                let got = go!(move || black_box(i)).join();
                assert_eq!(got.expect("the coroutine does not panic"), i);
            }
        }
        meter.ns()
    });
    ns(main.join().map_err(panicked)?)
}

fn batch(job: &Job) -> Result<Values, String> {
    let mut meter = Meter::fixed(job.span, super::BATCH);
    let main = go!(move || {
        while let Some(n) = meter.next() {
            let all: Vec<_> = (0..n).map(|i| go!(move || black_box(i))).collect();
            let sum: u64 = all.into_iter().map(|t| t.join().expect("no panic")).sum();
            assert_eq!(sum, super::sum(n));
        }
        meter.ns()
    });
    ns(main.join().map_err(panicked)?)
}

fn park(job: &Job) -> Result<Values, String> {
    let mut meter = Meter::new(job.span);
    let main = go!(move || {
        // Whose turn it is: 0 the meter, 1 the echo, 2 nobody's any more.
        let turn = Arc::new(AtomicU32::new(0));
        let me = coroutine::current();
        let echo = {
            let turn = Arc::clone(&turn);
            go!(move || loop {
                match turn.load(Ordering::Acquire) {
                    0 => coroutine::park(),
                    1 => {
                        turn.store(0, Ordering::Release);
                        me.unpark();
                    }
                    _ => return,
                }
            })
        };
        while let Some(n) = meter.next() {
            for _ in 0..n {
                turn.store(1, Ordering::Release);
                echo.coroutine().unpark();
                while turn.load(Ordering::Acquire) != 0 {
                    coroutine::park();
                }
            }
        }
        turn.store(2, Ordering::Release);
        echo.coroutine().unpark();
        echo.join().expect("the echo does not panic");
        meter.ns()
    });
    ns(main.join().map_err(panicked)?)
}

fn channel(job: &Job) -> Result<Values, String> {
    let mut meter = Meter::new(job.span);
    let main = go!(move || {
        let (ping, pings) = may::sync::mpsc::channel::<u64>();
        let (pong, pongs) = may::sync::mpsc::channel::<u64>();
        let echo = go!(move || {
            while let Ok(v) = pings.recv() {
                if pong.send(v).is_err() {
                    return;
                }
            }
        });
        while let Some(n) = meter.next() {
            for i in 0..n {
                ping.send(i).expect("the echo lives");
                assert_eq!(pongs.recv().expect("the echo lives"), i);
            }
        }
        drop(ping);
        echo.join().expect("the echo does not panic");
        meter.ns()
    });
    ns(main.join().map_err(panicked)?)
}

fn timer_delay(job: &Job) -> Result<Values, String> {
    let mut late = Lateness::new(job.span);
    let main = go!(move || {
        let gate = Gate::new();
        let hog = {
            let gate = Arc::clone(&gate);
            go!(move || {
                let mut count = gate.enter();
                while gate.step(&mut count) {
                    coroutine::yield_now();
                }
            })
        };
        while late.more() {
            let start = Instant::now();
            coroutine::sleep(TICK);
            late.record(start);
        }
        gate.stop();
        hog.join().expect("no panic");
        late.values()
    });
    main.join().map_err(panicked)?
}
