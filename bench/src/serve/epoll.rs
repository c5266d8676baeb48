//! The floor: a hand-written event loop. Edge-triggered, one registration per connection, reads
//! stop at a short read, writes go straight out and wait for room only when the kernel has none.

use super::{Protocol, listening};
use crate::sys::{self, Epoll, Event, Interest};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

struct Conn<P> {
    stream: TcpStream,
    protocol: P,
    /// How much of `protocol.out()` has been written.
    written: usize,
    /// The protocol has ended: close when all is written.
    closing: bool,
    watching_room: bool,
    hung_up: bool,
}

pub(super) fn run<P: Protocol>(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    sys::long_backlog(&listener)?;
    let epoll = Epoll::new()?;
    epoll.add(&listener, Interest::Level)?;
    listening(listener.local_addr()?)?;
    // Indexed by descriptor.
    let mut conns: Vec<Option<Box<Conn<P>>>> = Vec::new();
    let mut events = vec![Event::EMPTY; 1024];
    loop {
        let n = epoll.wait(&mut events, -1)?;
        for event in &events[..n] {
            if event.fd() == listener.as_raw_fd() {
                accept(&listener, &epoll, &mut conns)?;
                continue;
            }
            let slot = &mut conns[event.fd() as usize];
            if let Some(conn) = slot {
                // An error ends the connection, and the peer sees the close.
                if !matches!(drive(conn, &epoll, event.hung_up()), Ok(true)) {
                    *slot = None;
                }
            }
        }
    }
}

fn accept<P: Protocol>(
    listener: &TcpListener,
    epoll: &Epoll,
    conns: &mut Vec<Option<Box<Conn<P>>>>,
) -> io::Result<()> {
    loop {
        let stream = match sys::accept_nonblocking(listener) {
            Ok(stream) => stream,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        let at = stream.as_raw_fd() as usize;
        epoll.add(&stream, Interest::Edge)?;
        if conns.len() <= at {
            conns.resize_with(at + 1, || None);
        }
        let protocol = P::new();
        conns[at] = Some(Box::new(Conn {
            stream,
            protocol,
            written: 0,
            closing: false,
            watching_room: false,
            hung_up: false,
        }));
    }
}

/// Goes on until the kernel has nothing more; `false` means close. After a hang-up a short read does
/// not end it: the end of the stream was reported with the same edge, and no other will come.
fn drive<P: Protocol>(conn: &mut Conn<P>, epoll: &Epoll, hung_up: bool) -> io::Result<bool> {
    conn.hung_up |= hung_up;
    if !flush(conn, epoll)? {
        return Ok(true);
    }
    loop {
        if conn.closing {
            return Ok(false);
        }
        let space = conn.protocol.space();
        let room = space.len();
        let n = match conn.stream.read(space) {
            Ok(0) => return Ok(false),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(e) => return Err(e),
        };
        conn.closing = !conn.protocol.filled(n);
        let flushed = flush(conn, epoll)?;
        if !flushed || (n < room && !conn.closing && !conn.hung_up) {
            return Ok(true);
        }
    }
}

/// Writes what there is; `false` means that the kernel has no room.
fn flush<P: Protocol>(conn: &mut Conn<P>, epoll: &Epoll) -> io::Result<bool> {
    while conn.written < conn.protocol.out().len() {
        match conn.stream.write(&conn.protocol.out()[conn.written..]) {
            Ok(n) => conn.written += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if !conn.watching_room {
                    conn.watching_room = true;
                    epoll.modify(&conn.stream, Interest::EdgeBoth)?;
                }
                return Ok(false);
            }
            Err(e) => return Err(e),
        }
    }
    if conn.written > 0 {
        conn.written = 0;
        conn.protocol.sent();
    }
    Ok(true)
}
