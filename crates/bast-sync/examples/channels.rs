//! What a message costs, for a quick look while working on the channels: nanoseconds, best of several
//! rounds. The comparison with other runtimes is in `bench/`.
//!
//! `cargo run --release -p bast-sync --example channels [FILTER]`

use std::time::{Duration, Instant};

use bast_rt::{Runtime, spawn, spawn_local, yield_now};
use bast_sync::select::{after, recv};
use bast_sync::{mpmc, mpsc, select};

const N: usize = 20_000;

fn main() {
    let one = Runtime::builder().workers(1).build().expect("a runtime");
    let two = Runtime::builder().workers(2).build().expect("a runtime");
    println!("one worker, ns for each message sent and received");
    report("mpsc unbounded, alone", || one.run(|| alone(mpsc::channel(), |tx, n| tx.send(n))));
    report("mpsc bounded, alone", || one.run(|| alone(mpsc::sync_channel(1), |tx, n| tx.send(n))));
    report("mpmc unbounded, alone", || {
        one.run(|| {
            let (tx, rx) = mpmc::channel();
            timed(N, || {
                for n in 0..N {
                    tx.send(n).expect("there is a receiver");
                    rx.recv().expect("there is a message");
                }
            })
        })
    });
    report("mpsc unbounded, 2 fibers", || {
        one.run(|| stream(mpsc::channel(), |tx, n| tx.send(n).is_ok(), true))
    });
    for bound in [1, 16, 128] {
        report(&format!("mpsc bounded {bound}, 2 fibers"), || {
            one.run(|| stream(mpsc::sync_channel(bound), |tx, n| tx.send(n).is_ok(), true))
        });
    }
    report("mpsc unbounded, 8 senders", || {
        one.run(|| fan_in(mpsc::channel(), |tx, n| tx.send(n).is_ok()))
    });
    report("mpsc bounded 128, 8 senders", || {
        one.run(|| fan_in(mpsc::sync_channel(128), |tx, n| tx.send(n).is_ok()))
    });
    report("rendezvous, a round trip", || one.run(|| ping_pong(true)));
    report("recv of what is there, mpmc", || one.run(plain_recv));
    report("select of 2, of what is there, mpmc", || one.run(select_of_two));
    report("recv that waits", || one.run(|| waits(false)));
    report("select of 2 that waits", || one.run(|| waits(true)));
    report("select with a timer, of what is there", || one.run(select_with_timer));
    println!("two workers");
    report("mpsc unbounded", || {
        two.run(|| stream(mpsc::channel(), |tx, n| tx.send(n).is_ok(), false))
    });
    for bound in [1, 16, 128, 1024] {
        report(&format!("mpsc bounded {bound}"), || {
            two.run(|| stream(mpsc::sync_channel(bound), |tx, n| tx.send(n).is_ok(), false))
        });
    }
    report("mpsc unbounded, 8 senders", || {
        two.run(|| fan_in(mpsc::channel(), |tx, n| tx.send(n).is_ok()))
    });
    report("mpsc bounded 128, 8 senders", || {
        two.run(|| fan_in(mpsc::sync_channel(128), |tx, n| tx.send(n).is_ok()))
    });
    report("rendezvous, a round trip", || two.run(|| ping_pong(false)));
}

fn timed(count: usize, f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64 / count as f64
}

fn alone<S, E: std::fmt::Debug>(
    (tx, rx): (S, mpsc::Receiver<usize>),
    send: impl Fn(&S, usize) -> Result<(), E>,
) -> f64 {
    timed(N, || {
        for n in 0..N {
            send(&tx, n).expect("there is a receiver");
            rx.recv().expect("there is a message");
        }
    })
}

fn start(local: bool, f: impl FnOnce() + Send + 'static) -> bast_rt::JoinHandle<()> {
    if local { spawn_local(f) } else { elsewhere(f) }
}

