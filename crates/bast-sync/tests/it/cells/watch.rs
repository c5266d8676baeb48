//! `watch`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bast_sync::watch::{self, RecvError, SendError};

use super::{
    Alive, Random, SHORT, cancel, everywhere, is_cancelled, on_workers, settle, simulated,
};

#[test]
fn the_latest_value_and_whether_it_is_new() {
    everywhere(|| {
        let (tx, mut rx) = watch::channel(1);
        assert_eq!((*tx.borrow(), *rx.borrow(), rx.has_changed()), (1, 1, Ok(false)));
        tx.send(2).unwrap();
        tx.send(3).unwrap();
        let mut late = tx.subscribe();
        assert_eq!((rx.has_changed(), late.has_changed()), (Ok(true), Ok(false)));
        assert_eq!(*rx.borrow(), 3);
        assert_eq!(rx.changed(), Ok(()));
        assert_eq!(rx.has_changed(), Ok(false));
        tx.send_modify(|value| *value += 1);
        assert_eq!(*rx.borrow_and_update(), 4);
        assert_eq!(rx.has_changed(), Ok(false));
        assert_eq!(late.has_changed(), Ok(true));
        late.mark_unchanged();
        assert_eq!(late.has_changed(), Ok(false));
        late.mark_changed();
        assert_eq!((late.has_changed(), late.changed()), (Ok(true), Ok(())));
        assert!(!tx.send_if_modified(|value| {
            *value = 5;
            false
        }));
        assert_eq!((*rx.borrow(), rx.has_changed()), (5, Ok(false)));
        assert_eq!(tx.clone().send_replace(6), 5);
        assert_eq!(rx.clone().changed(), Ok(()));
        assert_eq!(rx.wait_for(|value| *value == 6).map(|value| *value), Ok(6));
        assert_eq!((tx.receiver_count(), tx.is_closed()), (2, false));
        drop((rx, late));
        assert!(tx.is_closed());
        assert_eq!(tx.send(7), Err(SendError(7)));
        assert_eq!(*tx.borrow(), 6);
        tx.closed();
    });
}

#[test]
fn the_senders_are_gone() {
    everywhere(|| {
        let (tx, mut rx) = watch::channel(1);
        tx.send(2).unwrap();
        drop(tx);
        // What came last is still to be seen.
        assert_eq!((rx.has_changed(), rx.changed()), (Ok(true), Ok(())));
        assert_eq!((rx.has_changed(), rx.changed()), (Err(RecvError), Err(RecvError)));
        assert_eq!(*rx.borrow(), 2);
        assert_eq!(rx.wait_for(|value| *value == 2).map(|value| *value), Ok(2));
        assert!(rx.wait_for(|value| *value == 3).is_err());
        // While it waits.
        let (tx, mut rx) = watch::channel(1);
        let fiber = bast_rt::spawn(move || rx.changed());
        bast_rt::sleep(SHORT);
        drop(tx);
        assert_eq!(fiber.join().unwrap(), Err(RecvError));
    });
}

#[test]
fn all_who_wait_are_woken() {
    everywhere(|| {
        let (tx, rx) = watch::channel(0);
        let wait = |mut rx: watch::Receiver<u32>| {
            move || {
                let value = *rx.wait_for(|value| *value >= 3).unwrap();
                (value, rx.changed())
            }
        };
        let fibers: Vec<_> = (0..20).map(|_| bast_rt::spawn(wait(rx.clone()))).collect();
        let thread = thread::spawn(wait(rx));
        for i in 1..=3 {
            bast_rt::sleep(SHORT);
            tx.send(i).unwrap();
        }
        bast_rt::sleep(SHORT);
        drop(tx);
        assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == (3, Err(RecvError))));
        assert_eq!(thread.join().unwrap(), (3, Err(RecvError)));
    });
}

#[test]
fn a_sender_waits_for_who_looks_and_receivers_do_not_wait_for_it() {
    on_workers(1, || {
        let (tx, mut rx) = watch::channel(1);
        let other = rx.clone();
        let look = rx.borrow_and_update();
        let sender = bast_rt::spawn(move || {
            tx.send(2).unwrap();
            tx
        });
        settle();
        assert!(!sender.is_finished());
        assert_eq!((*other.borrow(), *look), (1, 1));
        drop(look);
        let tx = sender.join().unwrap();
        assert_eq!((*rx.borrow(), rx.has_changed()), (2, Ok(true)));
        // Cancelled while it waits: nothing has happened.
        let alive = Alive::default();
        let token = alive.token(1);
        let look = rx.borrow_and_update();
        let theirs = tx.clone();
        cancel(bast_rt::spawn(move || {
            let token = token;
            theirs.send(token.id as i32 + 2)
        }));
        drop(look);
        assert_eq!((*rx.borrow(), rx.has_changed(), alive.count()), (2, Ok(false), 0));
    });
}

