//! Sockets for each worker.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(unix)]
use bast::net::UdpSocket;
use bast::net::{TcpListener, TcpStream, serve_per_worker};

#[cfg(unix)]
use crate::harness::needs_kernel;
use crate::harness::on_bast::run;
use crate::harness::{rounds, simulated, until};

/// Where the caller runs.
fn worker() -> String {
    format!("{:?}", std::thread::current().id())
}

/// Asks for an answer.
fn ask(addr: SocketAddr) -> std::io::Result<String> {
    let mut text = String::new();
    TcpStream::connect(addr)?.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn all_are_served_and_each_where_it_was_accepted() {
    let counts: &[usize] = if simulated() { &[1] } else { &[1, 2, 8] };
    for &workers in counts {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let runtime = bast::Runtime::builder().workers(workers).build().unwrap();
            runtime.run(|| {
                let listeners = TcpListener::bind_per_worker(addr).unwrap();
                assert_eq!(listeners.len(), bast_rt::workers());
                let addr = listeners[0].local_addr().unwrap();
                assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() == addr));
                let server = bast::spawn(|| {
                    serve_per_worker(listeners, |mut stream, _| {
                        let before = worker();
                        bast::yield_now();
                        assert_eq!(before, worker());
                        stream.write_all(worker().as_bytes()).unwrap();
                    })
                });
                let ask = move || ask(addr);
                let clients: Vec<_> = (0..rounds(200)).map(|_| bast::spawn(ask)).collect();
                let said: HashSet<_> =
                    clients.into_iter().map(|client| client.join().unwrap().unwrap()).collect();
                // Eight listeners and 200 addresses: one without any would be a wonder.
                // (On Windows there is one, and whoever is first.)
                assert!(said.len() == bast_rt::workers() || cfg!(windows), "{said:?}");
                server.cancel();
                assert!(server.join().unwrap_err().is::<bast::Cancelled>());
                // A child that another test is just starting has our sockets for a moment.
                until("closed", || ask().unwrap_err().kind() == ErrorKind::ConnectionRefused);
            });
        }
    }
}

/// Binds as soon as the address is free: a child that another test is just starting has our sockets for a moment.
#[cfg(unix)]
fn bound<T>(mut bind: impl FnMut() -> std::io::Result<T>) -> T {
    let mut bound = None;
    until("the address is free", || {
        let result = bind();
        if let Err(error) = &result {
            assert_eq!(error.kind(), ErrorKind::AddrInUse);
        }
        bound = result.ok();
        bound.is_some()
    });
    bound.unwrap()
}

