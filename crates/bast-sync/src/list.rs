//! Who waits for a primitive, and how they are woken: one list, one protocol.
//!
//! ```text
//!                    Lock<State { …, waiters: List }>
//!   List ──▶ Node ⇄ Node ⇄ Node        first in, first out; the nodes lie on the waiters' stacks
//!             │       │ └──┐
//!          Ticket   Ticket │           one ticket for each wait, on the same stack
//!                     ▲    └ arm 0
//!                     └──────arm 1 ─── Node of another list (`select` waits in several)
//! ```
//!
//! A ticket is won once, by whoever first gives the waiter one of the things that it waits for:
//!
//! ```text
//!   OPEN ──win──▶ CLAIMED ──settle──▶ DONE(arm)
//!      └── of a ticket with one node, under its list's lock: straight to DONE
//! ```
//!
//! Between `win` and `settle` the winner writes what it gives into the waiter's slot, and takes the right to
//! wake it; until DONE the waiter does not leave. From DONE on the winner does not touch node or ticket.
//!
//! Who may touch what: the links of a node belong to the lock of its list. The slot belongs to the winner
//! from `win` to `settle`, else to the waiter. A waiter that gives up (a deadline, a cancellation) takes
//! the list's lock; if its node is still linked nobody has won by it, and unlinking it makes sure that
//! nobody will. With several nodes it wins its own ticket first. If that fails somebody has given it
//! something, and it stays for that: what has been handed over is never lost, and the interruption is
//! delivered at the next suspension point.
//!
//! Ordering: `settle` is a Release store and `is_done` an Acquire load, so the slot's content is seen. `win` is
//! an Acquire exchange, though nothing depends on it.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use bast_rt::Instant;
#[cfg(not(loom))]
use bast_rt::wait::Unparker;
use bast_rt::wait::{Interruption, Parked, Reason};

use crate::lock::{Guard, Lock};
use crate::shim::{self, AtomicUsize, Waiter, Wake, wait};

const OPEN: usize = 0;
const CLAIMED: usize = 1;
const DONE: usize = 2;

/// One wait of a fiber or thread, in one list or several.
pub(crate) struct Ticket {
    state: AtomicUsize,
    waiter: Waiter,
    /// Whether there are nodes in more than one list.
    shared: bool,
}

impl Ticket {
    pub(crate) fn new(waiter: Waiter, shared: bool) -> Ticket {
        Ticket { state: shim::ready(AtomicUsize::new(OPEN)), waiter, shared }
    }

    /// The arm that has been given its thing.
    #[inline]
    pub(crate) fn done(&self) -> Option<usize> {
        self.state.load(Acquire).checked_sub(DONE)
    }

    /// True for the first who asks.
    #[inline]
    pub(crate) fn win(&self) -> bool {
        !self.shared || self.state.compare_exchange(OPEN, CLAIMED, Acquire, Relaxed).is_ok()
    }

    /// The winner has given what it had.
    #[inline]
    pub(crate) fn settle(&self, arm: usize) {
        self.state.store(DONE + arm, Release);
    }

    /// Waits for a winner that is between `win` and `settle`: a few instructions, unless its thread
    /// has lost its processor.
    pub(crate) fn settled(&self) -> usize {
        loop {
            if let Some(arm) = self.done() {
                return arm;
            }
            shim::yield_now();
        }
    }
}

/// A waiter's place in a list.
pub(crate) struct Node {
    next: Cell<*const Node>,
    prev: Cell<*const Node>,
    linked: Cell<bool>,
    ticket: NonNull<Ticket>,
    arm: usize,
    /// What is given or taken goes through here; its type is the primitive's affair.
    slot: *mut (),
}

impl Node {
    pub(crate) fn new(ticket: &Ticket, arm: usize, slot: *mut ()) -> Node {
        Node {
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            linked: Cell::new(false),
            ticket: NonNull::from(ticket),
            arm,
            slot,
        }
    }

    /// Whether it is in a list. To be asked under the list's lock.
    pub(crate) fn is_linked(&self) -> bool {
        self.linked.get()
    }

    pub(crate) fn slot(&self) -> *mut () {
        self.slot
    }
}

/// Waiters, first in, first out. Used under a [`Lock`].
pub(crate) struct List {
    first: *const Node,
    last: *const Node,
}

