//! Twins: `Once`, `OnceLock`, `LazyLock` and `Barrier`.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::{message, twins};

const SHORT: Duration = Duration::from_millis(30);

fn sync<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

twins! {
    fn bounds() {
        sync::<Once>();
        #[cfg(not(target_vendor = "apple"))] // whose std has none that is UnwindSafe
        sync::<Barrier>();
        sync::<OnceLock<u8>>();
        sync::<LazyLock<u8>>();
        fn send<T: Send>() {}
        send::<OnceLock<Cell<u8>>>();
        fn values<T: Clone + Default + PartialEq + Eq + From<u8>>() {}
        values::<OnceLock<u8>>();
    }

    fn once() {
        static ONCE: Once = Once::new();
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        assert!(!ONCE.is_completed());
        let others: Vec<_> = (0..20).map(|_| spawn(|| {
            ONCE.call_once(|| {
                yield_now();
                sleep(Duration::from_millis(2));
                assert!(!ONCE.is_completed());
                RUNS.fetch_add(1, Ordering::Relaxed);
            });
            assert!(ONCE.is_completed());
            assert_eq!(RUNS.load(Ordering::Relaxed), 1);
        })).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        ONCE.call_once_force(|_| panic!("not again"));
        ONCE.wait();
        ONCE.wait_force();
        assert_eq!(format!("{ONCE:?}"), "Once { .. }");
    }

    fn once_is_poisoned_by_a_panic() {
        let once = Once::new();
        let call = |panics: bool| catch_unwind(AssertUnwindSafe(|| {
            once.call_once(|| assert!(!panics, "the closure's"));
        }));
        assert_eq!(message(&*call(true).unwrap_err()), "the closure's");
        assert!(!once.is_completed());
        let said = "Once instance has previously been poisoned";
        assert_eq!(message(&*call(false).unwrap_err()), said);
        let waited = catch_unwind(AssertUnwindSafe(|| once.wait()));
        assert_eq!(message(&*waited.unwrap_err()), said);
        // Forced, and failed again.
        let forced = catch_unwind(AssertUnwindSafe(|| {
            once.call_once_force(|state| {
                assert!(state.is_poisoned());
                assert_eq!(format!("{state:?}"), "OnceState { poisoned: true }");
                panic!("again");
            });
        }));
        assert_eq!(message(&*forced.unwrap_err()), "again");
        once.call_once_force(|state| assert!(state.is_poisoned()));
        assert!(once.is_completed());
        assert!(call(true).is_ok());
        once.wait();
        Once::new().call_once_force(|state| assert!(!state.is_poisoned()));
    }

    fn once_waits_for_a_run_that_fails() {
        let shared = Arc::new((Once::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let first = spawn(move || theirs.0.call_once(|| {
            theirs.1.store(1, Ordering::Relaxed);
            sleep(SHORT);
            panic!("expected");
        }));
        while shared.1.load(Ordering::Relaxed) == 0 {
            yield_now();
        }
        let theirs = Arc::clone(&shared);
        let second = spawn(move || theirs.0.call_once_force(|state| assert!(state.is_poisoned())));
        assert!(first.join().is_err());
        second.join().unwrap();
        assert!(shared.0.is_completed());
    }

    fn once_wait() {
        let once = Arc::new(Once::new());
        let waiters: Vec<_> = (0..4).map(|n| {
            let once = Arc::clone(&once);
            spawn(move || if n % 2 == 0 { once.wait() } else { once.wait_force() })
        }).collect();
        sleep(Duration::from_millis(5));
        assert!(waiters.iter().all(|w| !w.is_finished()));
        once.call_once(|| ());
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    }

    fn wait_force_waits_past_a_failure() {
        let once = Arc::new(Once::new());
        let _ = catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("expected"))));
        let theirs = Arc::clone(&once);
        let waiter = spawn(move || theirs.wait_force());
        sleep(Duration::from_millis(5));
        assert!(!waiter.is_finished());
        once.call_once_force(|_| ());
        waiter.join().unwrap();
    }

    fn once_lock() {
        static CELL: OnceLock<String> = OnceLock::new();
        assert_eq!(CELL.get(), None);
        let reader = spawn(|| CELL.wait().as_str());
        assert_eq!(CELL.set("a".into()), Ok(()));
        assert_eq!(CELL.set("b".into()), Err("b".into()));
        assert_eq!(CELL.get().unwrap(), "a");
        assert_eq!(CELL.get_or_init(|| panic!("there is one")), "a");
        assert_eq!(reader.join().unwrap(), "a");
    }

    fn once_lock_is_initialized_once() {
        let shared = Arc::new((OnceLock::new(), AtomicUsize::new(0)));
        let others: Vec<_> = (0..20).map(|n| {
            let shared = Arc::clone(&shared);
            spawn(move || *shared.0.get_or_init(|| {
                yield_now();
                shared.1.fetch_add(1, Ordering::Relaxed);
                n
            }))
        }).collect();
        let values: HashSet<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
        assert_eq!((values.len(), shared.1.load(Ordering::Relaxed)), (1, 1));
    }

    fn once_lock_stays_empty_after_a_panic() {
        let cell = OnceLock::new();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            cell.get_or_init(|| panic!("expected"));
        }));
        assert!(panic.is_err());
        assert_eq!(cell.get(), None);
        assert_eq!(cell.get_or_init(|| 7), &7);
        assert_eq!(cell.wait(), &7);
    }

    fn once_lock_values() {
        let mut cell = OnceLock::from(1);
        *cell.get_mut().unwrap() += 1;
        assert_eq!(cell.clone(), cell);
        assert_ne!(cell, OnceLock::new());
        assert_eq!(cell.take(), Some(2));
        assert_eq!(cell.take(), None);
        assert_eq!(cell.get(), None);
        assert_eq!(cell.get_mut(), None);
        cell.set(3).unwrap();
        assert_eq!(cell.into_inner(), Some(3));
        assert_eq!(OnceLock::<u8>::default().into_inner(), None);
        assert_eq!(OnceLock::<u8>::new().clone(), OnceLock::new());
        assert_eq!(format!("{:?}", OnceLock::from(3)), "OnceLock(3)");
        assert_eq!(format!("{:?}", OnceLock::<u8>::new()), "OnceLock(<uninit>)");
        let token = Arc::new(());
        drop(OnceLock::from(Arc::clone(&token)));
        drop(OnceLock::<Arc<()>>::new());
        assert_eq!(Arc::strong_count(&token), 1);
    }

    fn lazy_lock() {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        static LAZY: LazyLock<Vec<usize>> = LazyLock::new(|| {
            RUNS.fetch_add(1, Ordering::Relaxed);
            yield_now();
            vec![1, 2, 3]
        });
        let others: Vec<_> = (0..20).map(|_| spawn(|| LAZY.iter().sum::<usize>())).collect();
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), 6));
        assert_eq!(RUNS.load(Ordering::Relaxed), 1);
    }

    fn lazy_lock_values() {
        let mut lazy = LazyLock::new(|| String::from("a"));
        assert_eq!(format!("{lazy:?}"), "LazyLock(<uninit>)");
        assert_eq!(LazyLock::get(&lazy), None);
        assert_eq!(LazyLock::get_mut(&mut lazy), None);
        assert_eq!(LazyLock::force(&lazy), "a");
        LazyLock::force_mut(&mut lazy).push('b');
        lazy.push('c');
        LazyLock::get_mut(&mut lazy).unwrap().push('d');
        assert_eq!(LazyLock::get(&lazy).unwrap(), "abcd");
        assert_eq!(format!("{lazy:?}"), "LazyLock(\"abcd\")");
        assert_eq!(*LazyLock::<u8>::default(), 0);
        let token = Arc::new(());
        let (one, two) = (Arc::clone(&token), Arc::clone(&token));
        drop(LazyLock::new(move || one));
        let forced = LazyLock::new(move || two);
        LazyLock::force(&forced);
        drop(forced);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    fn lazy_lock_is_poisoned_by_a_panic() {
        let token = Arc::new(());
        let theirs = Arc::clone(&token);
        let lazy = LazyLock::new(move || -> u8 {
            let _theirs = theirs;
            panic!("the closure's")
        });
        let force = || catch_unwind(AssertUnwindSafe(|| *LazyLock::force(&lazy)));
        assert_eq!(message(&*force().unwrap_err()), "the closure's");
        for _ in 0..2 {
            let said = "LazyLock instance has previously been poisoned";
            assert_eq!(message(&*force().unwrap_err()), said);
        }
        assert_eq!(format!("{lazy:?}"), "LazyLock(<uninit>)");
        drop(lazy);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    fn barrier() {
        const SIZE: usize = 10;
        let shared = Arc::new((Barrier::new(SIZE), AtomicUsize::new(0), AtomicUsize::new(0)));
        let others: Vec<_> = (0..SIZE).map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || for round in 1..=20 {
                shared.1.fetch_add(1, Ordering::Relaxed);
                let result = shared.0.wait();
                assert!(shared.1.load(Ordering::Relaxed) >= round * SIZE);
                if result.is_leader() {
                    shared.2.fetch_add(1, Ordering::Relaxed);
                }
            })
        }).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.2.load(Ordering::Relaxed), 20);
    }

    fn a_barrier_of_nobody_and_of_one() {
        for size in [0, 1] {
            let barrier = Barrier::new(size);
            assert!(barrier.wait().is_leader());
            assert!(barrier.wait().is_leader());
        }
        static BARRIER: Barrier = Barrier::new(1);
        let result = BARRIER.wait();
        assert_eq!(format!("{BARRIER:?} {result:?}"), "Barrier { .. } BarrierWaitResult { is_leader: true }");
    }
}
