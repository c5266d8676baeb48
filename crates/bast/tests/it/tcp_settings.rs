//! Twins: timeouts, modes, options, and how sockets look.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::harness::{OVERDUE, needs_kernel, std_differs_on_windows, twins};
use crate::tcp::pair;

const SHORT: Duration = Duration::from_millis(80);
/// Scheduling may take its time, but not that much.
const LONG: Duration = Duration::from_secs(60);

twins! {
    fn a_read_times_out() {
        let (mut client, mut server) = pair!();
        server.set_read_timeout(Some(SHORT)).unwrap();
        for _ in 0..2 {
            let start = Instant::now();
            let error = undisturbed(|| server.read(&mut [0; 8])).unwrap_err();
            assert_eq!(error.kind(), OVERDUE);
            assert!((SHORT..LONG).contains(&start.elapsed()), "{:?}", start.elapsed());
        }
        assert_eq!(undisturbed(|| server.peek(&mut [0; 8])).unwrap_err().kind(), OVERDUE);
        // The stream is none the worse for it.
        server.set_read_timeout(Some(LONG)).unwrap();
        client.write_all(b"late").unwrap();
        let mut text = [0; 4];
        server.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"late");
    }

    fn a_write_times_out() {
        let (mut client, server) = pair!();
        client.set_write_timeout(Some(SHORT)).unwrap();
        let mut sent = 0;
        let (error, waited) = loop {
            let start = Instant::now();
            match undisturbed(|| client.write(&[5; 65536])) {
                Ok(n) => sent += n,
                Err(error) => break (error, start.elapsed()),
            }
        };
        assert_eq!(error.kind(), OVERDUE);
        assert!((SHORT..LONG).contains(&waited), "{waited:?}");
        // Nothing of what failed has been sent.
        drop(client);
        let mut all = Vec::new();
        (&server).read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), sent);
    }

    fn no_timeout_waits() {
        let (mut client, mut server) = pair!();
        server.set_read_timeout(Some(SHORT)).unwrap();
        server.set_read_timeout(None).unwrap();
        let reader = spawn(move || server.read(&mut [0; 8]).unwrap());
        sleep(SHORT * 2);
        assert!(!reader.is_finished());
        client.write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    }

    fn timeouts_are_kept_and_shared() {
        let (client, _server) = pair!();
        assert_eq!(client.read_timeout().unwrap(), None);
        assert_eq!(client.write_timeout().unwrap(), None);
        let clone = client.try_clone().unwrap();
        let (read, write) = (Duration::from_secs(2), Duration::from_millis(1200));
        clone.set_read_timeout(Some(read)).unwrap();
        clone.set_write_timeout(Some(write)).unwrap();
        assert_eq!(client.read_timeout().unwrap(), Some(read));
        assert_eq!(client.write_timeout().unwrap(), Some(write));
        client.set_read_timeout(None).unwrap();
        assert_eq!(clone.read_timeout().unwrap(), None);
    }

    fn zero_is_no_timeout() {
        let (client, server) = pair!();
        let zero = Some(Duration::ZERO);
        assert_eq!(client.set_read_timeout(zero).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(client.set_write_timeout(zero).unwrap_err().kind(), ErrorKind::InvalidInput);
        let addr = server.local_addr().unwrap();
        let error = TcpStream::connect_timeout(&addr, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        client.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
        assert_eq!(undisturbed(|| (&client).read(&mut [0])).unwrap_err().kind(), OVERDUE);
    }

    fn a_connect_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let mut client = TcpStream::connect_timeout(&addr, LONG).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // Waiting for the connection has left nothing behind: reads wait.
        let reader = spawn(move || {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            byte
        });
        sleep(SHORT);
        server.write_all(b"y").unwrap();
        assert_eq!(reader.join().unwrap(), *b"y");
    }

    fn a_connect_times_out() {
        needs_kernel!();
        // A listener that accepts nothing, with its queue full, ignores who knocks.
        let (listener, addr, queue) = full_listener();
        let mut more = Vec::new();
        let (error, waited) = loop {
            let start = Instant::now();
            match TcpStream::connect_timeout(&addr, SHORT) {
                // It was not full: whoever filled it was held up, and gave up early.
                Ok(stream) => more.push(stream),
                Err(error) => break (error, start.elapsed()),
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!((SHORT..LONG).contains(&waited), "{waited:?}");
        drop((listener, queue, more));
    }

    fn a_stream_that_does_not_wait() {
        let (mut client, mut server) = pair!();
        server.set_nonblocking(true).unwrap();
        let mut buf = [0; 8];
        assert_eq!(server.read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(server.peek(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"x").unwrap();
        let n = loop {
            match server.read(&mut buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now(),
                other => break other.unwrap(),
            }
        };
        assert_eq!(n, 1);
        let error = loop {
            if let Err(error) = server.write(&[0; 65536]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let slices = [std::io::IoSlice::new(b"x")];
        let error = loop {
            if let Err(error) = server.write_vectored(&slices) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        // And back: now it waits again.
        server.set_nonblocking(false).unwrap();
        let reader = spawn(move || server.read(&mut [0; 8]).unwrap());
        sleep(SHORT);
        assert!(!reader.is_finished());
        client.write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    }

    fn the_mode_is_shared_by_clones() {
        let (client, _server) = pair!();
        client.try_clone().unwrap().set_nonblocking(true).unwrap();
        assert_eq!((&client).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    fn a_listener_that_does_not_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, from) = loop {
            match listener.accept() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now(),
                other => break other.unwrap(),
            }
        };
        assert_eq!(from, client.local_addr().unwrap());
        std_differs_on_windows!("what is accepted does not wait either");
        // What was accepted waits all the same.
        server.set_read_timeout(Some(SHORT)).unwrap();
        let start = Instant::now();
        assert_eq!(undisturbed(|| (&server).read(&mut [0])).unwrap_err().kind(), OVERDUE);
        assert!(start.elapsed() >= SHORT);
        listener.set_nonblocking(false).unwrap();
        let acceptor = spawn(move || listener.accept().unwrap().1);
        sleep(SHORT);
        assert!(!acceptor.is_finished());
        let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        assert_eq!(acceptor.join().unwrap(), client.local_addr().unwrap());
    }

    fn nodelay() {
        let (client, _server) = pair!();
        assert!(!client.nodelay().unwrap());
        client.set_nodelay(true).unwrap();
        assert!(client.nodelay().unwrap());
        assert!(client.try_clone().unwrap().nodelay().unwrap());
        client.set_nodelay(false).unwrap();
        assert!(!client.nodelay().unwrap());
    }

    fn ttl() {
        let (client, _server) = pair!();
        client.set_ttl(42).unwrap();
        assert_eq!(client.ttl().unwrap(), 42);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_ttl(100).unwrap();
        assert_eq!(listener.ttl().unwrap(), 100);
        if !crate::harness::simulated() {
            for bad in [0, 256] {
                assert_eq!(client.set_ttl(bad).unwrap_err().kind(), ErrorKind::InvalidInput);
            }
        }
    }

    #[allow(deprecated)]
    fn only_v6() {
        needs_kernel!();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listener.only_v6().is_err());
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        // Linux says so of an address that is no IPv4 address in disguise.
        assert!(listener.only_v6().unwrap());
        assert_eq!(listener.set_only_v6(true).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    fn no_error_is_pending() {
        let (client, server) = pair!();
        assert!(client.take_error().unwrap().is_none());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listener.take_error().unwrap().is_none());
        drop(server);
    }

    #[cfg_attr(windows, ignore = "Wine: a socket keeps no error to be taken")]
    fn a_pending_error_is_taken_once() {
        std_differs_on_windows!("Wine keeps no error");
        let (mut client, server) = pair!();
        client.write_all(b"never read").unwrap();
        assert!(server.peek(&mut [0]).unwrap() > 0);
        drop(server);
        // The reset is under way; the end of waiting is that it is there.
        let error = loop {
            match client.take_error().unwrap() {
                Some(error) => break error,
                None => sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(client.take_error().unwrap().is_none());
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    }

    #[cfg(unix)] // `fd`
    fn how_they_look() {
        use std::os::fd::AsRawFd;
        let (client, server) = pair!();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, peer) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        let fd = client.as_raw_fd();
        assert_eq!(
            format!("{client:?}"),
            format!("TcpStream {{ addr: {addr:?}, peer: {peer:?}, fd: {fd} }}")
        );
        let (addr, fd) = (listener.local_addr().unwrap(), listener.as_raw_fd());
        assert_eq!(format!("{listener:?}"), format!("TcpListener {{ addr: {addr:?}, fd: {fd} }}"));
        assert!(format!("{:?}", listener.incoming()).starts_with("Incoming { "));
    }
}

/// A listener whose queue is full, and what fills it.
fn full_listener() -> (std::net::TcpListener, std::net::SocketAddr, Vec<std::net::TcpStream>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    // The kernel answers at once, or not at all.
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&addr, 10 * SHORT) {
        queue.push(stream);
        assert!(queue.len() < 10_000, "the queue does not fill");
    }
    (listener, addr, queue)
}
