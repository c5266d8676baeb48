//! A worker's inbox: wakes from other threads, many producers and one consumer, no allocation.
//!
//! ```text
//!   push (any thread)     head ─▶ n3 ─▶ n2 ─▶ n1 ─▶ null      newest first
//!   drain (the owner)     swap(head, null), then reverse: n1, n2, n3
//! ```
//!
//! A node is on at most one inbox at a time; who may push it is decided before (see `remote`: only
//! the waker that turned its word from idle to pending pushes). The link inside a node belongs to the
//! pusher until its compare-exchange succeeds, and to the owner from its swap on.
//!
//! Ordering: the pusher's successful CAS is `Release`, the owner's swap `Acquire`; each CAS continues
//! the release sequence of the ones below it, so one swap acquires every node it takes. There is no
//! ABA: nodes are only ever removed all at once.
//!
//! `push` tells whether the inbox was empty: that pusher, and only that one, has to wake the owner.
//! Later pushers rely on its wake, which is sound because the owner drains *after* it has been woken
//! and every push before the drain's swap is taken by it.

use std::ptr::{self, NonNull};

use crate::shim::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// Something that can stand in an inbox.
///
/// # Safety
/// `link` returns the address of a pointer inside the node that nobody but the inbox uses between a
/// push and the drain that takes the node, and the node lives at least that long.
pub(crate) unsafe trait Node {
    fn link(node: NonNull<Self>) -> *mut *mut Self;
}

/// The stack of posted nodes.
pub(crate) struct Inbox<N> {
    head: AtomicPtr<N>,
}

impl<N: Node> Inbox<N> {
    pub(crate) fn new() -> Inbox<N> {
        Inbox { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether there is nothing to drain. A hint for the owner: `false` is certain.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Relaxed).is_null()
    }

    /// Posts a node; true if the inbox was empty before: then the caller must wake the owner.
    ///
    /// # Safety
    /// The node is on no inbox, and lives until it has been drained.
    pub(crate) unsafe fn push(&self, node: NonNull<N>) -> bool {
        let link = N::link(node);
        let mut head = self.head.load(Relaxed);
        loop {
            // SAFETY: the link is the pusher's until the exchange succeeds.
            unsafe { *link = head };
            match self.head.compare_exchange_weak(head, node.as_ptr(), Release, Relaxed) {
                Ok(_) => return head.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all posted nodes, oldest first. Only the owner calls this.
    pub(crate) fn drain(&self) -> Drain<N> {
        // Release: who finds it empty sees what the owner did before (module `ending`).
        let mut newest = self.head.swap(ptr::null_mut(), AcqRel);
        let mut oldest = ptr::null_mut();
        while let Some(node) = NonNull::new(newest) {
            let link = N::link(node);
            // SAFETY: the swap gave the whole chain to us, with what its pushers wrote.
            unsafe {
                newest = *link;
                *link = oldest;
            }
            oldest = node.as_ptr();
        }
        Drain { next: oldest }
    }
}

/// The nodes of one drain. Each is the owner's alone again once it has been returned.
pub(crate) struct Drain<N> {
    next: *mut N,
}

impl<N: Node> Iterator for Drain<N> {
    type Item = NonNull<N>;

    fn next(&mut self) -> Option<NonNull<N>> {
        let node = NonNull::new(self.next)?;
        // SAFETY: the chain is ours; read the link before the node is given away.
        self.next = unsafe { *N::link(node) };
        Some(node)
    }
}
