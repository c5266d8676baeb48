//! `RwLock`: order, interruption, recursion.

use std::sync::Arc;

use bast_rt::{JoinHandle, spawn};
use bast_sync::{Mutex, RwLock, RwLockWriteGuard};

use crate::support::{is_cancelled, on_one, panic_of, settle, tests};

struct Shared {
    lock: RwLock<()>,
    log: Mutex<String>,
}

/// Waiters in the order of `kinds`: each letter is a reader (`r`) or a writer (`w`) that notes it when it is in, and
/// once more, as a capital, when it is about to leave.
fn waiters(shared: &Arc<Shared>, kinds: &str) -> Vec<JoinHandle<()>> {
    let note = |shared: &Shared, kind: char| shared.log.lock().unwrap().push(kind);
    kinds
        .chars()
        .map(|kind| {
            let shared = Arc::clone(shared);
            let waiter = spawn(move || {
                let guards = match kind {
                    'r' => (Some(shared.lock.read().unwrap()), None),
                    _ => (None, Some(shared.lock.write().unwrap())),
                };
                note(&shared, kind);
                settle();
                note(&shared, kind.to_ascii_uppercase());
                drop(guards);
            });
            settle();
            waiter
        })
        .collect()
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { lock: RwLock::new(()), log: Mutex::new(String::new()) })
}

tests! {
    fn readers_go_in_together_and_nobody_overtakes() {
        on_one(|| {
            let shared = shared();
            let guard = shared.lock.write().unwrap();
            let waiters = waiters(&shared, "rrwrwwrr");
            drop(guard);
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*shared.log.lock().unwrap(), "rrRRwWrRwWwWrrRR");
        });
    }

    fn a_reader_does_not_overtake_a_waiting_writer() {
        on_one(|| {
            let shared = shared();
            let guard = shared.lock.read().unwrap();
            let writer = waiters(&shared, "w");
            assert!(shared.lock.try_read().is_err());
            let reader = waiters(&shared, "r");
            drop(guard);
            writer.into_iter().chain(reader).for_each(|w| w.join().unwrap());
            assert_eq!(*shared.log.lock().unwrap(), "wWrR");
        });
    }

    fn a_writer_that_gives_up_lets_in_the_readers_behind_it() {
        on_one(|| {
            let shared = shared();
            let guard = shared.lock.read().unwrap();
            let mut waiters = waiters(&shared, "wrr");
            let writer = waiters.remove(0);
            writer.cancel();
            assert!(is_cancelled(&writer.join()));
            // While the first reader is still in.
            waiters.into_iter().for_each(|w| w.join().unwrap());
            drop(guard);
            assert_eq!(*shared.log.lock().unwrap(), "rrRR");
            assert!(shared.lock.try_write().is_ok());
        });
    }

    fn downgrading_lets_readers_in_and_writers_wait() {
        on_one(|| {
            let shared = shared();
            let guard = shared.lock.write().unwrap();
            let mut readers = waiters(&shared, "rr");
            let writer = waiters(&shared, "w");
            let guard = RwLockWriteGuard::downgrade(guard);
            readers.drain(..).for_each(|r| r.join().unwrap());
            assert_eq!(*shared.log.lock().unwrap(), "rrRR");
            drop(guard);
            writer.into_iter().for_each(|w| w.join().unwrap());
        });
    }

    fn locking_while_one_writes_panics() {
        let check = || {
            let lock = RwLock::new(());
            let guard = lock.write().unwrap();
            let already = "the caller holds this lock already";
            assert_eq!(panic_of(|| drop(lock.write())), format!("RwLock::write: {already}"));
            assert_eq!(panic_of(|| drop(lock.read())), format!("RwLock::read: {already}"));
            let guard = RwLockWriteGuard::downgrade(guard);
            drop(lock.read().unwrap());
            drop(guard);
        };
        on_one(check);
        std::thread::spawn(check).join().unwrap();
    }
}
