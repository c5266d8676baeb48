//! Channels with many receivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use bast_rt::Instant;
use bast_sync::mpmc::{
    self, RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};

use super::{Alive, SHORT, on_both, on_fiber};

#[test]
fn what_it_says_of_itself() {
    on_both(|| {
        let (tx, rx) = mpmc::sync_channel(2);
        assert_eq!((tx.capacity(), rx.capacity()), (Some(2), Some(2)));
        assert!(tx.is_empty() && rx.is_empty() && !tx.is_full() && !rx.is_full());
        tx.send(1).unwrap();
        assert_eq!((tx.len(), rx.len(), tx.is_empty(), tx.is_full()), (1, 1, false, false));
        tx.send(2).unwrap();
        assert!(tx.is_full() && rx.is_full());
        assert!(tx.same_channel(&tx.clone()) && rx.same_channel(&rx.clone()));
        let (other, _rx) = mpmc::sync_channel(2);
        assert!(!tx.same_channel(&other));
        other.send(0).unwrap();
        let (tx, rx) = mpmc::channel();
        assert_eq!(tx.capacity(), None);
        tx.send(1).unwrap();
        assert!(!tx.is_full());
        assert_eq!(rx.len(), 1);
        let (tx, _rx) = mpmc::sync_channel::<()>(0);
        assert!(tx.is_empty() && tx.is_full());
        assert_eq!(format!("{tx:?}"), "Sender { .. }");
    });
}

#[test]
fn disconnection() {
    on_both(|| {
        for bound in [None, Some(0), Some(1), Some(10)] {
            let pair = || bound.map_or_else(mpmc::channel, mpmc::sync_channel::<u8>);
            let (tx, rx) = pair();
            let (tx2, rx2) = (tx.clone(), rx.clone());
            drop(rx);
            drop(tx);
            let queued = bound != Some(0);
            if queued {
                tx2.send(1).unwrap();
            }
            drop(tx2);
            if queued {
                assert_eq!(rx2.recv(), Ok(1));
            }
            assert_eq!(rx2.recv(), Err(RecvError));
            assert_eq!(rx2.try_recv(), Err(TryRecvError::Disconnected));
            assert_eq!(rx2.recv_timeout(SHORT), Err(RecvTimeoutError::Disconnected));
            let (tx, rx) = pair();
            drop(rx);
            assert_eq!(tx.send(1), Err(SendError(1)));
            assert_eq!(tx.try_send(1), Err(TrySendError::Disconnected(1)));
            assert_eq!(tx.send_timeout(1, SHORT), Err(SendTimeoutError::Disconnected(1)));
        }
    });
}

#[test]
fn timeouts() {
    on_both(|| {
        let (tx, rx) = mpmc::sync_channel(1);
        for timeout in [Duration::ZERO, SHORT] {
            let start = Instant::now();
            assert_eq!(rx.recv_timeout(timeout), Err(RecvTimeoutError::Timeout));
            assert_eq!(rx.recv_deadline(start), Err(RecvTimeoutError::Timeout));
            assert!(start.elapsed() >= timeout);
        }
        tx.send_timeout(1, Duration::ZERO).unwrap();
        for timeout in [Duration::ZERO, SHORT] {
            let start = Instant::now();
            assert_eq!(tx.send_timeout(2, timeout), Err(SendTimeoutError::Timeout(2)));
            assert_eq!(tx.send_deadline(2, start), Err(SendTimeoutError::Timeout(2)));
            assert!(start.elapsed() >= timeout);
        }
        assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(1));
        let receiver = {
            let rx = rx.clone();
            bast_rt::spawn(move || (rx.recv_timeout(Duration::MAX), rx.recv()))
        };
        bast_rt::sleep(SHORT);
        tx.send_timeout(3, Duration::MAX).unwrap();
        tx.send(4).unwrap();
        assert_eq!(receiver.join().unwrap(), (Ok(3), Ok(4)));
    });
}

