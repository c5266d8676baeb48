//! What a readiness driver knows about each descriptor, by number.
//!
//! ```text
//!                 EAGAIN, or a short read or write
//!   Unknown/Ready ────────────────────────────────▶ NotReady
//!       ▲          an edge (also the one that registering gives) │
//!       └────────────────────────────────────────────────────────┘
//! ```
//!
//! In NotReady nobody tries: an operation registers the descriptor, unless that was done before, and
//! waits for the edge. Why none is missed:
//!
//! * *Registered, `EAGAIN` at time t.* The kernel makes an edge for whatever comes after t. One that
//!   came before t and was not collected yet costs one try in vain.
//! * *Not registered, `EAGAIN` at t.* Registering reports what is ready at that moment, hence also
//!   what came since t.
//! * *A short read of a TCP stream at t* (`0 < n < len`, no flags) emptied the receive queue, under
//!   the socket's lock. So it is like `EAGAIN` at t, without the price of that call. Three things can
//!   make a read short with more to come: the end of the stream, an error, and an urgent mark. Each
//!   sets a flag with the edge that brings it; an edge that was not collected yet is still to come,
//!   and one that was has set `unusual`, which switches the inference off.
//! * *A short write at t* filled the send buffer, and the kernel announces room.
//!
//! A connection's first `recv` is tried before anything is registered: a request that is there is
//! read, answered and the connection closed with no registration at all. After its short read, the
//! next `recv` registers and waits at once: one `epoll_ctl` where `recv`, `EAGAIN`, `epoll_ctl` were
//! two calls.
//!
//! Several drivers may have the same descriptor: each has a registration and gets every edge.
//!
//! An entry whose id is not the handle's describes a closed descriptor of the same number. It is
//! reset: the kernel dropped the registration when the number was closed, or the new one gets
//! `EEXIST` (see `epoll`). Edges that carry the wrong identity are ignored.

use std::ptr::NonNull;

use crate::list::List;
use crate::op::Interest;
use crate::{HandleRef, Record};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Unknown,
    Ready,
    NotReady,
}

/// One direction of a descriptor.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) state: State,
    /// Operations that wait, oldest first.
    pub(super) waiters: List,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) registered: bool,
    pub(super) unusual: bool,
    /// How many of the waiters name the descriptor as a foreign one (id 0).
    pub(super) foreign: u32,
    pub(super) read: Side,
    pub(super) write: Side,
}

impl Entry {
    pub(super) fn side(&mut self, interest: Interest) -> &mut Side {
        match interest {
            Interest::Readable => &mut self.read,
            Interest::Writable => &mut self.write,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
}

impl Table {
    /// The entry of an owned handle, reset if it was another's.
    pub(super) fn of(&mut self, handle: HandleRef) -> &mut Entry {
        let entry = self.at(handle.raw);
        if entry.id != handle.id {
            entry.id = handle.id;
            entry.registered = false;
            entry.unusual = false;
            // Waiters can only be foreign ones (io 6): they stay.
            entry.read.state = State::Unknown;
            entry.write.state = State::Unknown;
        }
        entry
    }

    /// The entry of a number, whoever's it is.
    pub(super) fn at(&mut self, fd: i32) -> &mut Entry {
        // A negative number is nobody's; its operations fail with EBADF before they wait.
        let i = usize::try_from(fd).unwrap_or(0);
        if i >= self.entries.len() {
            self.grow(i);
        }
        &mut self.entries[i]
    }

    #[cold]
    fn grow(&mut self, i: usize) {
        let len = (i + 1).next_power_of_two().max(64);
        self.entries.resize_with(len, Entry::default);
    }

    pub(super) fn get(&mut self, fd: i32) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(fd).ok()?)
    }

    /// Asks for the first waiting reader, mostly the one that an edge is for.
    pub(super) fn prefetch(&self, fd: i32) {
        let entry = usize::try_from(fd).ok().and_then(|fd| self.entries.get(fd));
        if let Some(record) = entry.and_then(|entry| entry.read.waiters.front()) {
            crate::sys::prefetch(record.as_ptr());
        }
    }

    /// Takes every waiter off its list.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = NonNull<Record>> {
        self.entries.iter_mut().flat_map(|e| {
            let (r, w) = (&mut e.read.waiters, &mut e.write.waiters);
            std::iter::from_fn(|| r.pop_front().or_else(|| w.pop_front()))
        })
    }
}
