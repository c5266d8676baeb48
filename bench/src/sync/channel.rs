//! Messages between tasks that block: fibers over bast's channels; threads over std's, crossbeam's and
//! flume's.
//!
//! ```text
//!   consumer (it measures) ──start n──▶ producer     over a channel of the same kind, with room for one
//!                          ◀──n messages──           ×1 or ×4; on two workers they are on the other one
//! ```
//!
//! Bursts, because an unbounded channel needs something that holds its producers back. With several
//! consumers each takes its part of a burst, and a task that only counts sums measures.

use super::host::{Fibers, Host, Threads};
use super::{BURST, ROOM, not_run};
use crate::micro::{Job, sum};
use crate::stats::Meter;
use std::sync::mpsc;

/// A kind of channel. Kinds without a bound ignore `room`.
pub(super) trait Chan: 'static {
    type Tx: Clone + Send + 'static;
    type Rx: Send + 'static;
    fn make(room: usize) -> (Self::Tx, Self::Rx);
    fn send(tx: &Self::Tx, v: u64);
    fn recv(rx: &Self::Rx) -> u64;
}

/// Implements [`Chan`] for a library whose names are std's.
macro_rules! chan {
    ($name:ident, $tx:ty, $rx:ty, $room:pat => $make:expr) => {
        pub(super) struct $name;

        impl Chan for $name {
            type Tx = $tx;
            type Rx = $rx;

            fn make($room: usize) -> ($tx, $rx) {
                $make
            }

            #[inline]
            fn send(tx: &$tx, v: u64) {
                tx.send(v).expect("the receiver lives");
            }

            #[inline]
            fn recv(rx: &$rx) -> u64 {
                rx.recv().expect("a sender lives")
            }
        }
    };
}

chan!(StdUnbounded, mpsc::Sender<u64>, mpsc::Receiver<u64>, _ => mpsc::channel());
chan!(StdBounded, mpsc::SyncSender<u64>, mpsc::Receiver<u64>, room => mpsc::sync_channel(room));
chan!(
    CrossbeamUnbounded,
    crossbeam_channel::Sender<u64>,
    crossbeam_channel::Receiver<u64>,
    _ => crossbeam_channel::unbounded()
);
chan!(
    CrossbeamBounded,
    crossbeam_channel::Sender<u64>,
    crossbeam_channel::Receiver<u64>,
    room => crossbeam_channel::bounded(room)
);
chan!(FlumeUnbounded, flume::Sender<u64>, flume::Receiver<u64>, _ => flume::unbounded());
chan!(FlumeBounded, flume::Sender<u64>, flume::Receiver<u64>, room => flume::bounded(room));

chan!(
    BastUnbounded,
    bast::sync::mpsc::Sender<u64>,
    bast::sync::mpsc::Receiver<u64>,
    _ => bast::sync::mpsc::channel()
);
chan!(
    BastBounded,
    bast::sync::mpsc::SyncSender<u64>,
    bast::sync::mpsc::Receiver<u64>,
    room => bast::sync::mpsc::sync_channel(room)
);
chan!(
    BastMpmc,
    bast::sync::mpmc::Sender<u64>,
    bast::sync::mpmc::Receiver<u64>,
    room => bast::sync::mpmc::sync_channel(room)
);

/// Who sends how much of a burst to whom.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) bounded: bool,
    pub(super) room: usize,
    pub(super) producers: usize,
    pub(super) consumers: usize,
}

/// Reads a parameter such as `bounded-4p` or `mpmc`.
pub(super) fn shape(param: &str) -> Option<Shape> {
    let (bounded, room, producers, consumers) = match param {
        "unbounded" => (false, 0, 1, 1),
        "bounded" => (true, ROOM, 1, 1),
        "unbounded-4p" => (false, 0, 4, 1),
        "bounded-4p" => (true, ROOM, 4, 1),
        "rendezvous" => (true, 0, 1, 1),
        "mpmc" => (true, ROOM, 4, 4),
        _ => return None,
    };
    Some(Shape { bounded, room, producers, consumers })
}

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    if job.bench == "ping-pong" {
        return match subject {
            "bast" => request_fiber(job),
            "threads" => request_thread(job),
            _ => not_run(subject, job),
        };
    }
    let Some(shape) = shape(&job.param) else {
        return not_run(subject, job);
    };
    match (subject, shape.bounded, shape.consumers) {
        ("bast", false, 1) => many_to_one::<Fibers, BastUnbounded>(job, shape),
        ("bast", true, 1) => many_to_one::<Fibers, BastBounded>(job, shape),
        ("bast", ..) => many_to_many::<Fibers, BastMpmc>(job, shape),
        ("threads", false, 1) => many_to_one::<Threads, StdUnbounded>(job, shape),
        ("threads", true, 1) => many_to_one::<Threads, StdBounded>(job, shape),
        ("crossbeam", false, 1) => many_to_one::<Threads, CrossbeamUnbounded>(job, shape),
        ("crossbeam", true, 1) => many_to_one::<Threads, CrossbeamBounded>(job, shape),
        ("crossbeam", ..) => many_to_many::<Threads, CrossbeamBounded>(job, shape),
        ("flume", false, 1) => many_to_one::<Threads, FlumeUnbounded>(job, shape),
        ("flume", true, 1) => many_to_one::<Threads, FlumeBounded>(job, shape),
        ("flume", ..) => many_to_many::<Threads, FlumeBounded>(job, shape),
        _ => not_run(subject, job),
    }
}

