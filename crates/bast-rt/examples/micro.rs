//! The scheduler's own costs, for a quick look while working on it: nanoseconds per operation on one
//! worker, best of five rounds. The comparison with other runtimes is in `bench/`.
//!
//! `cargo run --release -p bast-rt --example micro [WORKERS]`

use bast_rt::{Runtime, spawn, spawn_local, timeout, yield_now};
use std::time::{Duration, Instant};

fn main() {
    let workers = std::env::args().nth(1).map_or(1, |n| n.parse().expect("a number of workers"));
    let runtime = Runtime::builder().workers(workers).build().expect("a runtime");
    println!("{workers} workers, {}", runtime.driver_name());
    for fibers in [1, 100, 10_000] {
        report(&format!("yield, {fibers} fibers"), || {
            let rounds = 3_000_000 / fibers;
            runtime.run(move || {
                let start = Instant::now();
                let all: Vec<_> = (0..fibers)
                    .map(|_| {
                        spawn_local(move || {
                            for _ in 0..rounds {
                                yield_now();
                            }
                        })
                    })
                    .collect();
                for fiber in all {
                    fiber.join().expect("no panic");
                }
                start.elapsed().as_nanos() as f64 / (rounds * fibers) as f64
            })
        });
    }
    report("spawn+join, one by one", || {
        runtime.run(|| {
            const N: usize = 50_000;
            let start = Instant::now();
            for i in 0..N {
                assert_eq!(spawn(move || i).join().expect("no panic"), i);
            }
            start.elapsed().as_nanos() as f64 / N as f64
        })
    });
    report("spawn+join, 10,000 at a time", || {
        runtime.run(|| {
            const N: usize = 10_000;
            let start = Instant::now();
            for _ in 0..5 {
                let all: Vec<_> = (0..N).map(|i| spawn(move || i)).collect();
                for (i, fiber) in all.into_iter().enumerate() {
                    assert_eq!(fiber.join().expect("no panic"), i);
                }
            }
            start.elapsed().as_nanos() as f64 / (5 * N) as f64
        })
    });
    report("timeout around what is ready", || {
        runtime.run(|| {
            const N: usize = 1_000_000;
            let start = Instant::now();
            for i in 0..N {
                let patience = Duration::from_secs(60);
                assert_eq!(timeout(patience, || std::hint::black_box(i)), Ok(i));
            }
            start.elapsed().as_nanos() as f64 / N as f64
        })
    });
    report("a reading of the clock", || {
        runtime.run(|| {
            const N: usize = 1_000_000;
            let start = Instant::now();
            for _ in 0..N {
                std::hint::black_box(bast_rt::Instant::now());
            }
            start.elapsed().as_nanos() as f64 / N as f64
        })
    });
    report("ping-pong by unpark and park, a round trip", || {
        runtime.run(|| {
            const N: usize = 50_000;
            let main = bast_rt::current();
            let pong = spawn_local(move || {
                for _ in 0..N {
                    bast_rt::park();
                    main.unpark();
                }
            });
            let other = pong.fiber();
            yield_now();
            let start = Instant::now();
            for _ in 0..N {
                other.unpark();
                bast_rt::park();
            }
            let took = start.elapsed().as_nanos() as f64 / N as f64;
            pong.join().expect("no panic");
            took
        })
    });
}

fn report(what: &str, mut round: impl FnMut() -> f64) {
    if !std::env::args().nth(2).is_none_or(|only| what.contains(&only)) {
        return;
    }
    let best = (0..30).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("{what}: {best:.1} ns");
}
