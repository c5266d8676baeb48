//! bast's sockets where std has no counterpart: plain threads, other runtimes, back-off, Linux.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use bast::Runtime;
use bast::net::{TcpListener, TcpStream};

use crate::harness::on_bast::run;
use crate::harness::{OVERDUE, needs_kernel};

#[test]
fn plain_threads_block() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        stream.write_all(text.to_uppercase().as_bytes()).unwrap();
        listener
    });
    let mut client = TcpStream::connect_timeout(&addr, Duration::from_secs(20)).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let start = Instant::now();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), OVERDUE);
    assert!(start.elapsed() >= Duration::from_millis(50));
    client.set_read_timeout(None).unwrap();
    client.write_all(b"quiet").unwrap();
    client.shutdown(bast::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "QUIET");
    let listener = server.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_stream_moves_between_runtimes_and_threads() {
    needs_kernel!();
    let (one, two) = (runtime(), runtime());
    let listener = one.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let addr = listener.local_addr().unwrap();
    let mut client = two.run(|| TcpStream::connect(addr).unwrap());
    let (mut server, _) = one.run(|| listener.accept().unwrap());
    let mut byte = [0];
    for round in 0..10 {
        client.write_all(&[round]).unwrap();
        let (rt, other) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        rt.run(|| server.read_exact(&mut byte).unwrap());
        assert_eq!(byte, [round]);
        other.run(|| server.write_all(&byte).unwrap());
        client.read_exact(&mut byte).unwrap();
    }
    // Read by a fiber here, written by one there.
    let reader = {
        let mut server = server.try_clone().unwrap();
        one.spawn(move || {
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            all.len()
        })
    };
    two.run(|| {
        client.write_all(&[1; 100_000]).unwrap();
        server.write_all(b"x").unwrap();
        drop(client);
    });
    // What the server wrote may have reset the connection, but not before all was sent.
    let read = reader.join();
    assert!(read.is_err() || read.is_ok_and(|n| n == 100_000));
}

fn runtime() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn quickack() {
    needs_kernel!();
    use bast::os::linux::net::TcpStreamExt;
    run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_quickack(true).unwrap();
        assert!(client.quickack().unwrap());
        client.set_quickack(false).unwrap();
        assert!(!client.quickack().unwrap());
    });
}

#[cfg(target_os = "linux")] // its limit
#[test]
fn the_backlog_is_long() {
    needs_kernel!();
    run(|| {
        let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let expected = somaxconn.trim().parse::<usize>().unwrap().min(300);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        // More than std's 128, with nobody who accepts.
        let limit = Duration::from_secs(20);
        let queue: Vec<_> =
            (0..expected).map(|_| TcpStream::connect_timeout(&addr, limit).unwrap()).collect();
        assert_eq!(queue.len(), expected);
    });
}

#[test]
fn a_timeout_is_measured_from_its_own_call() {
    run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let limit = Duration::from_millis(600);
        client.set_read_timeout(Some(limit)).unwrap();
        let writer = bast::spawn(move || {
            for _ in 0..6 {
                bast::sleep(Duration::from_millis(150));
                (&server).write_all(b"x").unwrap();
            }
            server
        });
        // Six limits are longer than one; a read that is given up has waited for all of its own. (It is when the writer
        // was held up.)
        let mut got = 0;
        while got < 6 {
            let start = Instant::now();
            match client.read(&mut [0]) {
                Ok(n) => got += n,
                Err(error) => {
                    assert_eq!(error.kind(), OVERDUE);
                    assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
                }
            }
        }
        let server = writer.join().unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), OVERDUE);
        drop(server);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    });
}
