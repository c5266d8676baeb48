//! The usual operations, each from its start to its end.

use std::net::SocketAddr;

use bast_io::{Handle, HandleRef, Kind, Op, c};

use crate::harness::{Rig, Ticket, empty, inet, sock};

impl Rig {
    /// A new socket of the internet, version 4.
    pub fn socket(&mut self, kind: i32) -> Handle {
        let outcome =
            self.run(Op::Socket { domain: c::AF_INET, kind: kind | c::SOCK_CLOEXEC, protocol: 0 });
        let fd = outcome.into_result().expect("a socket") as i32;
        let kind = match kind & 0xf {
            c::SOCK_DGRAM => Kind::Datagram,
            _ => Kind::Stream,
        };
        // SAFETY: it was made for us.
        unsafe { Handle::from_raw(fd, kind) }
    }

    /// A listener on a free port.
    pub fn listener(&mut self, backlog: i32) -> (Handle, SocketAddr) {
        let outcome = self.run(Op::Socket {
            domain: c::AF_INET,
            kind: c::SOCK_STREAM | c::SOCK_CLOEXEC | c::SOCK_NONBLOCK,
            protocol: 0,
        });
        let fd = outcome.into_result().expect("a socket") as i32;
        // SAFETY: it was made for us, and made non-blocking.
        let handle = unsafe { Handle::from_raw(fd, Kind::Listener) };
        self.bind(&handle, "127.0.0.1:0").expect("bound");
        let listening = self.run(Op::Listen { handle: handle.as_ref(), backlog });
        listening.into_result().expect("listening");
        let addr = self.name(&handle, false).expect("a name");
        (handle, addr)
    }

    pub fn bind(&mut self, handle: &Handle, addr: &str) -> std::io::Result<usize> {
        let addr = sock(addr.parse().expect("an address"));
        self.run(Op::Bind { handle: handle.as_ref(), addr: &raw const addr }).into_result()
    }

    /// `getsockname` or `getpeername`.
    pub fn name(&mut self, handle: &Handle, peer: bool) -> std::io::Result<SocketAddr> {
        let mut addr = empty();
        let op = Op::GetName { handle: handle.as_ref(), peer, addr: &raw mut addr };
        self.run(op).into_result()?;
        Ok(inet(&addr))
    }

    pub fn start_connect(&mut self, handle: &Handle, to: SocketAddr) -> Ticket {
        let handle = handle.as_ref();
        self.start_with(Box::new(sock(to)), |addr| Op::Connect { handle, addr: &raw const *addr })
    }

    pub fn start_accept(&mut self, handle: &Handle) -> Ticket {
        self.start(Op::Accept { handle: handle.as_ref(), addr: std::ptr::null_mut() })
    }

    /// A connected stream to `to`.
    pub fn connect(&mut self, to: SocketAddr) -> std::io::Result<Handle> {
        let handle = self.socket(c::SOCK_STREAM);
        let ticket = self.start_connect(&handle, to);
        self.wait(ticket).into_result()?;
        Ok(handle)
    }

    pub fn accept(&mut self, listener: &Handle) -> Handle {
        let ticket = self.start_accept(listener);
        let fd = self.wait(ticket).into_result().expect("a connection") as i32;
        // SAFETY: it was made for us.
        unsafe { Handle::from_raw(fd, Kind::Stream) }
    }

    /// Two ends of a connection: the one that connected, the one that was accepted.
    pub fn pair(&mut self) -> (Handle, Handle) {
        let (listener, addr) = self.listener(16);
        let client = self.connect(addr).expect("connected");
        (client, self.accept(&listener))
    }

    pub fn start_recv(&mut self, handle: HandleRef, n: usize, flags: i32) -> Ticket {
        self.start_with(Box::new(vec![0xEE_u8; n]), |buf| Op::Recv {
            handle,
            buf: buf.as_mut_ptr(),
            len: buf.len(),
            flags,
        })
    }

    pub fn start_send(&mut self, handle: HandleRef, bytes: &[u8]) -> Ticket {
        self.start_with(Box::new(bytes.to_vec()), |buf| Op::Send {
            handle,
            buf: buf.as_ptr(),
            len: buf.len(),
            flags: 0,
        })
    }

    /// What a started receive (or read) brought.
    pub fn received(&mut self, ticket: Ticket) -> std::io::Result<Vec<u8>> {
        let (outcome, memory) = self.finish(ticket);
        let n = outcome.into_result()?;
        let mut bytes = *memory.expect("memory").downcast::<Vec<u8>>().expect("bytes");
        assert!(n <= bytes.len(), "more than was asked for");
        assert!(bytes[n..].iter().all(|&b| b == 0xEE), "written beyond what was reported");
        bytes.truncate(n);
        Ok(bytes)
    }

    pub fn recv(&mut self, handle: &Handle, n: usize) -> std::io::Result<Vec<u8>> {
        let ticket = self.start_recv(handle.as_ref(), n, 0);
        self.received(ticket)
    }

    /// Receives exactly `n` bytes, or up to the end of the stream.
    pub fn recv_exact(&mut self, handle: &Handle, n: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < n {
            // Not more at once: the harness looks at every byte of what it lent.
            let part = self.recv(handle, (n - all.len()).min(64 << 10)).expect("received");
            if part.is_empty() {
                break;
            }
            all.extend(part);
        }
        all
    }

    pub fn send(&mut self, handle: &Handle, bytes: &[u8]) -> std::io::Result<usize> {
        let ticket = self.start_send(handle.as_ref(), bytes);
        self.wait(ticket).into_result()
    }

    pub fn send_all(&mut self, handle: &Handle, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = self.send(handle, bytes).expect("sent");
            bytes = &bytes[n..];
        }
    }

    pub fn start_read(&mut self, handle: HandleRef, n: usize, offset: Option<u64>) -> Ticket {
        self.start_with(Box::new(vec![0xEE_u8; n]), |buf| Op::Read {
            handle,
            buf: buf.as_mut_ptr(),
            len: buf.len(),
            offset,
        })
    }

    pub fn start_write(&mut self, handle: HandleRef, bytes: &[u8], offset: Option<u64>) -> Ticket {
        self.start_with(Box::new(bytes.to_vec()), |buf| Op::Write {
            handle,
            buf: buf.as_ptr(),
            len: buf.len(),
            offset,
        })
    }

    /// Sends until the connection takes no more; the send that blocks, and how much was sent.
    pub fn fill(&mut self, handle: &Handle) -> (Ticket, usize) {
        let chunk = vec![b'f'; 64 << 10];
        let mut sent = 0;
        loop {
            let ticket = self.start_send(handle.as_ref(), &chunk);
            if self.is_stuck(ticket) {
                return (ticket, sent);
            }
            sent += self.wait(ticket).into_result().expect("sent");
        }
    }
}
