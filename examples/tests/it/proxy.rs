//! `proxy` between clients and upstreams of std, on every driver.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{DRIVERS, PATIENCE, Server};

/// An upstream that is accepted from by hand, and a proxy before it.
struct Rig {
    upstream: TcpListener,
    proxy: Server,
}

impl Rig {
    fn new(driver: &str, args: &[&str]) -> Rig {
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = upstream.local_addr().unwrap().to_string();
        let proxy = Server::proxy(driver, &[&["--to", &to][..], args].concat());
        Rig { upstream, proxy }
    }

    /// A client, and what the upstream has of it.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = self.proxy.connect();
        let (server, _) = self.upstream.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        server.set_write_timeout(Some(PATIENCE)).unwrap();
        (client, server)
    }

    /// What `kill -USR1` prints: the value of one figure.
    fn figure(&self, name: &str) -> u64 {
        self.proxy.signal("USR1");
        let line = self.proxy.line();
        let figure = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        figure.unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
    }

    /// Waits until a figure has a value.
    fn until(&self, name: &str, value: u64) {
        let start = Instant::now();
        while self.figure(name) != value {
            assert!(start.elapsed() < PATIENCE, "{name} is never {value}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// An upstream that says back what it hears.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut buffer = [0; 30_000];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..n]).is_err() {
                        return;
                    }
                }
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    addr
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed + 1;
    (0..length).map(|_| random(&mut state) as u8).collect()
}

#[test]
fn both_ways_at_once_in_pieces_of_any_size() {
    for driver in DRIVERS {
        let to = echo().to_string();
        let proxy = Server::proxy(driver, &["--to", &to]);
        thread::scope(|scope| {
            for seed in 0..6 {
                let (mut writer, data) = (proxy.connect(), bytes(seed, 1_500_000));
                let mut reader = writer.try_clone().unwrap();
                scope.spawn(move || {
                    let expected = data.clone();
                    let reading = thread::spawn(move || {
                        let mut back = Vec::new();
                        reader.read_to_end(&mut back).unwrap();
                        assert!(back == expected, "{} bytes came back", back.len());
                    });
                    let (mut rest, mut state) = (&data[..], seed + 77);
                    while !rest.is_empty() {
                        // From a byte to 200,000, small ones as often as great ones.
                        let most = 200_000 >> (random(&mut state) % 18);
                        let n = (random(&mut state) as usize % (most + 1) + 1).min(rest.len());
                        writer.write_all(&rest[..n]).unwrap();
                        rest = &rest[n..];
                    }
                    writer.shutdown(Shutdown::Write).unwrap();
                    reading.join().unwrap();
                });
            }
        });
        let (connections, relayed, complaints) = proxy.stop();
        assert_eq!((connections, relayed), (6, 6 * 2 * 1_500_000), "{driver}");
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

#[test]
fn either_side_may_end_first_and_still_gets_the_rest() {
    for driver in DRIVERS {
        let rig = Rig::new(driver, &[]);
        let (question, answer) = (bytes(1, 300_000), bytes(2, 700_000));
        for client_first in [true, false] {
            let (client, server) = rig.connect();
            let (mut first, mut second) =
                if client_first { (client, server) } else { (server, client) };
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut heard = Vec::new();
                    // Its end comes through while the other way is open.
                    second.read_to_end(&mut heard).unwrap();
                    assert!(heard == question);
                    second.write_all(&answer).unwrap();
                    second.shutdown(Shutdown::Write).unwrap();
                });
                first.write_all(&question).unwrap();
                first.shutdown(Shutdown::Write).unwrap();
                let mut heard = Vec::new();
                first.read_to_end(&mut heard).unwrap();
                assert!(heard == answer);
            });
        }
        rig.until("open", 0);
        assert_eq!(rig.figure("failed"), 0);
    }
}

#[test]
fn upstreams_take_turns_and_one_that_refuses_is_passed_over() {
    for driver in DRIVERS {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let one = Rig::new(driver, &["--to", &closed]);
        let to: Vec<TcpStream> = (0..4)
            .map(|n| {
                let (mut client, mut server) = one.connect();
                client.write_all(&[n]).unwrap();
                let mut byte = [0];
                server.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [n]);
                client
            })
            .collect();
        drop(to);
        let two = Server::proxy(driver, &["--to", &closed, "--to", &closed, "--log"]);
        let outcome = two.connect().read(&mut [0]);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let (connections, _, complaints) = two.stop();
        assert_eq!(connections, 1);
        assert!(complaints.iter().any(|line| line.contains("no upstream")), "{complaints:?}");
    }
}

/// Closes with something unread, which resets the connection.
fn reset(mut us: &TcpStream, mut peer: &TcpStream) {
    peer.write_all(b"unread").unwrap();
    us.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_reset_is_passed_on_both_ways() {
    for driver in DRIVERS {
        let rig = Rig::new(driver, &[]);
        for by_client in [true, false] {
            let (client, server) = rig.connect();
            let (us, mut peer) = if by_client { (client, server) } else { (server, client) };
            reset(&us, &peer);
            drop(us);
            let outcome = peer.read(&mut [0]);
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset, "{by_client}");
        }
        rig.until("open", 0);
        assert_eq!(rig.figure("failed"), 2);
        let (connections, _, _) = rig.proxy.stop();
        assert_eq!(connections, 2);
    }
}

