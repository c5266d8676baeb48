//! Keeps somebody who always finds something to do from starving the other fibers of the worker (rt 4),
//! for a fraction of a nanosecond.
//!
//! Each handle counts its operations and accounts for them once in [`STRIDE`]. The count is loaded and stored, not
//! exchanged: if two threads use one handle, some operations are not counted, and nothing depends on it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bast_rt::wait;

/// As many operations cost about what one resumption of a fiber does.
const STRIDE: u32 = 16;

/// A count of operations.
pub(crate) struct Pace {
    count: AtomicU32,
}

impl Pace {
    pub(crate) const fn new() -> Pace {
        Pace { count: AtomicU32::new(0) }
    }

    #[inline]
    fn is_due(&self) -> bool {
        let count = self.count.load(Relaxed);
        self.count.store(count.wrapping_add(1), Relaxed);
        count % STRIDE == STRIDE - 1
    }

    /// At the beginning of an operation that may wait: also raises, if that is due.
    #[inline]
    pub(crate) fn step(&self) {
        if self.is_due() {
            pause();
        }
    }

    /// At the beginning of an operation that never waits. Never raises.
    #[inline]
    pub(crate) fn step_quietly(&self) {
        if self.is_due() {
            wait::spend();
        }
    }
}

/// What [`Pace::step`] does when it is time.
#[cold]
pub(crate) fn pause() {
    wait::spend();
    wait::check();
}
