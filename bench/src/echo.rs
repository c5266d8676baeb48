//! The load generator of `echo`: a closed loop of 64 B messages over N connections on one thread.
//!
//! ```text
//! connect N --> send one on each --> [ event: read 64 B, check, send the next ] ...
//!               |-- warm-up --|-- window: messages, server CPU --|
//! ```

use crate::child::{CLIENT_CORE, Server};
use crate::micro::Values;
use crate::registry::units;
use crate::stats::Span;
use crate::sys::{self, Epoll, Event, Interest};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const SIZE: usize = 64;

struct Conn {
    stream: TcpStream,
    message: [u8; SIZE],
    got: usize,
}

impl Conn {
    fn send(&mut self, seed: u64) -> io::Result<()> {
        for (i, word) in self.message.chunks_mut(8).enumerate() {
            word.copy_from_slice(&(seed ^ i as u64).to_le_bytes());
        }
        self.got = 0;
        // One message is in flight per connection: the kernel always has room for it.
        match self.stream.write(&self.message)? {
            SIZE => Ok(()),
            n => Err(io::Error::other(format!("the kernel took {n} of {SIZE} bytes"))),
        }
    }

    /// Reads what there is; `true` when the message has come back whole.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buf = [0; SIZE];
        while self.got < SIZE {
            match self.stream.read(&mut buf[self.got..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) if buf[self.got..][..n] == self.message[self.got..][..n] => self.got += n,
                Ok(_) => return Err(io::Error::other("the echo differs from what was said")),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

/// Measures `server` with `count` connections.
pub(crate) fn measure(subject: &str, count: usize, span: Span) -> Result<Values, String> {
    load_apart(&Server::start("echo", subject)?, count, span)
}

/// Measures a server that says back what it hears, or has somebody else say it.
pub(crate) fn load_apart(server: &Server, count: usize, span: Span) -> Result<Values, String> {
    // A thread of its own, so that the pinning ends with it.
    std::thread::scope(|s| {
        s.spawn(|| load(server, count, span)).join().map_err(|_| "the client panicked")?
    })
}

fn load(server: &Server, count: usize, span: Span) -> Result<Values, String> {
    let fail = |e: io::Error| format!("echo client: {e}");
    sys::pin(&[CLIENT_CORE]).map_err(fail)?;
    let epoll = Epoll::new().map_err(fail)?;
    // Indexed by descriptor.
    let mut conns: Vec<Option<Conn>> = Vec::new();
    let mut open = Vec::new();
    for _ in 0..count {
        let stream = TcpStream::connect(server.addr).map_err(fail)?;
        stream.set_nodelay(true).map_err(fail)?;
        stream.set_nonblocking(true).map_err(fail)?;
        epoll.add(&stream, Interest::Edge).map_err(fail)?;
        let at = stream.as_raw_fd() as usize;
        if conns.len() <= at {
            conns.resize_with(at + 1, || None);
        }
        conns[at] = Some(Conn { stream, message: [0; SIZE], got: 0 });
        open.push(at);
    }
    let mut messages = 0u64;
    for at in open {
        messages += 1;
        conns[at].as_mut().ok_or("no connection")?.send(messages).map_err(fail)?;
    }
    let mut events = vec![Event::EMPTY; 1024];
    let begin = Instant::now();
    let mut window: Option<(Instant, Duration, u64)> = None;
    loop {
        let n = epoll.wait(&mut events, 5000).map_err(fail)?;
        if n == 0 {
            return Err("the echo server has not answered for 5 s".to_owned());
        }
        for event in &events[..n] {
            let conn = conns[event.fd() as usize].as_mut().ok_or("an event of nobody")?;
            if conn.receive().map_err(fail)? {
                messages += 1;
                conn.send(messages).map_err(fail)?;
            }
        }
        let now = Instant::now();
        match window {
            None if now - begin >= span.warm => window = Some((now, server.cpu()?, messages)),
            Some((start, cpu, before)) if now - start >= span.measure => {
                let cpu = server.cpu()? - cpu;
                let done = (messages - before).max(1) as f64;
                return Ok(vec![
                    (units::CPU_MSG, cpu.as_nanos() as f64 / 1e3 / done),
                    (units::MSG_S, done / (now - start).as_secs_f64()),
                ]);
            }
            _ => {}
        }
    }
}
