//! What std says of the thread is said of all fibers of the worker. Safe, and sometimes surprising.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, TryLockError};
use std::thread;

use crate::{one_worker, wait_for};

/// `lock` where this says `try_lock` would block the worker's thread, and with it the fiber that has
/// the guard: neither would ever go on.
#[test]
fn a_std_lock_held_across_a_suspension_is_locked_for_the_whole_worker() {
    one_worker().run(|| {
        let lock = Mutex::new(());
        let (held, tried) = (AtomicBool::new(false), AtomicBool::new(false));
        bast::scope(|s| {
            s.spawn(|| {
                let guard = lock.lock().unwrap();
                held.store(true, SeqCst);
                wait_for(&tried);
                drop(guard);
            });
            s.spawn(|| {
                wait_for(&held);
                assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
                tried.store(true, SeqCst);
            });
        });
    });
}

/// So `std::thread::park`, and everything in std that blocks by it, waits and wakes by thread.
#[test]
fn fibers_of_one_worker_are_one_thread() {
    one_worker().run(|| {
        let who = || (thread::current().id(), bast::current().id());
        let (a, b) = (bast::spawn(who), bast::spawn(who));
        let (a, b) = (a.join().unwrap(), b.join().unwrap());
        assert_eq!(a.0, b.0);
        assert_ne!(a.1, b.1);
    });
}
