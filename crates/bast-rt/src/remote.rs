//! Wakes from other threads: the one word of a fiber that strangers write.
//!
//! What a fiber waits for, whether it is parked, its park token: all of that belongs to its home
//! worker and needs no atomics (contract rt 1). Another thread that wants to wake the fiber only sets
//! bits here and, if it was the first, posts the fiber to the home worker's inbox. The home worker
//! takes the bits and applies them as local wakes.
//!
//! ```text
//!            signal(bits)
//!   NEW ─────────────────────▶ NEW + bits
//!    │ settle() = 0                │ settle() = bits        (the worker that starts it)
//!    ▼                             ▼
//!   HOMED ◀──────────────────── HOMED
//!    │  ▲                                      signal(bits), first: true, the caller posts it
//!    ▼  │ take() = bits, after the inbox has given it back
//!   HOMED + bits                               later signals only add bits
//! ```
//!
//! A fiber that has not run has no home, so there is nowhere to post it; HOMED, in the same word as
//! the bits, decides that. In the word's modification order a signal is either before `settle`, which
//! returns its bits, or after it, and then it posts. It is posted at most once at a time: bits only go
//! away in `take`, which the worker calls after the inbox has given the fiber back.
//!
//! No wake is lost (rt 2): the waker writes its condition, then `signal`s (AcqRel); `take` and `settle`
//! (AcqRel) read that or a later one in its release sequence, so the fiber sees the condition. A later
//! waker that finds bits set need not post: the `take` that follows the first one's post is still to
//! come.

use crate::shim::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// The runtime's own wake-up: look at your condition again.
pub(crate) const WAKE: u8 = 1;
/// The user's `unpark`: the next `park` returns.
pub(crate) const UNPARK: u8 = 2;
/// Cancellation was asked for.
pub(crate) const CANCEL: u8 = 4;
/// The fiber has a home.
const HOMED: u8 = 8;
/// A flag of one of its scopes was set.
pub(crate) const LOOK: u8 = 16;
/// A future that it polls wants to be polled again.
pub(crate) const POLL: u8 = 32;

/// The word.
pub(crate) struct Remote {
    bits: AtomicU8,
}

impl Remote {
    pub(crate) fn new() -> Remote {
        Remote { bits: AtomicU8::new(0) }
    }

    /// `settle` for a fiber that its creator has shown to nobody yet.
    pub(crate) fn settle_unshared(&self) {
        self.bits.store(HOMED, Relaxed);
    }

    /// The fiber has got its home; the early signals.
    pub(crate) fn settle(&self) -> u8 {
        self.bits.swap(HOMED, AcqRel)
    }

    /// Adds bits; true if the caller has to post the fiber to its home.
    pub(crate) fn signal(&self, bits: u8) -> bool {
        self.bits.fetch_or(bits, AcqRel) == HOMED
    }

    /// Takes the bits of a fiber that the inbox has given back. Only the home worker calls this.
    pub(crate) fn take(&self) -> u8 {
        self.bits.swap(HOMED, AcqRel) & !HOMED
    }
}
