//! Runtimes: made, used side by side, outlived by handles.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use bast_rt::{Builder, Runtime, current, park, sleep, spawn, yield_now};

use crate::support::{
    is_cancelled, message, panic_of, runtime, tests, until, workers, yield_until,
};

tests! {
    fn settings_that_make_no_sense_are_named() {
        let cases = [
            (Runtime::builder().workers(0), "workers: 0 is not between 1 and 1024"),
            (Runtime::builder().workers(1025), "workers: 1025"),
            (Runtime::builder().stack_size(1), "stack size: 1 is not between 16384"),
            (Runtime::builder().stack_size(usize::MAX), "stack size: 18446744073709551615"),
            (Runtime::builder().blocking_threads(0), "blocking threads (BAST_BLOCKING_THREADS): 0"),
        ];
        for (builder, expected) in cases {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    fn the_environment_chooses_driver_and_workers() {
        let runtime = runtime();
        if let Ok(driver) = std::env::var("BAST_DRIVER") {
            let driver = if driver == "auto" { "uring".into() } else { driver };
            assert!(
                runtime.driver_name() == driver || runtime.fallback_reason().is_some(),
                "{} runs", runtime.driver_name()
            );
        }
        if let Ok(count) = std::env::var("BAST_WORKERS") {
            assert_eq!(runtime.workers().to_string(), count);
        }
        assert_eq!(workers(3).workers(), 3);
    }

    fn run_borrows_returns_and_passes_panics_on() {
        let runtime = runtime();
        let text = String::from("borrowed");
        assert_eq!(runtime.run(|| { yield_now(); text.len() }), 8);
        let panic = panic_of(|| runtime.run(|| -> () { panic!("on purpose") }));
        assert_eq!(message(&*panic), "on purpose");
    }

    /// Fibers of one runtime wake, join and cancel fibers of the other, both ways at once.
    fn two_runtimes_at_once() {
        let (a, b) = (Arc::new(runtime()), Arc::new(runtime()));
        let drivers: Vec<_> = [(&a, &b), (&b, &a)].map(|(here, there)| {
            let there = Arc::clone(there);
            here.spawn(move || {
                for round in 0..200u32 {
                    let parked = there.spawn(move || { park(); round });
                    let sleeper = there.spawn(|| sleep(Duration::from_secs(1000)));
                    let inside = there.spawn(move || spawn(move || round + 1).join().unwrap());
                    if round % 2 == 0 { yield_now(); }
                    parked.fiber().unpark();
                    sleeper.cancel();
                    assert_eq!(parked.join().unwrap(), round);
                    assert!(is_cancelled(&sleeper.join()));
                    assert_eq!(inside.join().unwrap(), round + 1);
                    assert_eq!(there.run(|| round * 2), round * 2);
                }
            })
        }).into_iter().collect();
        for driver in drivers {
            driver.join().unwrap();
        }
    }

    fn handles_outlive_their_runtime() {
        for _ in 0..20 {
            let dead = workers(2);
            let finished = dead.spawn(|| 7);
            let parked = dead.spawn(park);
            let fibers: Vec<_> = (0..10).map(|_| dead.spawn(park)).collect();
            let ids: Vec<_> = fibers.iter().map(|f| f.fiber()).collect();
            until("end", || finished.is_finished());
            let me = dead.run(current);
            drop(dead);
            // The next runtime uses the same posts; stale signals must not disturb it.
            let alive = workers(2);
            let mine = alive.spawn(|| { park(); 1 });
            for fiber in &ids {
                fiber.unpark();
                fiber.unpark();
            }
            me.unpark();
            for fiber in &fibers {
                fiber.cancel();
                assert!(fiber.is_finished());
            }
            // From a fiber of the new runtime, also of the same worker index.
            let from_fiber = parked.fiber();
            alive.run(move || from_fiber.unpark());
            parked.cancel();
            assert!(parked.is_finished() && is_cancelled(&parked.join()));
            assert_eq!(finished.join().unwrap(), 7);
            for fiber in fibers {
                assert!(is_cancelled(&fiber.join()));
            }
            assert!(!mine.is_finished());
            mine.fiber().unpark();
            assert_eq!(mine.join().unwrap(), 1);
        }
    }

    fn a_runtime_dropped_by_its_own_fiber() {
        for count in [1, 2] {
            let runtime = Arc::new(workers(count));
            let mine = Arc::clone(&runtime);
            let go = Arc::new(AtomicBool::new(false));
            let gone = Arc::clone(&go);
            let other = runtime.spawn(park);
            let dropper = runtime.spawn(move || {
                yield_until("the last reference", || gone.load(SeqCst));
                drop(mine);
                5
            });
            drop(runtime);
            go.store(true, SeqCst);
            // It may end, or be cancelled at a later suspension point; here there is none.
            assert_eq!(dropper.join().unwrap(), 5);
            assert!(is_cancelled(&other.join()));
        }
    }

    fn a_runtime_dropped_by_a_fiber_of_another() {
        let (outer, inner) = (workers(1), workers(2));
        let parked = inner.spawn(park);
        let beside = outer.spawn(|| (0..100).for_each(|_| yield_now()));
        outer.spawn(move || drop(inner)).join().unwrap();
        beside.join().unwrap();
        assert!(is_cancelled(&parked.join()));
    }

    fn the_default_runtime_from_many_threads_at_once() {
        let barrier = Arc::new(Barrier::new(16));
        let threads: Vec<_> = (0..16u32).map(|i| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                barrier.wait();
                spawn(move || { yield_now(); i }).join().unwrap()
            })
        }).collect();
        let sum: u32 = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(sum, 120);
        let named = Builder::new().name("outside".into()).spawn(|| current().name().map(str::to_owned));
        assert_eq!(named.unwrap().join().unwrap().as_deref(), Some("outside"));
    }

    fn many_runtimes_together() {
        let all: Vec<_> = (0..30).map(|_| workers(2)).collect();
        let begin = Instant::now();
        for runtime in &all {
            assert_eq!(runtime.run(|| spawn(|| 3).join().unwrap()), 3);
        }
        drop(all);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
