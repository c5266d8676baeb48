//! `Semaphore`.

use std::sync::Arc;
use std::time::Duration;

use bast_rt::{JoinHandle, spawn};
use bast_sync::{Mutex, Semaphore, TryAcquireError};

use crate::support::{is_cancelled, on_one, panic_of, settle, tests};

const SHORT: Duration = Duration::from_millis(3);

type Shared = Arc<(Semaphore, Mutex<Vec<usize>>)>;

/// Fibers that want so many permits, and note how many when they have them, for good.
fn waiters(shared: &Shared, wants: &[usize]) -> Vec<JoinHandle<()>> {
    wants
        .iter()
        .map(|&want| {
            let shared = Arc::clone(shared);
            let waiter = spawn(move || {
                shared.0.acquire_many(want).unwrap().forget();
                shared.1.lock().unwrap().push(want);
            });
            settle();
            waiter
        })
        .collect()
}

fn shared() -> Shared {
    Arc::new((Semaphore::new(0), Mutex::new(Vec::new())))
}

tests! {
    fn permits() {
        static TWO: Semaphore = Semaphore::new(2);
        let one = TWO.acquire().unwrap();
        let two = TWO.try_acquire().unwrap();
        assert_eq!((one.num_permits(), TWO.available_permits()), (1, 0));
        assert_eq!(TWO.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
        drop(one);
        assert_eq!(TWO.try_acquire_many(2).unwrap_err(), TryAcquireError::NoPermits);
        two.forget();
        assert_eq!(TWO.available_permits(), 1);
        TWO.add_permits(2);
        assert_eq!(TWO.try_acquire_many(3).unwrap().num_permits(), 3);
        assert_eq!(TWO.forget_permits(2), 2);
        assert_eq!(TWO.forget_permits(2), 1);
        assert_eq!(format!("{TWO:?}"), "Semaphore { available_permits: 0, closed: false }");
        assert_eq!(TWO.acquire_many(0).unwrap().num_permits(), 0);
        let said = "more than Semaphore::MAX_PERMITS";
        assert_eq!(panic_of(|| Semaphore::new(Semaphore::MAX_PERMITS + 1)), said);
        TWO.add_permits(Semaphore::MAX_PERMITS);
        assert_eq!(panic_of(|| TWO.add_permits(1)), said);
    }

    fn owned_permits() {
        on_one(|| {
            let semaphore = Arc::new(Semaphore::new(2));
            let permit = Arc::clone(&semaphore).acquire_many_owned(2).unwrap();
            assert!(Arc::clone(&semaphore).try_acquire_owned().is_err());
            let theirs = Arc::clone(&semaphore);
            let waiter = spawn(move || theirs.acquire_owned().unwrap().num_permits());
            settle();
            assert_eq!(permit.semaphore().available_permits(), 0);
            spawn(move || drop(permit)).join().unwrap();
            assert_eq!(waiter.join().unwrap(), 1);
            Arc::clone(&semaphore).acquire_owned().unwrap().forget();
            assert_eq!(semaphore.available_permits(), 1);
        });
    }

    fn many_are_not_overtaken_by_few() {
        on_one(|| {
            let shared = shared();
            let waiters = waiters(&shared, &[3, 1, 2]);
            shared.0.add_permits(1);
            shared.0.add_permits(1);
            settle();
            assert!(shared.1.lock().unwrap().is_empty());
            // Kept for the first.
            assert_eq!(shared.0.available_permits(), 2);
            assert!(shared.0.try_acquire().is_err());
            shared.0.add_permits(2);
            settle();
            assert_eq!(*shared.1.lock().unwrap(), [3, 1]);
            shared.0.add_permits(2);
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*shared.1.lock().unwrap(), [3, 1, 2]);
        });
    }

    fn who_gives_up_lets_those_behind_it_in() {
        on_one(|| {
            let shared = shared();
            let mut waiters = waiters(&shared, &[3, 1, 1]);
            shared.0.add_permits(2);
            let first = waiters.remove(0);
            first.cancel();
            assert!(is_cancelled(&first.join()));
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(shared.0.available_permits(), 0);
        });
    }

    fn timeouts() {
        let check = || {
            let semaphore = Semaphore::new(1);
            assert!(semaphore.acquire_timeout(Duration::ZERO).is_ok());
            let permit = semaphore.acquire_timeout(Duration::MAX).unwrap();
            for patience in [Duration::ZERO, SHORT] {
                let late = semaphore.acquire_timeout(patience).unwrap_err();
                assert_eq!(late, TryAcquireError::NoPermits);
            }
            assert!(semaphore.acquire_many_timeout(2, SHORT).is_err());
            drop(permit);
            assert_eq!(semaphore.available_permits(), 1);
        };
        on_one(check);
        check();
    }

    fn closing_refuses_everybody() {
        on_one(|| {
            let semaphore = Arc::new(Semaphore::new(1));
            let permit = semaphore.acquire().unwrap();
            let waiters: Vec<_> = (0..20).map(|n| {
                let semaphore = Arc::clone(&semaphore);
                spawn(move || semaphore.acquire_many(n % 3 + 1).is_err())
            }).collect();
            settle();
            semaphore.close();
            assert!(semaphore.is_closed());
            assert!(waiters.into_iter().all(|w| w.join().unwrap()));
            drop(permit);
            assert_eq!(semaphore.acquire().unwrap_err().to_string(), "the semaphore is closed");
            assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
            assert_eq!(semaphore.acquire_timeout(SHORT).unwrap_err(), TryAcquireError::Closed);
        });
    }
}
