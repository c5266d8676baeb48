//! When the workers of a runtime that stops may end: all together, once none has anything left (rt 6).
//!
//! ```text
//!   WORKING ──nothing left──▶ counted ──all are, and nothing is under way──▶ OVER: each one ends
//!      ▲                         │
//!      └──before it takes what it was sent
//! ```
//!
//! That all are counted is not enough: a fiber may send something to a worker that is counted and asleep, and then be
//! the last of its own. So whoever finds all of them counted looks whether anything lies in anybody's queues, and then
//! whether the word is as it was. A worker takes its count back *before* it takes something out of a queue, and that
//! changes the word for good (the upper half counts how often). So if the word is the same after the look, no worker has
//! taken anything or run a fiber meanwhile, and each queue that was found empty still was at the end. What comes later is
//! from threads outside; `Shared`'s drop lets it go.
//!
//! Who looks in vain sleeps: whoever took something counts itself again, and wakes all when it is the last.
//!
//! Ordering: each change of the word is AcqRel, so that who sees the last count sees all that was sent before it. Who
//! finds a queue emptied by another worker sees, behind the fence, that this one has taken its count back before: taking is a
//! Release, in each kind of queue.

use crate::shim::{AtomicUsize, fence};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const OVER: usize = 1 << 31;
const COUNT: usize = OVER - 1;
/// One change of mind.
const CHANGE: usize = 1 << 32;

/// The workers that have nothing left.
pub(crate) struct Ending {
    /// changes of mind << 32 | over << 31 | counted
    word: AtomicUsize,
}

impl Ending {
    pub(crate) fn new() -> Ending {
        Ending { word: AtomicUsize::new(0) }
    }

    /// A worker has nothing left. True if none of them has: the caller wakes all.
    #[must_use]
    pub(crate) fn count(&self, workers: usize) -> bool {
        (self.word.fetch_add(1, AcqRel) & COUNT) + 1 == workers
    }

    /// A worker that was counted is about to take something.
    pub(crate) fn recall(&self) {
        self.word.fetch_add(CHANGE - 1, AcqRel);
    }

    /// Whether a worker with nothing left may end. `idle`: whether nothing lies in any queue.
    pub(crate) fn is_over(&self, workers: usize, idle: impl FnOnce() -> bool) -> bool {
        let word = self.word.load(Acquire);
        if word & OVER != 0 {
            return true;
        }
        if word & COUNT != workers || !idle() {
            return false;
        }
        fence(Acquire);
        match self.word.compare_exchange(word, word | OVER, AcqRel, Relaxed) {
            Ok(_) => true,
            Err(now) => now & OVER != 0,
        }
    }
}
