//! Who keeps a fiber's record alive, when it has ended, and who waits for that: one word.
//!
//! ```text
//!              register            begin_finish         finish
//!   RUNNING ─────────────▶ +WAITER ─────────────▶ +TAKEN ───────▶ DONE     (with a waiter)
//!   RUNNING ─────────────────────────────────────────────────────▶ DONE    (without)
//!                ◀──────────
//!                 unregister (fails once TAKEN)
//! ```
//!
//! The upper bits count references: one for the runtime from spawn to the end of the fiber, one for
//! the join handle, and one for each handle to the fiber.
//!
//! DETACHED says that the join handle has gone before the end, so that nobody can ask for the result.
//! Then the finisher drops it, on the fiber's own thread, before it sets DONE; after DONE the handle's
//! drop does. Other references never own the result: it may not be `Send`, and they are.
//!
//! The waiter cell beside the word belongs to the joiner while neither flag is set, and to the
//! finisher from TAKEN on. A joiner that wants to leave without the result clears WAITER; if it finds
//! TAKEN, it waits for DONE instead, which is about to come: the finisher has not touched the joiner
//! yet, but will. So the finisher may take a reference to the joiner between TAKEN and DONE: the joiner
//! cannot go away before DONE.
//!
//! Ordering: the result is written before `finish` (Release) and read after `is_done` (Acquire). The
//! waiter is written before `register` (Release) and read after `begin_finish` (Acquire). The last
//! reference is dropped with an Acquire on the way out, as in `Arc`.

use crate::shim::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const DONE: usize = 1;
const WAITER: usize = 2;
const TAKEN: usize = 4;
const DETACHED: usize = 8;
const REF: usize = 16;

/// The word.
pub(crate) struct Lifecycle {
    word: AtomicUsize,
}

impl Lifecycle {
    /// Running, with `refs` references.
    pub(crate) fn new(refs: usize) -> Lifecycle {
        Lifecycle { word: AtomicUsize::new(refs * REF) }
    }

    /// Adds a reference. The caller has one.
    pub(crate) fn retain(&self) {
        self.word.fetch_add(REF, Relaxed);
    }

    /// Gives a reference up; true if it was the last: the caller frees the record.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        // A sole owner needs no read-modify-write: nobody else is left who could change the word. The one
        // who retains without a reference, the finisher of a fiber that this one joins, does so only
        // while this one waits, and then the runtime has a reference as well.
        let word = self.word.load(Acquire);
        if word & !(REF - 1) == REF {
            return true;
        }
        self.word.fetch_sub(REF, AcqRel) & !(REF - 1) == REF
    }

    /// Whether the fiber has ended and its result can be read.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.word.load(Acquire) & DONE != 0
    }

    /// The join handle goes. True if the fiber has ended: then the result is still there, and the
    /// caller drops it.
    #[must_use]
    pub(crate) fn detach(&self) -> bool {
        self.word.fetch_or(DETACHED, AcqRel) & DONE != 0
    }

    /// Whether nobody can ask for the result any more.
    pub(crate) fn is_detached(&self) -> bool {
        self.word.load(Acquire) & DETACHED != 0
    }

    /// Whether the caller's reference is the only one.
    pub(crate) fn is_unique(&self) -> bool {
        self.word.load(Acquire) & !(REF - 1) == REF
    }

    /// Announces the waiter in the cell; false if the fiber has ended already.
    pub(crate) fn register(&self) -> bool {
        // Acquire: the caller reads the result if this says that it is there.
        let mut word = self.word.load(Acquire);
        while word & DONE == 0 {
            match self.word.compare_exchange_weak(word, word | WAITER, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the announcement back; false if the finisher has taken it up: then DONE follows.
    pub(crate) fn unregister(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & (DONE | TAKEN) == 0 {
            match self.word.compare_exchange_weak(word, word & !WAITER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The end of the fiber, first half. Without a waiter it is also the last: the word is DONE and
    /// the runtime's reference given up.
    pub(crate) fn begin_finish(&self) -> Finish {
        let mut word = self.word.load(Acquire);
        loop {
            if word & DETACHED != 0 {
                // Nobody can register any more: nothing but references changes from here on.
                return Finish::Detached;
            }
            let next = if word & WAITER == 0 { (word | DONE) - REF } else { word | TAKEN };
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) if word & WAITER != 0 => return Finish::Waiter,
                Ok(_) => return Finish::Done { last: next & !(REF - 1) == 0 },
                Err(now) => word = now,
            }
        }
    }

    /// Second half, after [`Finish::Waiter`] and [`Finish::Detached`]: the word is DONE and the
    /// runtime's reference given up. True if it was the last.
    #[must_use]
    pub(crate) fn finish(&self) -> bool {
        // DONE is not set yet, so this neither carries nor borrows.
        self.word.fetch_sub(REF - DONE, AcqRel) & !(REF - 1) == REF
    }
}

/// What `begin_finish` found.
pub(crate) enum Finish {
    /// The waiter's cell is the finisher's; it wakes the waiter after `finish`.
    Waiter,
    /// Nobody waits or ever will: the caller drops the result, then calls `finish`.
    Detached,
    /// Nobody waits. `last`: the caller frees the record.
    Done { last: bool },
}
