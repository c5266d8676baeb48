//! `Once`, `OnceLock`, `LazyLock`: interruption and recursion.

use std::sync::Arc;
use std::time::Duration;

use bast_rt::{sleep, spawn};
use bast_sync::{LazyLock, Once, OnceLock};

use crate::support::{is_cancelled, on_one, panic_of, settle, tests};

tests! {
    fn a_cancelled_run_has_failed() {
        on_one(|| {
            let once = Arc::new(Once::new());
            let theirs = Arc::clone(&once);
            let runner = spawn(move || theirs.call_once(|| sleep(Duration::from_secs(1000))));
            settle();
            let theirs = Arc::clone(&once);
            let waiter = spawn(move || theirs.call_once_force(|state| assert!(state.is_poisoned())));
            settle();
            runner.cancel();
            assert!(is_cancelled(&runner.join()));
            waiter.join().unwrap();
            assert!(once.is_completed());
        });
    }

    fn a_cancelled_waiter_leaves() {
        on_one(|| {
            let cell = Arc::new(OnceLock::new());
            let waiters: Vec<_> = (0..3).map(|_| {
                let cell = Arc::clone(&cell);
                spawn(move || *cell.wait())
            }).collect();
            settle();
            waiters[1].cancel();
            settle();
            cell.set(7).unwrap();
            let ends: Vec<_> = waiters.into_iter().map(|w| w.join().ok()).collect();
            assert_eq!(ends, [Some(7), None, Some(7)]);
        });
    }

    fn many_wait_while_one_initializes() {
        on_one(|| {
            static LAZY: LazyLock<u32> = LazyLock::new(|| {
                sleep(Duration::from_millis(2));
                7
            });
            let readers: Vec<_> = (0..100).map(|_| spawn(|| *LAZY)).collect();
            assert!(readers.into_iter().all(|r| r.join().unwrap() == 7));
        });
    }

    fn recursion_panics() {
        let check = || {
            let said = ": called from the closure that it would wait for";
            let once = Once::new();
            once.call_once(|| {
                assert_eq!(panic_of(|| once.call_once(|| ())), format!("Once::call_once{said}"));
                assert_eq!(panic_of(|| once.wait()), format!("Once::wait{said}"));
            });
            assert!(once.is_completed());
            let cell = OnceLock::new();
            let value = cell.get_or_init(|| {
                assert_eq!(panic_of(|| cell.set(1)), format!("Once::call_once{said}"));
                2
            });
            assert_eq!(*value, 2);
        };
        on_one(check);
        check();
    }
}
