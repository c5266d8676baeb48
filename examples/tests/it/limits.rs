//! More connections than descriptors: `accept` fails with EMFILE for most of the time, and still
//! everybody is served in the end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use bast_examples::os::raise_open_files;

use crate::process::{DRIVERS, Server};

const CONNECTIONS: usize = 20_000;
/// At once: more than the server can have, less than its backlog holds.
const WAVE: usize = 1_500;
const DESCRIPTORS: u32 = 1024;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn twenty_thousand_connections_with_1024_descriptors() {
    raise_open_files(); // the client's own
    for driver in DRIVERS {
        let server = Server::pong_with_descriptors(driver, DESCRIPTORS);
        let start = Instant::now();
        let mut answered = 0;
        while answered < CONNECTIONS {
            let wave = WAVE.min(CONNECTIONS - answered);
            // All are open before the first is closed: the last ones wait in the backlog until
            // descriptors come free.
            let mut open: Vec<TcpStream> = (0..wave).map(|_| server.connect()).collect();
            for stream in &mut open {
                stream.write_all(GET).unwrap();
            }
            if answered == 0 {
                does_not_spin(&server, driver);
            }
            for mut stream in open {
                let mut answer = [0; 69];
                stream.read_exact(&mut answer).unwrap();
                assert!(answer.ends_with(b"\r\n\r\nPong!"));
                answered += 1;
            }
        }
        let seconds = start.elapsed().as_secs();
        let (connections, served, complaints) = server.stop();
        assert_eq!((connections, served), (CONNECTIONS as u64, CONNECTIONS as u64), "{driver}");
        let said = complaints.iter().filter(|line| line.contains("pong: accept: ")).count() as u64;
        assert!(said <= seconds + 2, "{driver}: said {said} times in {seconds} s: {complaints:?}");
    }
}

/// While every descriptor is in use and the backlog is not empty, the server rests.
fn does_not_spin(server: &Server, driver: &str) {
    // What can be accepted is accepted first, however long that takes: the best of ten.
    let busy: Vec<_> = (0..10)
        .map(|_| {
            let (before, start) = (server.cpu_seconds(), Instant::now());
            thread::sleep(Duration::from_secs(1));
            let took = start.elapsed().as_secs_f64();
            (server.cpu_seconds() - before, took)
        })
        .take_while(|(used, took)| *used >= 0.2 * took)
        .collect();
    assert!(busy.len() < 10, "{driver}: seconds of processor time, of waiting: {busy:?}");
}
