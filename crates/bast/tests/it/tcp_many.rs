//! Twins: many threads or fibers at once.

use std::io::{ErrorKind::WouldBlock, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::twins;

twins! {
    fn two_hundred_echoes() {
        const CLIENTS: usize = 200;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = spawn(move || {
            let connections: Vec<_> = listener
                .incoming()
                .take(CLIENTS)
                .map(|stream| {
                    let mut stream = stream.unwrap();
                    spawn(move || {
                        let mut buf = [0; 256];
                        loop {
                            let n = stream.read(&mut buf).unwrap();
                            if n == 0 {
                                break;
                            }
                            stream.write_all(&buf[..n]).unwrap();
                        }
                    })
                })
                .collect();
            connections.into_iter().for_each(|c| c.join().unwrap());
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|i| {
                spawn(move || {
                    let mut stream = TcpStream::connect(addr).unwrap();
                    for round in 0..20usize {
                        let sent = [(i % 251) as u8 ^ round as u8; 64];
                        stream.write_all(&sent).unwrap();
                        let mut got = [0; 64];
                        stream.read_exact(&mut got).unwrap();
                        assert_eq!(got, sent);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
        server.join().unwrap();
    }

    fn sixty_four_accept_on_one_listener() {
        const ACCEPTORS: usize = 64;
        const EACH: usize = 3;
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let addr = listener.local_addr().unwrap();
        let served = Arc::new(AtomicUsize::new(0));
        let acceptors: Vec<_> = (0..ACCEPTORS)
            .map(|_| {
                let (listener, served) = (Arc::clone(&listener), Arc::clone(&served));
                spawn(move || {
                    for _ in 0..EACH {
                        // Wine's `accept` may say so to all who wait, but for the one that gets the connection
                        // (`complete_async_accept` in its server/sock.c). bast's waits for the next.
                        let (mut stream, from) = loop {
                            match listener.accept() {
                                Err(e) if STD && cfg!(windows) && e.kind() == WouldBlock => {}
                                accepted => break accepted.unwrap(),
                            }
                        };
                        assert_eq!(stream.peer_addr().unwrap(), from);
                        stream.write_all(&from.port().to_be_bytes()).unwrap();
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..ACCEPTORS * EACH)
            .map(|_| {
                spawn(move || {
                    let mut stream = TcpStream::connect(addr).unwrap();
                    let mut port = [0; 2];
                    stream.read_exact(&mut port).unwrap();
                    assert_eq!(stream.local_addr().unwrap().port(), u16::from_be_bytes(port));
                    assert_eq!(stream.read(&mut port).unwrap(), 0);
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
        acceptors.into_iter().for_each(|a| a.join().unwrap());
        assert_eq!(served.load(Ordering::Relaxed), ACCEPTORS * EACH);
    }

    fn a_chain_of_relays() {
        const LINKS: u8 = 20;
        let last = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut next = last.local_addr().unwrap();
        let mut relays = Vec::new();
        for _ in 0..LINKS {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            relays.push(spawn(move || {
                let (mut from, _) = listener.accept().unwrap();
                let mut to = TcpStream::connect(next).unwrap();
                let mut byte = [0];
                while from.read(&mut byte).unwrap() == 1 {
                    to.write_all(&[byte[0] + 1]).unwrap();
                }
            }));
            next = addr;
        }
        let mut first = TcpStream::connect(next).unwrap();
        first.write_all(&[0, 10, 20]).unwrap();
        drop(first);
        let mut all = Vec::new();
        last.accept().unwrap().0.read_to_end(&mut all).unwrap();
        assert_eq!(all, [LINKS, LINKS + 10, LINKS + 20]);
        relays.into_iter().for_each(|r| r.join().unwrap());
    }
}
