//! What the io_uring driver remembers about a descriptor: is a try worth a system call, and who waits
//! for whose turn?
//!
//! ```text
//!   fresh connection: try ──┬─ got less than asked for, or EAGAIN ──▶ drained: ask the ring
//!        ▲                  └─ got all that was asked for ──▶ try again
//!        └──── the ring's completion says that there is more ────────┘
//! ```
//!
//! Unlike in the readiness driver's table, `drained` is a hint: a wrong one costs time, nothing else. An
//! operation given to the ring looks at the descriptor before it waits.

use crate::HandleRef;
use crate::list::List;
use crate::op::Interest;

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
