//! Whether a lock's holder has panicked: std's rule, for fibers.
//!
//! A lock is poisoned by a guard that is dropped while its fiber unwinds, if the fiber did not unwind when the guard
//! was made. `std::thread::panicking` speaks of the thread: while one fiber is suspended in a destructor as it
//! unwinds, it is true for all the fibers of that worker. `is_unwinding` speaks of the fiber, so such a
//! fiber neither poisons the locks of its neighbours nor hides their panics.
//!
//! Ordering: Relaxed. The flag is written before the lock is released and read after it has been taken.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LockResult, PoisonError};

use crate::shim::is_unwinding;

/// The flag of a lock.
pub(crate) struct Poison {
    failed: AtomicBool,
}

/// What a guard remembers: whether its fiber unwound when it got the lock.
#[derive(Clone, Copy)]
pub(crate) struct Before(bool);

impl Poison {
    pub(crate) const fn new() -> Poison {
        Poison { failed: AtomicBool::new(false) }
    }

    #[inline]
    pub(crate) fn enter(&self) -> Before {
        Before(is_unwinding())
    }

    #[inline]
    pub(crate) fn leave(&self, before: Before) {
        if !before.0 && is_unwinding() {
            self.failed.store(true, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> bool {
        self.failed.load(Relaxed)
    }

    pub(crate) fn clear(&self) {
        self.failed.store(false, Relaxed);
    }

    /// `value`, as an error if the lock is poisoned.
    #[inline]
    pub(crate) fn wrap<T>(&self, value: T) -> LockResult<T> {
        if self.get() { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}
