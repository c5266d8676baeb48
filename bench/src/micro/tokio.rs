//! tokio, on its `current_thread` and its `multi_thread` scheduler. On the latter every measured
//! task is spawned: what `block_on` drives runs outside the workers.

use super::{ASLEEP, Job, Lateness, Sleepers, TICK, Values, ns, unknown};
use crate::stats::{Gate, Meter};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};
use tokio::{task, time};

pub(super) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let rt = runtime(subject, job.workers)?;
    let span = job.span;
    let bench = (job.bench.as_str(), job.param.as_str());
    let result = match bench {
        ("yield", _) => {
            let tasks = job.tasks()?;
            let gate = Gate::new();
            let watcher = gate.watch(tasks, span);
            rt.block_on(rt.spawn(yields(gate, tasks))).map_err(|e| e.to_string())?;
            return ns(watcher.join().map_err(|_| "the watcher panicked")?);
        }
        ("spawn-join", "one") => rt.block_on(rt.spawn(one(Meter::new(span)))),
        ("spawn-join", "batch") => rt.block_on(rt.spawn(batch(Meter::fixed(span, super::BATCH)))),
        ("ping-pong", "notify") => rt.block_on(rt.spawn(notify(Meter::new(span)))),
        ("ping-pong", "channel") => rt.block_on(rt.spawn(channel(Meter::new(span)))),
        ("timer-delay", _) => {
            let late = Lateness::new(span);
            return rt.block_on(rt.spawn(timer_delay(late))).map_err(|e| e.to_string())?;
        }
        ("sleepers", _) => {
            let tasks = job.tasks()?;
            return rt.block_on(rt.spawn(sleepers(tasks))).map_err(|e| e.to_string())?;
        }
        _ => return unknown(job),
    };
    ns(result.map_err(|e| e.to_string())?)
}

pub(crate) fn runtime(subject: &str, workers: usize) -> Result<Runtime, String> {
    let mut builder = match subject {
        "tokio-current" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(workers).enable_all().build().map_err(|e| e.to_string())
}

async fn yields(gate: Arc<Gate>, tasks: usize) {
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                let mut count = gate.enter();
                loop {
                    task::yield_now().await;
                    if !gate.step(&mut count) {
                        break;
                    }
                }
                gate.leave();
            })
        })
        .collect();
    for t in all {
        t.await.expect("no panic");
    }
}

async fn one(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for i in 0..n {
            let got = tokio::spawn(async move { black_box(i) }).await;
            assert_eq!(got.expect("no panic"), i);
        }
    }
    meter.ns()
}

async fn batch(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        let all: Vec<_> = (0..n).map(|i| tokio::spawn(async move { black_box(i) })).collect();
        let mut sum = 0;
        for t in all {
            sum += t.await.expect("no panic");
        }
        assert_eq!(sum, super::sum(n));
    }
    meter.ns()
}

async fn notify(mut meter: Meter) -> f64 {
    // A `Notify` keeps one permit, as a park token does, so no turn flag is needed to be right;
    // the echo ends when it is aborted.
    let ping = Arc::new(Notify::new());
    let pong = Arc::new(Notify::new());
    let echo = {
        let (ping, pong) = (Arc::clone(&ping), Arc::clone(&pong));
        tokio::spawn(async move {
            loop {
                ping.notified().await;
                pong.notify_one();
            }
        })
    };
    while let Some(n) = meter.next() {
        for _ in 0..n {
            ping.notify_one();
            pong.notified().await;
        }
    }
    echo.abort();
    meter.ns()
}

async fn channel(mut meter: Meter) -> f64 {
    let (ping, mut pings) = mpsc::channel::<u64>(1);
    let (pong, mut pongs) = mpsc::channel::<u64>(1);
    let echo = tokio::spawn(async move {
        while let Some(v) = pings.recv().await {
            if pong.send(v).await.is_err() {
                return;
            }
        }
    });
    while let Some(n) = meter.next() {
        for i in 0..n {
            ping.send(i).await.expect("the echo lives");
            assert_eq!(pongs.recv().await.expect("the echo lives"), i);
        }
    }
    drop(ping);
    echo.await.expect("no panic");
    meter.ns()
}

async fn timer_delay(mut late: Lateness) -> Result<Values, String> {
    let gate = Gate::new();
    let hog = {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            let mut count = gate.enter();
            while gate.step(&mut count) {
                task::yield_now().await;
            }
        })
    };
    while late.more() {
        let start = Instant::now();
        time::sleep(TICK).await;
        late.record(start);
    }
    gate.stop();
    hog.await.expect("no panic");
    late.values()
}

async fn sleepers(tasks: usize) -> Result<Values, String> {
    let mut figures = Sleepers::begin(tasks);
    let deadline = figures.deadline;
    let all: Vec<_> = (0..tasks)
        .map(|_| {
            tokio::spawn(async move {
                ASLEEP.fetch_add(1, Ordering::Relaxed);
                time::sleep_until(deadline.into()).await;
            })
        })
        .collect();
    while ASLEEP.load(Ordering::Relaxed) < tasks {
        task::yield_now().await;
    }
    figures.all_asleep();
    for t in all {
        t.await.expect("no panic");
    }
    figures.end()
}
