//! Everything at once: fibers of several workers and plain threads, with timeouts and cancellations. What must hold in
//! the end is that nothing has been lost.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bast_rt::{JoinHandle, spawn, timeout, yield_now};
use bast_sync::{Barrier, Condvar, Mutex, Notify, Once, PoisonError, RwLock, Semaphore, WaitGroup};

use crate::support::{OnDrop, Random, on_many, simulated, tests};

const FIBERS: u64 = 24;
const ROUNDS: u64 = 300;

/// Runs `body` in fibers, some of which are cancelled on the way, and in threads.
fn everybody(body: impl Fn(&mut Random) + Send + Sync + 'static) {
    let body = Arc::new(body);
    on_many(move || {
        // The simulator's clock stands still while threads work.
        let threads: Vec<_> = (0..if simulated() { 0 } else { 3 })
            .map(|n| {
                let body = Arc::clone(&body);
                std::thread::spawn(move || {
                    let mut random = Random(n + 77);
                    (0..ROUNDS).for_each(|_| body(&mut random));
                })
            })
            .collect();
        let fibers: Vec<JoinHandle<()>> = (0..FIBERS)
            .map(|n| {
                let body = Arc::clone(&body);
                spawn(move || {
                    let mut random = Random(n + 1);
                    for _ in 0..ROUNDS {
                        body(&mut random);
                        if random.below(4) == 0 {
                            yield_now();
                        }
                    }
                })
            })
            .collect();
        for n in 0..8_usize {
            bast_rt::sleep(Duration::from_micros(500));
            fibers[3 * n].cancel();
        }
        for (n, fiber) in fibers.into_iter().enumerate() {
            let cancelled = fiber.join().is_err();
            assert!(!cancelled || n % 3 == 0, "fiber {n} has panicked");
        }
        // A worker must not block on them.
        while threads.iter().any(|thread| !thread.is_finished()) {
            bast_rt::sleep(Duration::from_millis(1));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A wait that may be cut short.
fn perhaps(random: &mut Random, f: impl FnOnce()) -> bool {
    match random.below(3) {
        0 => timeout(Duration::from_micros(random.below(200)), f).is_ok(),
        _ => {
            f();
            true
        }
    }
}

tests! {
    fn mutex() {
        let shared = Arc::new((Mutex::new(0_u64), AtomicU64::new(0)));
        let theirs = Arc::clone(&shared);
        everybody(move |random| {
            let suspend = random.below(3) == 0;
            perhaps(random, || {
                // A holder that is interrupted poisons, and must not have changed anything yet.
                let mut guard = theirs.0.lock().unwrap_or_else(PoisonError::into_inner);
                let before = *guard;
                if suspend {
                    yield_now();
                }
                *guard = before + 1;
                theirs.1.fetch_add(1, Relaxed);
            });
        });
        let total = *shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(total, shared.1.load(Relaxed));
        assert!(total > 0);
    }

    fn rwlock() {
        let shared = Arc::new((RwLock::new([0_u64; 2]), AtomicU64::new(0)));
        let theirs = Arc::clone(&shared);
        everybody(move |random| {
            let (write, suspend) = (random.below(3) == 0, random.below(3) == 0);
            perhaps(random, || {
                if write {
                    let mut guard =
                        theirs.0.write().unwrap_or_else(PoisonError::into_inner);
                    let n = guard[0];
                    if suspend {
                        yield_now();
                    }
                    *guard = [n + 1; 2];
                    theirs.1.fetch_add(1, Relaxed);
                } else {
                    let guard = theirs.0.read().unwrap_or_else(PoisonError::into_inner);
                    let n = *guard;
                    if suspend {
                        yield_now();
                    }
                    assert_eq!((n[0], *guard), (n[1], n));
                }
            });
        });
        let total = shared.0.write().unwrap_or_else(PoisonError::into_inner)[0];
        assert_eq!(total, shared.1.load(Relaxed));
    }

    fn semaphore() {
        let shared = Arc::new((Semaphore::new(5), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        everybody(move |random| {
            let (want, suspend) = (1 + random.below(4) as usize, random.below(2) == 0);
            let patience = Duration::from_micros(random.below(300));
            let timed = random.below(3) == 0;
            perhaps(random, || {
                let permit = if timed {
                    theirs.0.acquire_many_timeout(want, patience).ok()
                } else {
                    theirs.0.acquire_many(want).ok()
                };
                if let Some(_permit) = permit {
                    assert!(theirs.1.fetch_add(want, Relaxed) + want <= 5);
                    let _out = OnDrop(|| {
                        theirs.1.fetch_sub(want, Relaxed);
                    });
                    if suspend {
                        yield_now();
                    }
                }
            });
        });
        assert_eq!(shared.0.available_permits(), 5);
        assert!(shared.0.try_acquire_many(5).is_ok());
    }

    /// Tokens go round; each that is taken out is put in again, and notified.
    fn condvar() {
        let shared = Arc::new((Mutex::new(2_usize), Condvar::new()));
        let theirs = Arc::clone(&shared);
        everybody(move |random| {
            let timed = random.below(2) == 0;
            let patience = Duration::from_micros(random.below(300));
            let has = Cell::new(false);
            let _put = OnDrop(|| {
                if has.get() {
                    // This lock, too, is a place where a fiber may be cancelled.
                    bast_rt::mask(|| *theirs.0.lock().unwrap_or_else(PoisonError::into_inner) += 1);
                    theirs.1.notify_one();
                }
            });
            perhaps(random, || {
                let guard = theirs.0.lock().unwrap_or_else(PoisonError::into_inner);
                let mut guard = if timed {
                    let result = theirs.1.wait_timeout_while(guard, patience, |n| *n == 0);
                    result.unwrap_or_else(PoisonError::into_inner).0
                } else {
                    let result = theirs.1.wait_while(guard, |n| *n == 0);
                    result.unwrap_or_else(PoisonError::into_inner)
                };
                if *guard > 0 {
                    *guard -= 1;
                    has.set(true);
                }
            });
        });
        assert_eq!(*shared.0.lock().unwrap_or_else(PoisonError::into_inner), 2);
    }

    fn once() {
        let shared: Arc<Vec<_>> =
            Arc::new((0..50).map(|_| (Once::new(), AtomicUsize::new(0))).collect());
        let theirs = Arc::clone(&shared);
        everybody(move |random| {
            let (once, runs) = &theirs[random.below(50) as usize];
            perhaps(random, || {
                once.call_once_force(|_| {
                    yield_now();
                    runs.fetch_add(1, Relaxed);
                });
            });
        });
        for (once, runs) in shared.iter() {
            assert_eq!(runs.load(Relaxed), usize::from(once.is_completed()));
        }
    }

    /// As a lock: whoever has been notified notifies the next.
    fn notify() {
        let shared = Arc::new((Notify::new(), AtomicUsize::new(0)));
        shared.0.notify_one();
        let theirs = Arc::clone(&shared);
        everybody(move |random| {
            let suspend = random.below(2) == 0;
            perhaps(random, || {
                theirs.0.wait();
                let _on = OnDrop(|| {
                    theirs.1.fetch_sub(1, Relaxed);
                    theirs.0.notify_one();
                });
                assert_eq!(theirs.1.fetch_add(1, Relaxed), 0);
                if suspend {
                    yield_now();
                }
            });
        });
        assert!(shared.0.wait_timeout(Duration::ZERO), "the permit is still there");
    }

    fn barrier_and_wait_group() {
        on_many(|| {
            let (barrier, group) = (Arc::new(Barrier::new(6)), WaitGroup::new());
            let leaders = Arc::new(AtomicUsize::new(0));
            let body = |share: WaitGroup| {
                let (barrier, leaders) = (Arc::clone(&barrier), Arc::clone(&leaders));
                move || {
                    for _ in 0..200 {
                        leaders.fetch_add(usize::from(barrier.wait().is_leader()), Relaxed);
                    }
                    drop(share);
                }
            };
            let threads = if simulated() { 0 } else { 2 };
            (0..threads).for_each(|_| drop(std::thread::spawn(body(group.clone()))));
            (threads..6).for_each(|_| drop(spawn(body(group.clone()))));
            group.wait();
            assert_eq!(leaders.load(Relaxed), 200);
        });
    }
}
