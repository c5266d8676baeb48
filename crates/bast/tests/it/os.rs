//! Conversions from and to std and descriptors, with data flowing across them, and waiting for any
//! descriptor. None of it exists in the simulator.

#![allow(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use bast::net::{TcpListener, TcpStream};
use bast::os::unix::{wait_readable, wait_writable};

use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, on_std};

const SHORT: Duration = Duration::from_millis(80);

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn say(mut from: impl Write, mut to: impl Read) {
    from.write_all(b"across").unwrap();
    let mut text = [0; 6];
    to.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"across");
}

/// Is the descriptor itself in non-blocking mode?
fn is_nonblocking(fd: impl AsFd) -> bool {
    let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
    let info = std::fs::read_to_string(path).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap() & 0o4000 != 0
}

#[test]
fn a_stream_from_std() {
    needs_kernel!();
    run(|| {
        let (client, server) = pair();
        let server = std::net::TcpStream::from(server);
        server.set_read_timeout(Some(Duration::from_secs(200))).unwrap();
        server.set_nonblocking(true).unwrap();
        let server = TcpStream::from(server);
        assert_eq!(is_nonblocking(&server), is_nonblocking(&client));
        assert_eq!(server.read_timeout().unwrap(), Some(Duration::from_secs(200)));
        say(&client, &server);
        say(&server, &client);
        // It waits now, so that two fibers can pass data across it.
        let reader = bast::spawn(move || (&server).read(&mut [0; 8]).unwrap());
        bast::sleep(SHORT);
        assert!(!reader.is_finished());
        (&client).write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

#[test]
fn a_stream_to_std() {
    needs_kernel!();
    run(|| {
        let (client, server) = pair();
        server.set_read_timeout(Some(SHORT)).unwrap();
        server.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
        let server = std::net::TcpStream::from(server);
        assert!(!is_nonblocking(&server));
        assert_eq!(server.read_timeout().unwrap(), Some(SHORT));
        assert_eq!(server.write_timeout().unwrap(), Some(Duration::from_secs(3)));
        bast::blocking(|| {
            let start = Instant::now();
            let read = on_std::undisturbed(|| (&server).read(&mut [0]));
            assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(start.elapsed() >= SHORT);
        });
        server.set_read_timeout(None).unwrap();
        say(&client, &server);
        client.set_nonblocking(true).unwrap();
        let client = std::net::TcpStream::from(client);
        assert!(is_nonblocking(&client));
        assert_eq!(client.read_timeout().unwrap(), None);
        say(&server, TcpStream::from(client));
    });
}

#[test]
fn a_stream_with_clones_to_std() {
    needs_kernel!();
    run(|| {
        let (client, server) = pair();
        let clone = server.try_clone().unwrap();
        let fd = server.as_raw_fd();
        assert_eq!(clone.as_raw_fd(), fd);
        let server = std::net::TcpStream::from(server);
        assert_ne!(server.as_raw_fd(), fd);
        // The mode is that of both.
        assert_eq!(is_nonblocking(&server), is_nonblocking(&client));
        say(&client, &server);
        say(&client, &clone);
        drop(server);
        say(&clone, &client);
        drop(clone);
        assert_eq!((&client).read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_listener_from_and_to_std() {
    needs_kernel!();
    run(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let listener = TcpListener::from(listener);
        assert!(is_nonblocking(&listener));
        let acceptor = bast::spawn(move || (listener.accept().unwrap().0, listener));
        bast::sleep(SHORT);
        assert!(!acceptor.is_finished());
        let client = TcpStream::connect(addr).unwrap();
        let (server, listener) = acceptor.join().unwrap();
        say(&client, &server);
        // A clone keeps the descriptor that cannot block.
        let clone = listener.try_clone().unwrap();
        let shared = std::net::TcpListener::from(clone);
        assert!(is_nonblocking(&shared));
        let client = TcpStream::connect(addr).unwrap();
        say(&client, &listener.accept().unwrap().0);
        drop(shared);
        let listener = std::net::TcpListener::from(listener);
        assert!(!is_nonblocking(&listener));
        let client = TcpStream::connect(addr).unwrap();
        say(&client, &listener.accept().unwrap().0);
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true).unwrap();
        assert!(is_nonblocking(std::net::TcpListener::from(listener)));
    });
}

#[test]
fn descriptors() {
    needs_kernel!();
    run(|| {
        let (client, server) = pair();
        assert_eq!(client.as_fd().as_raw_fd(), client.as_raw_fd());
        let client = TcpStream::from(OwnedFd::from(client));
        let raw = server.into_raw_fd();
        // SAFETY: just given up.
        let server = unsafe { TcpStream::from_raw_fd(raw) };
        assert_eq!(server.as_raw_fd(), raw);
        say(&client, &server);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let listener = TcpListener::from(OwnedFd::from(listener));
        let raw = listener.into_raw_fd();
        // SAFETY: just given up.
        let listener = unsafe { TcpListener::from_raw_fd(raw) };
        let client = TcpStream::connect(addr).unwrap();
        say(&client, &listener.accept().unwrap().0);
    });
}

#[test]
fn waiting_for_somebody_elses_descriptor() {
    needs_kernel!();
    run(|| {
        let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        wait_writable(&ours).unwrap();
        let waiter = bast::spawn(move || {
            wait_readable(&ours).unwrap();
            ours
        });
        bast::sleep(SHORT);
        assert!(!waiter.is_finished());
        theirs.write_all(b"!").unwrap();
        ours = waiter.join().unwrap();
        // Again and again as long as there is something.
        wait_readable(&ours).unwrap();
        ours.read_exact(&mut [0]).unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 4096]).is_ok() {}
        let waiter = bast::spawn(move || wait_writable(&ours));
        bast::sleep(SHORT);
        assert!(!waiter.is_finished());
        theirs.set_nonblocking(true).unwrap();
        // Until nothing is left, or the other end has been closed because the wait is over.
        while theirs.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn two_fibers_wait_for_one_descriptor() {
    needs_kernel!();
    run(|| {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        bast::scope(|s| {
            let waiters: Vec<_> = (0..2).map(|_| s.spawn(|| wait_readable(&ours))).collect();
            bast::sleep(SHORT);
            assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
            wait_writable(&ours).unwrap();
            theirs.write_all(b"!").unwrap();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
        });
    });
}

#[test]
fn a_simulated_socket_has_no_descriptor() {
    let runtime =
        bast::Runtime::builder().driver(bast::DriverKind::Sim).workers(1).build().unwrap();
    runtime.run(|| {
        let (client, server) = pair();
        say(&client, &server);
        let payload = std::panic::catch_unwind(|| client.as_fd().as_raw_fd()).unwrap_err();
        assert!(crate::harness::message(&*payload).contains("simulator"));
        assert!(std::panic::catch_unwind(|| std::net::TcpStream::from(server)).is_err());
    });
}
