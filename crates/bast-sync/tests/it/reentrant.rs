//! `ReentrantLock`: who holds it, and who waits.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bast_rt::{sleep, spawn, timeout, yield_now};
use bast_sync::ReentrantLock;

use crate::support::{is_cancelled, on_many, on_one, settle, tests};

tests! {
    fn the_holder_passes_again() {
        on_one(|| {
            let lock = Arc::new(ReentrantLock::new(Cell::new(0)));
            let outer = lock.lock();
            let inner = lock.lock();
            lock.try_lock().unwrap().set(1);
            let other = spawn({
                let lock = Arc::clone(&lock);
                move || lock.lock().get()
            });
            settle();
            // In either order: it is free when both are gone.
            drop(outer);
            inner.set(2);
            settle();
            assert!(!other.is_finished());
            drop(inner);
            assert_eq!(other.join().unwrap(), 2);
        });
    }

    fn fibers_and_threads_exclude_each_other() {
        let lock = Arc::new(ReentrantLock::new(Cell::new(0_u32)));
        let add = |lock: &ReentrantLock<Cell<u32>>, pause: &dyn Fn()| {
            for _ in 0..200 {
                let outer = lock.lock();
                let before = outer.get();
                pause();
                lock.lock().set(before + 1);
            }
        };
        let threads: Vec<_> = (0..2).map(|_| {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || add(&lock, &std::thread::yield_now))
        }).collect();
        on_many({
            let lock = Arc::clone(&lock);
            move || {
                let fibers: Vec<_> = (0..8).map(|_| {
                    let lock = Arc::clone(&lock);
                    spawn(move || add(&lock, &yield_now))
                }).collect();
                fibers.into_iter().for_each(|f| f.join().unwrap());
            }
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(lock.lock().get(), 2000);
    }

    fn a_waiter_gives_up_and_a_holder_that_unwinds_lets_go() {
        on_one(|| {
            let lock = Arc::new(ReentrantLock::new(()));
            let guard = lock.lock();
            let waiter = spawn({
                let lock = Arc::clone(&lock);
                move || drop(lock.lock())
            });
            settle();
            waiter.cancel();
            assert!(is_cancelled(&waiter.join()));
            drop(guard);
            let late = timeout(Duration::from_millis(5), || {
                let _outer = lock.lock();
                let _inner = lock.lock();
                sleep(Duration::from_secs(30));
            });
            assert!(late.is_err());
            spawn(move || drop(lock.try_lock().unwrap())).join().unwrap();
        });
    }
}
