//! What every driver owes whatever the operation: it completes, once; polls wait as they were told.

use std::time::{Duration, Instant};

use bast_io::{Op, SockOpt, Wait, c};

use crate::harness::{Rig, errno};

on_every_driver!(
    nop,
    more_operations_than_entries,
    poll_no_never_blocks,
    at_most_waits_about_that_long,
    pending_counts,
    options,
    names,
    no_such_path,
);

fn nop(rig: &mut Rig) {
    for _ in 0..100 {
        assert_eq!(rig.run(Op::Nop).0, 0);
    }
    assert_eq!(rig.pending(), 0);
}

fn more_operations_than_entries(rig: &mut Rig) {
    // The ring was asked for 64 entries.
    let tickets: Vec<_> = (0..1_000).map(|_| rig.start(Op::Nop)).collect();
    for ticket in tickets {
        assert_eq!(rig.wait(ticket).0, 0);
    }
    let (listener, _) = rig.listener(16);
    let tickets: Vec<_> = (0..500).map(|_| rig.start_accept(&listener)).collect();
    assert_eq!(rig.pending(), 500);
    for &ticket in &tickets {
        rig.cancel(ticket);
    }
    for ticket in tickets {
        assert!(rig.wait(ticket).is_errno(c::ECANCELED));
    }
}

fn poll_no_never_blocks(rig: &mut Rig) {
    let (listener, _) = rig.listener(16);
    let ticket = rig.start_accept(&listener);
    let start = Instant::now();
    for _ in 0..1_000 {
        rig.poll(Wait::No);
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(rig.peek(ticket), None);
    rig.cancel(ticket);
    assert!(rig.wait(ticket).is_errno(c::ECANCELED));
}

/// How long a poll takes that may wait so long, `least` nanoseconds or more. A kernel ends a wait early when its thread
/// is stopped or gets a signal; but not every wait.
fn full_wait(rig: &mut Rig, most: Duration, least: u64) -> u64 {
    for _ in 0..if rig.is_sim() { 1 } else { 100 } {
        let before = rig.now();
        rig.poll(Wait::AtMost(most));
        let waited = rig.now() - before;
        if waited >= least {
            return waited;
        }
    }
    panic!("{most:?} are not waited for");
}

fn at_most_waits_about_that_long(rig: &mut Rig) {
    let (listener, _) = rig.listener(16);
    let ticket = rig.start_accept(&listener);
    // What setting up has left behind.
    rig.settle();
    for ms in [1, 7, 60] {
        let real = Instant::now();
        // Late is a matter of the machine; early is an error (10 % for timer granularity).
        let waited = full_wait(rig, Duration::from_millis(ms), ms * 900_000);
        assert!(waited < 100_000_000_000, "{ms} ms took {waited} ns");
        if rig.is_sim() {
            assert_eq!(waited, ms * 1_000_000);
            assert!(real.elapsed() < Duration::from_secs(60));
        }
    }
    // Less than a millisecond is not rounded down to a busy loop, nor up to much.
    full_wait(rig, Duration::from_micros(300), 250_000);
    rig.cancel(ticket);
    assert!(rig.wait(ticket).is_errno(c::ECANCELED));
}

fn pending_counts(rig: &mut Rig) {
    assert_eq!(rig.pending(), 0);
    let (a, b) = rig.pair();
    assert_eq!(rig.pending(), 0);
    let ticket = rig.start_recv(a.as_ref(), 10, 0);
    assert_eq!(rig.pending(), 1);
    rig.send_all(&b, b"x");
    assert_eq!(rig.received(ticket).expect("received"), b"x");
    assert_eq!(rig.pending(), 0);
}

fn options(rig: &mut Rig) {
    let handle = rig.socket(c::SOCK_STREAM);
    let cases = [
        #[cfg(unix)]
        (c::SOL_SOCKET, c::SO_REUSEADDR, 1),
        (c::IPPROTO_TCP, c::TCP_NODELAY, 1),
        (c::IPPROTO_IP, c::IP_TTL, 42),
    ];
    for (level, name, value) in cases {
        let opt = SockOpt { level, name };
        let get = |rig: &mut Rig| {
            let (mut got, mut len) = (-1_i32, 4_u32);
            let value = (&raw mut got).cast();
            let op = Op::GetOpt { handle: handle.as_ref(), opt, value, len: &raw mut len };
            assert_eq!(rig.run(op).0, 0);
            assert_eq!(len, 4);
            got
        };
        assert_ne!(get(rig), value);
        let bytes = (&raw const value).cast();
        assert_eq!(rig.run(Op::SetOpt { handle: handle.as_ref(), opt, value: bytes, len: 4 }).0, 0);
        assert_eq!(get(rig), value);
    }
    let opt = SockOpt { level: c::SOL_SOCKET, name: c::SO_TYPE };
    let (mut got, mut len) = (-1_i32, 4_u32);
    let value = (&raw mut got).cast();
    let op = Op::GetOpt { handle: handle.as_ref(), opt, value, len: &raw mut len };
    assert_eq!(rig.run(op).0, 0);
    assert_eq!(got, c::SOCK_STREAM);
}

fn names(rig: &mut Rig) {
    let (listener, addr) = rig.listener(16);
    assert!(addr.port() != 0 && addr.ip().is_loopback());
    assert_eq!(errno(rig.name(&listener, true)), c::ENOTCONN);
    let client = rig.connect(addr).expect("connected");
    let server = rig.accept(&listener);
    let clients = rig.name(&client, false).expect("a name");
    assert_eq!(rig.name(&client, true).expect("a peer"), addr);
    assert_eq!(rig.name(&server, true).expect("a peer"), clients);
    assert_eq!(rig.name(&server, false).expect("a name"), addr);
    // The same address again is taken.
    let other = rig.socket(c::SOCK_STREAM);
    assert_eq!(errno(rig.bind(&other, &addr.to_string())), c::EADDRINUSE);
}

fn no_such_path(rig: &mut Rig) {
    let op = Op::Open { path: c"/nonexistent/for/bast".as_ptr(), flags: c::O_RDONLY, mode: 0 };
    let error = rig.run(op).into_result().expect_err("nothing there");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