#[test]
fn a_panic_in_a_change_or_a_condition() {
    let (tx, mut rx) = watch::channel(1);
    let panics = catch_unwind(AssertUnwindSafe(|| {
        tx.send_modify(|value| {
            *value = 2;
            std::panic::resume_unwind(Box::new(()));
        });
    }));
    assert!(panics.is_err());
    // Not announced, and not in the way.
    assert_eq!((*rx.borrow(), rx.has_changed()), (2, Ok(false)));
    tx.send(3).unwrap();
    let panics = catch_unwind(AssertUnwindSafe(|| {
        drop(rx.wait_for(|_| std::panic::resume_unwind(Box::new(()))));
    }));
    assert!(panics.is_err());
    tx.send(4).unwrap();
    assert_eq!(*rx.borrow(), 4);
}

#[test]
fn cancellation_and_timeouts() {
    everywhere(|| {
        let (tx, mut rx) = watch::channel(1);
        for timeout in [Duration::ZERO, SHORT] {
            assert!(bast_rt::timeout(timeout, || rx.changed()).is_err());
            assert!(bast_rt::timeout(timeout, || rx.wait_for(|_| false).is_ok()).is_err());
            assert!(bast_rt::timeout(timeout, || tx.closed()).is_err());
        }
        let mut theirs = rx.clone();
        cancel(bast_rt::spawn(move || theirs.changed()));
        let theirs = tx.clone();
        cancel(bast_rt::spawn(move || theirs.closed()));
        tx.send(2).unwrap();
        assert_eq!(rx.changed(), Ok(()));
        let waiter = bast_rt::spawn(move || tx.closed());
        bast_rt::sleep(SHORT);
        drop(rx);
        waiter.join().unwrap();
    });
}

#[test]
fn values_are_dropped_once() {
    let alive = Alive::default();
    let (tx, rx) = watch::channel(alive.token(1));
    tx.send(alive.token(2)).unwrap();
    assert_eq!(alive.count(), 1);
    drop(tx.send_replace(alive.token(3)));
    assert_eq!((rx.borrow().id, alive.count()), (3, 1));
    drop(rx);
    assert_eq!(tx.send(alive.token(4)).unwrap_err().0.id, 4);
    drop(tx);
    assert_eq!(alive.count(), 0);
}

/// Two halves that belong together, and numbers that only grow.
fn stress(seed: u64) {
    const LAST: u64 = 600;
    let (tx, rx) = watch::channel((0_u64, 0_u64));
    let tx = Arc::new(tx);
    let receivers: Vec<_> = (0..10)
        .map(|i| {
            let (mut rx, mut random) = (rx.clone(), Random::new(seed * 100 + i));
            bast_rt::spawn(move || {
                let mut last = 0;
                while last < LAST {
                    let waited =
                        bast_rt::timeout(Duration::from_micros(random.below(100)), || rx.changed());
                    if let Ok(Err(RecvError)) = waited {
                        panic!("the sender has gone");
                    }
                    let look = rx.borrow_and_update();
                    if random.below(10) == 0 {
                        bast_rt::yield_now();
                    }
                    let (a, b) = *look;
                    assert_eq!(a, b);
                    assert!(a >= last);
                    last = a;
                }
                assert_eq!(rx.has_changed(), Ok(false));
            })
        })
        .collect();
    let guests: Vec<_> = (0..10)
        .map(|_| {
            let mut rx = rx.clone();
            bast_rt::spawn(move || drop(rx.wait_for(|_| false)))
        })
        .collect();
    let senders: Vec<_> = (0..3)
        .map(|_| {
            let tx = Arc::clone(&tx);
            bast_rt::spawn(move || {
                for _ in 0..LAST / 3 {
                    tx.send_modify(|(a, b)| {
                        *a += 1;
                        bast_rt::yield_now();
                        *b += 1;
                    });
                }
            })
        })
        .collect();
    for guest in guests {
        bast_rt::sleep(Duration::from_micros(50));
        guest.cancel();
        assert!(is_cancelled(&guest.join()));
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
    assert_eq!(*tx.borrow(), (LAST, LAST));
}

#[test]
fn nobody_sees_half_a_change_or_misses_the_last() {
    everywhere(|| stress(1));
    simulated(20, stress);
}
