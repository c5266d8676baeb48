//! Load for a server: a small client of our own, and `ab` and `wrk` where they are installed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use crate::cmd::Cmd;

/// So long a healthy server on a busy machine never is silent.
const PATIENCE: Duration = Duration::from_secs(100);

/// Connects, with a bound on every later wait.
pub(crate) fn connect(addr: SocketAddr) -> Result<TcpStream, String> {
    let stream =
        TcpStream::connect_timeout(&addr, PATIENCE).map_err(|e| format!("connect: {e}"))?;
    let bounded = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    bounded.map_err(|e| e.to_string())?;
    Ok(stream)
}

/// Keeps `connections` connections busy: on each, one by one, batches of pipelined requests, every
/// answer compared byte for byte. Returns the number of requests answered.
pub(crate) fn requests(
    addr: SocketAddr,
    connections: usize,
    batches: usize,
) -> Result<u64, String> {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            thread::spawn(move || -> Result<u64, String> {
                let mut stream = connect(addr)?;
                let expected = first_answer(&mut stream, REQUEST)?;
                let mut answered = 1;
                let mut answer = Vec::new();
                for batch in 0..batches {
                    let depth = [1, 1, 7, 32][(number + batch) % 4];
                    stream.write_all(&REQUEST.repeat(depth)).map_err(|e| format!("send: {e}"))?;
                    answer.resize(expected.len() * depth, 0);
                    stream.read_exact(&mut answer).map_err(|e| format!("receive: {e}"))?;
                    if answer.chunks(expected.len()).any(|a| a != expected) {
                        return Err("an answer differs from the first one".into());
                    }
                    answered += depth as u64;
                }
                Ok(answered)
            })
        })
        .collect();
    let results = threads.into_iter().map(|t| t.join().unwrap_or(Err("a client panicked".into())));
    results.sum()
}

/// Sends one request and reads until the body has come; checks that it is the right answer.
fn first_answer(stream: &mut TcpStream, request: &[u8]) -> Result<Vec<u8>, String> {
    stream.write_all(request).map_err(|e| format!("send: {e}"))?;
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while !answer.ends_with(b"Pong!") {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(format!("closed after {:?}", String::from_utf8_lossy(&answer))),
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
            Err(e) => return Err(format!("receive: {e}")),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    if !text.starts_with("HTTP/1.1 200 OK\r\n") || !text.contains("\r\nContent-Length: 5\r\n") {
        return Err(format!("not the answer expected: {text:?}"));
    }
    Ok(answer)
}

/// Sends so many bytes on each connection, to somebody who sends all of it back until it is shut; compares what
/// comes back. Returns the number of bytes, there and back.
pub(crate) fn echo(addr: SocketAddr, connections: usize, length: usize) -> Result<u64, String> {
    let sent: Vec<u8> =
        (0..length as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let sent = sent.clone();
            thread::spawn(move || -> Result<bool, String> {
                let mut stream = connect(addr)?;
                let mut reader = stream.try_clone().map_err(|e| e.to_string())?;
                let bytes = sent.clone();
                let writer = thread::spawn(move || {
                    stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write))
                });
                let mut back = Vec::with_capacity(length);
                reader.read_to_end(&mut back).map_err(|e| format!("receive: {e}"))?;
                let written = writer.join().map_err(|_| "the writer panicked")?;
                written.map_err(|e| format!("send: {e}"))?;
                Ok(back == sent)
            })
        })
        .collect();
    for client in clients {
        if !client.join().map_err(|_| "a client panicked")?? {
            return Err("what came back is not what was sent".into());
        }
    }
    Ok(2 * (connections * length) as u64)
}

/// An answer to [`get`].
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Asks for `path` on a connection of its own, with one more header `field`, or none.
pub(crate) fn get(addr: SocketAddr, path: &str, field: &str) -> Result<Answer, String> {
    let mut stream = connect(addr)?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n");
    stream.write_all(request.as_bytes()).map_err(|e| format!("send: {e}"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(|e| format!("receive: {e}"))?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(end.ok_or("no end of the answer's head")? + 4);
    Ok(Answer { head: String::from_utf8_lossy(&answer).into_owned(), body })
}

/// `ab`, which closes after each answer unless told otherwise; returns the requests answered.
pub(crate) fn ab(url: &str, keep_alive: bool, requests: u64) -> Result<u64, String> {
    let keep = if keep_alive { "-k" } else { "" };
    let report = Cmd::new("ab")
        .args(&format!("-q -c 100 -n {requests}"))
        .args(keep)
        .args(url)
        .limit(Duration::from_secs(120))
        .run_and_read()?;
    judge_ab(&report, requests).map(|()| requests)
}

fn judge_ab(report: &str, requests: u64) -> Result<(), String> {
    let number = |label: &str| -> Option<u64> {
        let line = report.lines().find_map(|line| line.strip_prefix(label))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let bad = number("Non-2xx responses:").unwrap_or(0) + number("Write errors:").unwrap_or(0);
    match (number("Complete requests:"), number("Failed requests:"), bad) {
        (Some(complete), Some(0), 0) if complete == requests => Ok(()),
        (complete, failed, bad) => {
            Err(format!("ab: {complete:?} complete, {failed:?} failed, {bad} of another kind"))
        }
    }
}

/// `wrk` for a few seconds; returns the requests answered.
pub(crate) fn wrk(url: &str, connections: u32, seconds: u32) -> Result<u64, String> {
    let report = Cmd::new("wrk")
        .args(&format!("-t 1 -c {connections} -d {seconds}s"))
        .args(url)
        .limit(Duration::from_secs(120))
        .run_and_read()?;
    judge_wrk(&report)
}

fn judge_wrk(report: &str) -> Result<u64, String> {
    if let Some(line) =
        report.lines().find(|l| l.contains("Socket errors") || l.contains("Non-2xx"))
    {
        return Err(format!("wrk: {}", line.trim()));
    }
    let requests = report.lines().find_map(|line| line.trim().split_once(" requests in "));
    match requests.and_then(|(number, _)| number.parse().ok()) {
        None | Some(0) => Err("wrk has got no answer".into()),
        Some(requests) => Ok(requests),
    }
}

#[cfg(test)]
mod tests {
    use super::{judge_ab, judge_wrk};

    #[test]
    fn reports_of_ab_are_judged() {
        let good =
            "Complete requests:      20\nFailed requests:        0\nKeep-Alive requests: 20\n";
        assert_eq!(judge_ab(good, 20), Ok(()));
        assert!(judge_ab(good, 21).is_err());
        assert!(judge_ab(&good.replace("   0", "   3"), 20).is_err());
        assert!(judge_ab(&format!("{good}Non-2xx responses:      1\n"), 20).is_err());
        assert!(judge_ab("", 0).is_err());
    }

    #[test]
    fn reports_of_wrk_are_judged() {
        let good = "Running 1s test\n  168 requests in 1.00s, 1.00MB read\nRequests/sec: 168\n";
        assert_eq!(judge_wrk(good), Ok(168));
        let errors = "  Socket errors: connect 0, read 3, write 0, timeout 0\n";
        assert!(judge_wrk(&format!("{good}{errors}")).is_err());
        assert!(judge_wrk(&format!("{good}  Non-2xx or 3xx responses: 7\n")).is_err());
        assert!(judge_wrk("  0 requests in 1.00s, 0B read\n").is_err());
    }
}
