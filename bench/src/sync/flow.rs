//! Channels and select in `async` code: tokio's, and flume on tokio. The shapes are those of `channel.rs`
//! and `select.rs`.

use super::channel::{Shape, shape};
use super::{BURST, READY, not_run};
use crate::micro::{self, Job, sum};
use crate::stats::Meter;
use std::future::Future;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A kind of channel. Kinds without a bound ignore `room`.
trait Chan: 'static {
    type Tx: Clone + Send + Sync + 'static;
    type Rx: Send + 'static;
    fn make(room: usize) -> (Self::Tx, Self::Rx);
    fn send(tx: &Self::Tx, v: u64) -> impl Future<Output = ()> + Send;
    fn recv(rx: &mut Self::Rx) -> impl Future<Output = u64> + Send;
}

struct Unbounded;

impl Chan for Unbounded {
    type Tx = mpsc::UnboundedSender<u64>;
    type Rx = mpsc::UnboundedReceiver<u64>;

    fn make(_: usize) -> (Self::Tx, Self::Rx) {
        mpsc::unbounded_channel()
    }

    async fn send(tx: &Self::Tx, v: u64) {
        tx.send(v).expect("the receiver lives");
    }

    async fn recv(rx: &mut Self::Rx) -> u64 {
        rx.recv().await.expect("a sender lives")
    }
}

struct Bounded;

impl Chan for Bounded {
    type Tx = mpsc::Sender<u64>;
    type Rx = mpsc::Receiver<u64>;

    fn make(room: usize) -> (Self::Tx, Self::Rx) {
        mpsc::channel(room)
    }

    async fn send(tx: &Self::Tx, v: u64) {
        tx.send(v).await.expect("the receiver lives");
    }

    async fn recv(rx: &mut Self::Rx) -> u64 {
        rx.recv().await.expect("a sender lives")
    }
}

struct Flume<const BOUNDED: bool>;

impl<const BOUNDED: bool> Chan for Flume<BOUNDED> {
    type Tx = flume::Sender<u64>;
    type Rx = flume::Receiver<u64>;

    fn make(room: usize) -> (Self::Tx, Self::Rx) {
        if BOUNDED { flume::bounded(room) } else { flume::unbounded() }
    }

    async fn send(tx: &Self::Tx, v: u64) {
        tx.send_async(v).await.expect("the receiver lives");
    }

    async fn recv(rx: &mut Self::Rx) -> u64 {
        rx.recv_async().await.expect("a sender lives")
    }
}

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    // flume runs on whichever of tokio's schedulers fits.
    let scheduler = match (subject, job.workers) {
        ("flume-tokio", 1) => "tokio-current",
        ("flume-tokio", _) => "tokio-multi",
        _ => subject,
    };
    let rt = micro::tokio_runtime(scheduler, job.workers)?;
    let span = job.span;
    let burst = Meter::fixed(span, BURST);
    let selects = job.param.starts_with("select");
    let task = match (job.bench.as_str(), job.param.as_str(), subject) {
        ("ping-pong", _, "tokio-current" | "tokio-multi") => rt.spawn(request(Meter::new(span))),
        ("select", "recv-wait" | "select-wait", _) => rt.spawn(waiting(Meter::new(span), selects)),
        ("select", param, _) => {
            let sends = param.ends_with("-sent");
            rt.spawn(ready(Meter::fixed(span, READY), selects, sends))
        }
        ("channel", param, _) => match (subject, shape(param)) {
            ("flume-tokio", Some(s)) if s.consumers > 1 => rt.spawn(many_to_many(burst, s)),
            ("flume-tokio", Some(s)) if s.bounded => rt.spawn(many_to_one::<Flume<true>>(burst, s)),
            ("flume-tokio", Some(s)) => rt.spawn(many_to_one::<Flume<false>>(burst, s)),
            // tokio has neither channels without room nor several consumers.
            (_, Some(s)) if s.consumers > 1 || param == "rendezvous" => {
                return not_run(subject, job);
            }
            (_, Some(s)) if s.bounded => rt.spawn(many_to_one::<Bounded>(burst, s)),
            (_, Some(s)) => rt.spawn(many_to_one::<Unbounded>(burst, s)),
            (_, None) => return not_run(subject, job),
        },
        _ => return not_run(subject, job),
    };
    rt.block_on(task).map_err(|e| e.to_string())
}

type Tasks<C> = Vec<(<C as Chan>::Tx, JoinHandle<()>)>;

fn producers<C: Chan>(count: usize, tx: &C::Tx) -> Tasks<C> {
    let producer = |_| {
        let (start, mut started) = C::make(1);
        let tx = tx.clone();
        let task = tokio::spawn(async move {
            loop {
                let n = C::recv(&mut started).await;
                if n == 0 {
                    return;
                }
                for i in 0..n {
                    C::send(&tx, i).await;
                }
            }
        });
        (start, task)
    };
    (0..count).map(producer).collect()
}

