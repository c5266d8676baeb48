//! Datagram sockets: a mailbox of messages, each whole, each with its sender's address.
//!
//! Messages arrive late but in order and are not lost, except when the mailbox is full or nobody has
//! claimed the address; then they vanish, as they do on a network.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::clock::Event;
use super::socket::{Socket, State};
use super::world::{Serial, Stop, Try, World};
use crate::sys::c;

/// A message on its way: when it arrives, from whom, what.
type Letter = (u64, SocketAddr, Vec<u8>);

/// What a datagram socket has received.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    flight: VecDeque<Letter>,
    arrived: VecDeque<(SocketAddr, Vec<u8>)>,
    held: usize,
    pub(super) read_shut: bool,
    pub(super) write_shut: bool,
}

impl Mailbox {
    /// Bytes that a mailbox holds at most.
    const CAPACITY: usize = 256 << 10;

    /// Takes in everything that has arrived by `now`.
    pub(super) fn arrive(&mut self, now: u64) {
        while self.flight.front().is_some_and(|letter| letter.0 <= now) {
            if let Some((_, from, bytes)) = self.flight.pop_front() {
                self.arrived.push_back((from, bytes));
            }
        }
    }

    /// Whether a receive would return at once.
    pub(super) fn read_ready(&self) -> bool {
        !self.arrived.is_empty() || self.read_shut
    }
}

impl World {
    /// Sends one message to `to`, or to the connected peer.
    pub(super) fn send_letter(
        &mut self,
        serial: Serial,
        to: Option<SocketAddr>,
        bytes: Vec<u8>,
    ) -> Try<usize> {
        let socket = self.socket(serial)?;
        let Some(to) = to.or(socket.remote) else { return Err(Stop::Errno(c::EDESTADDRREQ)) };
        if let State::Mailbox(Mailbox { write_shut: true, .. }) = socket.state {
            return Err(Stop::Errno(c::EPIPE));
        }
        if bytes.len() > 65_507 {
            return Err(Stop::Errno(c::EMSGSIZE));
        }
        self.bind_towards(serial, to)?;
        let from = self.socket(serial)?.local.ok_or(Stop::Errno(c::EINVAL))?;
        let (n, at) = (bytes.len(), self.arrival());
        if let Some(receiver) = self.owner_of(false, to)
            && let Ok(Socket { state: State::Mailbox(mailbox), remote, .. }) = self.socket(receiver)
            && remote.is_none_or(|only| only == from)
            && mailbox.held + n <= Mailbox::CAPACITY
        {
            let at = mailbox.flight.back().map_or(at, |last| at.max(last.0));
            mailbox.held += n;
            mailbox.flight.push_back((at, from, bytes));
            self.clock.schedule(at, Event::Arrive(receiver));
        }
        Ok(n)
    }

    /// Takes (or peeks at) the oldest message.
    pub(super) fn recv_letter(
        &mut self,
        serial: Serial,
        peek: bool,
    ) -> Try<(Vec<u8>, Option<SocketAddr>)> {
        let State::Mailbox(mailbox) = &mut self.socket(serial)?.state else {
            return Err(Stop::Errno(c::ENOTCONN));
        };
        if peek && let Some((from, bytes)) = mailbox.arrived.front() {
            return Ok((bytes.clone(), Some(*from)));
        }
        if let Some((from, bytes)) = mailbox.arrived.pop_front() {
            mailbox.held -= bytes.len();
            return Ok((bytes, Some(from)));
        }
        if mailbox.read_shut { Ok((Vec::new(), None)) } else { Err(Stop::Wait) }
    }
}
