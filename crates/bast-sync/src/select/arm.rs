//! What a primitive has to offer so that `select` can wait for it.
//!
//! ```text
//!   attempt ──true───────────────────────────────────────────────▶ finish
//!      │ false, as all arms of the set                               ▲
//!      ▼                                                             │
//!   enlist ──true──▶ parked ──granted by its list, or check() true──▶ delist ──▶ (won) finish
//!      │ false: it has become possible                               │      └──▶ (lost) dropped
//!      └──▶ delist all, attempt once more ◀── if that fails, all over again
//! ```
//!
//! An arm that waits in a list puts a [`Node`] there, as `wait_in` does, with the difference that the ticket behind
//! the node has nodes in several lists and is won by one of them only. The winner writes into the slot
//! between `win` and `settle`; so whoever hands over something does so to an arm that has won, and what an arm that
//! lost would have got stays where it was.
//!
//! Why an arm that finds on enlisting that it could complete does not do so then and there: its own ticket
//! is in other lists by now, and completing would mean to win two tickets in one step, its own and that of a
//! counterpart which may be a `select` as well. So the waiter wins its own ticket first, which takes it out
//! of everybody's reach, leaves all lists, and tries again like somebody who has only come. Whoever passed it
//! over meanwhile left what he had where the new attempt finds it.
//!
//! All methods take `&self`, and what others write lies in cells: the address of node and slot is known
//! to other threads while the arm is enlisted.

use std::cell::UnsafeCell;

use bast_rt::Instant;
use bast_rt::wait::Waiter;

use crate::list::{List, Node, Ticket};

/// Something that a [`select`](crate::select) can wait for, without its type.
///
/// This is how a primitive is made selectable; nobody outside this crate can do it. The smallest example
/// is `select/channel.rs`: a receive.
pub trait Arm {
    /// Completes now if that is possible, keeping the output inside; true if it did.
    fn attempt(&self) -> bool;

    /// Under the primitive's lock: false if it could complete now (and then does nothing); else
    /// puts a node made by [`Place::node`] into the list, in which whoever grants it completes it.
    ///
    /// "Could complete" must not count a counterpart of the very same set: [`List::holds_other`] knows.
    ///
    /// # Safety
    /// The arm is not enlisted, and stays where it is, as do set and ticket, until `delist` has returned.
    unsafe fn enlist(&self, place: &Place<'_>) -> bool;

    /// Leaves the list, if it is in there. Afterwards nobody knows the arm's address.
    fn delist(&self);

    /// When it will complete by itself.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Whether it could complete now, for what is not granted but has only to be looked at: a clock, the end
    /// of a fiber. What it says stays true, and then `attempt` succeeds.
    fn check(&self) -> bool {
        false
    }
}

/// A way to wait for something in a [`select`](crate::select): a receive, a send, the end of a fiber, a moment.
///
/// An event is only a description until it is given to a `select`. If another arm of that is chosen the event
/// is dropped and has had no effect.
pub trait Event: Arm {
    /// What the event yields.
    type Output;

    /// The output, after the event has completed.
    #[doc(hidden)]
    fn finish(self) -> Self::Output;

    /// The same event, with `f` applied to what it yields. `f` runs after the choice, if this event was chosen.
    fn map<R, F: FnOnce(Self::Output) -> R>(self, f: F) -> Map<Self, F>
    where
        Self: Sized,
    {
        Map { event: self, f }
    }
}

/// The place of an arm in a set that waits.
pub struct Place<'a> {
    pub(super) ticket: &'a Ticket,
    pub(super) waiter: Waiter,
    pub(super) arm: usize,
}

impl Place<'_> {
    /// A node by which this arm can be granted something.
    pub(crate) fn node(&self, slot: *mut ()) -> Node {
        Node::new(self.ticket, self.arm, slot)
    }

    /// Whether somebody waits in the list, other than this very set.
    pub(crate) fn is_met_in(&self, list: &List) -> bool {
        list.holds_other(self.ticket)
    }

    /// Who waits.
    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }
}

/// Where an arm keeps its node.
pub(crate) struct Seat {
    node: UnsafeCell<Option<Node>>,
}

impl Seat {
    pub(crate) fn new() -> Seat {
        Seat { node: UnsafeCell::new(None) }
    }

    /// Puts a node into a list.
    ///
    /// # Safety
    /// The seat's node is in no list. The seat stays where it is until [`leave`](Seat::leave) has been called under
    /// the list's lock.
    pub(crate) unsafe fn take(&self, list: &mut List, place: &Place<'_>, slot: *mut ()) {
        // SAFETY: in no list, so nobody else knows of it.
        let node = unsafe { (*self.node.get()).insert(place.node(slot)) };
        // SAFETY: the caller's promise.
        unsafe { list.push(node) };
    }

    /// Whether there may be a node in the list.
    pub(crate) fn is_taken(&self) -> bool {
        // SAFETY: written by the owner only, which is the caller.
        unsafe { &*self.node.get() }.is_some()
    }

    /// Takes the node out of the list, if it is in.
    ///
    /// # Safety
    /// It was put into this list, if into any.
    pub(crate) unsafe fn leave(&self, list: &mut List) {
        // SAFETY: shared with the list's other users, who are kept out by its lock.
        if let Some(node) = unsafe { &*self.node.get() } {
            // SAFETY: the caller's promise.
            unsafe { list.remove(node) };
        }
    }
}

/// See [`Event::map`].
#[derive(Debug)]
pub struct Map<E, F> {
    event: E,
    f: F,
}

impl<E: Arm, F> Arm for Map<E, F> {
    fn attempt(&self) -> bool {
        self.event.attempt()
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.event.enlist(place) }
    }

    fn delist(&self) {
        self.event.delist();
    }

    fn deadline(&self) -> Option<Instant> {
        self.event.deadline()
    }

    fn check(&self) -> bool {
        self.event.check()
    }
}

impl<E: Event, R, F: FnOnce(E::Output) -> R> Event for Map<E, F> {
    type Output = R;

    fn finish(self) -> R {
        (self.f)(self.event.finish())
    }
}

/// `None` never completes: an arm that is switched off.
impl<E: Arm> Arm for Option<E> {
    fn attempt(&self) -> bool {
        self.as_ref().is_some_and(E::attempt)
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise.
        self.as_ref().is_none_or(|event| unsafe { event.enlist(place) })
    }

    fn delist(&self) {
        if let Some(event) = self {
            event.delist();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.as_ref().and_then(E::deadline)
    }

    fn check(&self) -> bool {
        self.as_ref().is_some_and(E::check)
    }
}

impl<E: Event> Event for Option<E> {
    type Output = E::Output;

    fn finish(self) -> E::Output {
        self.expect("`None` never completes").finish()
    }
}
