//! Waiting for futures.
//!
//! * `await polled`: a future that is ready is polled. The floor of the next.
//! * `await ready`: it is waited for.
//! * `await woken`: a future that a neighbour on the same worker makes ready: half of a round trip between two
//!   that wait for each other.
//! * `await task-ready`, `task-woken`: the same in a task, whose neighbour is a fiber.
//! * `await task-fiber`: a task starts a fiber and awaits it.
//! * `await task-spawn`: a task starts a task and awaits it; `task-yield`: a task lets others run.
//! * `await bind`: a callback is bound to a promise that is ready.
//! * `await promise`: a promise is made, a callback chained to it, it is resolved, and the result waited for.
//! * `await resolved`: the same without a callback; tokio's is a `oneshot` channel.

use super::not_run;
use crate::micro::{self, Job};
use crate::stats::Meter;
use atomic_waker::AtomicWaker;
use bast::future::Wait;
use bast::promise::Promise;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    let meter = Meter::new(job.span);
    match (job.param.as_str(), subject) {
        (param, "bast") => {
            let rt = micro::bast_runtime(subject, job.workers)?;
            let param = param.to_owned();
            rt.run(move || match param.as_str() {
                "polled" => Ok(polled(meter)),
                "ready" => Ok(super::steps(meter, || check(ready().wait()))),
                "woken" => Ok(woken(meter)),
                "task-ready" => in_task(task_ready(meter)),
                "task-woken" => in_task(task_woken(meter)),
                "task-fiber" => in_task(task_fiber(meter)),
                "task-spawn" => in_task(task_spawn(meter)),
                "task-yield" => in_task(task_yield(meter)),
                "bind" => Ok(super::steps(meter, || check(bind()))),
                "promise" => Ok(super::steps(meter, || check(promise()))),
                "resolved" => Ok(super::steps(meter, || check(resolved()))),
                _ => Err("no such parameter".to_owned()),
            })
        }
        ("woken", "tokio-current" | "tokio-multi") => {
            let rt = micro::tokio_runtime(subject, job.workers)?;
            let there = Arc::<Event>::default();
            let back = Arc::<Event>::default();
            rt.spawn(echo(Arc::clone(&there), Arc::clone(&back)));
            rt.block_on(rounds(meter, there, back)).map(|ns| ns / 2.0)
        }
        (param @ ("task-spawn" | "task-yield"), "tokio-current" | "tokio-multi") => {
            let rt = micro::tokio_runtime(subject, job.workers)?;
            let work = match param {
                "task-spawn" => rt.spawn(tokio_spawn(meter)),
                _ => rt.spawn(tokio_yield(meter)),
            };
            rt.block_on(work).map_err(|error| error.to_string())
        }
        ("resolved", "tokio-current" | "tokio-multi") => {
            let rt = micro::tokio_runtime(subject, job.workers)?;
            let run = rt.spawn(async move {
                let mut meter = meter;
                while let Some(n) = meter.next() {
                    for _ in 0..n {
                        let (send, receive) = tokio::sync::oneshot::channel();
                        send.send(black_box(7)).expect("the receiver is there");
                        check(receive.await.expect("it has been sent"));
                    }
                }
                meter.ns()
            });
            rt.block_on(run).map_err(|error| error.to_string())
        }
        _ => not_run(subject, job),
    }
}

#[inline(never)]
fn bind() -> u64 {
    let bound = Promise::ready(black_box(3)).and_then(|n| Promise::ready(n + 4));
    bound.wait().expect("it is ready")
}

#[inline(never)]
fn promise() -> u64 {
    let (promise, resolver) = Promise::new();
    let chained = promise.map(|n: u64| n + 4);
    resolver.resolve(black_box(3));
    chained.wait().expect("it is resolved")
}

#[inline(never)]
fn resolved() -> u64 {
    let (promise, resolver) = Promise::new();
    resolver.resolve(black_box(7));
    promise.wait().expect("it is resolved")
}

#[inline(never)]
fn ready() -> impl Future<Output = u64> {
    std::future::ready(black_box(7))
}

fn check(value: u64) {
    assert_eq!(value, 7);
}

fn polled(meter: Meter) -> f64 {
    let mut context = Context::from_waker(Waker::noop());
    super::steps(meter, || match pin!(ready()).poll(&mut context) {
        Poll::Ready(value) => check(value),
        Poll::Pending => unreachable!(),
    })
}

fn woken(meter: Meter) -> f64 {
    let there = Arc::<Event>::default();
    let back = Arc::<Event>::default();
    let echoing = echo(Arc::clone(&there), Arc::clone(&back));
    let fiber = bast::Builder::new().worker(0).spawn(|| echoing.wait()).expect("there is a stack");
    let ns = rounds(meter, there, back).wait().expect("the echo answers");
    fiber.cancel();
    ns / 2.0
}

fn in_task(work: impl Future<Output = f64> + Send + 'static) -> Result<f64, String> {
    bast::task::spawn(work).join().map_err(|_| "the task failed".to_owned())
}

async fn task_ready(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            check(ready().await);
        }
    }
    meter.ns()
}

async fn task_woken(meter: Meter) -> f64 {
    let there = Arc::<Event>::default();
    let back = Arc::<Event>::default();
    let echoing = echo(Arc::clone(&there), Arc::clone(&back));
    let fiber = bast::Builder::new().worker(0).spawn(|| echoing.wait()).expect("there is a stack");
    let ns = rounds(meter, there, back).await.expect("the echo answers");
    fiber.cancel();
    ns / 2.0
}

async fn task_fiber(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            check(bast::spawn(|| black_box(7)).await.expect("it does not panic"));
        }
    }
    meter.ns()
}

async fn task_spawn(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            check(bast::task::spawn(async { black_box(7) }).await.expect("it does not panic"));
        }
    }
    meter.ns()
}

async fn tokio_spawn(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            check(tokio::spawn(async { black_box(7) }).await.expect("it does not panic"));
        }
    }
    meter.ns()
}

async fn task_yield(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            bast::task::yield_now().await;
        }
    }
    meter.ns()
}

async fn tokio_yield(mut meter: Meter) -> f64 {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            tokio::task::yield_now().await;
        }
    }
    meter.ns()
}

/// Something that happens again and again.
#[derive(Default)]
struct Event {
    set: AtomicBool,
    waker: AtomicWaker,
}

impl Event {
    fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.waker.register(context.waker());
        if self.set.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
    }
}

async fn echo(there: Arc<Event>, back: Arc<Event>) {
    loop {
        poll_fn(|context| there.poll(context)).await;
        back.set();
    }
}

async fn rounds(mut meter: Meter, there: Arc<Event>, back: Arc<Event>) -> Result<f64, String> {
    while let Some(n) = meter.next() {
        for _ in 0..n {
            there.set();
            poll_fn(|context| back.poll(context)).await;
        }
    }
    Ok(meter.ns())
}