/// On the other worker, as long as this one stays busy.
fn elsewhere(f: impl FnOnce() + Send + 'static) -> bast_rt::JoinHandle<()> {
    let here = std::thread::current().id();
    let (tx, rx) = std::sync::mpsc::channel();
    let fiber = spawn(move || {
        let _ = tx.send(std::thread::current().id());
        f();
    });
    assert_ne!(rx.recv().expect("it starts"), here);
    fiber
}

fn stream<S: Send + 'static>(
    (tx, rx): (S, mpsc::Receiver<usize>),
    send: impl Fn(&S, usize) -> bool + Send + 'static,
    local: bool,
) -> f64 {
    timed(N, || {
        let sender = start(local, move || {
            for n in 0..N {
                assert!(send(&tx, n));
            }
        });
        assert_eq!(rx.iter().count(), N);
        sender.join().expect("no panic");
    })
}

fn fan_in<S: Clone + Send + 'static>(
    (tx, rx): (S, mpsc::Receiver<usize>),
    send: impl Fn(&S, usize) -> bool + Clone + Send + 'static,
) -> f64 {
    timed(N, || {
        let senders: Vec<_> = (0..8)
            .map(|_| {
                let (tx, send) = (tx.clone(), send.clone());
                spawn(move || (0..N / 8).for_each(|n| assert!(send(&tx, n))))
            })
            .collect();
        drop(tx);
        assert_eq!(rx.iter().count(), N);
        senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
    })
}

fn ping_pong(local: bool) -> f64 {
    let count = if local { N } else { N / 10 };
    let (tx1, rx1) = mpsc::sync_channel(0);
    let (tx2, rx2) = mpsc::sync_channel(0);
    let pong = start(local, move || {
        for n in rx1 {
            tx2.send(n).expect("somebody listens");
        }
    });
    let took = timed(count, || {
        for n in 0..count {
            tx1.send(n).expect("somebody listens");
            assert_eq!(rx2.recv(), Ok(n));
        }
    });
    drop(tx1);
    pong.join().expect("no panic");
    took
}

fn plain_recv() -> f64 {
    let (tx, rx) = mpmc::channel();
    (0..N).for_each(|n| tx.send(n).expect("there is a receiver"));
    timed(N, || (0..N).for_each(|n| assert_eq!(rx.recv(), Ok(n))))
}

fn select_of_two() -> f64 {
    let (tx, rx) = mpmc::channel();
    let (_tx2, rx2) = mpmc::channel::<usize>();
    (0..N).for_each(|n| tx.send(n).expect("there is a receiver"));
    timed(N, || {
        for n in 0..N {
            select! {
                got = recv(&rx) => assert_eq!(got, Ok(n)),
                got = recv(&rx2) => unreachable!("{got:?}"),
            }
        }
    })
}

fn select_with_timer() -> f64 {
    let (tx, rx) = mpmc::channel();
    (0..N).for_each(|n| tx.send(n).expect("there is a receiver"));
    timed(N, || {
        for n in 0..N {
            select! {
                got = recv(&rx) => assert_eq!(got, Ok(n)),
                () = after(Duration::from_secs(100)) => unreachable!(),
            }
        }
    })
}

fn waits(selecting: bool) -> f64 {
    let (tx, rx) = mpmc::channel();
    let (_tx2, rx2) = mpmc::channel::<usize>();
    let receiver = spawn_local(move || {
        for n in 0..N {
            if selecting {
                select! {
                    got = recv(&rx) => assert_eq!(got, Ok(n)),
                    got = recv(&rx2) => unreachable!("{got:?}"),
                }
            } else {
                assert_eq!(rx.recv(), Ok(n));
            }
        }
    });
    let took = timed(N, || {
        for n in 0..N {
            tx.send(n).expect("there is a receiver");
            yield_now();
        }
    });
    receiver.join().expect("no panic");
    took
}

fn report(what: &str, mut round: impl FnMut() -> f64) {
    if !std::env::args().nth(1).is_none_or(|only| what.contains(&only)) {
        return;
    }
    let best = (0..100).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("{what}: {best:.1}");
}
