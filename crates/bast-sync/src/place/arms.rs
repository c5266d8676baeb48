//! Joining a place's lists as an arm of a `select`, and leaving them. What is granted goes through the same slots as for
//! those who wait for one thing only.

use super::{Place, Shared};
use crate::select::{Place as Arm, Seat};

impl<T> Place<T> {
    /// The value, for somebody who is counted as a reader.
    ///
    /// # Safety
    /// It is counted, and the guard now stands for it.
    pub(crate) unsafe fn shared(&self) -> Shared<'_, T>
    where
        T: Sync,
    {
        Shared::new(self)
    }

    /// For `select`: joins the takers; false if the value can be taken now.
    ///
    /// # Safety
    /// As [`Seat::take`], with `slot` a `Claim<T>`.
    pub(crate) unsafe fn enlist_taker(&self, seat: &Seat, arm: &Arm<'_>, slot: *mut ()) -> bool {
        let mut state = self.lock.lock();
        let wait = !state.takeable();
        if wait {
            // SAFETY: the caller's promise.
            unsafe { seat.take(&mut state.takers, arm, slot) };
        }
        wait
    }

    /// As `enlist_taker`, for readers.
    ///
    /// # Safety
    /// As [`Seat::take`], with `slot` a `bool`.
    pub(crate) unsafe fn enlist_reader(&self, seat: &Seat, arm: &Arm<'_>, slot: *mut ()) -> bool {
        let mut state = self.lock.lock();
        let wait = !state.readable();
        if wait {
            // SAFETY: the caller's promise.
            unsafe { seat.take(&mut state.readers, arm, slot) };
        }
        wait
    }

    /// As `enlist_taker`, for putters.
    ///
    /// # Safety
    /// As [`Seat::take`], with `slot` an `Option<T>` that holds the value.
    pub(crate) unsafe fn enlist_putter(&self, seat: &Seat, arm: &Arm<'_>, slot: *mut ()) -> bool {
        let mut state = self.lock.lock();
        let wait = !state.puttable();
        if wait {
            // SAFETY: the caller's promise.
            unsafe { seat.take(&mut state.putters, arm, slot) };
        }
        wait
    }

    pub(crate) fn delist_taker(&self, seat: &Seat) {
        if seat.is_taken() {
            // SAFETY: it was put into this list, if into any.
            unsafe { seat.leave(&mut self.lock.lock().takers) };
        }
    }

    pub(crate) fn delist_reader(&self, seat: &Seat) {
        if seat.is_taken() {
            // SAFETY: as above.
            unsafe { seat.leave(&mut self.lock.lock().readers) };
        }
    }

    pub(crate) fn delist_putter(&self, seat: &Seat) {
        if seat.is_taken() {
            // SAFETY: as above.
            unsafe { seat.leave(&mut self.lock.lock().putters) };
        }
    }
}
