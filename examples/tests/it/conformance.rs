//! `pong` over raw sockets: every case of the table, and what only a socket can do to a server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::{KEPT, REFUSED};
use crate::process::{DRIVERS, Server};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Splits what a server has sent into answers, by name as in the table; `head` has to be expected,
/// as nothing in the bytes tells it.
fn names<'a>(mut bytes: &[u8], expected: &[&'a str]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in expected {
        let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { break };
        let head = std::str::from_utf8(&bytes[..at]).unwrap();
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.map_or(0, |text| text.parse::<usize>().unwrap());
        let length = if *name == "head" { 0 } else { length };
        let body = &bytes[at + 4..at + 4 + length];
        let status = match *name {
            "pong" | "pong-keep" | "head" => "200",
            status => status,
        };
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {head}");
        assert!(!name.starts_with("pong") || body == b"Pong!", "{name}: {body:?}");
        assert_eq!(*name == "pong-keep", head.contains("keep-alive"), "{head}");
        names.push(*name);
        bytes = &bytes[at + 4 + length..];
    }
    assert_eq!(String::from_utf8_lossy(bytes), "", "more than was expected");
    names
}

/// Reads to the end of the stream, which must be an orderly one.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the server closes in good order");
    bytes
}

#[test]
fn every_case_over_a_socket() {
    for driver in DRIVERS {
        let server = Server::pong(driver, &[]);
        let mut requests = 0;
        let refused =
            REFUSED.iter().map(|(input, status)| (*input, std::slice::from_ref(status), false));
        for (input, expected, open) in KEPT.iter().copied().chain(refused) {
            let mut stream = server.connect();
            stream.write_all(input.as_bytes()).unwrap();
            if open {
                stream.shutdown(Shutdown::Write).unwrap(); // half-closed: the answers still come
            }
            let answers = rest(&mut stream);
            assert_eq!(names(&answers, expected), expected, "{driver}: {input:?}");
            requests += expected.iter().filter(|name| **name != "100").count() as u64;
        }
        let (connections, served, _) = server.stop();
        assert_eq!(connections, (KEPT.len() + REFUSED.len()) as u64);
        assert_eq!(served, requests);
    }
}

#[test]
fn a_slow_client_gets_its_answer() {
    for driver in DRIVERS {
        let server = Server::pong(driver, &[]);
        let mut stream = server.connect();
        for _ in 0..2 {
            for byte in GET {
                stream.write_all(&[*byte]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            let mut answer = [0; 69];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(names(&answer, &["pong"]), ["pong"]);
        }
        assert_eq!(server.stop().1, 2);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_whatever_their_number() {
    const REQUESTS: usize = 20_000;
    for driver in DRIVERS {
        let server = Server::pong(driver, &[]);
        let mut stream = server.connect();
        let mut reader = stream.try_clone().unwrap();
        let reading = thread::spawn(move || rest(&mut reader));
        stream.write_all(&GET.repeat(REQUESTS)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answers = reading.join().unwrap();
        assert_eq!(names(&answers, &["pong"; REQUESTS]).len(), REQUESTS);
        assert_eq!(server.stop().1, REQUESTS as u64);
    }
}

#[test]
fn a_refused_client_gets_the_reason_although_it_is_still_sending() {
    for driver in DRIVERS {
        let server = Server::pong(driver, &[]);
        let endless_head = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat();
        let bad_then_more = [b"BAD\r\n\r\n".to_vec(), vec![b'x'; 1 << 20]].concat();
        for (input, status) in [(endless_head, "431"), (bad_then_more, "400")] {
            let mut stream = server.connect();
            let mut writer = stream.try_clone().unwrap();
            let writing = thread::spawn(move || {
                let done = writer.write_all(&input);
                let _ = writer.shutdown(Shutdown::Write);
                done
            });
            let answer = rest(&mut stream);
            assert_eq!(names(&answer, &[status]), [status], "{driver}");
            writing.join().unwrap().expect("what was sent was taken");
        }
    }
}

#[test]
fn a_body_of_a_waiting_client_is_asked_for() {
    for driver in DRIVERS {
        let server = Server::pong(driver, &[]);
        let mut stream = server.connect();
        let head =
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(&[b'x'; 1_000_000]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(names(&rest(&mut stream), &["pong"]), ["pong"]);
    }
}

#[test]
fn a_silent_connection_is_closed() {
    for driver in DRIVERS {
        let server = Server::pong(driver, &["--idle", "0.3"]);
        // One has said nothing, one is in the middle of a request, one has had an answer.
        for (input, answers) in [(&b""[..], 0), (b"GET / HT", 0), (GET, 1)] {
            let mut start = Instant::now();
            let mut stream = server.connect();
            let mut written = stream.write_all(input);
            // If the machine has held us up, we were silent ourselves.
            while written.is_err() || start.elapsed() > Duration::from_millis(250) {
                start = Instant::now();
                stream = server.connect();
                written = stream.write_all(input);
            }
            let answer = rest(&mut stream);
            assert_eq!(names(&answer, &["pong"]).len(), answers);
            let seconds = start.elapsed().as_secs_f64();
            assert!((0.3..60.0).contains(&seconds), "{driver}: closed after {seconds} s");
        }
    }
}

#[test]
fn a_client_that_goes_away_in_the_middle_harms_nobody() {
    let on = |driver| {
        let server = Server::pong(driver, &[]);
        for _ in 0..20 {
            // It sends more and more without reading, until the server cannot write any more (and
            // so does not read either), and then closes with unread answers: a reset.
            let mut stream = server.connect();
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            let many = GET.repeat(2000);
            let mut sent = 0;
            while sent < 64 << 20 {
                match stream.write(&many) {
                    Ok(n) => sent += n,
                    Err(_) => break,
                }
            }
            assert!(sent < 64 << 20, "the server has taken everything without being read from");
            drop(stream);
            // And one in the middle of a head.
            let mut stream = server.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
            drop(stream);
        }
        let mut stream = server.connect();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(names(&rest(&mut stream), &["pong"]), ["pong"]);
        let (connections, _, complaints) = server.stop();
        assert_eq!((connections, complaints), (41, Vec::<String>::new()));
    };
    // Side by side, as it takes a while to fill the buffers so often.
    std::thread::scope(|scope| {
        for driver in DRIVERS {
            scope.spawn(move || on(driver));
        }
    });
}
