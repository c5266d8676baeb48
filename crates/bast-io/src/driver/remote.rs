//! How a pool thread hands a finished record back to the driver that lent it.
//!
//! ```text
//!   pool threads ──push──▶ head ─▶ record ─▶ record ─▶ ∅        (a stack; links in the records)
//!   driver       ◀─take── the whole stack at once, oldest first
//! ```
//!
//! `push` releases and `take` acquires, so that the driver sees the outcome that the thread wrote.
//! `take` swaps the head for null and no other pop exists, hence no ABA. A record is pushed before
//! the driver is woken, and the wake protocol (see `waker`) publishes it, so that none is overlooked.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::{Record, Waker};

/// One driver's list of records that other threads have finished.
#[derive(Debug)]
pub(crate) struct Remote {
    head: AtomicPtr<Record>,
    waker: Waker,
}

impl Remote {
    pub(crate) fn new(waker: Waker) -> Remote {
        Remote { head: AtomicPtr::new(null_mut()), waker }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// A hint that costs one load; a push that it misses is followed by a wake.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Hands `record` to the driver and wakes it.
    ///
    /// # Safety
    /// `record` is lent (io 1), its outcome is written, and the calling thread does not touch it
    /// again.
    pub(crate) unsafe fn push(&self, record: NonNull<Record>) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the record is still ours.
            unsafe { (*record.as_ptr()).next = NonNull::new(head) };
            match self.head.compare_exchange_weak(
                head,
                record.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.waker.wake();
    }

    /// Takes all, linked oldest first by `next`.
    pub(crate) fn take(&self) -> Option<NonNull<Record>> {
        let mut newest = NonNull::new(self.head.swap(null_mut(), Ordering::Acquire));
        let mut oldest = None;
        while let Some(record) = newest {
            // SAFETY: records on the stack are lent to us, and the stack is ours now.
            unsafe {
                newest = (*record.as_ptr()).next;
                (*record.as_ptr()).next = oldest;
            }
            oldest = Some(record);
        }
        oldest
    }
}
