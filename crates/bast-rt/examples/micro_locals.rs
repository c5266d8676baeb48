//! What fiber locals, switch hooks and suspending while unwinding cost, in nanoseconds per operation on one worker, best of thirty
//! rounds. Hooks stay, so that they are measured in the order in which they are added.
//!
//! `cargo run --release -p bast-rt --features tracing --example micro_locals`

use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

use bast_rt::{Runtime, fiber_local, hook, spawn, spawn_local, yield_now};

const ROUNDS: usize = 1_000_000;

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
    static LAZY_OF_THREAD: Box<Cell<u64>> = Box::default();
    static SCOPED: Cell<*const u8> = const { Cell::new(std::ptr::null()) };
}

fiber_local! {
    static OF_FIBER: Cell<u64> = const { Cell::new(0) };
    inherit static INHERITED: Cell<u64> = const { Cell::new(0) };
}

fn main() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let each = |f: fn()| {
        move || {
            (0..ROUNDS).for_each(|_| f());
            ROUNDS
        }
    };
    report(&runtime, "thread_local!, const", each(|| OF_THREAD.with(bumped)));
    report(&runtime, "thread_local!, lazy", each(|| LAZY_OF_THREAD.with(|cell| bumped(cell))));
    report(&runtime, "fiber_local!", each(|| OF_FIBER.with(bumped)));
    report(&runtime, "spawn+join", || spawns(|| ()));
    report(&runtime, "spawn+join, one local made", || spawns(|| OF_FIBER.set(1)));
    report(&runtime, "spawn+join, one local inherited", || {
        INHERITED.set(1);
        spawns(|| ())
    });
    report(&runtime, "yield of 100 fibers, no hook", || yields(|f| f()));
    report(&runtime, "a yield while it unwinds", || {
        struct Yields;
        impl Drop for Yields {
            fn drop(&mut self) {
                (0..10_000).for_each(|_| yield_now());
            }
        }
        let fiber = spawn_local(|| {
            let _yields = Yields;
            std::panic::resume_unwind(Box::new(()));
        });
        let result: std::thread::Result<()> = fiber.join();
        assert!(result.is_err());
        10_000
    });
    report(&runtime, "yield of 100 fibers, after some have unwound", || yields(|f| f()));
    hook::add(hook::cell("SCOPED", &SCOPED, std::ptr::null));
    report(&runtime, "yield of 100 fibers, a hook for a cell", || yields(|f| f()));
    #[cfg(feature = "tracing")]
    {
        use tracing_subscriber::prelude::*;
        tracing_subscriber::registry().init();
        bast_rt::trace::install();
        report(&runtime, "  and tracing, in no span", || yields(|f| f()));
        report(&runtime, "  and tracing, in one span", || {
            yields(|f| tracing::info_span!("one").in_scope(f))
        });
        report(&runtime, "  and tracing, in three spans", || {
            yields(|f| {
                let _one = tracing::info_span!("one").entered();
                let _two = tracing::info_span!("two").entered();
                tracing::info_span!("three").in_scope(f);
            })
        });
    }
}

fn bumped(cell: &Cell<u64>) {
    cell.set(black_box(cell.get() + 1));
}

fn spawns(f: fn()) -> usize {
    for _ in 0..100_000 {
        spawn(f).join().expect("no panic");
    }
    100_000
}

fn yields(scope: fn(&dyn Fn())) -> usize {
    let fibers: Vec<_> = (0..100)
        .map(|_| spawn_local(move || scope(&|| (0..ROUNDS / 100).for_each(|_| yield_now()))))
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().expect("no panic"));
    ROUNDS
}

fn report(runtime: &Runtime, what: &str, round: impl Fn() -> usize + Send + Sync) {
    let once = || {
        runtime.run(|| {
            let start = Instant::now();
            let count = round();
            start.elapsed().as_nanos() as f64 / count as f64
        })
    };
    let best = (0..30).map(|_| once()).fold(f64::INFINITY, f64::min);
    println!("{what}: {best:.1} ns");
}
