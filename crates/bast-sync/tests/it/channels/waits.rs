//! Waiting in a channel and being stopped.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Release};
use std::time::Duration;

use bast_rt::{Runtime, interruptible, timeout, wait};
use bast_sync::mpmc::{self, SendTimeoutError};
use bast_sync::mpsc::{self, RecvTimeoutError};

use super::{Alive, LONG, SHORT, is_cancelled, on_both, on_fiber};

#[test]
fn a_cancelled_receiver_leaves_and_takes_nothing() {
    on_fiber(|| {
        for bound in [None, Some(0), Some(1)] {
            let (tx, rx) = bound.map_or_else(mpmc::channel, mpmc::sync_channel);
            let fiber = {
                let rx = rx.clone();
                bast_rt::spawn(move || rx.recv())
            };
            bast_rt::sleep(SHORT);
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
            let sender = bast_rt::spawn(move || tx.send(1).unwrap());
            assert_eq!(rx.recv(), Ok(1));
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_cancelled_sender_leaves_and_its_message_is_dropped() {
    on_fiber(|| {
        for bound in [0, 1] {
            let alive = Alive::default();
            let (tx, rx) = mpmc::sync_channel(bound);
            (0..bound).for_each(|n| tx.send(alive.token(n as u64)).unwrap());
            let fiber = {
                let (tx, token) = (tx.clone(), alive.token(100));
                bast_rt::spawn(move || tx.send(token))
            };
            bast_rt::sleep(SHORT);
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
            assert_eq!(alive.count(), bound as isize);
            drop(tx);
            assert_eq!(rx.iter().count(), bound);
        }
    });
}

#[test]
fn a_timeout_around_a_wait() {
    on_both(|| {
        let (tx, rx) = mpsc::sync_channel(1);
        assert!(timeout(SHORT, || rx.recv()).is_err());
        tx.send(1).unwrap();
        assert!(timeout(SHORT, || tx.send(2)).is_err());
        assert_eq!(timeout(Duration::ZERO, || rx.recv()), Ok(Ok(1)));
        assert!(timeout(Duration::ZERO, || rx.recv()).is_err());
        tx.send(3).unwrap();
        assert_eq!(timeout(LONG, || rx.recv_timeout(SHORT)), Ok(Ok(3)));
        assert_eq!(
            timeout(LONG, || rx.recv_timeout(Duration::ZERO)),
            Ok(Err(RecvTimeoutError::Timeout))
        );
    });
}

#[test]
fn a_flag_interrupts() {
    on_fiber(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let (who_tx, who_rx) = mpsc::channel();
        let fiber = {
            let flag = Arc::clone(&flag);
            bast_rt::spawn(move || {
                let (_tx, rx) = mpsc::channel::<u8>();
                who_tx.send(wait::me()).unwrap();
                interruptible(&flag, || rx.recv())
            })
        };
        let who = who_rx.recv().unwrap();
        bast_rt::sleep(SHORT);
        flag.store(true, Release);
        who.interrupt();
        assert_eq!(fiber.join().unwrap(), None);
    });
}

/// A message that has been handed to a receiver counts, whatever else is due by then.
#[test]
fn what_was_handed_over_is_received() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (tx, rx) = mpsc::channel();
        let receiver = bast_rt::spawn_local(move || {
            let got = rx.recv();
            assert_eq!(got, Ok(7));
            bast_rt::yield_now();
            unreachable!("cancelled");
        });
        bast_rt::yield_now();
        tx.send(7).unwrap();
        receiver.cancel();
        assert!(is_cancelled(&receiver.join()));
        // The same for a sender whose message was taken.
        let (tx, rx) = mpsc::sync_channel(0);
        let sender = bast_rt::spawn_local(move || {
            tx.send(7).unwrap();
            bast_rt::yield_now();
            unreachable!("cancelled");
        });
        bast_rt::yield_now();
        assert_eq!(rx.recv(), Ok(7));
        sender.cancel();
        assert!(is_cancelled(&sender.join()));
    });
}

