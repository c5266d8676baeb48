//! `broadcast`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use bast_sync::broadcast::{self, RecvError, RecvTimeoutError, SendError, TryRecvError};

use super::{
    Alive, LONG, Random, SHORT, Token, cancel, everywhere, is_cancelled, on_workers, settle,
    simulated,
};

#[test]
fn every_receiver_sees_every_message_from_its_beginning_on() {
    everywhere(|| {
        let (tx, mut one) = broadcast::channel(4);
        assert_eq!(tx.send(1), Ok(1));
        let mut two = tx.subscribe();
        assert_eq!(tx.send(2), Ok(2));
        let mut three = one.resubscribe();
        assert_eq!(tx.clone().send(3), Ok(3));
        assert_eq!((tx.len(), tx.receiver_count(), one.len(), three.len()), (3, 3, 3, 1));
        assert_eq!([one.recv(), one.recv(), one.recv()], [Ok(1), Ok(2), Ok(3)]);
        assert_eq!([two.recv(), two.recv()], [Ok(2), Ok(3)]);
        assert_eq!(one.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(three.try_recv(), Ok(3));
        assert!(tx.is_empty() && one.is_empty() && !one.is_closed());
        drop(tx);
        assert!(one.is_closed());
        assert_eq!(one.recv(), Err(RecvError::Closed));
        assert_eq!(two.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(three.recv_timeout(LONG), Err(RecvTimeoutError::Closed));
    });
}

#[test]
fn a_slow_receiver_is_told_what_it_has_missed() {
    let (tx, mut rx) = broadcast::channel(3);
    (0..10).for_each(|i| assert_eq!(tx.send(i), Ok(1)));
    assert_eq!(rx.len(), 10);
    assert_eq!(rx.recv(), Err(RecvError::Lagged(7)));
    assert_eq!([rx.recv(), rx.recv(), rx.recv()], [Ok(7), Ok(8), Ok(9)]);
    (0..4).for_each(|i| assert_eq!(tx.send(i), Ok(1)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Lagged(1)));
    assert_eq!(rx.try_recv(), Ok(1));
    (0..2).for_each(|i| assert_eq!(tx.send(i), Ok(1)));
    drop(tx);
    // What was sent before the end comes before it.
    assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Lagged(1)));
    assert_eq!([rx.recv(), rx.recv(), rx.recv()], [Ok(3), Ok(0), Ok(1)]);
    assert_eq!(rx.recv(), Err(RecvError::Closed));
    assert_eq!(RecvError::Lagged(3).to_string(), "the receiver has missed 3 messages");
}

#[test]
fn without_receivers_a_message_comes_back() {
    let alive = Alive::default();
    let (tx, rx) = broadcast::channel(1);
    drop(rx);
    let SendError(token) = tx.send(alive.token(5)).unwrap_err();
    assert_eq!((token.id, alive.count()), (5, 1));
    let mut rx = tx.subscribe();
    assert_eq!(tx.send(token).unwrap(), 1);
    assert_eq!(rx.recv().unwrap().id, 5);
    assert_eq!(alive.count(), 0);
}

#[test]
#[should_panic(expected = "capacity of at least one")]
fn a_capacity_of_zero_is_refused() {
    drop(broadcast::channel::<u8>(0));
}

#[test]
fn a_message_goes_with_the_last_who_was_to_see_it() {
    let alive = Alive::default();
    let (tx, mut one) = broadcast::channel(4);
    let two = tx.subscribe();
    (0..3).for_each(|i| assert_eq!(tx.send(alive.token(i)).unwrap(), 2));
    drop(one.recv());
    assert_eq!(alive.count(), 3);
    drop(two);
    // The first has been seen by one, and the other will not see it.
    assert_eq!((alive.count(), tx.len()), (2, 2));
    // The last gets the message itself, and no copy.
    let token = one.recv().unwrap();
    assert_eq!((token.id, alive.count()), (1, 2));
    drop(token);
    // The fifth loses the first.
    (3..7).for_each(|i| assert_eq!(tx.send(alive.token(i)).unwrap(), 1));
    assert_eq!(alive.count(), 4);
    drop((tx, one));
    assert_eq!(alive.count(), 0);
}

#[test]
fn waiting_receivers_are_woken_by_a_message_and_by_the_end() {
    everywhere(|| {
        let (tx, rx) = broadcast::channel(8);
        let receive = |mut rx: broadcast::Receiver<u32>| {
            move || {
                let mut sum = 0;
                while let Ok(value) = rx.recv() {
                    sum += value;
                }
                sum
            }
        };
        let fibers: Vec<_> = (0..20).map(|_| bast_rt::spawn(receive(tx.subscribe()))).collect();
        let thread = thread::spawn(receive(rx));
        for i in 1..=3 {
            bast_rt::sleep(SHORT);
            assert_eq!(tx.send(i), Ok(21));
        }
        drop(tx);
        assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == 6));
        assert_eq!(thread.join().unwrap(), 6);
    });
}

