//! What the io_uring driver remembers about a descriptor: is a try worth a system call, and who waits
//! for whose turn?
//!
//! ```text
//!   fresh connection: try ──┬─ got less than asked for, or EAGAIN ──▶ drained: ask the ring
//!        ▲                  └─ got all that was asked for ──▶ try again
//!        └──── the ring's completion says that there is more ────────┘
//!              (of datagrams it cannot: there it depends on luck with the last tries)
//! ```
//!
//! Unlike in the readiness driver's table, `drained` is a hint: a wrong one costs time, nothing else. An
//! operation given to the ring looks at the descriptor before it waits.

use crate::list::List;
use crate::op::Interest;
use crate::{HandleRef, Kind};

/// Of so many datagrams from the ring in a row ...
const ROW: u8 = 64;
/// ... these are followed by a try, if none of the tries has found another one.
const TRIES: u8 = 4;

/// One direction of a descriptor.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// An operation is under way; those in `waiting` came later.
    pub(super) busy: bool,
    pub(super) waiting: List,
}

#[derive(Debug, Default)]
pub(super) struct Note {
    id: u64,
    /// Nothing to read, or to accept, is believed to be there.
    pub(super) drained: bool,
    /// Datagrams that have come from the ring since a try found one. It may wrap around.
    since_luck: u8,
    /// Set so for `sendfile`. (The ring waits for such a socket too: whether it may is the operation's to say.)
    pub(super) nonblocking: bool,
    read: Side,
    write: Side,
}

impl Note {
    #[inline]
    pub(super) fn side(&mut self, interest: Interest) -> &mut Side {
        match interest {
            Interest::Readable => &mut self.read,
            Interest::Writable => &mut self.write,
        }
    }

    /// The ring has received or accepted, and says whether there is more: of streams, that is. Of datagrams
    /// no kernel does. Often they come in bursts, which a try for each takes cheaply; where they come one by one
    /// tries are in vain, and few are made.
    pub(super) fn received(&mut self, kind: Kind, more: bool) {
        self.drained = !more;
        if kind == Kind::Datagram && !more {
            self.since_luck = self.since_luck.wrapping_add(1);
            self.drained = self.since_luck % ROW >= TRIES;
        }
    }

    /// A receive was tried.
    pub(super) fn tried(&mut self, blocked: bool) {
        if !blocked {
            self.since_luck = 0;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: Vec<Note>,
}

impl Notes {
    /// The note of a handle, blank if it was another's of the same number (which was closed with
    /// nothing under way, contract io 6).
    #[inline]
    pub(super) fn of(&mut self, handle: HandleRef) -> &mut Note {
        let i = usize::try_from(handle.raw).unwrap_or(0);
        if i >= self.notes.len() {
            self.grow(i);
        }
        let note = &mut self.notes[i];
        if note.id != handle.id {
            *note = Note { id: handle.id, ..Note::default() };
        }
        note
    }

    #[cold]
    fn grow(&mut self, i: usize) {
        self.notes.resize_with((i + 1).next_power_of_two().max(64), Note::default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_of_datagrams_are_tried_for_and_single_ones_seldom() {
        let mut note = Note::default();
        let mut tries = 0;
        for _ in 0..1000 {
            note.received(Kind::Datagram, false);
            tries += u32::from(!note.drained);
            note.drained = true;
            note.tried(true);
        }
        assert!((10..100).contains(&tries), "{tries}");
        while note.drained {
            note.received(Kind::Datagram, false);
        }
        note.tried(false);
        note.received(Kind::Datagram, false);
        assert!(!note.drained, "there was one more, and so the next is tried for");
        note.received(Kind::Stream, false);
        assert!(note.drained, "of streams the ring knows");
        note.received(Kind::Stream, true);
        assert!(!note.drained);
    }
}