// SAFETY: nodes are touched under the lock that the list is in.
unsafe impl Send for List {}

impl List {
    pub(crate) const fn new() -> List {
        List { first: ptr::null(), last: ptr::null() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// The waiter whose turn it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Node> {
        // SAFETY: linked nodes are there.
        unsafe { self.first.as_ref() }
    }

    /// Makes the first waiter look at its condition, and gives it nothing: it stays in the list. As with
    /// `grant`, the caller drops the `Wake` after it has let go of the lock, and before it suspends.
    pub(crate) fn nudge(&self) -> Option<Wake> {
        // SAFETY: a ticket is there while its node is linked; callers keep to the rule on `Wake`, and its owner
        // takes the lock that we are under before it leaves.
        self.first().map(|node| unsafe { node.ticket.as_ref().waiter.claim() })
    }

    /// Whether somebody waits who could be granted something, nodes of `mine` aside. Under the list's lock.
    pub(crate) fn holds_other(&self, mine: &Ticket) -> bool {
        let mut node = self.first;
        // SAFETY: linked nodes are there, and their tickets.
        while let Some(this) = unsafe { node.as_ref() } {
            // SAFETY: as above.
            let ticket = unsafe { this.ticket.as_ref() };
            if !ptr::eq(ticket, mine) && ticket.state.load(Relaxed) == OPEN {
                return true;
            }
            node = this.next.get();
        }
        false
    }

    /// Adds a waiter at the end.
    ///
    /// # Safety
    /// The node is in no list, stays where it is, and is removed, or its ticket done, before it goes. So does its ticket.
    pub(crate) unsafe fn push(&mut self, node: &Node) {
        node.prev.set(self.last);
        node.next.set(ptr::null());
        node.linked.set(true);
        // SAFETY: linked nodes are there (the promise above).
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(node),
            None => self.first = node,
        }
        self.last = node;
    }

    /// Takes a node out; false if it was not in (any more).
    ///
    /// # Safety
    /// It was pushed to this list, if to any.
    pub(crate) unsafe fn remove(&mut self, node: &Node) -> bool {
        if !node.linked.replace(false) {
            return false;
        }
        let (prev, next) = (node.prev.get(), node.next.get());
        // SAFETY: linked nodes are there.
        unsafe {
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => self.first = next,
            }
            match next.as_ref() {
                Some(next) => next.prev.set(prev),
                None => self.last = prev,
            }
        }
        true
    }

    /// Moves the first node to another list under the same lock, if it is `wanted`, which gets its slot.
    #[cfg(not(loom))]
    pub(crate) fn move_first(
        &mut self,
        to: &mut List,
        wanted: impl FnOnce(*mut ()) -> bool,
    ) -> bool {
        // SAFETY: linked nodes are there.
        let Some(node) = (unsafe { self.first.as_ref() }) else { return false };
        let wanted = wanted(node.slot);
        if wanted {
            // SAFETY: linked here; and as its owner keeps to the rules it may be linked elsewhere.
            unsafe {
                self.remove(node);
                to.push(node);
            }
        }
        wanted
    }

    /// Takes the first node out and returns whose it is, for those who are in a list to be told something and
    /// not to be given anything. Its ticket stays open.
    #[cfg(not(loom))]
    pub(crate) fn evict(&mut self) -> Option<Unparker> {
        // SAFETY: linked nodes are there, and their tickets.
        let node = unsafe { self.first.as_ref() }?;
        // SAFETY: linked here.
        unsafe { self.remove(node) };
        // SAFETY: as above; the owner takes the lock that we are under before it leaves.
        Some(unsafe { node.ticket.as_ref().waiter.retain() })
    }

    /// Gives something to the first waiter that still wants it: `give` gets its slot. The caller drops the
    /// `Wake` after it has let go of the lock, and before it suspends.
    #[inline]
    pub(crate) fn grant(&mut self, give: impl FnOnce(*mut ())) -> Option<Wake> {
        self.grant_if(|_| true, give)
    }

    /// As [`grant`](List::grant), as long as the first waiter is one for whom it is meant: `concerns` gets its slot.
    #[inline]
    pub(crate) fn grant_if(
        &mut self,
        concerns: impl Fn(*mut ()) -> bool,
        give: impl FnOnce(*mut ()),
    ) -> Option<Wake> {
        loop {
            // SAFETY: linked nodes are there, and their tickets.
            let node = unsafe { self.first.as_ref() }?;
            if !concerns(node.slot) {
                return None;
            }
            // SAFETY: linked here.
            unsafe { self.remove(node) };
            // SAFETY: as above; a ticket is there until it is done or its node is removed, and the latter
            // takes the lock that we are under.
            let ticket = unsafe { node.ticket.as_ref() };
            if ticket.win() {
                give(node.slot);
                // SAFETY: the waiter does not leave before `settle`; callers keep to the rule on `Wake`.
                let wake = unsafe { ticket.waiter.claim() };
                ticket.settle(node.arm);
                return Some(wake);
            }
        }
    }
}

