//! Whose turn it is on a descriptor.
//!
//! ```text
//!   start ─▶ side busy? ─yes─▶ queued behind the others ──turn comes──┐
//!               └─no─▶ take_turn: try, if worth a call ──▶ done       │
//!                             ▲  └─EAGAIN─▶ ring, side busy ─▶ done ──┴─ pass_turn
//!                             └──────────────────────────────────────────┘
//! ```
//!
//! The kernel keeps no order among several receives (or sends) on one socket, so that only one of each
//! kind is with the ring, and the others are served oldest first.

use std::ptr::NonNull;

use super::{Uring, stage};
use crate::op::Interest;
use crate::sys::{self, Mode};
use crate::{Done, HandleRef, Op, Outcome, Record};

impl Uring {
    /// Begins a socket or pipe operation, or queues it behind those that came before.
    ///
    /// # Safety
    /// io 1: `record` is lent to us and nowhere; `op` is its operation.
    #[inline]
    pub(super) unsafe fn start(
        &mut self,
        record: NonNull<Record>,
        op: &Op,
        handle: HandleRef,
        interest: Interest,
    ) -> Option<Outcome> {
        // SAFETY: io 1, and the caller's promise.
        unsafe {
            if handle.id == 0 || op.is_dontwait() {
                // (A foreign descriptor's mode is unknown: only `Poll` may wait for it.)
                return Some(sys::call(op, Mode::NoWait));
            }
            if !op.is_plain() {
                // Peeks, urgent data, error queues: they keep no order with the others.
                let outcome = sys::call(op, Mode::NoWait);
                return if outcome.is_errno(libc::EAGAIN) {
                    self.enlist(record)
                } else {
                    Some(outcome)
                };
            }
            let side = self.notes.of(handle).side(interest);
            if side.busy {
                (*record.as_ptr()).stage = stage::QUEUED;
                side.waiting.push_back(record);
                self.queued += 1;
                return None;
            }
            self.take_turn(record, op, handle, interest)
        }
    }

    /// Tries the operation whose turn it is, if that is worth a call; else it goes to the ring, and
    /// its side is busy until it completes.
    ///
    /// # Safety
    /// As [`Uring::start`].
    #[inline]
    pub(super) unsafe fn take_turn(
        &mut self,
        record: NonNull<Record>,
        op: &Op,
        handle: HandleRef,
        interest: Interest,
    ) -> Option<Outcome> {
        // SAFETY: io 1, and the caller's promise.
        unsafe {
            let note = self.notes.of(handle);
            if interest == Interest::Writable || !note.drained {
                let outcome = sys::call(op, Mode::NoWait);
                let blocked = outcome.is_errno(libc::EAGAIN);
                if interest == Interest::Readable {
                    note.drained = blocked || op.exhausted(outcome);
                    note.tried(blocked);
                }
                if !blocked {
                    return Some(outcome);
                }
            }
            let outcome = self.enlist(record);
            self.notes.of(handle).side(interest).busy = outcome.is_none();
            outcome
        }
    }

    /// Lets those go on that waited for `op` to complete.
    pub(super) fn pass_turn(&mut self, op: &Op, done: &mut Done) {
        let Some((handle, interest)) = op.waits_for() else { return };
        if !op.is_plain() || handle.id == 0 {
            return;
        }
        self.notes.of(handle).side(interest).busy = false;
        while let Some(next) = self.notes.of(handle).side(interest).waiting.pop_front() {
            self.queued -= 1;
            // SAFETY: io 1: it waited on our list.
            unsafe {
                match self.take_turn(next, &(*next.as_ptr()).op, handle, interest) {
                    Some(outcome) => done.push(next, outcome),
                    None => return,
                }
            }
        }
    }
}
