//! `Barrier`, `Notify` and `WaitGroup`.

use std::sync::Arc;
use std::time::Duration;

use bast_rt::{JoinHandle, spawn};
use bast_sync::{Barrier, Mutex, Notify, WaitGroup};

use crate::support::{is_cancelled, on_one, settle, tests};

const SHORT: Duration = Duration::from_millis(3);

type Shared = Arc<(Notify, Mutex<Vec<usize>>)>;

/// Fibers that wait to be notified once, and note their numbers then.
fn waiters(shared: &Shared, count: usize) -> Vec<JoinHandle<()>> {
    (0..count)
        .map(|n| {
            let shared = Arc::clone(shared);
            let waiter = spawn(move || {
                shared.0.wait();
                shared.1.lock().unwrap().push(n);
            });
            settle();
            waiter
        })
        .collect()
}

tests! {
    fn a_cancelled_one_does_not_count_for_the_barrier() {
        on_one(|| {
            let barrier = Arc::new(Barrier::new(3));
            let meet = || {
                let barrier = Arc::clone(&barrier);
                let one = spawn(move || barrier.wait().is_leader());
                settle();
                one
            };
            let (one, two) = (meet(), meet());
            one.cancel();
            assert!(is_cancelled(&one.join()));
            let three = meet();
            assert!(!two.is_finished() && !three.is_finished());
            assert!(barrier.wait().is_leader());
            assert!(!two.join().unwrap() && !three.join().unwrap());
        });
    }

    fn one_that_has_met_the_others_goes_on_although_cancelled() {
        on_one(|| {
            let barrier = Arc::new(Barrier::new(2));
            let theirs = Arc::clone(&barrier);
            let other = spawn(move || theirs.wait().is_leader());
            settle();
            assert!(barrier.wait().is_leader());
            other.cancel();
            assert!(!other.join().unwrap());
        });
    }

    fn notify_keeps_one_permit() {
        let check = || {
            let notify = Notify::default();
            assert!(!notify.wait_timeout(Duration::ZERO));
            notify.notify_one();
            notify.notify_one();
            notify.wait();
            assert!(!notify.wait_timeout(SHORT));
            notify.notify_waiters();
            assert!(!notify.wait_timeout(SHORT));
            notify.notify_one();
            assert_eq!(format!("{notify:?}"), "Notify { permit: true, .. }");
            assert!(notify.wait_timeout(Duration::MAX));
        };
        on_one(check);
        check();
    }

    fn notified_in_the_order_of_arrival() {
        on_one(|| {
            let shared = Shared::default();
            let waiters = waiters(&shared, 30);
            shared.0.notify_one();
            settle();
            assert_eq!(*shared.1.lock().unwrap(), [0]);
            // Who is notified is not so once more.
            shared.0.notify_one();
            shared.0.notify_one();
            settle();
            assert_eq!(*shared.1.lock().unwrap(), [0, 1, 2]);
            shared.0.notify_waiters();
            waiters.into_iter().for_each(|w| w.join().unwrap());
            assert_eq!(*shared.1.lock().unwrap(), (0..30).collect::<Vec<_>>());
            assert!(!shared.0.wait_timeout(Duration::ZERO));
        });
    }

    fn no_notification_is_lost_on_the_cancelled() {
        on_one(|| {
            let shared = Shared::default();
            let mut waiters = waiters(&shared, 3);
            // Before it is notified: it leaves, and the next is notified.
            let first = waiters.remove(0);
            first.cancel();
            assert!(is_cancelled(&first.join()));
            shared.0.notify_one();
            // After: it has it.
            waiters[0].cancel();
            settle();
            assert_eq!(*shared.1.lock().unwrap(), [1]);
            shared.0.notify_one();
            waiters.into_iter().for_each(|w| w.join().unwrap());
        });
    }

    fn a_wait_group_counts_who_is_gone() {
        on_one(|| {
            let group = WaitGroup::new();
            let (one, two, three) = (group.clone(), group.clone(), group.clone());
            spawn(move || drop(one));
            let panics = spawn(move || {
                let _share = two;
                panic!("expected");
            });
            let cancelled = spawn(move || {
                let _share = three;
                bast_rt::sleep(Duration::from_secs(1000));
            });
            let waits: Vec<_> = (0..3).map(|_| {
                let group = group.clone();
                spawn(move || group.wait())
            }).collect();
            assert!(!group.clone().wait_timeout(SHORT), "this share is there");
            settle();
            assert!(waits.iter().all(|w| !w.is_finished()));
            cancelled.cancel();
            assert_eq!(format!("{group:?}"), "WaitGroup { shares: 2 }");
            group.wait();
            waits.into_iter().for_each(|w| w.join().unwrap());
            assert!(panics.join().is_err() && cancelled.join().is_err());
        });
    }

    fn a_wait_group_of_one_does_not_wait() {
        WaitGroup::new().wait();
        assert!(WaitGroup::default().wait_timeout(Duration::ZERO));
    }
}