/// Producers, each with what starts it.
struct Producers<C: Chan, J> {
    starts: Vec<C::Tx>,
    joins: Vec<J>,
}

impl<C: Chan, J: FnOnce()> Producers<C, J> {
    /// Each sends its part of a burst of `n`.
    fn start(&self, n: u64) {
        self.starts.iter().for_each(|s| C::send(s, n / self.starts.len() as u64));
    }

    fn end(self) {
        self.starts.iter().for_each(|s| C::send(s, 0));
        self.joins.into_iter().for_each(|join| join());
    }
}

fn producers<H: Host, C: Chan>(
    count: usize,
    worker: usize,
    tx: &C::Tx,
) -> Producers<C, impl FnOnce()> {
    let (starts, joins) = (0..count)
        .map(|_| {
            let (start, started) = C::make(1);
            let tx = tx.clone();
            let join = H::spawn(worker, move || {
                loop {
                    let n = C::recv(&started);
                    if n == 0 {
                        return;
                    }
                    (0..n).for_each(|i| C::send(&tx, i));
                }
            });
            (start, join)
        })
        .unzip();
    Producers { starts, joins }
}

/// ns per message.
fn many_to_one<H: Host, C: Chan>(job: &Job, shape: Shape) -> Result<f64, String> {
    let mut meter = Meter::fixed(job.span, BURST);
    let other = job.workers - 1;
    H::enter(job, move || {
        let (tx, rx) = C::make(shape.room);
        let producers = producers::<H, C>(shape.producers, other, &tx);
        while let Some(n) = meter.next() {
            producers.start(n);
            let got: u64 = (0..n).map(|_| C::recv(&rx)).sum();
            assert_eq!(got, shape.sum(n));
        }
        producers.end();
        meter.ns()
    })
}

/// ns per message.
fn many_to_many<H: Host, C: Chan<Rx: Clone>>(job: &Job, shape: Shape) -> Result<f64, String> {
    let mut meter = Meter::fixed(job.span, BURST);
    let other = job.workers - 1;
    H::enter(job, move || {
        let (tx, rx) = C::make(shape.room);
        let (report, reports) = C::make(shape.consumers);
        let producers = producers::<H, C>(shape.producers, other, &tx);
        let (starts, joins): (Vec<_>, Vec<_>) = (0..shape.consumers)
            .map(|_| {
                let (start, started) = C::make(1);
                let (rx, report) = (rx.clone(), report.clone());
                let join = H::spawn(0, move || {
                    loop {
                        let n = C::recv(&started);
                        if n == 0 {
                            return;
                        }
                        C::send(&report, (0..n).map(|_| C::recv(&rx)).sum());
                    }
                });
                (start, join)
            })
            .unzip();
        while let Some(n) = meter.next() {
            starts.iter().for_each(|s| C::send(s, n / shape.consumers as u64));
            producers.start(n);
            let got: u64 = starts.iter().map(|_| C::recv(&reports)).sum();
            assert_eq!(got, shape.sum(n));
        }
        starts.iter().for_each(|s| C::send(s, 0));
        joins.into_iter().for_each(|join| join());
        producers.end();
        meter.ns()
    })
}

impl Shape {
    /// What the messages of a burst add up to.
    pub(super) fn sum(self, n: u64) -> u64 {
        self.producers as u64 * sum(n / self.producers as u64)
    }
}

/// ns per request: a fiber is asked, and answers by the `oneshot` that the request brings.
fn request_fiber(job: &Job) -> Result<f64, String> {
    use bast::sync::{mpsc, oneshot};
    let mut meter = Meter::new(job.span);
    Fibers::enter(job, move || {
        let (ask, asked) = mpsc::sync_channel::<(u64, oneshot::Sender<u64>)>(1);
        let server = Fibers::spawn(0, move || {
            for (v, reply) in asked {
                reply.send(v).expect("the client waits");
            }
        });
        while let Some(n) = meter.next() {
            for i in 0..n {
                let (reply, answer) = oneshot::channel();
                ask.send((i, reply)).expect("the server lives");
                assert_eq!(answer.recv(), Ok(i));
            }
        }
        drop(ask);
        server();
        meter.ns()
    })
}

/// ns per request: a thread is asked, and answers over the channel that the request brings.
fn request_thread(job: &Job) -> Result<f64, String> {
    let mut meter = Meter::new(job.span);
    Threads::enter(job, move || {
        let (ask, asked) = mpsc::sync_channel::<(u64, mpsc::SyncSender<u64>)>(1);
        let server = Threads::spawn(0, move || {
            for (v, reply) in asked {
                reply.send(v).expect("the client waits");
            }
        });
        while let Some(n) = meter.next() {
            for i in 0..n {
                let (reply, answer) = mpsc::sync_channel(1);
                ask.send((i, reply)).expect("the server lives");
                assert_eq!(answer.recv(), Ok(i));
            }
        }
        drop(ask);
        server();
        meter.ns()
    })
}
