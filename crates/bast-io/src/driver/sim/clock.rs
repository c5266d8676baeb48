//! Virtual time: a number that jumps from one event to the next.
//!
//! ```text
//!   now ────────▶ event ──▶ event ─────────────▶ event
//!        poll jumps here ──▶ then here ─ …  never further than the poll was allowed to wait
//! ```
//!
//! Events of the same instant fire in the order in which they were made.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::world::Serial;

/// Something that will happen by itself.
#[derive(Debug)]
pub(super) enum Event {
    /// What was sent to this socket arrives.
    Arrive(Serial),
    /// A connection request of `from` reaches `to`, for the `attempt`-th time.
    Knock { from: Serial, to: SocketAddr, attempt: u32 },
}

/// The clock and what is due on it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now: u64,
    made: u64,
    events: BTreeMap<(u64, u64), Event>,
}

impl Clock {
    /// Nanoseconds since the world began.
    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event.
    pub(super) fn schedule(&mut self, at: u64, event: Event) {
        self.made += 1;
        self.events.insert((at, self.made), event);
    }

    /// When the next event is due.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.events.keys().next().map(|&(at, _)| at)
    }

    /// Moves forward to `at`; time never runs backwards.
    pub(super) fn jump(&mut self, at: u64) {
        self.now = self.now.max(at);
    }

    /// Takes the next event that is due now.
    pub(super) fn pop_due(&mut self) -> Option<Event> {
        let entry = self.events.first_entry()?;
        if entry.key().0 > self.now {
            return None;
        }
        Some(entry.remove())
    }
}
