//! A flag that, once set, unwinds everybody who is inside: what tokens and groups are made of.
//!
//! ```text
//!   Breaker { tripped, inside: Lock<List> }
//!                         │
//!        run(f) ── Node ──┘   one for each fiber or thread that is inside, on its stack
//!          └ interruptible(&tripped, f)
//! ```
//!
//! No setting is missed. `trip` stores the flag and then empties the list, taking the lock; `run` takes the
//! lock, looks at the flag, and puts its node in. If `run` comes before the last look of `trip` into the
//! list, it is told: the signal makes the fiber look at the flag (Release and Acquire on it). If it comes
//! after that, the lock makes the flag visible to it, and it does not begin.
//!
//! A node leaves the list under the lock before its frame goes; whoever empties the list takes a
//! reference to the fiber under the same lock, and signals without it.

use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire},
};

use bast_rt::interruptible;
use bast_rt::wait::{Unparker, with_me};

use crate::list::{List, Node, Ticket};
use crate::lock::Lock;

/// How many are told between two takings of the lock.
const BATCH: usize = 16;

/// The flag, and who is inside.
pub(crate) struct Breaker {
    tripped: AtomicBool,
    inside: Lock<List>,
}

impl Breaker {
    pub(crate) fn new() -> Breaker {
        Breaker { tripped: AtomicBool::new(false), inside: Lock::new(List::new()) }
    }

    #[inline]
    pub(crate) fn is_tripped(&self) -> bool {
        self.tripped.load(Acquire)
    }

    /// Runs `f`; `None` if the breaker was set before, or a suspension point of `f` has unwound to here.
    pub(crate) fn run<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        struct Leave<'a>(&'a Lock<List>, &'a Node);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                // SAFETY: pushed to this list.
                unsafe { self.0.lock().remove(self.1) };
            }
        }

        with_me(|me| {
            let ticket = Ticket::new(me, false);
            let node = Node::new(&ticket, 0, std::ptr::null_mut());
            let mut inside = self.inside.lock();
            if self.is_tripped() {
                return None;
            }
            // SAFETY: new; it stays here, and `Leave` removes it, also by unwinding.
            unsafe { inside.push(&node) };
            drop(inside);
            let _leave = Leave(&self.inside, &node);
            interruptible(&self.tripped, f)
        })
    }

    /// Sets the flag, and tells everybody who is inside. False if it was set already.
    pub(crate) fn trip(&self) -> bool {
        if self.tripped.swap(true, AcqRel) {
            return false;
        }
        loop {
            let mut told: [Option<Unparker>; BATCH] = [const { None }; BATCH];
            let mut inside = self.inside.lock();
            for place in &mut told {
                *place = inside.evict();
            }
            drop(inside);
            told.iter().flatten().for_each(Unparker::interrupt);
            if told[BATCH - 1].is_none() {
                return true;
            }
        }
    }
}
