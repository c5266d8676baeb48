//! Channels and `select` under loom: every interleaving that the memory model allows, of the real code.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p bast-sync --release --lib loom_channels`
//!
//! A lost wake or message shows as a deadlock, which loom reports. Each channel is used once before there are
//! threads, so that its atomics exist (see `shim`).

use bast_rt::Instant;
use loom::thread;

use crate::mpmc::{self, Receiver, RecvError, Sender};
use crate::mpsc;
use crate::select::{recv, send, send_from};

fn pair(bound: usize) -> (Sender<u8>, Receiver<u8>) {
    let (tx, rx) = mpmc::sync_channel(bound);
    assert!(rx.is_empty());
    (tx, rx)
}

#[test]
fn loom_channels_rendezvous() {
    loom::model(|| {
        let (tx, rx) = pair(0);
        let sender = thread::spawn(move || tx.send(1).unwrap());
        assert_eq!(rx.recv(), Ok(1));
        assert_eq!(rx.recv(), Err(RecvError));
        sender.join().unwrap();
    });
}

#[test]
fn loom_channels_bounded_and_in_order() {
    loom::model(|| {
        let (tx, rx) = pair(1);
        let sender = thread::spawn(move || (0..3).for_each(|n| tx.send(n).unwrap()));
        assert!(rx.iter().eq(0..3));
        sender.join().unwrap();
    });
}

#[test]
fn loom_channels_unbounded_by_the_swap() {
    loom::model(|| {
        let (tx, rx) = mpsc::channel();
        assert!(rx.try_recv().is_err());
        let sender = thread::spawn(move || (0..3).for_each(|n| tx.send(n).unwrap()));
        assert!(rx.iter().eq(0..3));
        sender.join().unwrap();
    });
}

#[test]
fn loom_channels_the_receiver_goes() {
    loom::model(|| {
        let (tx, rx) = pair(0);
        let sender = thread::spawn(move || tx.send(1).unwrap_err().0);
        drop(rx);
        assert_eq!(sender.join().unwrap(), 1);
    });
}

/// A hand-over and a timeout race: both sides say the same.
#[test]
fn loom_channels_a_late_message() {
    loom::model(|| {
        let (tx, rx) = pair(0);
        let sender = thread::spawn(move || tx.try_send(1).is_ok());
        let got = rx.recv_deadline(Instant::now());
        assert_eq!(sender.join().unwrap(), got.is_ok());
    });
}

#[test]
fn loom_channels_select_and_two_senders() {
    loom::model(|| {
        let ((tx1, rx1), (tx2, rx2)) = (pair(0), pair(1));
        let one = thread::spawn(move || tx1.send(1).unwrap());
        let two = thread::spawn(move || tx2.send(2).unwrap());
        let (mut open1, mut sum) = (true, 0);
        for _ in 0..2 {
            crate::select! {
                got = open1.then(|| recv(&rx1)) => {
                    open1 = false;
                    sum += got.unwrap();
                }
                got = recv(&rx2) => match got {
                    Ok(n) => sum += n,
                    // Had been taken, and its sender is gone: the other one is still to come.
                    Err(RecvError) => sum += rx1.recv().unwrap(),
                }
            }
        }
        assert_eq!(sum, 3);
        one.join().unwrap();
        two.join().unwrap();
    });
}

#[test]
fn loom_channels_select_meets_select() {
    loom::model(|| {
        let ((tx1, rx1), (tx2, rx2)) = (pair(0), pair(0));
        let sender = thread::spawn(move || {
            crate::select! {
                sent = send(&tx1, 1) => { sent.unwrap(); 1 }
                sent = send(&tx2, 2) => { sent.unwrap(); 2 }
            }
        });
        let got = crate::select! {
            got = recv(&rx1) => got.unwrap(),
            got = recv(&rx2) => got.unwrap(),
        };
        assert_eq!(sender.join().unwrap(), got);
    });
}

/// Each could complete what the other waits for: one exchange, not two, and no deadlock.
#[test]
fn loom_channels_selects_that_cross() {
    loom::model(|| {
        let ((tx1, rx1), (tx2, rx2)) = (pair(0), pair(0));
        let (other_tx1, other_rx2) = (tx1.clone(), rx2.clone());
        let other = thread::spawn(move || {
            let (mut value, mut got) = (Some(1), None);
            crate::select! {
                sent = send_from(&other_tx1, &mut value) => sent.unwrap(),
                n = recv(&other_rx2) => got = Some(n.unwrap()),
            }
            (value.is_none(), got)
        });
        let (mut value, mut got) = (Some(2), None);
        crate::select! {
            n = recv(&rx1) => got = Some(n.unwrap()),
            sent = send_from(&tx2, &mut value) => sent.unwrap(),
        }
        let theirs = other.join().unwrap();
        match (value.is_none(), got) {
            (true, None) => assert_eq!(theirs, (false, Some(2))),
            (false, Some(1)) => assert_eq!(theirs, (true, None)),
            impossible => panic!("{impossible:?}"),
        }
        drop((tx1, rx2));
    });
}

#[test]
fn loom_channels_closed_in_the_middle_of_a_select() {
    loom::model(|| {
        let ((tx1, rx1), (_tx2, rx2)) = (pair(0), pair(0));
        let closer = thread::spawn(move || drop(tx1));
        crate::select! {
            got = recv(&rx1) => assert_eq!(got, Err(RecvError)),
            _ = recv(&rx2) => unreachable!(),
        }
        closer.join().unwrap();
    });
}
