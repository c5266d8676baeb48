//! The programs of the thesis about an I/O manager for Windows (its two servers, and what its test programs are
//! about), on every OS and driver.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bast::fs::File;
use bast::net::{SocketAddr, TcpListener, TcpStream};
use bast::{Cancelled, Elapsed, JoinHandle};

use crate::harness::on_bast::run;
use crate::harness::{OVERDUE, ms, pair, simulated};

/// `ab -c`.
const CONNECTIONS: usize = 100;

/// No connection's buffers hold as much.
const MUCH: usize = 64 << 20;

/// Starts what is going to wait. In every other round it is a fiber of this worker, which has therefore begun by the time
/// that the caller goes on; in the others it may be at any point on the way there, on any worker.
fn pending<T: Send + 'static>(
    round: usize,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let fiber = if round.is_multiple_of(2) { bast::spawn_local(f) } else { bast::spawn(f) };
    bast::sleep(ms(1));
    fiber
}

fn cancelled<T>(fiber: JoinHandle<T>) -> bool {
    fiber.cancel();
    fiber.join().is_err_and(|payload| payload.is::<Cancelled>())
}

/// Byte `at` of what a test sends.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// A server with a fiber for each connection.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    let server = bast::spawn(move || {
        loop {
            // (A client that has changed its mind is an error on some systems.)
            let Ok((stream, _)) = listener.accept() else { continue };
            let handle = Arc::clone(&handle);
            bast::spawn(move || handle(stream));
        }
    });
    (addr, server)
}

/// Reads up to an empty line, behind which nothing comes before the answer, and says what was asked for; `None` at the
/// end of the connection.
fn request(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut part) = (Vec::new(), [0; 512]);
    while !head.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut part).unwrap();
        if n == 0 {
            assert!(head.is_empty(), "half a request");
            return None;
        }
        head.extend_from_slice(&part[..n]);
    }
    let head = String::from_utf8(head).unwrap();
    Some(head.split(' ').nth(1).unwrap().to_owned())
}

/// Asks for `what`: the body of the answer.
fn ask(stream: &mut TcpStream, what: &str) -> Vec<u8> {
    stream.write_all(format!("GET {what} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let (mut head, mut part) = (Vec::new(), [0; 512]);
    let end = loop {
        if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        let n = stream.read(&mut part).unwrap();
        assert!(n > 0, "half an answer");
        head.extend_from_slice(&part[..n]);
    };
    let mut body = head.split_off(end);
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let (_, length) = head.trim_end().rsplit_once(' ').unwrap();
    let (begun, length) = (body.len(), length.parse().unwrap());
    assert!(begun <= length, "nobody has asked for more");
    body.resize(length, 0);
    stream.read_exact(&mut body[begun..]).unwrap();
    body
}

/// As many clients at once, each with connections for `requests` in turn.
fn clients(addr: SocketAddr, requests: Arc<[(String, Vec<u8>)]>, keep: bool) -> usize {
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let requests = Arc::clone(&requests);
            bast::spawn(move || {
                let mut stream = TcpStream::connect(addr).unwrap();
                for (n, (what, body)) in requests.iter().enumerate() {
                    if n > 0 && !keep {
                        stream = TcpStream::connect(addr).unwrap();
                    }
                    assert!(ask(&mut stream, what) == *body, "another body of {what}");
                }
                requests.len()
            })
        })
        .collect();
    clients.into_iter().map(|client| client.join().unwrap()).sum()
}

#[test]
fn pong_server() {
    run(|| {
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let (addr, server) = serve(move |mut stream| {
            while request(&mut stream).is_some() {
                count.fetch_add(1, SeqCst);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPong!").unwrap();
            }
        });
        let requests: Arc<[_]> = vec![("/".to_owned(), b"Pong!".to_vec()); 10].into();
        let answers = clients(addr, Arc::clone(&requests), true) + clients(addr, requests, false);
        assert_eq!((answers, served.load(SeqCst)), (20 * CONNECTIONS, 20 * CONNECTIONS));
        assert!(cancelled(server));
    });
}

#[test]
fn file_server() {
    run(|| {
        let dir = std::env::temp_dir();
        let files: Arc<[(String, Vec<u8>)]> = [0, 5, 4096, 300_000]
            .map(|len| {
                let name = format!("bast-thesis-{}-{len}", std::process::id());
                (name, (0..len).map(byte).collect::<Vec<u8>>())
            })
            .into();
        for (name, contents) in files.iter() {
            bast::fs::write(dir.join(name), contents).unwrap();
        }
        let root = dir.clone();
        let lengths: Vec<_> = files.iter().map(|(name, body)| (name.clone(), body.len())).collect();
        let (addr, server) = serve(move |mut stream| {
            while let Some(name) = request(&mut stream) {
                // (The simulator has no metadata.)
                let (_, len) = lengths.iter().find(|(known, _)| *known == name).unwrap();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
                let file = File::open(root.join(name)).unwrap();
                let head = head.as_bytes();
                let sent = bast::io::send_file_with_head(head, &file, 0, u64::MAX, &stream);
                assert_eq!(sent.unwrap(), *len as u64);
            }
        });
        assert_eq!(clients(addr, Arc::clone(&files), true), 4 * CONNECTIONS);
        assert!(cancelled(server));
        for (name, _) in files.iter().filter(|_| !simulated()) {
            bast::fs::remove_file(dir.join(name)).unwrap();
        }
    });
}

