//! Sockets: names and ports, connecting and accepting, and how each end learns of the other's end.
//!
//! ```text
//!   Fresh ──connect──▶ Connecting ──knock finds a listener──▶ Connected
//!     │                    ╰─ nobody there: ECONNREFUSED, Fresh again
//!     │                    ╰─ listener's queue full: knock again after 1, 2, 4 … s, then ETIMEDOUT
//!     ├──listen──▶ Listening (queue of connected ends without a number)
//!     └─(datagram sockets)▶ Mailbox
//! ```
//!
//! Every address is an address of this world; loopback is not special but for what `getsockname`
//! says. Options are remembered and have no effect.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::clock::Event;
use super::datagram::Mailbox;
use super::stream::{End, Segment};
use super::world::{Item, Serial, Side, Stop, Try, World};
use crate::sys::c;

/// A socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) is_stream: bool,
    pub(super) is_v6: bool,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) options: BTreeMap<(i32, i32), Vec<u8>>,
    pub(super) state: State,
}

/// How far a socket has come.
#[derive(Debug)]
pub(super) enum State {
    Fresh,
    Listening {
        backlog: usize,
        queue: VecDeque<Serial>,
    },
    /// `Some`: it failed and nobody has been told yet.
    Connecting(Option<i32>),
    Connected(End),
    Mailbox(Mailbox),
}

pub(super) const fn fail<T>(errno: i32) -> Try<T> {
    Err(Stop::Errno(errno))
}

impl World {
    /// The socket behind a serial.
    pub(super) fn socket(&mut self, serial: Serial) -> Try<&mut Socket> {
        match self.items.get_mut(&serial) {
            Some(Item::Socket(socket)) => Ok(socket),
            Some(Item::File(_)) => fail(c::ENOTSOCK),
            None => fail(c::EBADF),
        }
    }

    /// The connected end behind a serial, if that is what it is.
    pub(super) fn end(&mut self, serial: Serial) -> Option<&mut End> {
        match self.items.get_mut(&serial) {
            Some(Item::Socket(Socket { state: State::Connected(end), .. })) => Some(end),
            _ => None,
        }
    }

    /// `socket(2)`: internet streams and datagrams.
    pub(super) fn new_socket(&mut self, domain: i32, kind: i32) -> Try<Serial> {
        let is_v6 = match domain {
            c::AF_INET => false,
            c::AF_INET6 => true,
            _ => return fail(c::EAFNOSUPPORT),
        };
        let is_stream = match kind & !(c::SOCK_CLOEXEC | c::SOCK_NONBLOCK) {
            c::SOCK_STREAM => true,
            c::SOCK_DGRAM => false,
            _ => return fail(c::ESOCKTNOSUPPORT),
        };
        let state = if is_stream { State::Fresh } else { State::Mailbox(Mailbox::default()) };
        let options = BTreeMap::new();
        let socket = Socket { is_stream, is_v6, local: None, remote: None, options, state };
        Ok(self.add(Item::Socket(socket)))
    }

    /// Who has claimed exactly this address or all addresses of its family at this port.
    pub(super) fn owner_of(&mut self, is_stream: bool, to: SocketAddr) -> Option<Serial> {
        let claims = self.ports.get(&(is_stream, to.port()))?.clone();
        claims.into_iter().find(|&serial| {
            self.socket(serial).ok().and_then(|s| s.local).is_some_and(|local| {
                local.is_ipv4() == to.is_ipv4()
                    && (local.ip() == to.ip() || local.ip().is_unspecified())
            })
        })
    }

    /// `bind(2)`; port 0 chooses one.
    pub(super) fn bind(&mut self, serial: Serial, mut addr: SocketAddr) -> Try<()> {
        let socket = self.socket(serial)?;
        if addr.is_ipv4() == socket.is_v6 {
            return fail(c::EAFNOSUPPORT);
        }
        if socket.local.is_some() {
            return fail(c::EINVAL);
        }
        let is_stream = socket.is_stream;
        if addr.port() == 0 {
            let start = self.rng.below(28_000) as u16;
            let free = (0..28_000)
                .map(|i| 32_768 + (start + i) % 28_000)
                .find(|port| !self.ports.contains_key(&(is_stream, *port)));
            let Some(port) = free else { return fail(c::EADDRINUSE) };
            addr.set_port(port);
        } else {
            let claims = self.ports.get(&(is_stream, addr.port())).cloned().unwrap_or_default();
            let clash = claims.into_iter().any(|other| {
                self.socket(other).ok().and_then(|s| s.local).is_some_and(|local| {
                    local.is_ipv4() == addr.is_ipv4()
                        && (local.ip() == addr.ip()
                            || local.ip().is_unspecified()
                            || addr.ip().is_unspecified())
                })
            });
            if clash {
                return fail(c::EADDRINUSE);
            }
        }
        self.socket(serial)?.local = Some(addr);
        self.ports.entry((is_stream, addr.port())).or_default().push(serial);
        Ok(())
    }