/// Somebody who always finds a message is cancelled all the same.
#[test]
fn busy_ones_are_cancelled() {
    on_fiber(|| {
        let (tx, rx) = mpsc::channel();
        let both = bast_rt::spawn(move || -> () {
            loop {
                tx.send(1).unwrap();
                rx.recv().unwrap();
            }
        });
        let (tx, rx) = mpmc::sync_channel(1);
        let bounded = bast_rt::spawn(move || -> () {
            loop {
                tx.send(1).unwrap();
                rx.recv().unwrap();
            }
        });
        bast_rt::sleep(SHORT);
        for fiber in [both, bounded] {
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
        }
    });
}

/// rt 4: on one worker, others get their turn.
#[test]
fn busy_ones_let_others_run() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (stop, stopped) = mpsc::channel();
        let other = bast_rt::spawn_local(move || {
            bast_rt::sleep(SHORT);
            stop.send(()).unwrap();
        });
        let (tx, rx) = mpsc::channel();
        while stopped.try_recv().is_err() {
            tx.send(1).unwrap();
            rx.recv().unwrap();
        }
        other.join().unwrap();
    });
}

/// A receiver is not Sync, but fibers of one worker can share it.
#[test]
fn fibers_of_a_worker_share_a_receiver() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (tx, rx) = mpsc::channel();
        let rx = Rc::new(rx);
        let fibers: Vec<_> = (0..5)
            .map(|_| {
                let rx = Rc::clone(&rx);
                bast_rt::spawn_local(move || {
                    let mut got = Vec::new();
                    while let Ok(n) = rx.recv() {
                        got.push(n);
                        if n % 3 == 0 {
                            bast_rt::yield_now();
                        }
                    }
                    got
                })
            })
            .collect();
        for n in 0..1000 {
            tx.send(n).unwrap();
            if n % 7 == 0 {
                bast_rt::yield_now();
            }
        }
        drop(tx);
        let mut all: Vec<u32> = fibers.into_iter().flat_map(|f| f.join().unwrap()).collect();
        all.sort();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    });
}

/// Timeouts and hand-overs race: whatever a side says is what the other side saw.
#[test]
fn timeouts_race_with_messages() {
    on_fiber(|| {
        for bound in [0, 2] {
            let alive = Alive::default();
            let (tx, rx) = mpmc::sync_channel(bound);
            let senders: Vec<_> = (0..4)
                .map(|sender| {
                    let (tx, alive) = (tx.clone(), alive.clone());
                    bast_rt::spawn(move || {
                        let mut sent = 0_u64;
                        for n in 0..500 {
                            let timeout = Duration::from_micros((n * 7 + sender) % 50);
                            match tx.send_timeout(alive.token(n), timeout) {
                                Ok(()) => sent += 1,
                                Err(SendTimeoutError::Timeout(token)) => assert_eq!(token.id, n),
                                Err(SendTimeoutError::Disconnected(_)) => unreachable!(),
                            }
                        }
                        sent
                    })
                })
                .collect();
            drop(tx);
            let receivers: Vec<_> = (0..4)
                .map(|receiver| {
                    let rx = rx.clone();
                    bast_rt::spawn(move || {
                        let mut got = 0_u64;
                        for n in 0_u64.. {
                            match rx.recv_timeout(Duration::from_micros((n * 11 + receiver) % 50)) {
                                Ok(_) => got += 1,
                                Err(RecvTimeoutError::Timeout) => {}
                                Err(RecvTimeoutError::Disconnected) => break,
                            }
                        }
                        got
                    })
                })
                .collect();
            let sent: u64 = senders.into_iter().map(|fiber| fiber.join().unwrap()).sum();
            let got: u64 = receivers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
            assert_eq!(sent, got);
            assert_eq!(alive.count(), 0);
        }
    });
}
