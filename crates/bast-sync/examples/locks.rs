//! What locks cost, in ns for each lock and unlock: `cargo run --release -p bast-sync --example locks`.
//!
//! * uncontended: a fiber with `bast_sync`, a thread with `std`, in turns
//! * held across a yield by 1,000 fibers of one worker
//!   (alone, for a profile: `locks 1000`)
//! * short sections on two workers (fibers), and on two threads (std)

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bast_rt::Runtime;
use bast_sync::{Mutex, RwLock};

const ROUNDS: u32 = 5_000_000;
const FIBERS: u32 = 1000;

fn main() {
    if let Some(fibers) = std::env::args().nth(1) {
        let fibers = fibers.parse().expect("a number of fibers");
        let one = Runtime::builder().workers(1).build().expect("a runtime");
        for _ in 0..5 {
            println!("across a yield, 1 worker  {:6.1} ns", across_a_yield(&one, fibers));
        }
        return;
    }
    let one = Runtime::builder().workers(1).build().expect("a runtime");
    let two = Runtime::builder().workers(2).build().expect("a runtime");

    let (mut ours, mut std, mut reads, mut std_reads) = (vec![], vec![], vec![], vec![]);
    for _ in 0..5 {
        ours.push(one.spawn(uncontended).join().expect("no panic"));
        std.push(std::thread::spawn(uncontended_std).join().expect("no panic"));
        reads.push(one.spawn(uncontended_read).join().expect("no panic"));
        std_reads.push(std::thread::spawn(uncontended_read_std).join().expect("no panic"));
    }
    let (ours, std, reads, std_reads) = (best(&ours), best(&std), best(&reads), best(&std_reads));
    println!("uncontended Mutex       {ours:6.1} ns   std {std:6.1}   ratio {:.2}", ours / std);
    println!(
        "uncontended read        {reads:6.1} ns   std {std_reads:6.1}   ratio {:.2}",
        reads / std_reads
    );

    for (name, runtime) in [("1 worker ", &one), ("2 workers", &two)] {
        println!("across a yield, {name} {:6.1} ns", across_a_yield(runtime, FIBERS));
    }
    for (name, runtime) in [("1 worker ", &one), ("2 workers", &two)] {
        for fibers in [2, 64] {
            println!("short, {fibers:2} fibers, {name} {:6.1} ns", short(runtime, fibers));
        }
    }
    println!("short,  2 threads, std     {:6.1} ns", short_std(2));
    println!("short,  2 threads, ours    {:6.1} ns", short_threads(2));
}

fn best(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

fn per(start: Instant, count: u32) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(count)
}

fn uncontended() -> f64 {
    let mutex = black_box(Mutex::new(0_u64));
    let start = Instant::now();
    for _ in 0..ROUNDS {
        *black_box(&mutex).lock().expect("not poisoned") += 1;
    }
    per(start, ROUNDS)
}

fn uncontended_std() -> f64 {
    let mutex = black_box(std::sync::Mutex::new(0_u64));
    let start = Instant::now();
    for _ in 0..ROUNDS {
        *black_box(&mutex).lock().expect("not poisoned") += 1;
    }
    per(start, ROUNDS)
}

fn uncontended_read() -> f64 {
    let lock = black_box(RwLock::new(1_u64));
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(*black_box(&lock).read().expect("not poisoned"));
    }
    per(start, ROUNDS)
}

fn uncontended_read_std() -> f64 {
    let lock = black_box(std::sync::RwLock::new(1_u64));
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(*black_box(&lock).read().expect("not poisoned"));
    }
    per(start, ROUNDS)
}

fn across_a_yield(runtime: &Runtime, fibers: u32) -> f64 {
    let each = 1_000_000 / fibers;
    let mutex = Arc::new(Mutex::new(0_u64));
    let start = Instant::now();
    let fibers: Vec<_> = (0..fibers)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            runtime.spawn(move || {
                for _ in 0..each {
                    let mut guard = mutex.lock().expect("not poisoned");
                    *guard += 1;
                    bast_rt::yield_now();
                }
            })
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().expect("no panic"));
    per(start, 1_000_000)
}

fn short(runtime: &Runtime, fibers: u32) -> f64 {
    let each = 2_000_000 / fibers;
    let mutex = Arc::new(Mutex::new(0_u64));
    let start = Instant::now();
    let fibers: Vec<_> = (0..fibers)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            runtime.spawn(move || {
                for _ in 0..each {
                    *mutex.lock().expect("not poisoned") += 1;
                    work();
                }
            })
        })
        .collect();
    let count = fibers.len();
    fibers.into_iter().for_each(|fiber| fiber.join().expect("no panic"));
    per(start, each * u32::try_from(count).expect("few"))
}

/// A little to do between two locks.
fn work() {
    for n in 0..20_u32 {
        black_box(n);
    }
}

fn short_std(threads: u32) -> f64 {
    let each = 2_000_000 / threads;
    let mutex = std::sync::Mutex::new(0_u64);
    let start = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                for _ in 0..each {
                    *mutex.lock().expect("not poisoned") += 1;
                    work();
                }
            });
        }
    });
    per(start, each * threads)
}

fn short_threads(threads: u32) -> f64 {
    let each = 2_000_000 / threads;
    let mutex = Mutex::new(0_u64);
    let start = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                for _ in 0..each {
                    *mutex.lock().expect("not poisoned") += 1;
                    work();
                }
            });
        }
    });
    per(start, each * threads)
}
