//! What structured concurrency costs, beside plain fibers: nanoseconds per item on one worker, best of
//! seven rounds.
//!
//! `cargo run --release -p bast-sync --example groups [WORKERS [PART_OF_A_NAME]]`

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use bast_rt::{Cancelled, Runtime, scope, spawn};
use bast_sync::{
    CancelToken, for_each_concurrent, group, join, join_all, par_map, par_map_unordered, race,
    try_join_all,
};

const N: usize = 10_000;

fn main() {
    let workers = std::env::args().nth(1).map_or(1, |n| n.parse().expect("a number of workers"));
    let runtime = Runtime::builder().workers(workers).build().expect("a runtime");
    println!("{workers} workers, {}; ns per item", runtime.driver_name());
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let report = |name: &str, f: fn()| {
        if !name.contains(&wanted) {
            return;
        }
        let best = (0..7).map(|_| {
            runtime.run(move || {
                let start = Instant::now();
                f();
                start.elapsed().as_nanos() as f64 / N as f64
            })
        });
        println!("{name:42} {:8.1}", best.fold(f64::MAX, f64::min));
    };
    report("spawn+join, 10,000 at a time", || {
        let all: Vec<_> = (0..N).map(|i| spawn(move || black_box(i))).collect();
        all.into_iter().for_each(|fiber| drop(fiber.join()));
    });
    report("scope, 10,000 at a time", || {
        scope(|s| (0..N).for_each(|i| drop(s.spawn(move || black_box(i)))));
    });
    report("group, 10,000 at a time", || {
        let done = group(|g| {
            (0..N).for_each(|i| drop(g.spawn(move || Ok(black_box(i)))));
            Ok::<_, Cancelled>(())
        });
        assert!(done.is_ok());
    });
    report("join_all of 10,000", || drop(join_all((0..N).map(|i| move || black_box(i)))));
    report("try_join_all of 10,000", || {
        drop(try_join_all((0..N).map(|i| move || Ok::<_, Infallible>(black_box(i)))));
    });
    report("par_map of 10,000, no limit", || drop(par_map(0..N, usize::MAX, black_box)));
    report("par_map of 10,000, limit 64", || drop(par_map(0..N, 64, black_box)));
    report("par_map of 10,000, limit 1", || drop(par_map(0..N, 1, black_box)));
    report("par_map_unordered of 10,000, limit 64", || {
        par_map_unordered(0..N, 64, black_box, |i| {
            black_box(i);
        });
    });
    report("for_each_concurrent of 10,000, limit 64", || {
        for_each_concurrent(0..N, 64, |i| {
            black_box(i);
        });
    });
    report("spawn+join, one by one", || {
        (0..N).for_each(|i| drop(spawn(move || black_box(i)).join()));
    });
    report("an empty group", || {
        (0..N).for_each(|i| assert!(group(|_| Ok::<_, Cancelled>(black_box(i))).is_ok()));
    });
    report("join of two", || {
        (0..N).for_each(|i| assert_eq!(join(|| black_box(i), || black_box(i)), (i, i)));
    });
    report("race of two", || {
        (0..N).for_each(|i| assert_eq!(race([0, 0].map(|x| move || black_box(i + x))), i));
    });
    report("CancelToken::run", || {
        let token = CancelToken::new();
        (0..N).for_each(|i| assert!(token.run(|| black_box(i)).is_ok()));
    });
    report("child_token and its drop", || {
        let token = CancelToken::new();
        (0..N).for_each(|_| drop(black_box(token.child_token())));
    });
}
