//! Fibers that are suspended while they unwind, and their neighbours on the same worker.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{JoinHandle, park, run_blocking, scope, sleep, spawn_local, yield_now};

use crate::support::{OnDrop, is_cancelled, message, process_tests, tests, workers};

/// A fiber that is suspended in a destructor, unwinding from a panic, until it is unparked.
fn suspended_mid_unwind() -> JoinHandle<()> {
    let fiber = spawn_local(|| {
        let _guard = OnDrop(park);
        panic!("unwinding for long");
    });
    yield_now();
    assert!(!fiber.is_finished());
    fiber
}

tests! {
    /// Unwinding from the user's own panic, and suspended in a destructor: no cancellation, no abort.
    fn a_panicking_fiber_is_not_cancelled() {
        workers(1).run(|| {
            let steps = Rc::new(Cell::new(0));
            let counts = Rc::clone(&steps);
            let fiber = spawn_local(move || {
                let _guard = OnDrop(|| for _ in 0..5 {
                    yield_now();
                    sleep(Duration::from_micros(100));
                    counts.set(counts.get() + 1);
                });
                panic!("the user's");
            });
            yield_now();
            fiber.cancel();
            let error: Result<(), _> = fiber.join();
            assert_eq!(message(&*error.unwrap_err()), "the user's");
            assert_eq!(steps.get(), 5);
        });
    }

    /// After a panic that was caught the cancellation that came meanwhile is delivered.
    fn a_cancellation_during_a_panic_that_is_caught_comes_after_it() {
        workers(1).run(|| {
            let fiber = spawn_local(|| {
                let caught = catch_unwind(|| {
                    let _guard = OnDrop(|| { yield_now(); yield_now() });
                    panic!("caught");
                });
                assert_eq!(message(&*caught.unwrap_err()), "caught");
                park();
            });
            yield_now();
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
        });
    }

    fn a_neighbour_is_cancelled_all_the_same() {
        workers(1).run(|| {
            let before = spawn_local(park);
            yield_now();
            let unwinding = suspended_mid_unwind();
            let after = spawn_local(park);
            yield_now();
            before.cancel();
            after.cancel();
            assert!(is_cancelled(&before.join()), "it waited before the panic");
            assert!(is_cancelled(&after.join()), "it began after the panic");
            assert!(!unwinding.is_finished());
            unwinding.fiber().unpark();
            assert_eq!(message(&*unwinding.join().unwrap_err()), "unwinding for long");
        });
    }

    /// Neighbours that panic, catch, and suspend while they unwind do not disturb each other.
    fn several_unwind_at_once() {
        workers(1).run(|| {
            let fibers: Vec<_> = (0..20).map(|i| spawn_local(move || {
                for round in 0..10 {
                    let caught = catch_unwind(|| {
                        let _guard = OnDrop(|| (0..(i + round) % 4).for_each(|_| yield_now()));
                        std::panic::panic_any(i * 100 + round);
                    });
                    assert_eq!(*caught.unwrap_err().downcast::<i32>().unwrap(), i * 100 + round);
                    yield_now();
                }
                i
            })).collect();
            let cancelled: Vec<_> = (0..20).map(|_| spawn_local(|| {
                let _guard = OnDrop(|| { yield_now(); yield_now() });
                park();
            })).collect();
            yield_now();
            cancelled.iter().for_each(JoinHandle::cancel);
            cancelled.into_iter().for_each(|fiber| assert!(is_cancelled(&fiber.join())));
            for (i, fiber) in fibers.into_iter().enumerate() {
                assert_eq!(fiber.join().unwrap(), i as i32);
            }
        });
    }

    /// A panic that travels on through bast's own functions is still the fiber's own unwinding: a
    /// cancellation raised in a destructor then would abort the process.
    fn a_panic_passed_on_by_bast_counts_as_unwinding() {
        workers(1).run(|| {
            let neighbour = suspended_mid_unwind();
            let ways: [fn(); 3] = [
                || run_blocking(|| resume_unwind(Box::new("passed on"))),
                || scope(|_| resume_unwind(Box::new("passed on"))),
                || drop(scope(|s| s.spawn(|| 1).join().map(|_| resume_unwind(Box::new("passed on"))))),
            ];
            for way in ways {
                let waited = Arc::new(AtomicUsize::new(0));
                let waits = Arc::clone(&waited);
                let fiber = spawn_local(move || {
                    let _guard = OnDrop(|| {
                        waits.fetch_add(1, SeqCst);
                        park(); // with a cancellation pending, which must not be raised here
                        waits.fetch_add(1, SeqCst);
                    });
                    way();
                });
                while waited.load(SeqCst) == 0 { yield_now() }
                fiber.cancel();
                (0..5).for_each(|_| yield_now());
                assert!(!fiber.is_finished());
                fiber.fiber().unpark();
                let error = fiber.join().unwrap_err();
                assert_eq!(message(&*error), "passed on");
            }
            neighbour.fiber().unpark();
            drop(catch_unwind(AssertUnwindSafe(|| neighbour.join())));
        });
    }
}

process_tests! {
    /// With more panics than can be put aside. Who has caught one may be taken for a fiber that unwinds, but not for
    /// longer than there is one: a cancellation that was held back is delivered then.
    fn who_is_taken_for_one_that_unwinds_is_cancelled_in_the_end() {
        workers(1).run(|| {
            // For AddressSanitizer none is put aside.
            let most = if cfg!(feature = "sanitizer") { 0 } else { 1024 };
            let aside: Vec<_> = (0..most).map(|_| spawn_local(|| {
                let _guard = OnDrop(park);
                park();
            })).collect();
            yield_now();
            aside.iter().for_each(JoinHandle::cancel);
            (0..3).for_each(|_| yield_now());
            let neighbour = suspended_mid_unwind();
            assert!(std::thread::panicking(), "that one could not be put aside");
            let fiber = spawn_local(|| {
                let _ = catch_unwind(|| panic!("caught"));
                park();
            });
            yield_now();
            fiber.cancel();
            (0..3).for_each(|_| yield_now());
            neighbour.fiber().unpark();
            assert_eq!(message(&*neighbour.join().unwrap_err()), "unwinding for long");
            assert!(is_cancelled(&fiber.join()));
            for fiber in aside {
                fiber.fiber().unpark();
                assert!(is_cancelled(&fiber.join()));
            }
        });
    }
}
