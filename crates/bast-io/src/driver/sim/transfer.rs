//! Bytes over connected streams: sending, receiving, half-closing, readiness.
//!
//! ```text
//!   send ──▶ room in the peer's End? ──▶ segment under way ──Event::Arrive──▶ stir the receiver
//!   recv ──▶ bytes, then error, then end of stream ──▶ room again: stir the sender
//! ```

use super::clock::Event;
use super::socket::{State, fail};
use super::stream::Segment;
use super::world::{Item, Serial, Side, Stop, Try, World};
use crate::Half;
use crate::sys::c;

impl World {
    /// `shutdown(2)`.
    pub(super) fn shutdown(&mut self, serial: Serial, how: Half) -> Try<()> {
        let at = self.arrival();
        let socket = self.socket(serial)?;
        let (read, write) = (how != Half::Write, how != Half::Read);
        match &mut socket.state {
            State::Connected(end) => {
                if end.reset {
                    return fail(c::ENOTCONN);
                }
                end.read_shut |= read;
                let says_fin = write && !end.write_shut;
                end.write_shut |= write;
                let peer = end.peer;
                if says_fin {
                    self.send_segment(peer, at, Segment::Fin);
                }
            }
            State::Mailbox(mailbox) if socket.remote.is_some() => {
                mailbox.read_shut |= read;
                mailbox.write_shut |= write;
            }
            State::Fresh | State::Connecting(_) | State::Mailbox(_) => return fail(c::ENOTCONN),
            // Linux ends the listening; so much of it is not simulated.
            State::Listening { .. } => return fail(c::EOPNOTSUPP),
        }
        self.stir(serial, Side::In);
        self.stir(serial, Side::Out);
        Ok(())
    }

    /// Puts a segment on its way to `to`, if that still exists.
    pub(super) fn send_segment(&mut self, to: Serial, at: u64, segment: Segment) {
        if let Some(end) = self.end(to) {
            let at = end.push(at, segment);
            self.clock.schedule(at, Event::Arrive(to));
        }
    }

    /// Something has arrived at a socket.
    pub(super) fn arrived(&mut self, serial: Serial) {
        let now = self.clock.now();
        let Ok(socket) = self.socket(serial) else { return };
        match &mut socket.state {
            State::Connected(end) => end.arrive(now),
            State::Mailbox(mailbox) => mailbox.arrive(now),
            _ => {}
        }
        self.stir(serial, Side::In);
        self.stir(serial, Side::Out);
    }

    /// How many bytes a stream takes now.
    pub(super) fn send_room(&mut self, serial: Serial) -> Try<usize> {
        let end = match &mut self.socket(serial)?.state {
            State::Connected(end) => end,
            State::Connecting(None) => return Err(Stop::Wait),
            _ => return fail(c::ENOTCONN),
        };
        if let Some(errno) = end.error.take() {
            return fail(errno);
        }
        if end.write_shut || end.reset {
            return fail(c::EPIPE);
        }
        let peer = end.peer;
        match self.end(peer) {
            Some(peer) if peer.room() == 0 => Err(Stop::Wait),
            Some(peer) => Ok(peer.room()),
            // Nobody reads it; the network finds out when it arrives.
            None => Ok(usize::MAX),
        }
    }

    /// Sends bytes for which there is room.
    pub(super) fn send(&mut self, serial: Serial, bytes: Vec<u8>) {
        let at = self.arrival();
        let Some(peer) = self.end(serial).map(|end| end.peer) else { return };
        if self.end(peer).is_some() {
            self.send_segment(peer, at, Segment::Bytes(bytes));
        } else {
            self.send_segment(serial, at, Segment::Reset);
        }
    }

    /// Takes (or peeks at) up to `n` bytes of a stream; none at its end.
    pub(super) fn recv(&mut self, serial: Serial, n: usize, peek: bool) -> Try<Vec<u8>> {
        let end = match &mut self.socket(serial)?.state {
            State::Connected(end) => end,
            State::Connecting(None) => return Err(Stop::Wait),
            _ => return fail(c::ENOTCONN),
        };
        let n = n.min(end.readable());
        if n > 0 {
            let n = self.rng.portion(n);
            let Some(end) = self.end(serial) else { return fail(c::EBADF) };
            let (bytes, peer) = (end.take(n, peek), end.peer);
            self.stir(peer, Side::Out);
            return Ok(bytes);
        }
        if end.readable() > 0 {
            // Asked for nothing while there is something.
            return Ok(Vec::new());
        }
        if let Some(errno) = end.error.take() {
            return fail(errno);
        }
        if end.read_ready() { Ok(Vec::new()) } else { Err(Stop::Wait) }
    }

    /// Whether an operation on this side would not wait.
    pub(super) fn is_ready(&mut self, serial: Serial, side: Side) -> Try<()> {
        let ready = match self.items.get_mut(&serial) {
            None => return fail(c::EBADF),
            Some(Item::File(_)) => true,
            Some(Item::Socket(socket)) => match (&socket.state, side) {
                (State::Fresh, _) | (State::Connecting(Some(_)), _) => true,
                (State::Connecting(None), _) | (State::Listening { .. }, Side::Out) => false,
                (State::Listening { queue, .. }, Side::In) => !queue.is_empty(),
                (State::Connected(end), Side::In) => end.read_ready(),
                (State::Connected(_), Side::Out) => {
                    // Asked without `send_room`, which would take the error.
                    let State::Connected(end) = &socket.state else { return Ok(()) };
                    let (peer, ended) =
                        (end.peer, end.error.is_some() || end.reset || end.write_shut);
                    ended || self.end(peer).is_none_or(|peer| peer.room() > 0)
                }
                (State::Mailbox(mailbox), Side::In) => mailbox.read_ready(),
                (State::Mailbox(_), Side::Out) => true,
            },
        };
        if ready { Ok(()) } else { Err(Stop::Wait) }
    }
}
