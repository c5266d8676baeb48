//! Cancellation against the kernel: nothing leaks, and no byte is lost.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_io::handle::Owned;
use bast_io::{Handle, Kind};
use bast_rt::{Builder, current, mask, ops, spawn, yield_now};

use crate::support::{
    Random, handles, is_cancelled, process_tests, runtime, scaled, tests, until, workers,
};

/// Two connected sockets.
pub(crate) struct Pair(pub(crate) Handle, pub(crate) Handle);

impl Pair {
    pub(crate) fn new() -> Pair {
        let (a, b) = pair();
        Pair(handle(a, Kind::Datagram), handle(b, Kind::Datagram))
    }
}

#[cfg(unix)]
fn pair() -> (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream) {
    std::os::unix::net::UnixStream::pair().unwrap()
}

#[cfg(windows)]
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let b = listener.accept().unwrap().0;
    a.set_nodelay(true).unwrap();
    b.set_nodelay(true).unwrap();
    (a, b)
}

/// A handle from one of std's sockets.
pub(crate) fn handle(socket: impl Into<Owned>, kind: Kind) -> Handle {
    Handle::adopt(socket.into(), kind).unwrap()
}

/// A listener on a free port.
pub(crate) fn listener() -> (Handle, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (handle(listener, Kind::Listener), address)
}

tests! {
    /// A receive that is cancelled as its byte arrives: the byte is reported, or still there.
    fn no_byte_is_lost_to_a_cancelled_receive() {
        let runtime = workers(2);
        let mut random = Random(3);
        let mut reports = [0, 0];
        for round in 0..scaled(2_000) {
            let pair = Arc::new(Pair::new());
            let got = Arc::new(AtomicUsize::new(0));
            let (theirs, gets) = (Arc::clone(&pair), Arc::clone(&got));
            let receiver = runtime.spawn(move || {
                let mut buf = [0];
                let n = ops::recv(&theirs.1, &mut buf, 0, None).unwrap();
                gets.store(n, SeqCst);
            });
            let pause = random.below(60);
            let (ours, on) = (Arc::clone(&pair), round % 2);
            runtime.run(move || {
                // Let it wait, now and then.
                (0..pause).for_each(|_| yield_now());
                let send = Builder::new().worker(on).spawn(move || {
                    ops::send(&ours.0, b"x", 0, None).unwrap();
                }).unwrap();
                (0..pause % 7).for_each(|_| std::hint::spin_loop());
                receiver.cancel();
                send.join().unwrap();
                let _ = receiver.join();
            });
            let got = got.load(SeqCst);
            let left = ops::recv(&pair.1, &mut [0], ops::DONT_WAIT, None).unwrap_or(0);
            assert_eq!(got + left, 1, "round {round}: the byte is lost");
            reports[got] += 1;
        }
        assert!(reports[1] > 0 && reports[0] > 0, "both outcomes must occur: {reports:?}");
    }

    /// As the operation has won, its result comes first and the cancellation after it.
    fn a_result_that_has_come_is_delivered_before_the_cancellation() {
        workers(1).run(|| {
            for _ in 0..200 {
                let pair = Arc::new(Pair::new());
                let theirs = Arc::clone(&pair);
                let receiver = spawn(move || {
                    let n = ops::recv(&theirs.1, &mut [0; 4], 0, None).unwrap();
                    mask(|| ops::send(&theirs.1, &[n as u8], 0, None)).unwrap();
                    yield_now();
                });
                (0..4).for_each(|_| yield_now());
                ops::send(&pair.0, b"xyz", 0, None).unwrap();
                receiver.cancel();
                assert!(is_cancelled(&receiver.join()));
                let mut reply = [0];
                let got = ops::recv(&pair.0, &mut reply, ops::DONT_WAIT, None).unwrap_or(0);
                let left = ops::recv(&pair.1, &mut [0; 4], ops::DONT_WAIT, None).unwrap_or(0);
                assert_eq!((usize::from(reply[0]) + left, got == 1), (3, left == 0));
            }
        });
    }

    fn many_connections_echo() {
        let runtime = runtime();
        let (listener, address) = listener();
        let server = runtime.spawn(move || {
            loop {
                let (stream, _) = ops::accept(&listener, None).unwrap();
                spawn(move || {
                    let mut buf = [0; 64];
                    loop {
                        let n = ops::recv(&stream, &mut buf, 0, None).unwrap();
                        if n == 0 { break }
                        assert_eq!(ops::send(&stream, &buf[..n], 0, None).unwrap(), n);
                    }
                });
            }
        });
        let clients: Vec<_> = (0..scaled(100)).map(|i| runtime.spawn(move || {
            let stream = ops::socket(ops::family(&address), ops::STREAM, 0, Kind::Stream).unwrap();
            ops::connect(&stream, &address.into(), None).unwrap();
            for round in 0..20u8 {
                let sent = [i as u8, round, 3];
                assert_eq!(ops::send(&stream, &sent, 0, None).unwrap(), 3);
                let (mut got, mut n) = ([0; 3], 0);
                while n < 3 { n += ops::recv(&stream, &mut got[n..], 0, None).unwrap() }
                assert_eq!(got, sent);
            }
        })).collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.cancel();
        let result: Result<(), _> = server.join();
        assert!(is_cancelled(&result));
    }

    /// Unparks and cancellations of a fiber whose operation is at its end do not confuse the next one.
    fn stray_wakes_do_not_end_an_operation() {
        workers(2).run(|| {
            let pair = Arc::new(Pair::new());
            let theirs = Arc::clone(&pair);
            let receiver = spawn(move || (0..200u8).for_each(|i| {
                let mut buf = [0];
                assert_eq!(ops::recv(&theirs.1, &mut buf, 0, None).unwrap(), 1);
                assert_eq!(buf[0], i);
            }));
            let fiber = receiver.fiber();
            for i in 0..200u8 {
                (0..5).for_each(|_| { fiber.unpark(); yield_now() });
                ops::send(&pair.0, &[i], 0, None).unwrap();
            }
            receiver.join().unwrap();
            assert_ne!(fiber.id(), current().id());
        });
    }
}

process_tests! {
    /// An accept that is cancelled as a connection comes: its socket is returned, or closed.
    fn a_cancelled_accept_leaks_no_descriptor() {
        let runtime = workers(2);
        let (listener, address) = listener();
        let listener = Arc::new(listener);
        let round = |pause: u64| {
            let theirs = Arc::clone(&listener);
            let acceptor = runtime.spawn(move || drop(ops::accept(&theirs, None).unwrap()));
            let canceller = runtime.spawn(move || {
                (0..pause).for_each(|_| yield_now());
                acceptor.cancel();
                let _ = acceptor.join();
            });
            let client = TcpStream::connect(address).unwrap();
            // No port may run out: a reset leaves no TIME_WAIT.
            let client = handle(client, Kind::Stream);
            ops::set_linger(&client, Some(Duration::ZERO)).unwrap();
            canceller.join().unwrap();
            drop(client);
            // What nobody accepted.
            while let Ok((stream, _)) = ops::accept(&listener, Some(Duration::ZERO)) { drop(stream) }
        };
        (0..50).for_each(round);
        let before = handles();
        let mut random = Random(11);
        (0..scaled(2_000)).for_each(|_| { let pause = random.below(80); round(pause) });
        until("descriptors", || handles() <= before);
    }
}
