//! Twins: `mpsc`, after std's documentation and in the spirit of std's own tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::twins;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

/// Counts its drops.
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn drops() -> (Arc<AtomicUsize>, impl Fn() -> Drops) {
    let count = Arc::new(AtomicUsize::new(0));
    let there = Arc::clone(&count);
    (count, move || Drops(Arc::clone(&there)))
}

twins! {
    fn what_is_sent_is_received() {
        let (tx, rx) = mpsc::channel();
        tx.send(1).unwrap();
        assert_eq!(rx.recv(), Ok(1));
        let (tx, rx) = mpsc::channel();
        tx.send(Box::new(String::from("moved"))).unwrap();
        assert_eq!(*rx.recv().unwrap(), "moved");
        let (tx, rx) = mpsc::sync_channel(1);
        tx.send(()).unwrap();
        assert_eq!(rx.recv(), Ok(()));
    }

    fn from_elsewhere_in_order() {
        let (tx, rx) = mpsc::channel();
        let sender = spawn(move || (0..10_000).for_each(|n| tx.send(n).unwrap()));
        for n in 0..10_000 {
            assert_eq!(rx.recv(), Ok(n));
        }
        assert_eq!(rx.recv(), Err(mpsc::RecvError));
        sender.join().unwrap();
    }

    fn synchronously_in_order() {
        for bound in [0, 1, 3, 100] {
            let (tx, rx) = mpsc::sync_channel(bound);
            let sender = spawn(move || (0..2000).for_each(|n| tx.send(n).unwrap()));
            assert!(rx.iter().eq(0..2000));
            sender.join().unwrap();
        }
    }

    fn the_types_can_be_sent_and_shared() {
        fn is_send<T: Send>(_: &T) {}
        fn is_sync<T: Sync>(_: &T) {}
        let (tx, rx) = mpsc::channel::<u8>();
        is_send(&tx);
        is_sync(&tx);
        is_send(&rx);
        let (tx, _rx) = mpsc::sync_channel::<u8>(1);
        is_send(&tx);
        is_sync(&tx);
    }

    fn a_shared_sender() {
        let (tx, rx) = mpsc::channel();
        let (sync, sync_rx) = mpsc::sync_channel(0);
        scope(|s| {
            for n in 0..4 {
                let (tx, sync) = (&tx, &sync);
                s.spawn(move || {
                    for m in 0..100 {
                        tx.send(100 * n + m).unwrap();
                        sync.send(100 * n + m).unwrap();
                    }
                });
            }
            let mut synced: Vec<i32> = (0..400).map(|_| sync_rx.recv().unwrap()).collect();
            synced.sort();
            assert!(synced.into_iter().eq(0..400));
        });
        let mut got: Vec<i32> = rx.try_iter().collect();
        got.sort();
        assert!(got.into_iter().eq(0..400));
    }

    fn sending_to_nobody() {
        let (tx, rx) = mpsc::channel();
        drop(rx);
        assert_eq!(tx.send(1), Err(mpsc::SendError(1)));
        for bound in [0, 1] {
            let (tx, rx) = mpsc::sync_channel(bound);
            drop(rx);
            assert_eq!(tx.send(1), Err(mpsc::SendError(1)));
            assert_eq!(tx.try_send(1), Err(mpsc::TrySendError::Disconnected(1)));
        }
    }

    fn receiving_from_nobody() {
        let (tx, rx) = mpsc::channel();
        tx.send(1).unwrap();
        let other = tx.clone();
        drop(tx);
        assert_eq!(rx.recv(), Ok(1));
        assert_eq!(rx.try_recv(), Err(mpsc::TryRecvError::Empty));
        other.send(2).unwrap();
        drop(other);
        // What was sent before still arrives.
        assert_eq!(rx.try_recv(), Ok(2));
        assert_eq!(rx.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        assert_eq!(rx.recv(), Err(mpsc::RecvError));
        assert_eq!(rx.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
        let (tx, rx) = mpsc::sync_channel(2);
        tx.send(1).unwrap();
        tx.send(2).unwrap();
        drop(tx);
        assert!(rx.iter().eq([1, 2]));
        assert_eq!(rx.recv(), Err(mpsc::RecvError));
    }

    fn the_receiver_goes_while_a_sender_waits() {
        for bound in [0, 1] {
            let (tx, rx) = mpsc::sync_channel(bound);
            (0..bound).for_each(|n| tx.send(n).unwrap());
            let senders: Vec<_> = (0..5).map(|n| {
                let tx = tx.clone();
                spawn(move || tx.send(100 + n))
            }).collect();
            sleep(SHORT);
            drop(rx);
            for (n, sender) in senders.into_iter().enumerate() {
                assert_eq!(sender.join().unwrap(), Err(mpsc::SendError(100 + n)));
            }
        }
    }

    fn the_last_sender_goes_while_the_receiver_waits() {
        for bound in [None, Some(0), Some(1)] {
            let (tx, rx) = match bound {
                None => {
                    let (tx, rx) = mpsc::channel::<u8>();
                    (Ok(tx), rx)
                }
                Some(bound) => {
                    let (tx, rx) = mpsc::sync_channel(bound);
                    (Err(tx), rx)
                }
            };
            let receiver = spawn(move || {
                let waited = rx.recv_timeout(LONG);
                (waited, rx.recv())
            });
            let other = tx.clone();
            sleep(SHORT);
            drop(tx);
            sleep(SHORT);
            drop(other);
            let disconnected = Err(mpsc::RecvTimeoutError::Disconnected);
            assert_eq!(receiver.join().unwrap(), (disconnected, Err(mpsc::RecvError)));
        }
    }

    fn a_sender_goes_by_panicking() {
        let (tx, rx) = mpsc::channel::<u8>();
        let sender = spawn(move || {
            let _tx = tx;
            panic!("expected");
        });
        assert_eq!(rx.recv(), Err(mpsc::RecvError));
        assert!(sender.join().is_err());
        let (tx, rx) = mpsc::sync_channel(0);
        let receiver = spawn(move || {
            let _rx = rx;
            panic!("expected");
        });
        assert_eq!(tx.send(1), Err(mpsc::SendError(1)));
        assert!(receiver.join().is_err());
    }

    fn a_rendezvous() {
        let (tx, rx) = mpsc::sync_channel(0);
        assert_eq!(tx.try_send(0), Err(mpsc::TrySendError::Full(0)));
        let received = Arc::new(AtomicUsize::new(0));
        let receiver = {
            let received = Arc::clone(&received);
            spawn(move || {
                for n in 1..=100 {
                    if n % 10 == 0 {
                        sleep(Duration::from_millis(1));
                    }
                    received.store(n, Ordering::SeqCst);
                    assert_eq!(rx.recv(), Ok(n));
                }
            })
        };
        for n in 1..=100 {
            tx.send(n).unwrap();
            // It has been taken, so its receive had begun.
            assert!(received.load(Ordering::SeqCst) >= n);
        }
        receiver.join().unwrap();
        assert_eq!(tx.send(0), Err(mpsc::SendError(0)));
    }

    fn a_rendezvous_with_one_who_waits_already() {
        let (tx, rx) = mpsc::sync_channel(0);
        let receiver = spawn(move || (rx.recv(), rx.recv()));
        let start = Instant::now();
        let mut sent = 0;
        while sent < 2 {
            match tx.try_send(sent) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error, mpsc::TrySendError::Full(sent));
                    assert!(start.elapsed() < LONG);
                    yield_now();
                }
            }
        }
        assert_eq!(receiver.join().unwrap(), (Ok(0), Ok(1)));
    }

    fn a_full_channel() {
        let (tx, rx) = mpsc::sync_channel(2);
        assert_eq!(tx.try_send(1), Ok(()));
        assert_eq!(tx.try_send(2), Ok(()));
        assert_eq!(tx.try_send(3), Err(mpsc::TrySendError::Full(3)));
        assert_eq!(rx.try_recv(), Ok(1));
        assert_eq!(tx.try_send(4), Ok(()));
        let waiting = {
            let tx = tx.clone();
            spawn(move || tx.send(5))
        };
        sleep(SHORT);
        assert_eq!(rx.recv(), Ok(2));
        waiting.join().unwrap().unwrap();
        assert_eq!(tx.try_send(6), Err(mpsc::TrySendError::Full(6)));
        drop(tx);
        assert!(rx.into_iter().eq([4, 5]));
    }

    fn a_bound_holds() {
        let (tx, rx) = mpsc::sync_channel(3);
        let sent = Arc::new(AtomicUsize::new(0));
        let sender = {
            let sent = Arc::clone(&sent);
            spawn(move || for n in 0..500 {
                tx.send(n).unwrap();
                sent.fetch_add(1, Ordering::SeqCst);
            })
        };
        for n in 0..500 {
            assert!(sent.load(Ordering::SeqCst) <= n + 3);
            assert_eq!(rx.recv(), Ok(n));
        }
        sender.join().unwrap();
    }

    fn iterators() {
        let (tx, rx) = mpsc::channel();
        assert_eq!(rx.try_iter().next(), None);
        tx.send(1).unwrap();
        tx.send(2).unwrap();
        assert!(rx.try_iter().eq([1, 2]));
        let sender = spawn(move || for n in 0..10 {
            tx.send(n).unwrap();
            yield_now();
        });
        let mut count = 0;
        for n in &rx {
            assert_eq!(n, count);
            count += 1;
            if count == 5 {
                break;
            }
        }
        assert_eq!(rx.iter().next(), Some(5));
        assert!(rx.into_iter().eq(6..10));
        sender.join().unwrap();
    }

    fn timeouts() {
        let (tx, rx) = mpsc::channel();
        for timeout in [Duration::ZERO, Duration::from_nanos(1), SHORT] {
            let start = Instant::now();
            assert_eq!(rx.recv_timeout(timeout), Err(mpsc::RecvTimeoutError::Timeout));
            assert!((timeout..LONG).contains(&start.elapsed()));
        }
        tx.send(1).unwrap();
        assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(1));
        let sender = spawn(move || {
            for n in 0..20 {
                sleep(Duration::from_millis(n % 3));
                tx.send(n).unwrap();
            }
        });
        let (mut got, mut next) = (0, 0);
        while got < 20 {
            match rx.recv_timeout(Duration::from_millis(1)) {
                Ok(n) => {
                    assert_eq!(n, next);
                    (got, next) = (got + 1, next + 1);
                }
                Err(error) => assert_eq!(error, mpsc::RecvTimeoutError::Timeout),
            }
        }
        sender.join().unwrap();
    }

    fn a_timeout_without_end() {
        let (tx, rx) = mpsc::sync_channel(1);
        let receiver = spawn(move || (rx.recv_timeout(Duration::MAX), rx.recv_timeout(Duration::MAX)));
        sleep(SHORT);
        tx.send(1).unwrap();
        drop(tx);
        let (first, second) = receiver.join().unwrap();
        assert_eq!((first, second), (Ok(1), Err(mpsc::RecvTimeoutError::Disconnected)));
    }

    fn messages_are_dropped_with_the_receiver() {
        let (count, token) = drops();
        let (tx, rx) = mpsc::channel();
        (0..100).for_each(|_| tx.send(token()).unwrap());
        drop(rx.recv());
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(rx);
        assert_eq!(count.load(Ordering::SeqCst), 100);
        let back = tx.send(token()).unwrap_err();
        assert_eq!(count.load(Ordering::SeqCst), 100);
        drop(back);
        assert_eq!(count.load(Ordering::SeqCst), 101);
        let (count, token) = drops();
        let (tx, rx) = mpsc::sync_channel(3);
        (0..3).for_each(|_| tx.send(token()).unwrap());
        drop(tx.try_send(token()));
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(tx);
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(rx);
        assert_eq!(count.load(Ordering::SeqCst), 4);
    }

    fn channels_in_channels() {
        let (tx, rx) = mpsc::channel();
        let server = spawn(move || {
            let requests: mpsc::Receiver<(u32, mpsc::Sender<u32>)> = rx;
            for (n, reply) in requests {
                reply.send(2 * n).unwrap();
            }
        });
        for n in 0..100 {
            let (reply, answer) = mpsc::channel();
            tx.send((n, reply)).unwrap();
            assert_eq!(answer.recv(), Ok(2 * n));
            assert_eq!(answer.recv(), Err(mpsc::RecvError));
        }
        drop(tx);
        server.join().unwrap();
    }

    fn a_receiver_that_moves() {
        let (tx, rx) = mpsc::channel();
        tx.send(1).unwrap();
        tx.send(2).unwrap();
        tx.send(3).unwrap();
        assert_eq!(rx.recv(), Ok(1));
        let rx = spawn(move || {
            assert_eq!(rx.recv(), Ok(2));
            rx
        }).join().unwrap();
        assert_eq!(rx.recv(), Ok(3));
        tx.send(4).unwrap();
        spawn(move || assert_eq!(rx.recv(), Ok(4))).join().unwrap();
        assert_eq!(tx.send(5), Err(mpsc::SendError(5)));
    }

    fn what_they_look_like() {
        let (tx, rx) = mpsc::channel::<u8>();
        assert_eq!(format!("{tx:?} {rx:?}"), "Sender { .. } Receiver { .. }");
        let (tx, _rx) = mpsc::sync_channel::<u8>(1);
        assert_eq!(format!("{tx:?}"), "SyncSender { .. }");
    }

    fn large_and_empty_messages() {
        let (tx, rx) = mpsc::sync_channel(2);
        let sender = spawn(move || (0..50).for_each(|n| tx.send([n; 200]).unwrap()));
        assert!(rx.iter().zip(0_u64..).all(|(got, n)| got == [n; 200]));
        sender.join().unwrap();
        let (tx, rx) = mpsc::channel();
        (0..5000).for_each(|_| tx.send(()).unwrap());
        assert_eq!(rx.try_iter().count(), 5000);
    }

    fn a_long_backlog() {
        let (tx, rx) = mpsc::channel();
        (0..200_000_u32).for_each(|n| tx.send(n).unwrap());
        assert!(rx.try_iter().eq(0..200_000));
        // And after it, small ones again.
        for n in 0..100 {
            tx.send(n).unwrap();
            assert_eq!(rx.recv(), Ok(n));
        }
    }

    fn many_senders() {
        const SENDERS: usize = 8;
        const EACH: usize = 2000;
        for bound in [None, Some(0), Some(1), Some(16)] {
            let (receiver, senders): (_, Vec<_>) = match bound {
                None => {
                    let (tx, rx) = mpsc::channel();
                    (rx, (0..SENDERS).map(|id| {
                        let tx = tx.clone();
                        spawn(move || (0..EACH).for_each(|n| tx.send((id, n)).unwrap()))
                    }).collect())
                }
                Some(bound) => {
                    let (tx, rx) = mpsc::sync_channel(bound);
                    (rx, (0..SENDERS).map(|id| {
                        let tx = tx.clone();
                        spawn(move || (0..EACH).for_each(|n| tx.send((id, n)).unwrap()))
                    }).collect())
                }
            };
            let mut next = [0; SENDERS];
            for (id, n) in receiver {
                assert_eq!(next[id], n);
                next[id] += 1;
            }
            assert_eq!(next, [EACH; SENDERS]);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        }
    }

    fn senders_come_and_go() {
        let (tx, rx) = mpsc::channel();
        let senders: Vec<_> = (0..20).map(|id| {
            let tx = tx.clone();
            spawn(move || for n in 0..20 {
                let tx = tx.clone();
                spawn(move || tx.send(20 * id + n).unwrap());
            })
        }).collect();
        drop(tx);
        let mut got: Vec<i32> = rx.iter().collect();
        got.sort();
        assert!(got.into_iter().eq(0..400));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}
