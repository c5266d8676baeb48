//! `pong`: HTTP servers under ab and wrk, or holding idle connections.
//!
//! The CPU of the server is read before and after the client's whole run, so that connecting and
//! closing count, and is divided by the requests that the client says were completed.

use crate::child::{CLIENT_CORE, LOAD_LIMIT, Server, output};
use crate::micro::Values;
use crate::registry::units;
use crate::{proc, sys};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Fewer answers than this are no measurement.
const ENOUGH: f64 = 100.0;

/// What a load generator reports.
#[derive(Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) done: f64,
    pub(crate) failed: f64,
    pub(crate) per_second: f64,
}

/// The program that `param` needs, if it is not installed: how to install it.
pub(crate) fn missing(param: &str) -> Option<&'static str> {
    let (program, hint) = match param.split('-').next() {
        Some("ab" | "abk") => ("ab", "ab is not installed: apt-get install -y apache2-utils"),
        Some("wrk") => ("wrk", "wrk is not installed: apt-get install -y wrk"),
        _ => return None,
    };
    // Any answer at all means that it is there: wrk's -v exits with 1.
    let version = if program == "ab" { "-V" } else { "-v" };
    Command::new(program).arg(version).output().is_err().then_some(hint)
}

/// Measures one server with the load that `param` names.
pub(crate) fn measure(subject: &str, param: &str, quick: bool) -> Result<Values, String> {
    let bad = || format!("no such load: {param}");
    let (program, count) = param.split_once('-').ok_or_else(bad)?;
    let connections: usize = count.parse().map_err(|_| bad())?;
    let server = Server::start("pong", subject)?;
    if program == "hold" {
        return hold(&server, connections);
    }
    let url = format!("http://{}/", server.addr);
    let before = server.cpu()?;
    let load = match program {
        "ab" => {
            let (least, each) = if quick { (8_000, 1) } else { (60_000, 10) };
            ab(&url, connections, least.max(connections * each), false)?
        }
        "wrk" => wrk(&url, connections, quick)?,
        _ => return Err(bad()),
    };
    figures(&server, before, &load)
}

/// What a server has used for a load, since its CPU clock stood at `before`.
pub(crate) fn figures(server: &Server, before: Duration, load: &Load) -> Result<Values, String> {
    let cpu = server.cpu()? - before;
    if load.done < ENOUGH {
        return Err(format!("only {} requests were answered", load.done));
    }
    Ok(vec![
        (units::CPU_REQ, cpu.as_nanos() as f64 / 1e3 / load.done),
        (units::REQ_S, load.per_second),
        (units::FAILED, load.failed),
        (units::PEAK_MB, proc::status_mb(server.pid(), "VmHWM")?),
    ])
}

/// `requests` requests from ab, each on a connection of its own unless they are kept.
pub(crate) fn ab(
    url: &str,
    connections: usize,
    requests: usize,
    keep: bool,
) -> Result<Load, String> {
    let mut command = Command::new("ab");
    // -r: go on after a broken connection and count it; -d -S: no percentiles.
    command.args(["-q", "-r", "-d", "-S", "-s", "30"]).args(keep.then_some("-k"));
    command.args(["-n", &requests.to_string(), "-c", &connections.to_string(), url]);
    let text = output(command, vec![CLIENT_CORE], LOAD_LIMIT)?;
    parse_ab(&text, requests as f64).ok_or_else(|| format!("ab said: {text}"))
}

fn parse_ab(text: &str, asked: f64) -> Option<Load> {
    let field = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let done = field("Complete requests:")?;
    let failed = field("Failed requests:")? + field("Non-2xx responses:").unwrap_or(0.0);
    let per_second = field("Requests per second:")?;
    Some(Load { done, failed: failed + (asked - done), per_second })
}

