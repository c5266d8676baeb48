//! What a resume and suspend pair costs, with 1 to 100,000 coroutines run round robin.
//!
//! `cargo run --release -p bast-coro --example switch_cost [-- REPEATS]`
//!
//! Each figure is the lowest of REPEATS (default 9) runs, in nanoseconds for one pair: other work
//! on the machine only ever adds. The variants take turns, so that it hits all alike.
//!
//! * *colour*: tops of stacks offset by cache lines, or all at the same place in their page
//! * *stride*: 65 pages from stack to stack (256 KiB and a guard), or 64 (252 KiB and a guard)
//! * *prefetch*: the stack of the coroutine 8 places further on is prefetched

#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use bast_coro::{Context, PoolConfig, StackPool, Suspender};

const COUNTS: [usize; 5] = [1, 10, 100, 10_000, 100_000];
const AHEAD: usize = 8;

#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    colour: bool,
    stack_size: usize,
    prefetch: bool,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "colour, odd stride", colour: true, stack_size: 256, prefetch: false },
    Variant { name: "plain, odd stride", colour: false, stack_size: 256, prefetch: false },
    Variant { name: "colour, even stride", colour: true, stack_size: 252, prefetch: false },
    Variant { name: "plain, even stride", colour: false, stack_size: 252, prefetch: false },
    Variant { name: "colour, odd, prefetch", colour: true, stack_size: 256, prefetch: true },
];

/// Never ends by itself: `arg` is a flag that says stop.
unsafe fn spin(suspender: &Suspender, arg: *mut ()) {
    let stop = arg.cast::<bool>();
    // SAFETY: the flag outlives all contexts; one thread.
    while !unsafe { stop.read_volatile() } {
        suspender.suspend();
    }
}

fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
        _mm_prefetch::<_MM_HINT_T0>(p.wrapping_sub(64).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

fn measure(variant: Variant, count: usize) -> f64 {
    let config = PoolConfig::new().stack_size(variant.stack_size * 1024).colour(variant.colour);
    let mut pool = StackPool::with_config(config).expect("a pool");
    let mut stop = false;
    let flag = &raw mut stop;
    let contexts: Vec<Context> = (0..count)
        .map(|_| {
            let stack = pool.take().expect("a stack");
            // SAFETY: the flag outlives the contexts; spin does not unwind.
            unsafe { Context::new(stack, spin, flag.cast()) }
        })
        .collect();
    let rounds = (3_000_000 / count).clamp(20, 1_000_000);
    let round = |n: usize| {
        for _ in 0..n {
            for i in 0..count {
                if variant.prefetch && i + AHEAD < count {
                    prefetch(contexts[i + AHEAD].stack_pointer_hint());
                }
                black_box(contexts[i].resume());
            }
        }
    };
    round(2);
    let start = Instant::now();
    round(rounds);
    let elapsed = start.elapsed();
    // SAFETY: the contexts only read it, on this thread.
    unsafe { flag.write_volatile(true) };
    // In place: a context that has started does not move.
    assert!(contexts.iter().all(Context::resume), "ends when told to");
    for context in contexts {
        pool.give(context.into_stack());
    }
    elapsed.as_nanos() as f64 / (rounds * count) as f64
}

fn take_give(pool: &mut StackPool, pairs: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..pairs {
        let stack = pool.take().expect("a stack");
        pool.give(black_box(stack));
    }
    start.elapsed().as_nanos() as f64 / pairs as f64
}

fn bulk(stacks: usize) -> (f64, f64) {
    let mut pool = StackPool::new().expect("a pool");
    let start = Instant::now();
    let all: Vec<_> = (0..stacks).map(|_| pool.take().expect("a stack")).collect();
    let taken = start.elapsed().as_nanos() as f64 / stacks as f64;
    let start = Instant::now();
    for stack in all {
        pool.give(stack);
    }
    (taken, start.elapsed().as_nanos() as f64 / stacks as f64)
}

fn lowest(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

fn main() {
    let repeats = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(9usize).max(1);
    println!("ns for a resume+suspend pair, lowest of {repeats}");
    print!("{:<24}", "coroutines");
    COUNTS.iter().for_each(|c| print!("{c:>9}"));
    println!();
    let mut figures = vec![vec![Vec::new(); COUNTS.len()]; VARIANTS.len()];
    for _ in 0..repeats {
        for (c, count) in COUNTS.iter().enumerate() {
            for (v, variant) in VARIANTS.iter().enumerate() {
                figures[v][c].push(measure(*variant, *count));
            }
        }
    }
    for (variant, row) in VARIANTS.iter().zip(figures) {
        print!("{:<24}", variant.name);
        row.into_iter().for_each(|values| print!("{:>9.1}", lowest(values)));
        println!();
    }
    let mut pool = StackPool::new().expect("a pool");
    let one = lowest((0..repeats).map(|_| take_give(&mut pool, 1_000_000)).collect());
    let hot: Vec<_> = (0..2048).map(|_| pool.take().expect("a stack")).collect();
    hot.into_iter().for_each(|s| pool.give(s));
    let many = lowest((0..repeats).map(|_| take_give(&mut pool, 1_000_000)).collect());
    println!("take+give: {one:.1} ns with 1 free stack, {many:.1} ns with 2048");
    for stacks in [10_000, 100_000, 1_000_000] {
        let (taken, given) = bulk(stacks);
        println!("{stacks} at once: {taken:.0} ns to take each, {given:.0} ns to give each");
    }
    println!("{:?}", pool.stats().guards);
}