#[test]
fn close_while_pending() {
    run(|| {
        for round in 0..10 {
            // Whoever waits hears that its peer has gone.
            let (mut ours, theirs) = pair();
            let reader = pending(round, move || ours.read(&mut [0; 8]));
            drop(theirs);
            assert_eq!(reader.join().unwrap().unwrap(), 0);
            let (mut ours, theirs) = pair();
            let writer = pending(round, move || while ours.write_all(&[1; 4096]).is_ok() {});
            drop(theirs);
            writer.join().unwrap();
            // Whoever waits is cancelled, and takes the socket along: the peer hears of that.
            let (mut ours, mut theirs) = pair();
            let reader = pending(round, move || ours.read(&mut [0; 8]));
            assert!(cancelled(reader));
            assert_eq!(theirs.read(&mut [0; 8]).unwrap(), 0);
            let (mut ours, mut theirs) = pair();
            let writer = pending(round, move || ours.write_all(&vec![1; MUCH]));
            assert!(cancelled(writer));
            // What had been sent comes, and then the end.
            assert!(theirs.read_to_end(&mut Vec::new()).is_ok_and(|n| n < MUCH));
            // A listener, with an accept pending.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let acceptor = pending(round, move || listener.accept().map(drop));
            assert!(cancelled(acceptor));
        }
    });
}

#[test]
fn close_without_shutdown() {
    run(|| {
        for len in [0, 1, 100_000, 3_000_000] {
            let (mut ours, mut theirs) = pair();
            let writer = bast::spawn(move || {
                let bytes: Vec<u8> = (0..len).map(byte).collect();
                ours.write_all(&bytes).unwrap();
                // Nothing announces the end but the close.
            });
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).unwrap();
            writer.join().unwrap();
            assert_eq!(got.len(), len);
            assert!(got.iter().enumerate().all(|(at, b)| *b == byte(at)));
            // And nobody is left to write to.
            let mut wrote = Ok(());
            for _ in 0..1000 {
                wrote = theirs.write_all(b"anybody there?");
                if wrote.is_err() {
                    break;
                }
                bast::sleep(ms(1));
            }
            wrote.unwrap_err();
        }
    });
}

#[test]
fn send_buffer_full_with_timeouts() {
    run(|| {
        let (mut ours, mut theirs) = pair();
        ours.set_write_timeout(Some(ms(30))).unwrap();
        let bytes: Vec<u8> = (0..MUCH).map(byte).collect();
        let mut sent = 0;
        let error = loop {
            match ours.write(&bytes[sent..]) {
                Ok(n) => sent += n,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), OVERDUE);
        assert!(0 < sent && sent < MUCH);
        // It is still full; the fiber's own time and a request end a wait as well.
        ours.set_write_timeout(None).unwrap();
        let timed = bast::timeout(ms(30), || ours.write_all(&bytes[sent..]));
        let _: Elapsed = timed.unwrap_err();
        let writer = bast::spawn(move || ours.write_all(&bytes[sent..]));
        bast::sleep(ms(30));
        assert!(cancelled(writer));
        // What arrives begins with what is known to have been sent; the rest was given up somewhere.
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).unwrap();
        assert!(got.len() >= sent);
        assert!(got[..sent].iter().enumerate().all(|(at, b)| *b == byte(at)));
        // Nothing more comes, so the same holds of reading.
        let (mut ours, _theirs) = pair();
        ours.set_read_timeout(Some(ms(5))).unwrap();
        assert_eq!(ours.read(&mut [0; 8]).unwrap_err().kind(), OVERDUE);
    });
}

#[test]
fn ten_thousand_fibers_in_thread_delay() {
    run(|| {
        let fibers: Vec<_> = (0..10_000u64)
            .map(|n| {
                let begun = bast::time::Instant::now();
                let delay = ms(1 + n * 7919 % 300);
                bast::spawn(move || {
                    bast::sleep(delay);
                    begun.elapsed() >= delay
                })
            })
            .collect();
        assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap()), "one woke too early");
    });
}

#[test]
fn echo_with_two_hundred_fibers_half_of_which_are_cancelled() {
    const ROUNDS: usize = 30;
    run(|| {
        let open = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&open);
        let (addr, server) = serve(move |mut stream| {
            count.fetch_add(1, SeqCst);
            let mut buf = [0; 256];
            // A client that is cancelled with an answer unread resets the connection.
            while let Ok(n @ 1..) = stream.read(&mut buf) {
                if stream.write_all(&buf[..n]).is_err() {
                    break;
                }
            }
            count.fetch_sub(1, SeqCst);
        });
        let clients: Vec<_> = (0..200usize)
            .map(|n| {
                bast::spawn(move || {
                    let mut stream = TcpStream::connect(addr).unwrap();
                    for round in 0.. {
                        // The odd ones go on until they are cancelled.
                        if n % 2 == 0 && round == ROUNDS {
                            break;
                        }
                        let sent = [byte(n) ^ byte(round); 64];
                        stream.write_all(&sent).unwrap();
                        let mut got = [0; 64];
                        stream.read_exact(&mut got).unwrap();
                        assert_eq!(got, sent);
                    }
                })
            })
            .collect();
        bast::sleep(ms(20));
        let odd = |n: usize| n % 2 == 1;
        for (_, client) in clients.iter().enumerate().filter(|(n, _)| odd(*n)) {
            client.cancel();
        }
        for (n, client) in clients.into_iter().enumerate() {
            match client.join() {
                Ok(()) => assert!(!odd(n), "{n} was to be cancelled"),
                Err(payload) => assert!(odd(n) && payload.is::<Cancelled>(), "client {n}"),
            }
        }
        // All connections end, those of the cancelled ones too.
        crate::harness::until("the server has no connections", || open.load(SeqCst) == 0);
        assert!(cancelled(server));
    });
}