/// As many requests as wrk manages in a second, or in three.
pub(crate) fn wrk(url: &str, connections: usize, quick: bool) -> Result<Load, String> {
    let mut command = Command::new("wrk");
    command.args(["-t", "1", "-c", &connections.to_string()]);
    command.args(["-d", if quick { "1s" } else { "3s" }, "--timeout", "10s"]);
    command.arg(url);
    let text = output(command, vec![CLIENT_CORE], LOAD_LIMIT)?;
    parse_wrk(&text).ok_or_else(|| format!("wrk said: {text}"))
}

fn parse_wrk(text: &str) -> Option<Load> {
    let lines = || text.lines().map(str::trim);
    let done = lines().find_map(|l| l.split_once(" requests in "))?.0.parse().ok()?;
    let per_second = lines().find_map(|l| l.strip_prefix("Requests/sec:"))?.trim().parse().ok()?;
    let errors: f64 = lines()
        .filter(|l| l.starts_with("Socket errors:") || l.starts_with("Non-2xx"))
        .flat_map(|l| l.split(|c: char| !c.is_ascii_digit()))
        // The digits of "Non-2xx or 3xx responses" are no counts.
        .filter_map(|n| n.parse::<f64>().ok())
        .fold(0.0, |a, b| a + b);
    let words = lines().filter(|l| l.starts_with("Non-2xx")).count() as f64 * 5.0;
    Some(Load { done, failed: errors - words, per_second })
}

/// Memory with `connections` open that have had one answer each and are idle.
fn hold(server: &Server, connections: usize) -> Result<Values, String> {
    thread::scope(|s| {
        s.spawn(|| {
            sys::pin(&[CLIENT_CORE]).map_err(|e| e.to_string())?;
            let mut held = Vec::with_capacity(connections);
            for i in 0..connections {
                held.push(ask(server).map_err(|e| format!("connection {i}: {e}"))?);
            }
            thread::sleep(Duration::from_millis(200));
            let rss = proc::status_mb(server.pid(), "VmRSS")?;
            let tables = proc::status_mb(server.pid(), "VmPTE")?;
            // The last one still answers: nothing was dropped to save memory.
            let alive = held.last_mut().ok_or("no connection")?;
            exchange(alive).map_err(|e| format!("a held connection: {e}"))?;
            Ok(vec![(units::RSS_MB, rss), (units::PTE_MB, tables)])
        })
        .join()
        .map_err(|_| "the client panicked")?
    })
}

fn ask(server: &Server) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server.addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    exchange(&mut stream)?;
    Ok(stream)
}

fn exchange(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: pong\r\n\r\n")?;
    let (mut buf, mut have) = ([0; 1024], 0);
    while !buf[..have].ends_with(b"Pong!") {
        match stream.read(&mut buf[have..])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => have += n,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ab_output_is_understood() {
        let text = "Complete requests:      1990\nFailed requests:        3\n   \
                    (Connect: 0, Receive: 0, Length: 3, Exceptions: 0)\n\
                    Requests per second:    24000.50 [#/sec] (mean)\n";
        let want = Load { done: 1990.0, failed: 13.0, per_second: 24000.5 };
        assert_eq!(parse_ab(text, 2000.0), Some(want));
        assert_eq!(parse_ab("apr_socket_recv: Connection refused (111)", 1.0), None);
    }

    #[test]
    fn wrk_output_is_understood() {
        let text = "Running 1s test @ http://127.0.0.1:8080/\n  1 threads and 64 connections\n  \
                    150 requests in 1.01s, 18.00MB read\n";
        let clean = format!("{text}Requests/sec: 148.5\n");
        let load = parse_wrk(&clean).unwrap();
        assert_eq!(load, Load { done: 150.0, failed: 0.0, per_second: 148.5 });
        assert!(load.failed.is_sign_positive(), "no -0 in the table");
        let bad = format!(
            "{text}  Socket errors: connect 1, read 2, write 0, timeout 4\n  \
             Non-2xx or 3xx responses: 10\nRequests/sec: 1.0\n"
        );
        assert_eq!(parse_wrk(&bad), Some(Load { done: 150.0, failed: 17.0, per_second: 1.0 }));
    }
}
