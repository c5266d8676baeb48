//! The completion record: one operation in flight, owned by its caller.
//!
//! ```text
//!   Idle ──submit──▶ Pending ──terminal completion──▶ Done
//!     └────────────────(inline completion)────────────▲
//! ```
//!
//! A record lives wherever its caller keeps it, for a fiber on the fiber's own stack, so that an
//! operation allocates nothing. From `submit` until the driver has handed it back it belongs to the
//! driver: it must not move, and nobody else touches it (contract io 1). `link` is the driver's, for
//! its wait lists and for the list of completed records.

use std::ptr::NonNull;

use crate::driver::remote::Remote;
use crate::{Op, Outcome};

/// An operation, its place in the driver's lists, and its outcome.
#[derive(Debug)]
pub struct Record {
    /// What to do. Constant while the record is lent.
    pub(crate) op: Op,
    /// What it came to; meaningful once the driver has handed the record back.
    pub(crate) outcome: Outcome,
    /// The caller's mark: which fiber to wake.
    pub(crate) tag: *mut (),
    /// Neighbours in whichever one of the driver's lists the record is on.
    pub(crate) next: Option<NonNull<Record>>,
    pub(crate) prev: Option<NonNull<Record>>,
    /// The driver's notes on how far the operation is (each driver documents its own values).
    pub(crate) stage: u8,
    /// On the pool: whether it is still queued. Belongs to the lock of the pool's queue.
    pub(crate) queued: bool,
    /// On the pool: where it goes when it has been executed.
    pub(crate) home: *const Remote,
    /// In the ring: where the file stood before a write at its own position.
    #[cfg(unix)]
    #[cfg_attr(any(not(target_os = "linux"), bast_kqueue), allow(dead_code))]
    pub(crate) place: i64,
    /// What the kernel has of it.
    #[cfg(windows)]
    pub(crate) lent: crate::driver::iocp::Lent,
    _pinned: std::marker::PhantomPinned,
}

impl Record {
    /// A record for `op`; `tag` comes back with the completion.
    #[must_use]
    pub const fn new(op: Op, tag: *mut ()) -> Record {
        Record {
            op,
            outcome: Outcome(0),
            tag,
            next: None,
            prev: None,
            stage: 0,
            queued: false,
            home: std::ptr::null(),
            #[cfg(unix)]
            place: 0,
            #[cfg(windows)]
            lent: crate::driver::iocp::Lent::new(),
            _pinned: std::marker::PhantomPinned,
        }
    }

    /// The operation.
    #[must_use]
    pub const fn op(&self) -> &Op {
        &self.op
    }

    /// The operation of a record that may be in flight, for people who look at what waits.
    ///
    /// # Safety
    /// The record is there.
    #[must_use]
    pub unsafe fn look(record: NonNull<Record>) -> Op {
        // SAFETY: the caller's promise; the operation is constant while the record is lent, and no
        // reference is made to the rest, which is the driver's.
        unsafe { (&raw const (*record.as_ptr()).op).read() }
    }

    /// What the caller gave to [`Record::new`].
    #[must_use]
    pub const fn tag(&self) -> *mut () {
        self.tag
    }

    /// The outcome, once the driver has handed the record back.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }
}

/// How many records ahead [`Done::pop`] prefetches what a record's mark points at.
const AHEAD: usize = 4;

/// Records that have completed, oldest first: an intrusive list, so that collecting completions
/// allocates nothing.
#[derive(Debug, Default)]
pub struct Done {
    head: Option<NonNull<Record>>,
    tail: Option<NonNull<Record>>,
    len: usize,
}

impl Done {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Done {
        Done { head: None, tail: None, len: 0 }
    }

    /// Whether nothing has completed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Takes the oldest completed record. It belongs to its owner again from here on.
    pub fn pop(&mut self) -> Option<NonNull<Record>> {
        let record = self.head?;
        // The record was in the caches when it completed; what its mark points at was not.
        let mut ahead = self.head;
        for _ in 0..AHEAD {
            // SAFETY: io 1: records are lent to this list until they are popped.
            ahead = ahead.and_then(|record| unsafe { record.as_ref() }.next);
        }
        if let Some(ahead) = ahead {
            // SAFETY: as above.
            crate::sys::prefetch(unsafe { ahead.as_ref() }.tag);
        }
        // SAFETY: io 1: the record is lent to this list until it is popped, so it is alive.
        self.head = unsafe { record.as_ref() }.next;
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(record)
    }

    /// How many have completed and were not taken.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Moves all of `other`'s records behind this list's.
    pub(crate) fn append(&mut self, other: &mut Done) {
        let Some(head) = other.head.take() else { return };
        match self.tail {
            // SAFETY: io 1: records on the list are lent to it.
            Some(mut tail) => unsafe { tail.as_mut() }.next = Some(head),
            None => self.head = Some(head),
        }
        self.tail = other.tail.take();
        self.len += std::mem::take(&mut other.len);
    }

    /// Appends a record whose outcome is now final.
    ///
    /// # Safety
    /// `record` is lent to this driver, is on no list, and is not touched by the kernel any more.
    pub(crate) unsafe fn push(&mut self, mut record: NonNull<Record>, outcome: Outcome) {
        // SAFETY: the caller's promise.
        let r = unsafe { record.as_mut() };
        r.outcome = outcome;
        r.next = None;
        match self.tail {
            // SAFETY: as for `record`: it stays lent while it is on the list.
            Some(mut tail) => unsafe { tail.as_mut() }.next = Some(record),
            None => self.head = Some(record),
        }
        self.tail = Some(record);
        self.len += 1;
    }
}
