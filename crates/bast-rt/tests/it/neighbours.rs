//! A fiber that is suspended while it unwinds is alone with that: for each thing that a neighbour may do
//! meanwhile, what std and bast say of it, and what becomes of std's locks.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bast_rt::wait::is_unwinding;
use bast_rt::{
    Builder, JoinHandle, mask, park, run_blocking, scope, sleep, spawn, spawn_local, timeout,
    yield_now,
};

use crate::support::{
    OnDrop, is_cancelled, message, process_tests, runtime, scaled, tests, workers, yield_until,
};

/// What std and bast say of the calling fiber has to be the same.
#[track_caller]
fn unwinds() -> bool {
    assert_eq!(thread::panicking(), is_unwinding());
    is_unwinding()
}

/// Suspended in a destructor, by this way of unwinding, until it is unparked.
fn suspended(way: fn()) -> JoinHandle<()> {
    let fiber = spawn_local(move || {
        let _guard = OnDrop(|| {
            assert!(unwinds());
            mask(park);
            assert!(unwinds());
        });
        way();
    });
    yield_now();
    assert!(!fiber.is_finished());
    fiber
}

const WAYS: [fn(); 3] = [
    || panic!("by panic"),
    || resume_unwind(Box::new("by resume_unwind")),
    // Nested: it unwinds in a destructor that runs as it unwinds.
    || {
        let _guard = OnDrop(|| {
            let caught = catch_unwind(|| {
                let _guard = OnDrop(|| {
                    yield_now();
                    assert!(unwinds())
                });
                panic!("inner");
            });
            assert_eq!(message(&*caught.unwrap_err()), "inner");
            assert!(unwinds());
        });
        panic!("outer");
    },
];

/// Runs `body` in a fiber while neighbours are suspended in each way of unwinding, and more come and go.
fn among_unwinding(body: fn()) {
    workers(1).run(move || {
        body();
        let mut others: Vec<_> = WAYS.iter().map(|way| suspended(*way)).collect();
        assert!(!unwinds());
        body();
        others.extend(WAYS.iter().map(|way| suspended(*way)));
        let fiber = spawn_local(body);
        for other in others {
            other.fiber().unpark();
            yield_now();
            assert!(!unwinds());
            assert!(other.join().is_err());
        }
        fiber.join().unwrap();
        body();
        assert!(!unwinds());
    });
}

/// A lock that is held while `f` runs.
fn poisons(f: impl FnOnce()) -> bool {
    let lock = Mutex::new(());
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.lock();
        f();
    }));
    lock.is_poisoned()
}

