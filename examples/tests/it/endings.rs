//! Ctrl-C on `pong`: what is idle is closed, what is under way may end, nobody is waited for longer
//! than the grace.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{DRIVERS, PATIENCE, Server, until_read};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// How long what is under way may take after Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);

/// Waits until it has heard of Ctrl-C and takes no connections any more.
fn until_closed(server: &Server) {
    let start = Instant::now();
    while TcpStream::connect(server.addr).is_ok() {
        assert!(start.elapsed() < PATIENCE, "still taking connections");
        thread::sleep(Duration::from_millis(10));
    }
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(GET).unwrap();
    let mut answer = [0; 69];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"\r\n\r\nPong!"));
}

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    let ways: [&[&str]; 2] = [&[], &["--per-worker"]];
    for (driver, args) in DRIVERS.into_iter().flat_map(|driver| ways.map(|args| (driver, args))) {
        let mut server = Server::pong(driver, args);
        let mut open: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
        open.iter_mut().step_by(2).for_each(ask);
        server.interrupt();
        let (status, took) = server.wait();
        assert!(status.success(), "{driver}: {status}");
        assert!(took < GRACE, "{driver}: took {took:?}");
        for stream in &mut open {
            assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0, "closed in good order");
        }
        assert_eq!(server.totals(), (50, 25));
    }
}

#[test]
fn a_request_under_way_is_answered_and_no_connection_is_taken_any_more() {
    for driver in DRIVERS {
        let mut server = Server::pong(driver, &[]);
        let mut stream = server.connect();
        ask(&mut stream);
        stream.write_all(&GET[..10]).unwrap();
        until_read(&stream);
        server.interrupt();
        until_closed(&server);
        stream.write_all(&GET[10..]).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.ends_with(b"\r\n\r\nPong!"), "{driver}");
        let (status, took) = server.wait();
        assert!(status.success() && took < GRACE, "{driver}: {status}, {took:?}");
        assert_eq!(server.totals().1, 2);
    }
}

#[test]
fn a_request_that_never_ends_is_given_up() {
    for driver in DRIVERS {
        let mut server = Server::pong(driver, &[]);
        let mut stream = server.connect();
        stream.write_all(&GET[..10]).unwrap();
        until_read(&stream);
        let start = Instant::now();
        server.interrupt();
        let (status, _) = server.wait();
        let took = start.elapsed();
        assert!(status.success(), "{driver}: {status}");
        assert!(took >= GRACE && took < 12 * GRACE, "{driver}: {took:?}");
        assert_eq!(server.totals(), (1, 0));
    }
}

#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let mut server = Server::pong("epoll", &[]);
    let mut stream = server.connect();
    stream.write_all(&GET[..10]).unwrap();
    until_read(&stream);
    server.interrupt();
    until_closed(&server);
    server.interrupt();
    let (status, took) = server.wait();
    assert_eq!(status.code(), Some(130));
    assert!(took < GRACE, "{took:?}");
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let server = Server::pong("epoll", &[]);
    let addr = server.addr.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_pong")).args(["--addr", &addr]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&addr) && stderr.contains("in use"), "{stderr}");
}

#[test]
fn help_has_examples_and_wrong_flags_are_named() {
    for program in [env!("CARGO_BIN_EXE_pong"), env!("CARGO_BIN_EXE_echo")] {
        let help = Command::new(program).arg("--help").output().unwrap();
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(help.status.success());
        for word in ["--addr", "--workers", "--driver", "--idle", "127.0.0.1:8080", "Examples:"] {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        let wrong = Command::new(program).args(["--driver", "kqeue"]).output().unwrap();
        let text = String::from_utf8(wrong.stderr).unwrap();
        assert_eq!(wrong.status.code(), Some(2));
        assert!(text.contains("--driver") && text.contains("kqeue"), "{text}");
    }
}
