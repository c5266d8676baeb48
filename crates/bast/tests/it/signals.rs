//! Signals to this process. Each test has a signal of its own: they are the process's.

use std::io::ErrorKind;
use std::time::Duration;

use bast::process::Command;
use bast::signal::unix::{SignalKind, signal};

use crate::harness::needs_kernel;

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