tests! {
    fn a_healthy_one() {
        among_unwinding(|| for _ in 0..3 {
            assert!(!unwinds());
            assert!(!poisons(|| ()));
            assert!(!poisons(yield_now));
            sleep(Duration::from_micros(50));
        });
    }

    fn one_that_panics_afresh() {
        among_unwinding(|| {
            assert!(poisons(|| panic!("afresh")));
            assert!(!unwinds());
            assert!(poisons(|| {
                let _guard = OnDrop(|| { yield_now(); assert!(unwinds()) });
                panic!("and waits");
            }));
            assert!(!unwinds());
        });
    }

    fn one_that_has_caught_a_panic() {
        among_unwinding(|| for _ in 0..2 {
            let caught = catch_unwind(|| {
                let _guard = OnDrop(|| { (0..3).for_each(|_| yield_now()); assert!(unwinds()) });
                panic_any(7);
            });
            assert_eq!(caught.unwrap_err().downcast_ref(), Some(&7));
            assert!(!unwinds());
            assert!(!poisons(|| ()));
            assert!(poisons(|| panic!("a real one")));
            yield_now();
            assert!(!unwinds());
            assert!(!poisons(yield_now));
        });
    }

    fn one_that_resumes_an_unwinding() {
        among_unwinding(|| {
            assert!(poisons(|| resume_unwind(Box::new(()))));
            assert!(poisons(|| scope(|_| resume_unwind(Box::new(())))));
            assert!(poisons(|| run_blocking(|| resume_unwind(Box::new(())))));
            assert!(poisons(|| {
                let _guard = OnDrop(|| { yield_now(); assert!(unwinds()) });
                resume_unwind(Box::new(()));
            }));
            assert!(!unwinds());
        });
    }

    fn one_that_is_cancelled() {
        among_unwinding(|| {
            let lock = Arc::new(Mutex::new(()));
            let theirs = Arc::clone(&lock);
            let fiber = spawn_local(move || {
                let _guard = OnDrop(|| { (0..2).for_each(|_| yield_now()); assert!(unwinds()) });
                let _locked = theirs.lock();
                park();
            });
            yield_now();
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
            assert!(lock.is_poisoned());
            assert!(!unwinds());
        });
    }

    /// What bast's own lock cannot be told otherwise: a user's `resume_unwind` with a cancellation pending.
    fn one_that_is_cancelled_as_it_unwinds() {
        among_unwinding(|| {
            let fiber = spawn_local(|| {
                let caught = catch_unwind(|| {
                    let _guard = OnDrop(|| { (0..3).for_each(|_| yield_now()) });
                    resume_unwind(Box::new("the user's own"));
                });
                assert_eq!(message(&*caught.unwrap_err()), "the user's own");
                assert!(!unwinds());
                park();
            });
            yield_now();
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()), "at the first suspension that does not unwind");
        });
    }

    fn one_that_times_out() {
        among_unwinding(|| {
            let lock = Mutex::new(());
            let late = timeout(Duration::from_micros(300), || {
                let _guard = OnDrop(|| { yield_now(); assert!(unwinds()) });
                let _locked = lock.lock();
                park();
            });
            assert!(late.is_err() && lock.is_poisoned());
            assert!(!unwinds());
            assert!(!poisons(yield_now));
        });
    }

    /// On all workers, with every way at random; in the end no thread thinks that it panics.
    fn everything_at_once() {
        static READY: AtomicUsize = AtomicUsize::new(0);
        let runtime = runtime();
        for _ in 0..3 {
            READY.store(0, SeqCst);
            runtime.run(|| {
                let fibers: Vec<_> = (0..scaled(600)).map(|i| spawn(move || {
                    for round in 0..6 {
                        assert!(!unwinds());
                        let poisoned = poisons(|| match (i + round) % 5 {
                            0 => panic_any(i),
                            1 => {
                                let _guard = OnDrop(|| {
                                    yield_now();
                                    let _ = catch_unwind(|| {
                                        let _guard = OnDrop(yield_now);
                                        resume_unwind(Box::new(i))
                                    });
                                    sleep(Duration::from_micros(i as u64 % 90));
                                    assert!(unwinds());
                                });
                                resume_unwind(Box::new(i))
                            }
                            2 => {
                                let _guard = OnDrop(yield_now);
                                let _ = timeout(Duration::from_micros(20), park);
                            }
                            _ => yield_now(),
                        });
                        assert_eq!(poisoned, (i + round) % 5 < 2, "{i} {round}");
                    }
                    let _guard = OnDrop(|| { yield_now(); assert!(unwinds() || i % 2 == 0) });
                    READY.fetch_add(1, SeqCst);
                    if i % 2 == 1 { park() }
                })).collect();
                yield_until("all are ready", || READY.load(SeqCst) == fibers.len());
                for (i, fiber) in fibers.iter().enumerate() {
                    if i % 2 == 1 { fiber.cancel() }
                }
                for (i, fiber) in fibers.into_iter().enumerate() {
                    let result = fiber.join();
                    assert_eq!(i % 2 == 1, is_cancelled(&result), "{i}: {result:?}");
                }
            });
            for worker in 0..runtime.workers() {
                let unwinding = runtime.run(move || {
                    Builder::new().worker(worker).spawn(unwinds).unwrap().join().unwrap()
                });
                assert!(!unwinding);
            }
        }
    }
}

process_tests! {
    /// More than can be put aside: the rest stays in the thread's count until they have gone on, and no longer.
    fn thousands_at_once() {
        let runtime = workers(1);
        runtime.run(|| {
            let fibers: Vec<_> = (0..3_000).map(|_| spawn_local(|| {
                let _guard = OnDrop(|| mask(park));
                park();
            })).collect();
            yield_now();
            fibers.iter().for_each(JoinHandle::cancel);
            yield_now();
            let waits = spawn_local(park);
            yield_now();
            waits.cancel();
            assert!(is_cancelled(&waits.join()));
            for fiber in fibers {
                assert!(!fiber.is_finished());
                fiber.fiber().unpark();
                assert!(is_cancelled(&fiber.join()));
            }
            assert!(!unwinds());
            assert!(!poisons(yield_now));
        });
        among_unwinding(|| assert!(!poisons(yield_now)));
    }

    /// Runtimes come and go; what they left serves the next.
    fn in_many_runtimes() {
        for _ in 0..scaled(50) {
            among_unwinding(|| assert!(!poisons(yield_now)));
        }
    }
}