#[test]
fn a_slow_reader_holds_up_the_writer() {
    for driver in DRIVERS {
        let rig = Rig::new(driver, &[]);
        let (mut client, mut server) = rig.connect();
        let writing = thread::spawn(move || {
            server.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            let block = bytes(3, 100_000);
            let mut written = 0;
            // Until nobody takes anything for a second.
            while let Ok(n) = server.write(&block[written % 100_000..]) {
                written += n;
                assert!(written < 100_000_000, "somebody keeps it all");
            }
            server.shutdown(Shutdown::Write).unwrap();
            written
        });
        let written = writing.join().unwrap();
        // The kernel's buffers and the pipe, and not the memory of the proxy.
        let status = std::fs::read_to_string(format!("/proc/{}/status", rig.proxy.pid())).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = memory.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 100_000, "{kib} KiB");
        let (mut got, block) = (0, bytes(3, 100_000));
        let mut buffer = [0; 10_000];
        loop {
            let n = client.read(&mut buffer).unwrap();
            if n == 0 {
                break;
            }
            let expected = block.iter().cycle().skip(got % 100_000);
            assert!(buffer[..n].iter().zip(expected).all(|(a, b)| a == b));
            got += n;
        }
        assert_eq!(got, written, "{driver}");
    }
}

#[test]
fn a_thousand_connections() {
    bast_examples::os::raise_open_files();
    for driver in DRIVERS {
        let rig = Rig::new(driver, &[]);
        let mut open = Vec::new();
        for n in 0..1000_u32 {
            let (mut client, server) = rig.connect();
            client.write_all(&n.to_le_bytes()).unwrap();
            open.push((client, server));
        }
        assert_eq!(rig.figure("open"), 1000);
        for (n, (client, server)) in open.iter_mut().enumerate() {
            let mut message = [0; 4];
            server.read_exact(&mut message).unwrap();
            assert_eq!(u32::from_le_bytes(message) as usize, n);
            server.write_all(&message).unwrap();
            client.read_exact(&mut message).unwrap();
            assert_eq!(u32::from_le_bytes(message) as usize, n);
        }
        drop(open);
        rig.until("open", 0);
        let (connections, relayed, _) = rig.proxy.stop();
        assert_eq!((connections, relayed), (1000, 8000), "{driver}");
    }
}

#[test]
fn silence_ends_a_connection_and_a_trickle_does_not() {
    for driver in DRIVERS {
        let rig = Rig::new(driver, &["--idle-timeout", "4"]);
        let start = Instant::now();
        let (mut silent, mut silent_server) = rig.connect();
        let (mut trickle, mut trickle_server) = rig.connect();
        let trickling = thread::spawn(move || {
            // A client that takes its time, in one direction only.
            for n in 0..10 {
                trickle.write_all(&[n]).unwrap();
                let mut byte = [0];
                trickle_server.read_exact(&mut byte).unwrap();
                thread::sleep(Duration::from_millis(500));
            }
        });
        // Not `read`: a signal to another test of this process may interrupt it.
        assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert_eq!(silent_server.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(start.elapsed() >= Duration::from_secs(4), "{:?}", start.elapsed());
        trickling.join().unwrap();
        assert!(rig.figure("idle") >= 1);
        assert_eq!(rig.figure("connections"), 2);
    }
}

#[test]
fn more_connections_than_descriptors_are_served_in_the_end() {
    for driver in DRIVERS {
        let to = echo().to_string();
        // Room for some twenty connections.
        let args = ["--to", &to, "--connect-timeout", "100"];
        let proxy = Server::proxy_with_descriptors(driver, 64, &args);
        thread::scope(|scope| {
            for n in 0..60_u8 {
                let mut client = proxy.connect();
                scope.spawn(move || {
                    client.write_all(&[n; 50_000]).unwrap();
                    let mut back = vec![0; 50_000];
                    client.read_exact(&mut back).unwrap();
                    assert!(back == [n; 50_000]);
                });
            }
        });
        let (connections, relayed, _) = proxy.stop();
        assert_eq!((connections, relayed), (60, 60 * 100_000), "{driver}");
    }
}

#[test]
fn no_more_at_once_than_allowed() {
    for driver in DRIVERS {
        let rig = Rig::new(driver, &["--max-connections", "2", "--proxy-header"]);
        let (client, mut server) = rig.connect();
        let two = rig.connect();
        let third = rig.proxy.connect();
        thread::sleep(Duration::from_millis(100));
        assert_eq!((rig.figure("connections"), rig.figure("open")), (2, 2));
        let (here, there) = (client.local_addr().unwrap(), rig.proxy.addr);
        drop(client);
        let mut all = String::new();
        server.read_to_string(&mut all).unwrap();
        let ports = format!("{} {}", here.port(), there.port());
        assert_eq!(all, format!("PROXY TCP4 127.0.0.1 127.0.0.1 {ports}\r\n"));
        drop(server);
        let mut head = [0; 6];
        rig.upstream.accept().unwrap().0.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"PROXY ");
        drop((two, third));
    }
}

#[test]
fn ctrl_c_lets_connections_end() {
    for driver in DRIVERS {
        let mut rig = Rig::new(driver, &["--grace", "4"]);
        let (mut client, mut server) = rig.connect();
        let (mut stubborn, _kept) = rig.connect();
        rig.until("open", 2);
        rig.proxy.interrupt();
        // Nobody is accepted any more, and what is under way goes on.
        client.write_all(b"still").unwrap();
        let mut text = [0; 5];
        server.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still");
        drop((client, server));
        assert_eq!(stubborn.read_to_end(&mut Vec::new()).unwrap(), 0);
        let (status, took) = rig.proxy.wait();
        assert!(status.success() && took < Duration::from_secs(60), "{status} {took:?}");
    }
}