/// Gives each its part of `n`.
async fn start<C: Chan>(tasks: &Tasks<C>, n: u64) {
    for (start, _) in tasks {
        C::send(start, n / tasks.len() as u64).await;
    }
}

async fn end<C: Chan>(tasks: Tasks<C>) {
    start::<C>(&tasks, 0).await;
    for (_, task) in tasks {
        task.await.expect("no panic");
    }
}

async fn many_to_one<C: Chan>(mut meter: Meter, shape: Shape) -> f64 {
    let (tx, mut rx) = C::make(shape.room);
    let producers = producers::<C>(shape.producers, &tx);
    while let Some(n) = meter.next() {
        start::<C>(&producers, n).await;
        let mut got = 0;
        for _ in 0..n {
            got += C::recv(&mut rx).await;
        }
        assert_eq!(got, shape.sum(n));
    }
    end::<C>(producers).await;
    meter.ns()
}

async fn many_to_many(mut meter: Meter, shape: Shape) -> f64 {
    type C = Flume<true>;
    let (tx, rx) = C::make(shape.room);
    let (report, mut reports) = C::make(shape.consumers);
    let producers = producers::<C>(shape.producers, &tx);
    let consumer = |_| {
        let (start, mut started) = C::make(1);
        let (mut rx, report) = (rx.clone(), report.clone());
        let task = tokio::spawn(async move {
            loop {
                let n = C::recv(&mut started).await;
                if n == 0 {
                    return;
                }
                let mut got = 0;
                for _ in 0..n {
                    got += C::recv(&mut rx).await;
                }
                C::send(&report, got).await;
            }
        });
        (start, task)
    };
    let consumers: Tasks<C> = (0..shape.consumers).map(consumer).collect();
    while let Some(n) = meter.next() {
        start::<C>(&consumers, n).await;
        start::<C>(&producers, n).await;
        let mut got = 0;
        for _ in 0..consumers.len() {
            got += C::recv(&mut reports).await;
        }
        assert_eq!(got, shape.sum(n));
    }
    end::<C>(consumers).await;
    end::<C>(producers).await;
    meter.ns()
}

async fn request(mut meter: Meter) -> f64 {
    let (ask, mut asked) = mpsc::channel::<(u64, oneshot::Sender<u64>)>(1);
    let server = tokio::spawn(async move {
        while let Some((v, reply)) = asked.recv().await {
            reply.send(v).expect("the client waits");
        }
    });
    while let Some(n) = meter.next() {
        for i in 0..n {
            let (reply, answer) = oneshot::channel();
            ask.send((i, reply)).await.expect("the server lives");
            assert_eq!(answer.await, Ok(i));
        }
    }
    drop(ask);
    server.await.expect("no panic");
    meter.ns()
}

type Rx = mpsc::UnboundedReceiver<u64>;

async fn either(a: &mut Rx, b: &mut Rx) -> u64 {
    tokio::select! {
        v = a.recv() => v.expect("a sender lives"),
        v = b.recv() => v.expect("a sender lives"),
    }
}

async fn ready(mut meter: Meter, selects: bool, sends: bool) -> f64 {
    type C = Unbounded;
    let ((a, mut from_a), (b, mut from_b)) = (C::make(0), C::make(0));
    while let Some(n) = meter.next() {
        for i in 0..n / 2 {
            C::send(&a, i).await;
            C::send(&b, i).await;
        }
        if !sends {
            meter.restart();
        }
        let mut got = 0;
        if selects {
            for _ in 0..n {
                got += either(&mut from_a, &mut from_b).await;
            }
        } else {
            for _ in 0..n / 2 {
                got += C::recv(&mut from_a).await + C::recv(&mut from_b).await;
            }
        }
        assert_eq!(got, 2 * sum(n / 2));
    }
    meter.ns()
}

async fn waiting(mut meter: Meter, selects: bool) -> f64 {
    type C = Unbounded;
    let ((a, mut from_a), (b, mut from_b)) = (C::make(0), C::make(0));
    let (ask, mut asked) = C::make(0);
    let echo = tokio::spawn(async move {
        loop {
            match C::recv(&mut asked).await {
                u64::MAX => return,
                v if v % 2 == 0 => C::send(&a, v).await,
                v => C::send(&b, v).await,
            }
        }
    });
    while let Some(n) = meter.next() {
        for i in 0..n {
            C::send(&ask, i).await;
            let got = match (selects, i % 2) {
                (true, _) => either(&mut from_a, &mut from_b).await,
                (false, 0) => C::recv(&mut from_a).await,
                (false, _) => C::recv(&mut from_b).await,
            };
            assert_eq!(got, i);
        }
    }
    C::send(&ask, u64::MAX).await;
    echo.await.expect("no panic");
    meter.ns()
}
