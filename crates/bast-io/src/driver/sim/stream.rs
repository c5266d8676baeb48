//! One end of a connection: what is under way to it, what has arrived, and how it ends.
//!
//! ```text
//!   sender ──push──▶ flight (time, segment) ──arrive──▶ arrived bytes ──read──▶ receiver
//!                    Bytes… Fin | Reset                 then eof | error
//! ```
//!
//! An end owns its incoming direction only; sending means pushing into the peer's. Room is counted
//! from the moment of sending, so that a sender blocks when `capacity` bytes are unread or under way.

use std::collections::VecDeque;

use super::world::Serial;
use crate::sys::c;

/// What travels.
#[derive(Debug)]
pub(super) enum Segment {
    Bytes(Vec<u8>),
    /// The peer sends no more.
    Fin,
    /// The peer is gone and knows nothing of this connection.
    Reset,
}

/// One end of an established connection.
#[derive(Debug)]
pub(super) struct End {
    /// The other end. It may have been closed.
    pub(super) peer: Serial,
    flight: VecDeque<(u64, Segment)>,
    arrived: VecDeque<u8>,
    /// Bytes unread or under way.
    held: usize,
    capacity: usize,
    /// The peer has said that nothing more comes.
    pub(super) eof: bool,
    /// Reported once, by whichever operation comes first, after the bytes that arrived before it.
    pub(super) error: Option<i32>,
    /// The connection is dead in both directions.
    pub(super) reset: bool,
    pub(super) read_shut: bool,
    pub(super) write_shut: bool,
}

impl End {
    pub(super) fn new(peer: Serial, capacity: usize) -> End {
        End {
            peer,
            flight: VecDeque::new(),
            arrived: VecDeque::new(),
            held: 0,
            capacity,
            eof: false,
            error: None,
            reset: false,
            read_shut: false,
            write_shut: false,
        }
    }

    /// How many bytes a sender may push.
    pub(super) const fn room(&self) -> usize {
        self.capacity.saturating_sub(self.held)
    }

    /// Whether bytes would be lost if this end were closed now.
    pub(super) const fn holds_unread(&self) -> bool {
        self.held > 0
    }

    /// Puts `segment` on its way; returns when it arrives, which is never before what was sent
    /// earlier.
    pub(super) fn push(&mut self, at: u64, segment: Segment) -> u64 {
        let at = self.flight.back().map_or(at, |&(before, _)| at.max(before));
        if let Segment::Bytes(bytes) = &segment {
            self.held += bytes.len();
        }
        self.flight.push_back((at, segment));
        at
    }

    /// Takes in everything that has arrived by `now`.
    pub(super) fn arrive(&mut self, now: u64) {
        while self.flight.front().is_some_and(|&(at, _)| at <= now) {
            match self.flight.pop_front() {
                Some((_, Segment::Bytes(bytes))) => self.arrived.extend(bytes),
                Some((_, Segment::Fin)) => self.eof = true,
                Some((_, Segment::Reset)) => {
                    // As TCP does: after the peer's end of stream a reset is a broken pipe.
                    let errno = if self.eof { c::EPIPE } else { c::ECONNRESET };
                    self.error = Some(errno);
                    self.reset = true;
                }
                None => {}
            }
        }
    }

    /// How many bytes can be read now.
    pub(super) fn readable(&self) -> usize {
        self.arrived.len()
    }

    /// Whether a read would return at once: with bytes, with the end of the stream or an error.
    pub(super) fn read_ready(&self) -> bool {
        !self.arrived.is_empty() || self.eof || self.error.is_some() || self.reset || self.read_shut
    }

    /// Takes `n` arrived bytes, or copies them if `peek`.
    pub(super) fn take(&mut self, n: usize, peek: bool) -> Vec<u8> {
        if peek {
            return self.arrived.iter().copied().take(n).collect();
        }
        let taken: Vec<u8> = self.arrived.drain(..n).collect();
        self.held -= taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Segment};
    use crate::sys::c;

    #[test]
    fn order_survives_a_late_segment() {
        let mut end = End::new(2, 10);
        assert_eq!(end.push(50, Segment::Bytes(vec![1, 2, 3])), 50);
        assert_eq!(end.push(20, Segment::Fin), 50);
        assert_eq!(end.room(), 7);
        end.arrive(49);
        assert!(!end.read_ready());
        end.arrive(50);
        assert!(end.eof);
        assert_eq!(end.take(2, true), [1, 2]);
        assert_eq!(end.take(2, false), [1, 2]);
        assert_eq!(end.room(), 9);
        assert_eq!(end.readable(), 1);
    }

    #[test]
    fn a_reset_comes_after_the_bytes_before_it() {
        let mut end = End::new(2, 10);
        end.push(1, Segment::Bytes(vec![9]));
        end.push(2, Segment::Reset);
        end.arrive(2);
        assert_eq!(end.readable(), 1);
        assert_eq!(end.error, Some(c::ECONNRESET));
    }
}