#[cfg(unix)] // a socket for each worker: Windows has one for all
#[test]
fn an_address_in_use_is_an_error() {
    needs_kernel!();
    let runtime = bast::Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let ours = TcpListener::bind_per_worker("127.0.0.1:0").unwrap();
        let addr = ours[0].local_addr().unwrap();
        for error in
            [TcpListener::bind_per_worker(addr).map(drop), TcpListener::bind(addr).map(drop)]
        {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::AddrInUse);
        }
        drop(ours);
        let single = bound(|| TcpListener::bind(addr));
        assert_eq!(TcpListener::bind_per_worker(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(single);
        assert_eq!(bound(|| TcpListener::bind_per_worker(addr)).len(), 2);
        assert_eq!(
            serve_per_worker(Vec::new(), |_, _| {}).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );

        let ours = UdpSocket::bind_per_worker("127.0.0.1:0").unwrap();
        let addr = ours[0].local_addr().unwrap();
        assert!(ours.iter().all(|socket| socket.local_addr().unwrap() == addr));
        assert_eq!(UdpSocket::bind_per_worker(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UdpSocket::bind(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[cfg(unix)] // a socket for each worker: Windows has one for all
#[test]
fn one_that_is_closed_resets_what_it_has_not_accepted() {
    needs_kernel!();
    let runtime = bast::Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let mut listeners = TcpListener::bind_per_worker("127.0.0.1:0").unwrap();
        let addr = listeners[0].local_addr().unwrap();
        let clients: Vec<_> = (0..64).map(|_| TcpStream::connect(addr).unwrap()).collect();
        drop(listeners.pop());
        // Those of the other listener are served, and new ones find it.
        let fresh = TcpStream::connect(addr).unwrap();
        let server = bast::spawn(|| {
            serve_per_worker(listeners, |mut stream, _| stream.write_all(b"!").unwrap())
        });
        let (mut served, mut reset) = (0, 0);
        for mut client in clients.into_iter().chain([fresh]) {
            match client.read(&mut [0]) {
                Ok(n) => served += n,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => reset += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(served >= 2 && reset >= 1 && served + reset == 65, "{served}, {reset}");
        server.cancel();
    });
}

#[test]
fn a_failing_handler_ends_its_connection_only() {
    run(|| {
        let listeners = TcpListener::bind_per_worker("127.0.0.1:0").unwrap();
        let addr = listeners[0].local_addr().unwrap();
        let first = Arc::new(Mutex::new(true));
        let server = bast::spawn(move || {
            serve_per_worker(listeners, move |mut stream, _| {
                let fails = std::mem::take(&mut *first.lock().unwrap());
                assert!(!fails, "on purpose");
                stream.write_all(b"fine").unwrap();
            })
        });
        let answers: Vec<_> = (0..20).map(|_| ask(addr).unwrap_or_default()).collect();
        assert_eq!(answers.iter().filter(|answer| *answer == "fine").count(), 19);
        server.cancel();
        assert!(bast::timeout(Duration::from_secs(60), || server.join()).unwrap().is_err());
    });
}

#[cfg(unix)] // a socket for each worker: Windows has one for all
#[test]
fn datagrams_of_one_peer_come_to_one_socket() {
    needs_kernel!();
    let runtime = bast::Runtime::builder().workers(4).build().unwrap();
    runtime.run(|| {
        let sockets = UdpSocket::bind_per_worker("127.0.0.1:0").unwrap();
        let addr = sockets[0].local_addr().unwrap();
        for socket in &sockets {
            socket.set_nonblocking(true).unwrap();
        }
        let clients: Vec<_> = (0..64).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for client in clients.iter().chain(&clients) {
            client.send_to(b"x", addr).unwrap();
        }
        // On a busy machine the kernel may deliver later.
        let mut senders = vec![Vec::new(); sockets.len()];
        until("all have arrived", || {
            for (socket, senders) in sockets.iter().zip(&mut senders) {
                while let Ok((_, from)) = socket.recv_from(&mut [0]) {
                    senders.push(from);
                }
            }
            senders.iter().map(Vec::len).sum::<usize>() >= 128
        });
        let (mut all, mut used) = (HashSet::new(), 0);
        for senders in senders {
            let different: HashSet<_> = senders.iter().copied().collect();
            assert_eq!(senders.len(), 2 * different.len());
            used += usize::from(!senders.is_empty());
            all.extend(different);
        }
        assert_eq!((all.len(), used), (64, 4));
    });
}

#[cfg(unix)] // a socket for each worker: Windows has one for all
#[test]
fn a_worker_that_is_busy_keeps_its_connections_waiting() {
    needs_kernel!();
    let runtime = bast::Runtime::builder().workers(2).build().unwrap();
    let listeners = runtime.run(|| TcpListener::bind_per_worker("127.0.0.1:0").unwrap());
    let addr = listeners[0].local_addr().unwrap();
    let server = runtime
        .spawn(|| serve_per_worker(listeners, |mut stream, _| stream.write_all(b"!").unwrap()));
    let (busy, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hold = {
        let (busy, over) = (busy.clone(), over.clone());
        runtime.run(move || {
            let hold = move || {
                busy.store(true, SeqCst);
                while !over.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            bast::Builder::new().worker(1).spawn(hold).unwrap()
        })
    };
    while !busy.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let clients: Vec<_> = (0..64).map(|_| std::thread::spawn(move || ask(addr).unwrap())).collect();
    while !clients.iter().any(std::thread::JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(clients.iter().any(|client| !client.is_finished()), "nobody waits for the busy worker");
    over.store(true, SeqCst);
    hold.join().unwrap();
    assert!(clients.into_iter().all(|client| client.join().unwrap() == "!"));
    server.cancel();
}
