//! `Mutex`: order, interruption, recursion.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bast_rt::{sleep, spawn, timeout, yield_now};
use bast_sync::Mutex;

use crate::support::{is_cancelled, on_many, on_one, panic_of, settle, tests};

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(30);

/// Fibers that wait for `mutex`, and note their numbers when they have it.
fn waiters(mutex: &Arc<Mutex<Vec<usize>>>, count: usize) -> Vec<bast_rt::JoinHandle<()>> {
    (0..count)
        .map(|n| {
            let mutex = Arc::clone(mutex);
            let waiter = spawn(move || mutex.lock().unwrap().push(n));
            settle();
            waiter
        })
        .collect()
}

tests! {
    fn first_come_first_served() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(Vec::new()));
            let guard = mutex.lock().unwrap();
            let waiters = waiters(&mutex, 20);
            drop(guard);
            // Handed off: it is not free in between.
            assert!(mutex.try_lock().is_err());
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), (0..20).collect::<Vec<_>>());
        });
    }

    fn it_may_be_held_across_a_suspension() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(0));
            let fibers: Vec<_> = (0..50).map(|_| {
                let mutex = Arc::clone(&mutex);
                spawn(move || {
                    let mut guard = mutex.lock().unwrap();
                    let before = *guard;
                    yield_now();
                    sleep(Duration::from_micros(100));
                    *guard = before + 1;
                })
            }).collect();
            fibers.into_iter().for_each(|f| f.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), 50);
        });
    }

    fn a_cancelled_waiter_leaves_the_queue() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(Vec::new()));
            let guard = mutex.lock().unwrap();
            let waiters = waiters(&mutex, 5);
            for n in [0, 2, 4] {
                waiters[n].cancel();
            }
            settle();
            drop(guard);
            let ends: Vec<_> = waiters.into_iter().map(|w| is_cancelled(&w.join())).collect();
            assert_eq!(ends, [true, false, true, false, true]);
            assert!(!mutex.is_poisoned());
            assert_eq!(*mutex.lock().unwrap(), [1, 3]);
        });
    }

    fn a_lock_that_was_handed_over_before_the_cancellation_is_not_lost() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(Vec::new()));
            let guard = mutex.lock().unwrap();
            let waiters = waiters(&mutex, 2);
            drop(guard);
            waiters[0].cancel();
            // It has the lock, and does not suspend after that.
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*mutex.lock().unwrap(), [0, 1]);
        });
    }

    fn a_timeout_around_a_lock() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(Vec::new()));
            let guard = mutex.lock().unwrap();
            let theirs = Arc::clone(&mutex);
            let hasty = spawn(move || timeout(SHORT, || drop(theirs.lock())).is_err());
            settle();
            let patient = waiters(&mutex, 1);
            assert!(hasty.join().unwrap());
            drop(guard);
            patient.into_iter().for_each(|w| w.join().unwrap());
            assert!(!mutex.is_poisoned());
            assert_eq!(*mutex.lock().unwrap(), [0]);
        });
    }

    fn a_timeout_around_a_lock_on_a_thread() {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.lock().unwrap();
        let theirs = Arc::clone(&mutex);
        let (late, was_late) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            late.send(timeout(SHORT, || drop(theirs.lock())).is_err()).unwrap();
            timeout(LONG, || *theirs.lock().unwrap() += 1).is_ok()
        });
        assert!(was_late.recv().unwrap());
        drop(guard);
        assert!(thread.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 1);
    }

    fn locking_without_a_wait_is_no_suspension_point() {
        on_one(|| {
            let reached = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&reached);
            let fiber = spawn(move || {
                let mutex = Mutex::new(0);
                let _ = timeout(Duration::ZERO, || *mutex.lock().unwrap() += 1);
                theirs.store(*mutex.lock().unwrap() == 1, Relaxed);
            });
            fiber.join().unwrap();
            assert!(reached.load(Relaxed));
        });
    }

    fn a_recursive_lock_panics() {
        let check = || {
            let mutex = Mutex::new(0);
            let guard = mutex.lock().unwrap();
            assert!(mutex.try_lock().is_err());
            let said = panic_of(|| drop(mutex.lock()));
            assert_eq!(said, "Mutex::lock: the caller holds this lock already");
            drop(guard);
            assert_eq!(*mutex.lock().unwrap(), 0);
        };
        on_one(check);
        check();
        std::thread::spawn(check).join().unwrap();
    }

    fn who_held_it_before_is_not_taken_for_its_holder() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(()));
            for _ in 0..3 {
                drop(mutex.lock().unwrap());
                let theirs = Arc::clone(&mutex);
                let holder = spawn(move || {
                    let _guard = theirs.lock().unwrap();
                    sleep(SHORT);
                });
                settle();
                drop(mutex.lock().unwrap());
                holder.join().unwrap();
            }
        });
    }

    /// Somebody who locks again and again does not keep out a waiter of another worker.
    fn nobody_starves() {
        on_many(|| {
            let (mutex, stop) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
            let hogs: Vec<_> = (0..4).map(|_| {
                let (mutex, stop) = (Arc::clone(&mutex), Arc::clone(&stop));
                spawn(move || while !stop.load(Relaxed) {
                    let _guard = mutex.lock().unwrap();
                    yield_now();
                })
            }).collect();
            let got = Arc::new(AtomicUsize::new(0));
            let others: Vec<_> = (0..8).map(|_| {
                let (mutex, got) = (Arc::clone(&mutex), Arc::clone(&got));
                spawn(move || for _ in 0..20 {
                    drop(mutex.lock().unwrap());
                    got.fetch_add(1, Relaxed);
                    yield_now();
                })
            }).collect();
            let start = Instant::now();
            others.into_iter().for_each(|o| o.join().unwrap());
            assert!(start.elapsed() < LONG);
            stop.store(true, Relaxed);
            hogs.into_iter().for_each(|h| h.join().unwrap());
            assert_eq!(got.load(Relaxed), 160);
        });
    }
}
