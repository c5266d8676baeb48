//! The servers of `echo` and `pong`, each run in a process of its own. What they say on the wire is
//! one [`Protocol`] value per connection, shared by all Rust subjects; a file per runtime moves the
//! bytes.
//!
//! A server prints `listening ADDRESS` on one line when it is ready, and serves until it is killed.

mod bast;
mod bast_task;
mod epoll;
mod files;
mod hyper;
mod may;
mod pong_http;
mod proxy;
mod threads;
mod tokio;

use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// What a connection says: bytes in, bytes out.
pub(crate) trait Protocol: Send + 'static {
    fn new() -> Self;
    /// Where to read to; never empty.
    fn space(&mut self) -> &mut [u8];
    /// `n` bytes have been read; `false` means: write `out`, then close.
    fn filled(&mut self, n: usize) -> bool;
    /// What is to be written.
    fn out(&self) -> &[u8];
    /// All of `out` has been written.
    fn sent(&mut self);
}

/// Says back what it hears.
struct Echo {
    buf: [u8; 1024],
    have: usize,
}

impl Protocol for Echo {
    fn new() -> Echo {
        Echo { buf: [0; 1024], have: 0 }
    }

    fn space(&mut self) -> &mut [u8] {
        &mut self.buf
    }

    fn filled(&mut self, n: usize) -> bool {
        self.have = n;
        true
    }

    fn out(&self) -> &[u8] {
        &self.buf[..self.have]
    }

    fn sent(&mut self) {
        self.have = 0;
    }
}

/// Serves `service` (`echo` or `pong`) as `subject` until killed.
pub(crate) fn run(service: &str, subject: &str, addr: SocketAddr) -> Result<(), String> {
    if let Some(to) = service.strip_prefix("proxy=") {
        return proxy::run(subject, addr, to.parse().map_err(|_| format!("no address: {to}"))?);
    }
    match service {
        "echo" => with::<Echo>(subject, addr),
        "pong" if subject.starts_with("hyper-") => hyper::run(subject, addr),
        "pong" => with::<pong_http::Conn>(subject, addr),
        "httpfile" => files::run(subject, addr),
        _ => Err(format!("no service {service}")),
    }
}

fn with<P: Protocol>(subject: &str, addr: SocketAddr) -> Result<(), String> {
    match subject {
        "raw-epoll" => epoll::run::<P>(addr).map_err(|e| e.to_string()),
        "threads" => threads::run::<P>(addr).map_err(|e| e.to_string()),
        "tokio-current" | "tokio-multi" => tokio::run::<P>(subject, addr),
        "may" => may::run::<P>(addr),
        "bast-uring-task" | "bast-epoll-task" => bast_task::run::<P>(subject, addr),
        "bast-uring" | "bast-epoll" => bast::run::<P>(subject, addr),
        _ => Err(format!("no server {subject} in this build")),
    }
}

/// Tells the harness that the server is ready.
fn listening(addr: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "listening {addr}")?;
    out.flush()
}

/// A connection in blocking style: what `threads`, `may` and `bast` run, each on its own stream.
fn converse<P: Protocol>(stream: &mut (impl Read + Write)) -> io::Result<()> {
    let mut conn = P::new();
    loop {
        let n = stream.read(conn.space())?;
        if n == 0 {
            return Ok(());
        }
        let keep = conn.filled(n);
        if !conn.out().is_empty() {
            stream.write_all(conn.out())?;
            conn.sent();
        }
        if !keep {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    struct Fake {
        input: Cursor<Vec<u8>>,
        output: Vec<u8>,
    }

    impl Read for Fake {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let some = buf.len().min(100);
            self.input.read(&mut buf[..some])
        }
    }

    impl Write for Fake {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.output.extend_from_slice(&buf[..buf.len().min(33)]);
            Ok(buf.len().min(33))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn echo_says_back_what_it_hears() {
        let said: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
        let mut fake = Fake { input: Cursor::new(said.clone()), output: Vec::new() };
        converse::<Echo>(&mut fake).unwrap();
        assert_eq!(fake.output, said);
    }
}
