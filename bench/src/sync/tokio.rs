//! tokio's locks, timeout and abort. On the multi-threaded runtime every measured task is spawned, as
//! in `micro/tokio.rs`.

use super::interrupt::{LONG, PARKING};
use super::{LOCKS, READY, not_run, tasks};
use crate::micro::{self, Job};
use crate::stats::{Gate, Meter};
use std::future;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{Mutex, RwLock};
use tokio::task::yield_now;

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    let rt = micro::tokio_runtime(subject, job.workers)?;
    let span = job.span;
    let result = match (job.bench.as_str(), job.param.as_str()) {
        ("lock", "mutex") | ("mvar", "uncontended") => {
            rt.block_on(rt.spawn(uncontended(Meter::new(span))))
        }
        ("lock", "rwlock-read") => rt.block_on(rt.spawn(read(Meter::new(span)))),
        ("contended" | "mvar", _) if job.workers == 1 => {
            let tasks = tasks(job)?;
            let gate = Gate::new();
            let watcher = gate.watch(tasks, span);
            rt.block_on(rt.spawn(held(gate, tasks))).map_err(|e| e.to_string())?;
            return watcher.join().map_err(|_| "the watcher panicked".to_owned());
        }
        ("contended" | "mvar", _) => {
            rt.block_on(rt.spawn(short(Meter::fixed(span, LOCKS), tasks(job)?)))
        }
        ("timeout", _) => rt.block_on(rt.spawn(timeout(Meter::new(span)))),
        ("cancel", _) => rt.block_on(rt.spawn(cancel(Meter::fixed(span, READY)))),
        _ => return not_run(subject, job),
    };
    result.map_err(|e| e.to_string())
}

async fn uncontended(mut meter: Meter) -> f64 {
    let value = Mutex::new(0_u64);
    let mut times = 0;
    while let Some(n) = meter.next() {
        for _ in 0..n {
            *black_box(&value).lock().await += 1;
        }
        times += n;
    }
    assert_eq!(*value.lock().await, times);
    meter.ns()
}

async fn read(mut meter: Meter) -> f64 {
    let value = RwLock::new(1_u64);
    while let Some(n) = meter.next() {
        for _ in 0..n {
            black_box(*black_box(&value).read().await);
        }
    }
    meter.ns()
}

async fn held(gate: Arc<Gate>, tasks: usize) {
    let value = Arc::new(Mutex::new(0_u64));
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            let (gate, value) = (Arc::clone(&gate), Arc::clone(&value));
            tokio::spawn(async move {
                let mut count = gate.enter();
                let mut times = 0_u64;
                loop {
                    times += 1;
                    {
                        let mut v = value.lock().await;
                        *v += 1;
                        yield_now().await;
                    }
                    if !gate.step(&mut count) {
                        break;
                    }
                }
                gate.leave();
                times
            })
        })
        .collect();
    let mut times = 0;
    for task in all {
        times += task.await.expect("no panic");
    }
    assert_eq!(*value.lock().await, times);
}

async fn short(mut meter: Meter, tasks: usize) -> f64 {
    while let Some(n) = meter.next() {
        let value = Arc::new(Mutex::new(0_u64));
        let each = n / tasks as u64;
        let all: Vec<_> = (0..tasks)
            .map(|_| {
                let value = Arc::clone(&value);
                tokio::spawn(async move {
                    for _ in 0..each {
                        *value.lock().await += 1;
                    }
                })
            })
            .collect();
        for task in all {
            task.await.expect("no panic");
        }
        assert_eq!(*value.lock().await, each * tasks as u64);
    }
    meter.ns()
}

async fn timeout(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for i in 0..n {
            let ready = future::ready(black_box(i));
            assert_eq!(tokio::time::timeout(black_box(LONG), ready).await, Ok(i));
        }
    }
    meter.ns()
}

async fn cancel(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        PARKING.store(0, Ordering::Relaxed);
        let all: Vec<_> = (0..n)
            .map(|_| {
                tokio::spawn(async {
                    PARKING.fetch_add(1, Ordering::Relaxed);
                    future::pending::<()>().await;
                })
            })
            .collect();
        while PARKING.load(Ordering::Relaxed) < n {
            yield_now().await;
        }
        meter.restart();
        for task in all {
            task.abort();
            assert!(task.await.expect_err("it is pending for ever").is_cancelled());
        }
    }
    meter.ns()
}
