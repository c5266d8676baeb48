//! `oneshot`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bast_sync::oneshot::{self, RecvError, RecvTimeoutError, SendError, TryRecvError};

use super::{
    Alive, LONG, Random, SHORT, cancel, everywhere, is_cancelled, on_workers, settle, simulated,
};

#[test]
fn the_value_arrives() {
    everywhere(|| {
        let (tx, rx) = oneshot::channel();
        assert!(!tx.is_closed());
        tx.send(1).unwrap();
        assert_eq!(rx.recv(), Ok(1));
        let (tx, rx) = oneshot::channel();
        let fiber = bast_rt::spawn(move || {
            bast_rt::sleep(SHORT);
            tx.send(String::from("from a fiber"))
        });
        assert_eq!(rx.recv().unwrap(), "from a fiber");
        assert_eq!(fiber.join().unwrap(), Ok(()));
        let (tx, rx) = oneshot::channel();
        let thread = thread::spawn(move || {
            thread::sleep(SHORT);
            tx.send([7; 20])
        });
        assert_eq!(rx.recv(), Ok([7; 20]));
        assert_eq!(thread.join().unwrap(), Ok(()));
    });
}

#[test]
fn one_end_is_gone() {
    everywhere(|| {
        let alive = Alive::default();
        let (tx, rx) = oneshot::channel::<u8>();
        drop(tx);
        assert_eq!(rx.recv(), Err(RecvError));
        let (tx, rx) = oneshot::channel();
        drop(rx);
        assert!(tx.is_closed());
        tx.closed();
        let SendError(token) = tx.send(alive.token(1)).unwrap_err();
        assert_eq!(token.id, 1);
        drop(token);
        // Sent, and not received.
        let (tx, rx) = oneshot::channel();
        tx.send(alive.token(2)).unwrap();
        assert_eq!(alive.count(), 1);
        drop(rx);
        assert_eq!(alive.count(), 0);
        // Gone while the other waits.
        let (tx, rx) = oneshot::channel::<u8>();
        let fiber = bast_rt::spawn(move || rx.recv());
        bast_rt::sleep(SHORT);
        drop(tx);
        assert_eq!(fiber.join().unwrap(), Err(RecvError));
        let (tx, rx) = oneshot::channel::<u8>();
        let tx = Arc::new(tx);
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let tx = Arc::clone(&tx);
                bast_rt::spawn(move || tx.closed())
            })
            .collect();
        let there = Arc::clone(&tx);
        let thread = thread::spawn(move || there.closed());
        bast_rt::sleep(SHORT);
        drop(rx);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        thread.join().unwrap();
        assert_eq!(Arc::into_inner(tx).unwrap().send(1), Err(SendError(1)));
    });
}

#[test]
fn try_recv_and_timeouts() {
    everywhere(|| {
        let (tx, rx) = oneshot::channel();
        let Err(TryRecvError::Empty(rx)) = rx.try_recv() else { panic!("nothing was sent") };
        let Err(RecvTimeoutError::Timeout(rx)) = rx.recv_timeout(Duration::ZERO) else {
            panic!("nothing was sent")
        };
        let Err(RecvTimeoutError::Timeout(rx)) = rx.recv_timeout(SHORT) else {
            panic!("nothing was sent")
        };
        let fiber = bast_rt::spawn(move || {
            bast_rt::sleep(SHORT);
            tx.send(1)
        });
        assert_eq!(rx.recv_timeout(Duration::MAX).unwrap(), 1);
        fiber.join().unwrap().unwrap();
        let (tx, rx) = oneshot::channel();
        tx.send(2).unwrap();
        assert_eq!(rx.recv_timeout(Duration::ZERO).unwrap(), 2);
        let (tx, rx) = oneshot::channel();
        tx.send(3).unwrap();
        assert_eq!(rx.try_recv().unwrap(), 3);
        let (tx, rx) = oneshot::channel::<u8>();
        drop(tx);
        assert!(matches!(rx.try_recv(), Err(TryRecvError::Disconnected)));
        let (tx, rx) = oneshot::channel::<u8>();
        drop(tx);
        assert!(matches!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected)));
        let (tx, rx) = oneshot::channel::<u8>();
        assert!(bast_rt::timeout(SHORT, || rx.recv()).is_err());
        assert!(tx.is_closed());
        let (tx, _rx) = oneshot::channel::<u8>();
        assert!(bast_rt::timeout(SHORT, || tx.closed()).is_err());
    });
}

#[test]
fn cancelling_who_waits() {
    everywhere(|| {
        let alive = Alive::default();
        let (tx, rx) = oneshot::channel();
        cancel(bast_rt::spawn(move || drop(rx.recv())));
        assert!(tx.send(alive.token(1)).is_err());
        let (tx, rx) = oneshot::channel::<u8>();
        let tx = Arc::new(tx);
        let other = Arc::clone(&tx);
        cancel(bast_rt::spawn(move || other.closed()));
        Arc::into_inner(tx).unwrap().send(5).unwrap();
        assert_eq!(rx.recv(), Ok(5));
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn a_value_that_came_before_the_cancellation_is_returned() {
    on_workers(1, || {
        let (tx, rx) = oneshot::channel();
        let fiber = bast_rt::spawn(move || rx.recv());
        settle();
        tx.send(1).unwrap();
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), Ok(1));
    });
}

/// Both ends do something at about the same time, and the value is somewhere.
fn race(seed: u64) {
    let mut random = Random::new(seed);
    let alive = Alive::default();
    let pause = |n: u64| (0..n).for_each(|_| bast_rt::yield_now());
    for id in 0..300 {
        let (tx, rx) = oneshot::channel();
        let (before, after, how) = (random.below(4), random.below(4), random.below(6));
        let token = alive.token(id);
        let sender = bast_rt::spawn(move || {
            pause(before);
            match how {
                0 => drop(tx),
                1 => tx.closed(),
                _ => return tx.send(token).map_err(|SendError(token)| token.id),
            }
            Err(token.id)
        });
        let how = random.below(4);
        let receiver = bast_rt::spawn(move || {
            pause(after);
            match how {
                0 => None,
                1 => rx.try_recv().ok(),
                2 => rx.recv_timeout(Duration::from_micros(20)).ok(),
                _ => rx.recv().ok(),
            }
        });
        if random.below(2) == 0 {
            pause(random.below(5));
            receiver.cancel();
        } else if how == 3 {
            // `closed` and `recv` would wait for each other.
            bast_rt::sleep(Duration::from_micros(50));
            receiver.cancel();
        }
        let sent = sender.join().unwrap();
        match receiver.join() {
            Ok(Some(token)) => assert_eq!((token.id, sent), (id, Ok(()))),
            Ok(None) => {}
            Err(payload) => assert!(is_cancelled::<()>(&Err(payload))),
        }
        assert_eq!(alive.count(), 0);
    }
}

#[test]
fn both_ends_at_once() {
    everywhere(|| race(1));
    simulated(20, race);
}
