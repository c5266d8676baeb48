//! What the cells cost: `cargo run --release -p bast-sync --example cells [words of the lines wanted]`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bast_rt::{Builder, Runtime};
use bast_sync::{MVar, oneshot};

/// The best of seven runs of `f`, which returns ns per round: whatever else the machine does only adds to it.
fn best(mut f: impl FnMut() -> f64) -> f64 {
    (0..7).map(|_| f()).min_by(f64::total_cmp).unwrap_or(f64::NAN)
}

fn print(what: &str, run: impl FnMut() -> f64) {
    if std::env::args().skip(1).all(|word| what.contains(&word)) {
        println!("{what:56} {:10.1} ns", best(run));
    }
}

fn timed(rounds: usize, f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_nanos() as f64 / rounds as f64
}

/// Takes and puts in a loop, from `fibers` fibers that lie on the workers in turn and begin together.
/// With `held` each of them lets others run while it has the value.
fn contended(runtime: &Runtime, workers: usize, fibers: usize, rounds: usize, held: bool) -> f64 {
    let each = rounds / fibers;
    let (lock, gate) = (Arc::new(MVar::new(0_usize)), Arc::new(MVar::new_empty()));
    let all: Vec<_> = (0..fibers)
        .map(|i| {
            let (lock, gate) = (Arc::clone(&lock), Arc::clone(&gate));
            let body = move || {
                gate.read();
                for _ in 0..each {
                    let value = lock.take();
                    if held {
                        bast_rt::yield_now();
                    }
                    lock.put(value + 1);
                }
            };
            let builder = Builder::new().worker(i % workers);
            runtime.run(move || builder.spawn(body).expect("a fiber"))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(5));
    let ns = timed(each * fibers, || {
        gate.put(());
        all.into_iter().for_each(|fiber| fiber.join().expect("no panic"));
    });
    assert_eq!(lock.take(), each * fibers);
    ns
}

/// A value to and fro between two fibers.
fn ping_pong(runtime: &Runtime, other: usize, rounds: usize) -> f64 {
    runtime.run(move || {
        let (there, back) = (Arc::new(MVar::new_empty()), Arc::new(MVar::new_empty()));
        let (theirs, ours) = (Arc::clone(&there), Arc::clone(&back));
        Builder::new()
            .worker(0)
            .spawn(move || {
                let answer = move || {
                    for _ in 0..rounds {
                        ours.put(theirs.take() + 1);
                    }
                };
                let answering = Builder::new().worker(other).spawn(answer).expect("a fiber");
                let ns = timed(rounds, || {
                    for i in 0..rounds {
                        there.put(i);
                        assert_eq!(back.take(), i + 1);
                    }
                });
                answering.join().expect("no panic");
                ns
            })
            .expect("a fiber")
            .join()
            .expect("no panic")
    })
}

/// An answer from a fiber that was there already, which is one more hand-over, and from one spawned for it.
fn answer(runtime: &Runtime, rounds: usize, spawn: bool) -> f64 {
    runtime.run(move || {
        let fiber = bast_rt::spawn(move || {
            let questions = Arc::new(MVar::<oneshot::Sender<usize>>::new_empty());
            let theirs = Arc::clone(&questions);
            let server = bast_rt::spawn(move || {
                for i in 0..if spawn { 0 } else { rounds } {
                    theirs.take().send(i).expect("a receiver");
                }
            });
            let ns = timed(rounds, || {
                for i in 0..rounds {
                    let (sender, receiver) = oneshot::channel();
                    if spawn {
                        drop(bast_rt::spawn(move || sender.send(i)));
                    } else {
                        questions.put(sender);
                    }
                    assert_eq!(receiver.recv(), Ok(i));
                }
            });
            server.join().expect("no panic");
            ns
        });
        fiber.join().expect("no panic")
    })
}

/// Send first, receive then: no fiber waits.
fn no_wait(runtime: &Runtime, rounds: usize) -> f64 {
    runtime.run(move || {
        timed(rounds, || {
            for i in 0..rounds {
                let (sender, receiver) = oneshot::channel();
                sender.send(i).expect("a receiver");
                assert_eq!(receiver.recv(), Ok(i));
            }
        })
    })
}

fn main() -> std::io::Result<()> {
    let one = Runtime::builder().workers(1).build()?;
    let two = Runtime::builder().workers(2).build()?;

    print("MVar take+put, alone", || contended(&one, 1, 1, 2_000_000, false));
    for (runtime, workers) in [(&one, 1), (&two, 2)] {
        for (fibers, rounds) in [(2, 1_000_000), (10, 1_000_000), (100, 500_000), (1000, 500_000)] {
            for (held, how) in [(false, ""), (true, ", held over a yield")] {
                let what = format!("MVar take+put, {workers} workers, {fibers} fibers{how}");
                print(&what, || contended(runtime, workers, fibers, rounds, held));
            }
        }
    }
    print("MVar ping-pong on one worker", || ping_pong(&one, 0, 500_000));
    print("MVar ping-pong across two", || ping_pong(&two, 1, 30_000));
    print("oneshot: made, sent, received", || no_wait(&one, 2_000_000));
    print("oneshot: asked through an MVar, answered", || answer(&one, 1_000_000, false));
    print("oneshot: spawn, answer", || answer(&one, 1_000_000, true));
    Ok(())
}
