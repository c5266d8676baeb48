//! Calls on the blocking pool.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use bast_rt::{run_blocking, spawn, yield_now};

use crate::support::{
    Drops, builder, is_cancelled, message, runtime, scaled, tests, until, workers,
};

tests! {
    fn a_call_borrows_and_runs_elsewhere() {
        runtime().run(|| {
            let mut text = String::from("borrowed");
            let here = thread::current().id();
            let there = run_blocking(|| { text.push('!'); thread::current().id() });
            assert_eq!(text, "borrowed!");
            assert_ne!(here, there);
            assert_eq!(thread::current().id(), here);
        });
        let here = thread::current().id();
        assert_eq!(run_blocking(|| thread::current().id()), here, "a plain thread blocks itself");
    }

    fn a_panic_comes_back() {
        runtime().run(|| {
            let panic = std::panic::catch_unwind(|| run_blocking(|| -> () { panic!("over there") }));
            assert_eq!(message(&*panic.unwrap_err()), "over there");
            assert_eq!(run_blocking(|| 1), 1);
        });
    }

    fn others_run_meanwhile() {
        workers(1).run(|| {
            let (open, gate) = mpsc::channel();
            let slow = spawn(move || run_blocking(move || gate.recv().unwrap()));
            yield_now();
            (0..100).for_each(|_| spawn(yield_now).join().unwrap());
            assert!(!slow.is_finished());
            open.send(7).unwrap();
            assert_eq!(slow.join().unwrap(), 7);
        });
    }

    fn a_thousand_calls_on_three_threads() {
        let runtime = builder(2).blocking_threads(3).build().unwrap();
        let total = scaled(1000);
        let (now, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(0));
        runtime.run(|| bast_rt::scope(|s| for i in 0..total {
            let (now, most, done) = (&now, &most, &done);
            s.spawn(move || run_blocking(|| {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                if i % 50 == 0 { thread::sleep(Duration::from_millis(1)) }
                *done.lock().unwrap() += 1;
                now.fetch_sub(1, SeqCst);
            }));
        }));
        assert_eq!(*done.lock().unwrap(), total);
        assert!((1..=3).contains(&most.load(SeqCst)), "{most:?} at once");
    }

    /// A call inside a call finds itself on a plain thread, and spawns onto the default runtime.
    fn nested_calls() {
        runtime().run(|| {
            let n = run_blocking(|| run_blocking(|| spawn(|| run_blocking(|| 4)).join().unwrap()) + 1);
            assert_eq!(n, 5);
        });
    }

    /// A cancelled fiber gets the call's result first; what the call borrows outlives it.
    fn a_cancellation_waits_for_the_call() {
        let runtime = runtime();
        let drops = Drops::default();
        let (begun, count) = (std::sync::Arc::new(AtomicUsize::new(0)), drops.clone());
        let begins = std::sync::Arc::clone(&begun);
        let (open, gate) = mpsc::channel();
        let fiber = runtime.spawn(move || {
            let local = [1u8; 64];
            let sum = run_blocking(move || {
                begins.store(1, SeqCst);
                gate.recv().unwrap();
                local.iter().map(|&b| usize::from(b)).sum::<usize>()
            });
            assert_eq!(sum, 64);
            drop(count.token());
            yield_now();
            unreachable!("cancelled");
        });
        until("the call", || begun.load(SeqCst) == 1);
        fiber.cancel();
        thread::sleep(Duration::from_millis(5));
        assert!(!fiber.is_finished());
        open.send(()).unwrap();
        let result: Result<(), _> = fiber.join();
        assert!(is_cancelled(&result));
        assert_eq!(drops.get(), 1);
    }
}