#[test]
fn timeouts_and_cancellation_lose_nothing() {
    everywhere(|| {
        let (tx, mut rx) = broadcast::channel(8);
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(rx.recv_timeout(timeout), Err(RecvTimeoutError::Timeout));
        }
        assert!(bast_rt::timeout(SHORT, || rx.recv()).is_err());
        let mut theirs = tx.subscribe();
        cancel(bast_rt::spawn(move || theirs.recv()));
        assert_eq!(tx.receiver_count(), 1);
        assert_eq!(tx.send(1), Ok(1));
        assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(1));
        let sender = bast_rt::spawn(move || {
            bast_rt::sleep(SHORT);
            tx.send(2)
        });
        assert_eq!(rx.recv_timeout(Duration::MAX), Ok(2));
        assert_eq!(sender.join().unwrap(), Ok(1));
    });
    on_workers(1, || {
        // A message and a cancellation before it runs again: the message counts.
        let (tx, mut rx) = broadcast::channel(8);
        let fiber = bast_rt::spawn(move || rx.recv());
        settle();
        assert_eq!(tx.send(1), Ok(1));
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), Ok(1));
    });
}

/// Each receiver sees consecutive numbers, but for what it is told that it missed.
fn stress(seed: u64) {
    const SENDERS: u64 = 3;
    const EACH: u64 = 300;
    let alive = Alive::default();
    let (tx, rx) = broadcast::channel::<Token>(16);
    let done = Arc::new(AtomicBool::new(false));
    let receivers: Vec<_> = (0..10)
        .map(|i| {
            let (mut rx, mut random) = (rx.resubscribe(), Random::new(seed * 100 + i));
            let done = Arc::clone(&done);
            bast_rt::spawn(move || {
                let (mut seen, mut missed, mut last) = (0, 0, [0; SENDERS as usize]);
                loop {
                    let got = match random.below(3) {
                        0 => rx.recv(),
                        1 => match bast_rt::timeout(Duration::from_micros(5), || rx.recv()) {
                            Ok(got) => got,
                            Err(_) => continue,
                        },
                        _ => match rx.try_recv() {
                            Err(TryRecvError::Empty) => {
                                bast_rt::yield_now();
                                continue;
                            }
                            Ok(token) => Ok(token),
                            Err(TryRecvError::Closed) => Err(RecvError::Closed),
                            Err(TryRecvError::Lagged(n)) => Err(RecvError::Lagged(n)),
                        },
                    };
                    match got {
                        Ok(token) => {
                            seen += 1;
                            let (from, number) = (token.id / 1000, token.id % 1000);
                            // Of each sender in order.
                            assert!(last[from as usize] < number);
                            last[from as usize] = number;
                        }
                        Err(RecvError::Lagged(n)) => missed += n,
                        Err(RecvError::Closed) => break,
                    }
                    if random.below(20) == 0 {
                        bast_rt::sleep(Duration::from_micros(random.below(50)));
                    }
                }
                assert!(done.load(SeqCst));
                (seen, missed)
            })
        })
        .collect();
    // Some come and go, and are cancelled.
    let guests: Vec<_> = (0..10)
        .map(|_| {
            let mut rx = tx.subscribe();
            bast_rt::spawn(move || while !matches!(rx.recv(), Err(RecvError::Closed)) {})
        })
        .collect();
    drop(rx);
    let senders: Vec<_> = (0..SENDERS)
        .map(|from| {
            let (tx, alive) = (tx.clone(), alive.clone());
            let mut random = Random::new(seed * 100 + 50 + from);
            bast_rt::spawn(move || {
                for number in 1..=EACH {
                    assert!(tx.send(alive.token(from * 1000 + number)).unwrap() >= 10);
                    if random.below(4) == 0 {
                        bast_rt::sleep(Duration::from_micros(random.below(20)));
                    }
                }
            })
        })
        .collect();
    for guest in guests {
        bast_rt::sleep(Duration::from_micros(50));
        guest.cancel();
        let result = guest.join();
        assert!(result.is_ok() || is_cancelled(&result));
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    done.store(true, SeqCst);
    drop(tx);
    for receiver in receivers {
        let (seen, missed) = receiver.join().unwrap();
        assert_eq!(seen + missed, SENDERS * EACH);
    }
    assert_eq!(alive.count(), 0);
}

#[test]
fn every_message_is_seen_or_missed() {
    everywhere(|| stress(1));
    simulated(20, stress);
}