    /// Gives an unbound socket that talks to `to` an address of its own.
    pub(super) fn bind_towards(&mut self, serial: Serial, to: SocketAddr) -> Try<()> {
        if self.socket(serial)?.local.is_some() {
            return Ok(());
        }
        let ip = match to.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => IpAddr::from([127, 0, 0, 1]),
            ip => ip,
        };
        self.bind(serial, SocketAddr::new(ip, 0))
    }

    /// `listen(2)`.
    pub(super) fn listen(&mut self, serial: Serial, backlog: i32) -> Try<()> {
        let socket = self.socket(serial)?;
        let limit = usize::try_from(backlog).unwrap_or(0).max(1);
        match &mut socket.state {
            State::Fresh if socket.local.is_none() => {
                let any = if socket.is_v6 { IpAddr::from([0u16; 8]) } else { IpAddr::from([0; 4]) };
                self.bind(serial, SocketAddr::new(any, 0))?;
                self.listen(serial, backlog)
            }
            State::Fresh => {
                socket.state = State::Listening { backlog: limit, queue: VecDeque::new() };
                Ok(())
            }
            State::Listening { backlog, .. } => {
                *backlog = limit;
                Ok(())
            }
            State::Mailbox(_) => fail(c::EOPNOTSUPP),
            State::Connecting(_) | State::Connected(_) => fail(c::EINVAL),
        }
    }

    /// Begins `connect(2)`. A stream's ends in [`World::connect_ended`].
    pub(super) fn connect(&mut self, serial: Serial, mut to: SocketAddr) -> Try<()> {
        let socket = self.socket(serial)?;
        if to.is_ipv4() == socket.is_v6 {
            return fail(c::EAFNOSUPPORT);
        }
        if to.ip().is_unspecified() {
            let home: IpAddr = if to.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                [0, 0, 0, 0, 0, 0, 0, 1u16].into()
            };
            to.set_ip(home);
        }
        match socket.state {
            State::Listening { .. } | State::Connected(_) => return fail(c::EISCONN),
            State::Connecting(_) => return fail(c::EALREADY),
            State::Fresh | State::Mailbox(_) => {}
        }
        self.bind_towards(serial, to)?;
        let at = self.arrival();
        let socket = self.socket(serial)?;
        socket.remote = Some(to);
        if socket.is_stream {
            socket.state = State::Connecting(None);
            self.clock.schedule(at, Event::Knock { from: serial, to, attempt: 0 });
        }
        Ok(())
    }

    /// What a begun `connect` has come to.
    pub(super) fn connect_ended(&mut self, serial: Serial) -> Try<()> {
        let socket = self.socket(serial)?;
        match socket.state {
            State::Connecting(None) => Err(Stop::Wait),
            State::Connecting(Some(errno)) => {
                socket.state = State::Fresh;
                fail(errno)
            }
            _ => Ok(()),
        }
    }

    /// `getsockname(2)` and `getpeername(2)`.
    pub(super) fn name_of(&mut self, serial: Serial, peer: bool) -> Try<SocketAddr> {
        let socket = self.socket(serial)?;
        let is_v6 = socket.is_v6;
        let any = if is_v6 { IpAddr::from([0u16; 8]) } else { IpAddr::from([0u8; 4]) };
        match (&socket.state, peer) {
            (State::Connected(_) | State::Mailbox(_), true) => {
                socket.remote.ok_or(Stop::Errno(c::ENOTCONN))
            }
            (_, true) => fail(c::ENOTCONN),
            (_, false) => Ok(socket.local.unwrap_or(SocketAddr::new(any, 0))),
        }
    }

    /// `SO_ERROR`: the pending error, which is then no longer pending.
    pub(super) fn take_error(&mut self, serial: Serial) -> Try<i32> {
        let socket = self.socket(serial)?;
        let error = match &mut socket.state {
            State::Connected(end) => end.error.take(),
            State::Connecting(Some(errno)) => {
                let errno = *errno;
                socket.state = State::Fresh;
                Some(errno)
            }
            _ => None,
        };
        Ok(error.unwrap_or(0))
    }

    /// A connection request arrives.
    pub(super) fn knocked(&mut self, from: Serial, to: SocketAddr, attempt: u32) {
        let (client, local) = match self.socket(from) {
            Ok(Socket { state: State::Connecting(None), local: Some(local), .. }) => (from, *local),
            // The client has been closed since.
            _ => return,
        };
        let listener = self.owner_of(true, to);
        let is_v6 = to.is_ipv6();
        let room = listener.and_then(|listener| match &self.socket(listener).ok()?.state {
            State::Listening { backlog, queue } => Some((listener, queue.len() < *backlog)),
            _ => None,
        });
        let failure = match room {
            Some((listener, true)) => {
                let capacity = [4 << 10, 16 << 10, 64 << 10][self.rng.below(3)];
                let server = self.add(Item::Socket(Socket {
                    is_stream: true,
                    is_v6,
                    local: Some(to),
                    remote: Some(local),
                    options: BTreeMap::new(),
                    state: State::Connected(End::new(client, capacity)),
                }));
                if let Ok(socket) = self.socket(client) {
                    socket.state = State::Connected(End::new(server, capacity));
                }
                if let Ok(Socket { state: State::Listening { queue, .. }, .. }) =
                    self.socket(listener)
                {
                    queue.push_back(server);
                }
                self.stir(listener, Side::In);
                None
            }
            // As Linux does when a queue overflows: the request is ignored, and repeated.
            Some((_, false)) if attempt < 6 => {
                let at = self.clock.now() + (1_000_000_000 << attempt);
                let again = Event::Knock { from, to, attempt: attempt + 1 };
                self.clock.schedule(at, again);
                return;
            }
            Some((_, false)) => Some(c::ETIMEDOUT),
            None => Some(c::ECONNREFUSED),
        };
        if failure.is_some()
            && let Ok(socket) = self.socket(client)
        {
            socket.state = State::Connecting(failure);
        }
        self.stir(client, Side::In);
        self.stir(client, Side::Out);
    }

    /// `accept(2)`: the new descriptor's number and the peer's address.
    pub(super) fn accept(&mut self, serial: Serial) -> Try<(i32, SocketAddr)> {
        let State::Listening { queue, .. } = &mut self.socket(serial)?.state else {
            return fail(c::EINVAL);
        };
        let server = queue.pop_front().ok_or(Stop::Wait)?;
        let remote = self.socket(server)?.remote.ok_or(Stop::Errno(c::ECONNABORTED))?;
        match self.name(server) {
            Ok(fd) => Ok((fd, remote)),
            Err(stop) => {
                // No number to be had: the connection stays in the queue, as in a kernel.
                if let State::Listening { queue, .. } = &mut self.socket(serial)?.state {
                    queue.push_front(server);
                }
                Err(stop)
            }
        }
    }

    /// A socket has been closed: its port is free, its peer hears of it.
    pub(super) fn socket_closed(&mut self, serial: Serial, socket: Socket) {
        if let Some(local) = socket.local {
            let claim = (socket.is_stream, local.port());
            if let Some(claims) = self.ports.get_mut(&claim) {
                claims.retain(|&other| other != serial);
                if claims.is_empty() {
                    self.ports.remove(&claim);
                }
            }
        }
        match socket.state {
            State::Connected(end) if !end.reset => {
                let at = self.arrival();
                if end.holds_unread() {
                    self.send_segment(end.peer, at, Segment::Reset);
                } else if !end.write_shut {
                    self.send_segment(end.peer, at, Segment::Fin);
                }
                // A blocked sender finds the peer gone.
                self.stir(end.peer, Side::Out);
            }
            State::Listening { queue, .. } => {
                for waiting in queue {
                    let peer = self.end(waiting).map(|end| end.peer);
                    self.items.remove(&waiting);
                    if let Some(peer) = peer {
                        let at = self.arrival();
                        self.send_segment(peer, at, Segment::Reset);
                    }
                }
            }
            _ => {}
        }
    }
}