#[test]
fn those_who_wait_are_served_in_their_order() {
    // One worker: who comes first is certain.
    let runtime = bast_rt::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        for bound in [0, 1, 5] {
            let (tx, rx) = mpmc::sync_channel(bound);
            let senders: Vec<_> = (0..50)
                .map(|n| {
                    let tx = tx.clone();
                    bast_rt::spawn_local(move || tx.send(n).unwrap())
                })
                .collect();
            bast_rt::yield_now();
            for n in 0..50 {
                assert_eq!(rx.recv(), Ok(n));
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let receivers: Vec<_> = (0..50)
                .map(|n| {
                    let rx = rx.clone();
                    bast_rt::spawn_local(move || assert_eq!(rx.recv(), Ok(n)))
                })
                .collect();
            bast_rt::yield_now();
            for n in 0..50 {
                tx.send(n).unwrap();
            }
            receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        }
    });
}

#[test]
fn a_capacity_is_exact() {
    on_fiber(|| {
        for bound in [0, 1, 7] {
            let (tx, rx) = mpmc::sync_channel(bound);
            let sent = Arc::new(AtomicU64::new(0));
            let sender = {
                let sent = Arc::clone(&sent);
                bast_rt::spawn(move || {
                    for n in 0..1000 {
                        tx.send(n).unwrap();
                        sent.fetch_add(1, SeqCst);
                    }
                })
            };
            for n in 0..1000 {
                assert!(sent.load(SeqCst) <= n + bound as u64);
                assert!(rx.len() <= bound);
                assert_eq!(rx.recv(), Ok(n));
                // One that it received, one whose sender has been let in and not yet counted.
                assert!(sent.load(SeqCst) <= n + 1 + bound as u64);
            }
            sender.join().unwrap();
        }
    });
}

/// Fibers and threads on both sides: every message arrives once, those of one sender in order.
#[test]
fn everything_arrives_once() {
    on_both(|| {
        const SENDERS: u64 = 6;
        const EACH: u64 = 3000;
        for bound in [None, Some(0), Some(1), Some(64)] {
            let alive = Alive::default();
            let (tx, rx) = bound.map_or_else(mpmc::channel, mpmc::sync_channel);
            let send = |sender: u64| {
                let (tx, alive) = (tx.clone(), alive.clone());
                move || {
                    for n in 0..EACH {
                        tx.send(alive.token(sender * EACH + n)).unwrap();
                    }
                }
            };
            let receive = || {
                let rx = rx.clone();
                move || {
                    let mut last = [None; SENDERS as usize];
                    let mut got = Vec::new();
                    for token in rx {
                        let sender = (token.id / EACH) as usize;
                        assert!(last[sender] < Some(token.id));
                        last[sender] = Some(token.id);
                        got.push(token.id);
                    }
                    got
                }
            };
            let fibers: Vec<_> = (0..4).map(|n| bast_rt::spawn(send(n))).collect();
            let threads: Vec<_> = (4..6).map(|n| thread::spawn(send(n))).collect();
            let receiving: Vec<_> = (0..3).map(|_| bast_rt::spawn(receive())).collect();
            let blocked: Vec<_> = (0..2).map(|_| thread::spawn(receive())).collect();
            drop((tx, rx));
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            let mut all: Vec<u64> =
                receiving.into_iter().flat_map(|fiber| fiber.join().unwrap()).collect();
            bast_rt::run_blocking(|| {
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                all.extend(blocked.into_iter().flat_map(|thread| thread.join().unwrap()));
            });
            all.sort();
            assert_eq!(all, (0..SENDERS * EACH).collect::<Vec<_>>());
            assert_eq!(alive.count(), 0);
        }
    });
}

#[test]
fn what_nobody_receives_is_dropped_with_the_last_receiver() {
    on_both(|| {
        let alive = Alive::default();
        let (tx, rx) = mpmc::channel();
        let rx2 = rx.clone();
        (0..10).for_each(|n| tx.send(alive.token(n)).unwrap());
        drop(rx.recv());
        drop(rx);
        assert_eq!(alive.count(), 9);
        drop(rx2);
        assert_eq!(alive.count(), 0);
        let back = tx.send(alive.token(0)).unwrap_err();
        assert_eq!((alive.count(), back.0.id), (1, 0));
    });
}

/// A destructor of a message may use the channel: it does not run under the lock.
#[test]
fn a_message_may_hold_its_channel() {
    struct Loop(mpmc::Sender<Loop>);
    impl Drop for Loop {
        fn drop(&mut self) {
            assert!(self.0.is_empty());
        }
    }
    on_both(|| {
        let (tx, rx) = mpmc::channel();
        tx.send(Loop(tx.clone())).unwrap();
        drop(rx);
    });
}
