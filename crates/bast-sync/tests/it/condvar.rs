//! `Condvar`: order, interruption, notifications that are passed on.

use std::sync::Arc;
use std::time::Duration;

use bast_rt::{JoinHandle, spawn, timeout};
use bast_sync::{Condvar, Mutex};

use crate::support::{is_cancelled, on_one, settle, tests};

type Shared = Arc<(Mutex<Vec<usize>>, Condvar)>;

/// Fibers that wait for one notification each, and note their numbers then.
fn waiters(shared: &Shared, count: usize) -> Vec<JoinHandle<()>> {
    (0..count)
        .map(|n| {
            let shared = Arc::clone(shared);
            let waiter = spawn(move || {
                let mut guard = shared.1.wait(shared.0.lock().unwrap()).unwrap();
                guard.push(n);
            });
            settle();
            waiter
        })
        .collect()
}

tests! {
    fn notified_in_the_order_of_arrival() {
        on_one(|| {
            let shared = Shared::default();
            let waiters = waiters(&shared, 6);
            shared.1.notify_one();
            settle();
            assert_eq!(*shared.0.lock().unwrap(), [0]);
            shared.1.notify_one();
            shared.1.notify_one();
            settle();
            assert_eq!(*shared.0.lock().unwrap(), [0, 1, 2]);
            shared.1.notify_all();
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*shared.0.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
        });
    }

    fn a_cancelled_waiter_leaves_without_the_mutex() {
        on_one(|| {
            let shared = Shared::default();
            let mut waiters = waiters(&shared, 3);
            let guard = shared.0.lock().unwrap();
            let cancelled = waiters.remove(0);
            cancelled.cancel();
            // It ends although the mutex is held.
            assert!(is_cancelled(&cancelled.join()));
            drop(guard);
            shared.1.notify_one();
            settle();
            assert_eq!(*shared.0.lock().unwrap(), [1]);
            assert!(!shared.0.is_poisoned());
            shared.1.notify_one();
            waiters.into_iter().for_each(|w| w.join().unwrap());
        });
    }

    fn a_notification_of_one_that_is_cancelled_is_passed_on() {
        on_one(|| {
            let shared = Shared::default();
            let mut waiters = waiters(&shared, 2);
            let guard = shared.0.lock().unwrap();
            shared.1.notify_one();
            settle();
            // The first has been notified, and waits for the mutex.
            let first = waiters.remove(0);
            first.cancel();
            assert!(is_cancelled(&first.join()));
            drop(guard);
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*shared.0.lock().unwrap(), [1]);
            assert!(!shared.0.is_poisoned());
        });
    }

    fn timeouts() {
        on_one(|| {
            let shared = Shared::default();
            let guard = shared.0.lock().unwrap();
            let late = timeout(Duration::from_millis(2), || drop(shared.1.wait(guard)));
            assert!(late.is_err() && !shared.0.is_poisoned());
            let guard = shared.0.lock().unwrap();
            let (guard, result) = shared.1.wait_timeout(guard, Duration::from_millis(2)).unwrap();
            assert!(result.timed_out());
            drop(guard);
            // The first two have left.
            let waiters = waiters(&shared, 1);
            shared.1.notify_one();
            waiters.into_iter().for_each(|w| w.join().unwrap());
            // A time that does not end.
            let theirs = Arc::clone(&shared);
            let patient = spawn(move || {
                let guard = theirs.0.lock().unwrap();
                theirs.1.wait_timeout(guard, Duration::MAX).unwrap().1.timed_out()
            });
            settle();
            shared.1.notify_one();
            assert!(!patient.join().unwrap());
        });
    }

    fn who_is_woken_and_waits_again_is_not_woken_twice() {
        on_one(|| {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            let waiters: Vec<_> = (0..100).map(|_| {
                let shared = Arc::clone(&shared);
                spawn(move || {
                    let mut guard = shared.0.lock().unwrap();
                    for _ in 0..2 {
                        guard = shared.1.wait(guard).unwrap();
                        *guard += 1;
                    }
                })
            }).collect();
            settle();
            shared.1.notify_all();
            settle();
            assert_eq!(*shared.0.lock().unwrap(), 100);
            shared.1.notify_all();
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*shared.0.lock().unwrap(), 200);
        });
    }
}
