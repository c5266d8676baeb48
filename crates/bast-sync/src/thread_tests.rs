//! Each type between plain threads, small enough for Miri, which looks at the unsafe code below:
//! `cargo +nightly miri test -p bast-sync --lib`

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::scope;
use std::time::Duration;

use crate::*;

const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };
const SOON: Duration = Duration::from_millis(1);

#[test]
fn mutex() {
    let mutex = Mutex::new(0);
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| (0..ROUNDS).for_each(|_| *mutex.lock().unwrap() += 1));
        }
    });
    assert_eq!(mutex.into_inner().unwrap(), 3 * ROUNDS);
}

#[test]
fn rwlock() {
    let lock = RwLock::new([0; 2]);
    scope(|s| {
        for n in 0..3 {
            let lock = &lock;
            s.spawn(move || {
                for round in 0..ROUNDS {
                    if round % 3 == n {
                        let mut guard = lock.write().unwrap();
                        guard[0] += 1;
                        guard[1] += 1;
                        let guard = RwLockWriteGuard::downgrade(guard);
                        assert_eq!(guard[0], guard[1]);
                    } else {
                        let guard = lock.read().unwrap();
                        assert_eq!(guard[0], guard[1]);
                    }
                }
            });
        }
    });
}

#[test]
fn condvar() {
    let shared = (Mutex::new(0), Condvar::new());
    scope(|s| {
        for n in 0..2 {
            let (mutex, condvar) = &shared;
            s.spawn(move || {
                for _ in 0..ROUNDS {
                    let mut turn = condvar.wait_while(mutex.lock().unwrap(), |t| *t != n).unwrap();
                    *turn = 1 - n;
                    condvar.notify_all();
                }
            });
        }
    });
    let result = shared.1.wait_timeout(shared.0.lock().unwrap(), SOON).unwrap().1;
    assert!(result.timed_out());
}

#[test]
fn once_and_cells() {
    let (once, runs) = (Once::new(), AtomicUsize::new(0));
    let cell = OnceLock::new();
    let lazy = LazyLock::new(|| vec![runs.fetch_add(1, Relaxed)]);
    scope(|s| {
        for n in 0..3 {
            let (once, runs, cell, lazy) = (&once, &runs, &cell, &lazy);
            s.spawn(move || {
                once.call_once(|| {
                    runs.fetch_add(1, Relaxed);
                });
                assert!(*cell.get_or_init(|| Box::new(n)) == *cell.wait());
                assert_eq!(lazy.len(), 1);
            });
        }
    });
    assert_eq!(runs.load(Relaxed), 2);
    assert!(cell.into_inner().is_some());
    let failed = LazyLock::new(|| -> Vec<u8> { std::panic::resume_unwind(Box::new(())) });
    assert!(catch_unwind(AssertUnwindSafe(|| LazyLock::force(&failed).len())).is_err());
}

#[test]
fn semaphore() {
    let (semaphore, inside) = (Semaphore::new(3), AtomicUsize::new(0));
    scope(|s| {
        for n in 0..3 {
            let (semaphore, inside) = (&semaphore, &inside);
            s.spawn(move || {
                for _ in 0..ROUNDS {
                    let _ = semaphore.acquire_many_timeout(3, Duration::from_nanos(1));
                    let _permit = semaphore.acquire_many(n + 1).unwrap();
                    assert!(inside.fetch_add(n + 1, Relaxed) + n < 3);
                    inside.fetch_sub(n + 1, Relaxed);
                }
            });
        }
    });
    assert_eq!(semaphore.available_permits(), 3);
    scope(|s| {
        s.spawn(|| assert!(semaphore.acquire_many(4).is_err()));
        semaphore.close();
    });
}

#[test]
fn barrier_notify_and_wait_group() {
    let (barrier, leaders) = (Barrier::new(3), AtomicUsize::new(0));
    let (notify, group) = (Arc::new(Notify::new()), WaitGroup::new());
    scope(|s| {
        for _ in 0..3 {
            let (share, notify) = (group.clone(), Arc::clone(&notify));
            let (barrier, leaders) = (&barrier, &leaders);
            s.spawn(move || {
                for _ in 0..ROUNDS {
                    leaders.fetch_add(usize::from(barrier.wait().is_leader()), Relaxed);
                }
                notify.wait();
                notify.notify_one();
                drop(share);
            });
        }
        notify.notify_one();
        group.wait();
    });
    assert_eq!(leaders.into_inner(), ROUNDS);
    assert!(notify.wait_timeout(SOON) && !notify.wait_timeout(SOON));
}
