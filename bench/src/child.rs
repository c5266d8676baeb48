//! Child processes: one per measurement, so that runtimes do not disturb each other and memory and
//! CPU belong to one subject.
//!
//! ```text
//! measure:  this --subject--> child: "unit TAB value" lines, exit
//! serve:    this --serve----> child: "listening ADDRESS", serves until the Server is dropped
//! ```

use crate::micro::{Values, split};
use crate::registry::Bench;
use crate::stats::Span;
use crate::{go, ocaml, sys};
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The core of servers.
const SERVER_CORE: usize = 0;
/// The core of clients, and of micro-benchmarks with one worker.
pub(crate) const CLIENT_CORE: usize = 1;

/// The longest that one micro-benchmark may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest that a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(10);
/// The longest that one run of a load generator may take.
pub(crate) const LOAD_LIMIT: Duration = Duration::from_secs(90);

/// A program that has the subject.
pub(crate) fn command(subject: &str, workers: usize) -> Result<Command, String> {
    if go::is(subject) {
        let mut command = Command::new(go::program()?);
        command.env("GOMAXPROCS", workers.to_string());
        return Ok(command);
    }
    if ocaml::is(subject) {
        return Ok(Command::new(ocaml::program()?));
    }
    Ok(Command::new(env::current_exe().map_err(|e| e.to_string())?))
}

/// Runs one micro-benchmark once.
pub(crate) fn measure(
    bench: &Bench,
    param: &str,
    subject: &str,
    span: Span,
) -> Result<Values, String> {
    let (_, workers) = split(param);
    let mut command = command(subject, workers)?;
    command.args(["subject", bench.name, param, subject]);
    command.arg(span.warm.as_millis().to_string());
    command.arg(span.measure.as_millis().to_string());
    let cores = if workers == 1 { vec![CLIENT_CORE] } else { (0..workers).collect() };
    parse(bench, &output(command, cores, LIMIT)?)
}

/// Runs `command` to its end on `cores`; gives what it printed.
pub(crate) fn output(
    mut command: Command,
    cores: Vec<usize>,
    limit: Duration,
) -> Result<String, String> {
    sys::tie(&mut command, cores);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let name = format!("{:?}", command.get_program());
    let mut child = command.spawn().map_err(|e| format!("{name}: {e}"))?;
    let mut stdout = child.stdout.take().ok_or("no pipe")?;
    let (send, receive) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let result = stdout.read_to_string(&mut text).map(|_| text);
        // The receiver is gone only when the time was up.
        let _ = send.send(result);
    });
    let text = receive.recv_timeout(limit);
    if text.is_err() {
        child.kill().map_err(|e| e.to_string())?;
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    reader.join().map_err(|_| "the reader panicked")?;
    let text = text.map_err(|_| format!("{name} took longer than {limit:?}"))?;
    if !status.success() {
        return Err(format!("{name}: {status}"));
    }
    text.map_err(|e| e.to_string())
}

fn parse(bench: &Bench, text: &str) -> Result<Values, String> {
    text.lines()
        .map(|line| {
            let bad = || format!("not a figure of {}: {line:?}", bench.name);
            let (unit, value) = line.split_once('\t').ok_or_else(bad)?;
            let unit = bench.units.iter().find(|u| **u == unit).ok_or_else(bad)?;
            Ok((*unit, value.trim().parse().map_err(|_| bad())?))
        })
        .collect()
}

/// A server in a child process; it ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Server {
    pub(crate) fn start(service: &str, subject: &str) -> Result<Server, String> {
        Server::start_with(service, subject, &[])
    }

    /// With a few variables in its environment.
    pub(crate) fn start_with(
        service: &str,
        subject: &str,
        env: &[(&str, &OsStr)],
    ) -> Result<Server, String> {
        let mut command = command(subject, 1)?;
        command.args(["serve", service, subject, &address().to_string()]);
        command.envs(env.iter().copied());
        sys::tie(&mut command, vec![SERVER_CORE]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        // From here on a drop ends the child.
        let mut server = Server { child, addr: address() };
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let result = BufReader::new(stdout).read_line(&mut line).map(|_| line);
            // The receiver is gone only when the time was up; then the server is killed.
            let _ = send.send(result);
        });
        let line = receive.recv_timeout(START_LIMIT);
        let line = line.map_err(|_| format!("the server is not ready after {START_LIMIT:?}"))?;
        let line = line.map_err(|e| e.to_string())?;
        // "listening ADDRESS", or "httpfile: http://ADDRESS/ on …".
        let addr = line.split(|c: char| c == '/' || c.is_whitespace()).find_map(|w| w.parse().ok());
        server.addr = addr.ok_or_else(|| format!("the server did not start: {line:?}"))?;
        Ok(server)
    }

    /// Another program that will listen at `addr`. The caller sees when it does.
    pub(crate) fn adopt(mut command: Command, addr: SocketAddr) -> Result<Server, String> {
        sys::tie(&mut command, vec![SERVER_CORE]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(|e| e.to_string())?;
        Ok(Server { child, addr })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn cpu(&self) -> Result<Duration, String> {
        sys::process_cpu(self.pid()).map_err(|e| format!("the server's CPU clock: {e}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which the measurement has noticed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address that no earlier server of this run had, so that the connections that one left
/// in TIME_WAIT do not take ports from the next.
pub(crate) fn address() -> SocketAddr {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness matters.
    let n = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id() % 200 * 256;
    SocketAddr::from(([127, (1 + n / 65_536 % 200) as u8, (n / 256) as u8, (n % 250 + 2) as u8], 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::BENCHES;

    #[test]
    fn figures_are_parsed_and_checked() {
        let bench = BENCHES.iter().find(|b| b.name == "sleepers").unwrap();
        let values = parse(bench, "KiB/task\t4.5\ns to end\t0.25\n").unwrap();
        assert_eq!(values, [("KiB/task", 4.5), ("s to end", 0.25)]);
        assert!(parse(bench, "parsecs\t1\n").is_err());
        assert!(parse(bench, "KiB/task\tmany\n").is_err());
    }

    #[test]
    fn a_failing_child_is_an_error() {
        assert!(output(Command::new("false"), vec![0], LIMIT).is_err());
        let mut echo = Command::new("echo");
        echo.arg("hello");
        assert_eq!(output(echo, vec![0], LIMIT).unwrap(), "hello\n");
        let mut slow = Command::new("sleep");
        slow.arg("20");
        let error = output(slow, vec![0], Duration::from_millis(100)).unwrap_err();
        assert!(error.contains("longer"), "{error}");
    }
}
