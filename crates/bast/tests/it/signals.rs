//! Signals to this process. Each test has a signal of its own: they are the process's.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use bast::process::Command;
use bast::signal::unix::{SignalKind, Signals, signal};

use crate::harness::{needs_kernel, until};

fn send(kind: SignalKind) {
    let script = format!("kill -{} {}", kind.as_raw(), std::process::id());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}

#[test]
fn every_listener_hears_every_signal() {
    needs_kernel!();
    let listeners: Vec<_> = (0..5).map(|_| signal(SignalKind::user_defined1()).unwrap()).collect();
    let fibers: Vec<_> = listeners
        .into_iter()
        .map(|listener| bast::spawn(move || for () in (&listener).take(3) {}))
        .collect();
    while fibers.iter().any(|fiber| !fiber.is_finished()) {
        send(SignalKind::user_defined1());
        std::thread::sleep(Duration::from_millis(1));
    }
    for fiber in fibers {
        fiber.join().unwrap();
    }
}

#[test]
fn what_came_before_the_wait_counts() {
    needs_kernel!();
    let listener = signal(SignalKind::user_defined2()).unwrap();
    let probe = signal(SignalKind::user_defined2()).unwrap();
    for _ in 0..3 {
        send(SignalKind::user_defined2());
        // It has been delivered: the kernel cannot merge it with the next.
        probe.recv().unwrap();
    }
    bast::spawn(move || {
        for _ in 0..3 {
            listener.recv().unwrap();
        }
        assert!(bast::timeout(Duration::from_millis(10), || listener.recv()).is_err());
    })
    .join()
    .unwrap();
}

#[test]
fn some_cannot_be_listened_for() {
    for number in [9, 19, 11, 0, -1, 1000] {
        let error = signal(SignalKind::from_raw(number)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{number}");
        let said = ["cannot be listened for", "no such signal"];
        assert!(said.iter().any(|said| error.to_string().contains(said)), "{number}: {error}");
    }
}

#[test]
fn a_wait_can_be_cancelled_and_loses_nothing() {
    needs_kernel!();
    let listener = std::sync::Arc::new(signal(SignalKind::window_change()).unwrap());
    let fiber = bast::spawn({
        let listener = listener.clone();
        move || listener.recv()
    });
    std::thread::sleep(Duration::from_millis(5));
    fiber.cancel();
    assert!(fiber.join().unwrap_err().is::<bast::Cancelled>());
    send(SignalKind::window_change());
    listener.recv().unwrap();
}

/// Sends a signal, and returns when it has been delivered.
fn deliver(kind: SignalKind, probe: &Signals) {
    send(kind);
    probe.recv().unwrap();
}

#[test]
fn each_signal_ends_one_wait_also_when_they_come_at_once() {
    needs_kernel!();
    let kind = SignalKind::alarm();
    let (listener, probe) = (Arc::new(signal(kind).unwrap()), signal(kind).unwrap());
    let runtime = bast::Runtime::builder().workers(1).build().unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let listener = listener.clone();
            runtime.spawn(move || listener.recv())
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    // The worker is held until all three are there: whoever reads first finds them all.
    let (begun, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hold = {
        let (begun, sent) = (begun.clone(), sent.clone());
        runtime.spawn(move || {
            begun.store(true, SeqCst);
            while !sent.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    while !begun.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..3).for_each(|_| deliver(kind, &probe));
    sent.store(true, SeqCst);
    hold.join().unwrap();
    for fiber in waiting {
        bast::timeout(Duration::from_secs(60), || fiber.join())
            .expect("it waits for ever")
            .unwrap()
            .unwrap();
    }
    assert!(bast::timeout(Duration::from_millis(10), || listener.recv()).is_err());
}

/// Sends a signal many times, as fast as a shell can.
fn storm(kind: SignalKind, times: u32) -> std::thread::JoinHandle<()> {
    let (pid, number) = (std::process::id(), kind.as_raw());
    let script =
        format!("n=0; while [ $n -lt {times} ]; do kill -{number} {pid}; n=$((n+1)); done");
    std::thread::spawn(move || {
        assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
    })
}

#[test]
fn in_a_storm_all_listeners_everywhere_hear_the_same() {
    needs_kernel!();
    let kind = SignalKind::io();
    assert_eq!((kind, 29), (SignalKind::from(29), i32::from(kind)));
    let other = bast::Runtime::builder().workers(1).build().unwrap();
    let counts: Arc<[AtomicU32; 12]> = Arc::default();
    let over = Arc::new(AtomicBool::new(false));
    let (mut fibers, mut threads) = (Vec::new(), Vec::new());
    for n in 0..counts.len() {
        let (listener, counts, over) = (signal(kind).unwrap(), counts.clone(), over.clone());
        let listen = move || {
            while !over.load(SeqCst) {
                if bast::timeout(Duration::from_millis(20), || listener.recv()).is_ok() {
                    counts[n].fetch_add(1, SeqCst);
                }
            }
        };
        match n % 3 {
            0 => fibers.push(bast::spawn(listen)),
            1 => fibers.push(other.spawn(listen)),
            _ => threads.push(std::thread::spawn(listen)),
        }
    }
    let probe = signal(kind).unwrap();
    storm(kind, 300).join().unwrap();
    // How many are delivered the kernel decides. The last ones may still be on their way.
    let mut delivered = 0;
    until("all have heard the same", || {
        while bast::timeout(Duration::from_millis(10), || probe.recv()).is_ok() {
            delivered += 1;
        }
        delivered > 0 && counts.iter().all(|count| count.load(SeqCst) == delivered)
    });
    over.store(true, SeqCst);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn listeners_come_and_go_while_signals_come() {
    needs_kernel!();
    let kind = SignalKind::from_raw(26);
    let keep = signal(kind).unwrap();
    let raining = storm(kind, 300);
    let fibers: Vec<_> = (0..8)
        .map(|_| {
            bast::spawn(move || {
                for n in 0..50 {
                    let listener = signal(kind).unwrap();
                    // Dropped while one comes, while it waits, or never waited for.
                    let limit = Duration::from_micros(n * 20);
                    let _ = bast::timeout(limit, || listener.recv());
                }
            })
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    raining.join().unwrap();
    keep.recv().unwrap();
    let fresh = signal(kind).unwrap();
    send(kind);
    fresh.recv().unwrap();
}