/// Grants to the waiters at the head of the list for whose slot `is_due` is true, in batches between which the
/// lock is free. It ends if those who come meanwhile are not due.
pub(crate) fn grant_all<S>(
    lock: &Lock<S>,
    list: impl Fn(&mut S) -> &mut List,
    is_due: impl Fn(*mut ()) -> bool,
) {
    const BATCH: usize = 16;
    loop {
        let mut wakes = [const { None::<Wake> }; BATCH];
        let mut guard = lock.lock();
        for wake in &mut wakes {
            let list = list(&mut guard);
            if !list.first().is_some_and(|node| is_due(node.slot)) {
                break;
            }
            *wake = list.grant(|_| {});
        }
        drop(guard);
        if wakes[BATCH - 1].is_none() {
            return;
        }
    }
}

/// How a wait ended.
#[must_use]
pub(crate) enum End {
    /// Somebody has given what was waited for.
    Granted,
    TimedOut,
    /// The node has left the list: raise when everything is in order.
    Interrupted(Interruption),
}

impl End {
    /// For waits without a deadline.
    pub(crate) fn unless_interrupted(self) {
        if let End::Interrupted(interruption) = self {
            interruption.raise();
        }
    }

    /// Whether it was granted, raising if it was interrupted.
    #[inline]
    pub(crate) fn granted(self) -> bool {
        match self {
            End::Granted => true,
            End::TimedOut => false,
            End::Interrupted(interruption) => interruption.raise(),
        }
    }
}

/// Waits at the end of a list until somebody grants it something. `guard` is `lock`'s, and `list` one of the lists
/// in it.
#[inline]
pub(crate) fn wait_in<S>(
    lock: &Lock<S>,
    guard: Guard<'_, S>,
    list: impl Fn(&mut S) -> &mut List,
    slot: *mut (),
    reason: &Reason<'_>,
    deadline: Option<Instant>,
) -> End {
    wait_in_with(lock, guard, list, slot, (|| (), |_: &mut S| ()), reason, deadline)
}

/// As [`wait_in`]; `then` is done when the waiter is in the list and the lock has been let go, and `left`, under the
/// lock, when it leaves the list with nothing. They do not suspend and do not panic.
pub(crate) fn wait_in_with<S>(
    lock: &Lock<S>,
    mut guard: Guard<'_, S>,
    list: impl Fn(&mut S) -> &mut List,
    slot: *mut (),
    (then, left): (impl FnOnce(), impl FnOnce(&mut S)),
    reason: &Reason<'_>,
    deadline: Option<Instant>,
) -> End {
    wait(reason, deadline, |wait| {
        let ticket = Ticket::new(wait.waiter(), false);
        let node = Node::new(&ticket, 0, slot);
        // SAFETY: below it is left only with the ticket done or the node removed.
        unsafe { list(&mut guard).push(&node) };
        drop(guard);
        then();
        loop {
            if ticket.done().is_some() {
                return End::Granted;
            }
            let end = match wait.park() {
                Parked::Look => continue,
                Parked::TimedOut => End::TimedOut,
                Parked::Interrupted(interruption) => End::Interrupted(interruption),
            };
            let mut guard = lock.lock();
            // SAFETY: pushed to this list.
            if unsafe { list(&mut guard).remove(&node) } {
                left(&mut guard);
                return end;
            }
            // Granted: it was done before the lock was let go.
        }
    })
}
