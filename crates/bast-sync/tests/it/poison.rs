//! Poisoning speaks of fibers, not of threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bast_rt::{JoinHandle, sleep, spawn, timeout, yield_now};
use bast_sync::{Mutex, Notify, RwLock};
use std::time::Duration;

use crate::support::{OnDrop, is_cancelled, on_one, settle, tests};

/// A fiber that is suspended in a destructor while it unwinds, until it is notified.
fn suspended_while_unwinding(go: &Arc<Notify>) -> JoinHandle<()> {
    let go = Arc::clone(go);
    let unwinds = Arc::new(AtomicBool::new(false));
    let notes = Arc::clone(&unwinds);
    let fiber = spawn(move || {
        let _wait = OnDrop(move || {
            notes.store(std::thread::panicking(), SeqCst);
            go.wait();
        });
        panic!("expected");
    });
    settle();
    // Whether the thread itself seems to unwind now is bast-rt's affair (its module `panics`).
    assert!(unwinds.load(SeqCst) && !fiber.is_finished(), "the neighbour is in its destructor");
    fiber
}

fn end(neighbour: JoinHandle<()>, go: &Notify) {
    go.notify_one();
    assert!(neighbour.join().is_err());
}

tests! {
    fn a_neighbour_that_unwinds_does_not_poison() {
        on_one(|| {
            let go = Arc::new(Notify::new());
            let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
            let before = mutex.lock().unwrap();
            let neighbour = suspended_while_unwinding(&go);
            // Locked before, unlocked while it unwinds.
            drop(before);
            // Locked and unlocked while it unwinds.
            *mutex.lock().unwrap() += 1;
            *lock.write().unwrap() += 1;
            yield_now();
            // Locked while it unwinds, unlocked after.
            let guards = (mutex.lock().unwrap(), lock.write().unwrap());
            end(neighbour, &go);
            drop(guards);
            assert!(!mutex.is_poisoned() && !lock.is_poisoned());
        });
    }

    fn a_neighbour_that_unwinds_does_not_hide_a_poison() {
        on_one(|| {
            let go = Arc::new(Notify::new());
            let shared = Arc::new((Mutex::new(0), RwLock::new(0)));
            let neighbour = suspended_while_unwinding(&go);
            let theirs = Arc::clone(&shared);
            let fiber = spawn(move || {
                let _guards = (theirs.0.lock().unwrap(), theirs.1.write().unwrap());
                yield_now();
                panic!("expected");
            });
            assert!(fiber.join().is_err());
            assert!(shared.0.is_poisoned() && shared.1.is_poisoned());
            end(neighbour, &go);
        });
    }

    fn its_own_lock_is_poisoned_although_it_was_suspended() {
        on_one(|| {
            let go = Arc::new(Notify::new());
            let mutex = Arc::new(Mutex::new(0));
            let (theirs, wait) = (Arc::clone(&mutex), Arc::clone(&go));
            let fiber = spawn(move || {
                let _guard = theirs.lock().unwrap();
                // Dropped before the guard.
                let _wait = OnDrop(move || wait.wait());
                panic!("expected");
            });
            settle();
            assert!(mutex.try_lock().is_err() && !mutex.is_poisoned());
            end(fiber, &go);
            assert!(mutex.is_poisoned());
        });
    }

    fn a_lock_taken_and_waited_for_while_unwinding_is_not_poisoned() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(0));
            let guard = mutex.lock().unwrap();
            let theirs = Arc::clone(&mutex);
            let fiber = spawn(move || {
                let _lock = OnDrop(|| *theirs.lock().unwrap() += 1);
                panic!("expected");
            });
            settle();
            drop(guard);
            assert!(fiber.join().is_err());
            assert_eq!(*mutex.lock().unwrap(), 1);
        });
    }

    fn a_cancelled_holder_poisons() {
        on_one(|| {
            let mutex = Arc::new(Mutex::new(0));
            let theirs = Arc::clone(&mutex);
            let holder = spawn(move || {
                let _guard = theirs.lock().unwrap();
                sleep(Duration::from_secs(1000));
            });
            settle();
            holder.cancel();
            assert!(is_cancelled(&holder.join()));
            assert!(mutex.is_poisoned());
            mutex.clear_poison();
            let late = timeout(Duration::from_millis(1), || {
                let _guard = mutex.lock().unwrap();
                sleep(Duration::from_secs(1000));
            });
            assert!(late.is_err() && mutex.is_poisoned());
        });
    }
}
