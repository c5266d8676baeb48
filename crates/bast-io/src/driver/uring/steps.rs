//! The way of one operation through the ring.
//!
//! ```text
//!   enlist ─▶ RING ──completion──▶ finish ─▶ done
//!      │        └─-EAGAIN─┐
//!      └─no such entry──▶ stand_in ─▶ advance ─▶ GATE ──ready──▶ perform ─▶ done
//!                                       ▲                          └─EAGAIN─┐
//!                                       └───────────────────────────────────┘
//! ```
//!
//! A cancel that arrives between two stages finds nothing to cancel in the kernel. So it also leaves a
//! mark on the record, which ends the operation at its next change of stage.

use std::ptr::NonNull;

use io_uring::{cqueue, squeue};

use super::{CANCEL, Uring, WAKE, sqe, stage};
use crate::op::Interest;
use crate::sys::{self, Mode};
use crate::warm;
use crate::{Done, Kind, Op, Outcome, Record};

/// The kernel's own "interrupted", `ERESTARTSYS`: it is not meant to be seen, and is seen if a thread of the ring
/// is interrupted while it opens a pipe.
const RESTART: i32 = 512;

/// For a write to a file at its own position: the descriptor, and how much is to be written.
///
/// # Safety
/// Contract io 1.
unsafe fn moves_position(op: &Op) -> Option<(i32, usize)> {
    match *op {
        Op::Write { handle, len, offset: None, .. } if handle.kind == Kind::File => {
            Some((handle.raw, len))
        }
        Op::WriteV { handle, iov, count, offset: None } if handle.kind == Kind::File => {
            // SAFETY: io 1: the list is there, and as long.
            let pieces = unsafe { std::slice::from_raw_parts(iov, count as usize) };
            Some((handle.raw, pieces.iter().map(|piece| piece.iov_len).sum()))
        }
        _ => None,
    }
}

impl Uring {
    /// Gives the operation itself to the ring, or does what stands in for that.
    ///
    /// # Safety
    /// io 1: `record` is lent to us and nowhere.
    pub(super) unsafe fn enlist(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            let op = &(*record.as_ptr()).op;
            match sqe::entry(&self.ring, op) {
                Some(entry) => {
                    if let Some((fd, _)) = moves_position(op) {
                        (*record.as_ptr()).place = sys::position(fd);
                    }
                    self.push(record, stage::RING, entry);
                    None
                }
                None => self.stand_in(record),
            }
        }
    }

    /// For an operation that the kernel's ring does not have, or would not wait for.
    ///
    /// # Safety
    /// As [`Uring::enlist`].
    pub(super) unsafe fn stand_in(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            let op = &(*record.as_ptr()).op;
            match *op {
                Op::Connect { handle, .. } => {
                    let mode = sys::set_nonblocking(handle.raw, true);
                    if mode.0 < 0 { Some(mode) } else { self.perform(record) }
                }
                _ if op.waits_for().is_some() => self.advance(record),
                _ => self.offload(record),
            }
        }
    }

    /// Polls for the end of the operation that is not ready; performs it when it has none to wait for. Where it has two
    /// and both seem to be ready, for the first: that ends at once, and it is tried again.
    ///
    /// # Safety
    /// As [`Uring::enlist`].
    pub(super) unsafe fn advance(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            let gates = (*record.as_ptr()).op.gates();
            let gate = match gates {
                [None, None] => return self.perform(record),
                [Some(_), Some(_)] => match sys::unready(gates) {
                    Ok(first) => gates[first.unwrap_or(0)],
                    Err(outcome) => return Some(outcome),
                },
                [one, other] => one.or(other),
            };
            let Some((handle, interest)) = gate else { unreachable!("there is one") };
            self.push(record, stage::GATE, sqe::poll(handle.raw, interest));
            None
        }
    }

    /// Performs an operation one of whose ends has become ready; waits again if that was not all.
    ///
    /// # Safety
    /// As [`Uring::enlist`].
    pub(super) unsafe fn perform(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            let op = &(*record.as_ptr()).op;
            match *op {
                Op::SendFile { .. } => return self.send_file(record),
                // A file's end may wait for the disk, which is not this thread's to do.
                Op::Splice { from, to, .. } if from.kind == Kind::File || to.kind == Kind::File => {
                    return self.enlist(record);
                }
                _ => {}
            }
            let outcome = sys::spliced(op).unwrap_or_else(|| sys::call(op, Mode::NoWait));
            if let Op::Connect { handle, .. } = *op {
                if sys::would_block(outcome) && !outcome.is_errno(libc::EAGAIN) {
                    return self.advance(record);
                }
                let _ = sys::set_nonblocking(handle.raw, false);
                if outcome.is_errno(libc::EAGAIN) {
                    // A local socket's backlog is full, and no event says when it is not.
                    return self.offload(record);
                }
            }
            if outcome.is_errno(libc::EAGAIN) {
                return self.advance(record);
            }
            if let Some((handle, Interest::Readable)) = op.waits_for() {
                self.notes.of(handle).drained = op.exhausted(outcome);
            }
            Some(outcome)
        }
    }

    /// Sends what is in memory. The disk is the pool's to wait for, and the socket the ring's.
    ///
    /// # Safety
    /// As [`Uring::enlist`].
    pub(super) unsafe fn send_file(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            match warm::send_file(&(*record.as_ptr()).op) {
                Some(outcome) if outcome.is_errno(libc::EAGAIN) => self.advance(record),
                None => self.offload(record),
                done => done,
            }
        }
    }

    /// # Safety
    /// As [`Uring::enlist`]; contract io 1 for the entry.
    pub(super) unsafe fn push(&mut self, record: NonNull<Record>, stage: u8, entry: squeue::Entry) {
        // SAFETY: the caller's promise.
        unsafe {
            (*record.as_ptr()).stage = stage;
            self.ring.push(entry.user_data(sqe::user_data(record)));
        }
        self.in_ring += 1;
    }

    /// # Safety
    /// As [`Uring::enlist`].
    pub(super) unsafe fn offload(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise; our drop waits for what the pool has of ours.
        unsafe {
            (*record.as_ptr()).stage = stage::POOL;
            match self.pool.submit(record, &self.remote) {
                Ok(()) => {
                    self.pooled += 1;
                    None
                }
                Err(outcome) => Some(outcome),
            }
        }
    }

    pub(super) fn handle(&mut self, entry: &cqueue::Entry, done: &mut Done) {
        let (data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        let record = match data {
            WAKE => {
                if !cqueue::more(flags) {
                    self.watch_waker();
                }
                return;
            }
            CANCEL => return,
            // SAFETY: every other entry carries the address of a record, which is lent until this,
            // its completion (io 1).
            _ => unsafe { NonNull::new_unchecked(data as *mut Record) },
        };
        self.in_ring -= 1;
        // SAFETY: io 1, as above.
        unsafe {
            let stage = (*record.as_ptr()).stage;
            let op = &(*record.as_ptr()).op;
            let interrupted = result == -libc::EINTR || result == -RESTART;
            let again = result == -libc::EAGAIN || interrupted;
            let outcome = match stage & !stage::CANCEL {
                // Asked to end, and it came to nothing yet.
                _ if stage & stage::CANCEL != 0 && again => Some(Outcome::CANCELLED),
                stage::RING if interrupted => self.enlist(record),
                stage::RING if again && matches!(op, Op::Splice { .. }) => self.advance(record),
                stage::RING if again => self.stand_in(record),
                stage::RING => {
                    // The kernel tries to complete a short write; if that fails it says what was written
                    // before, but leaves the file's position behind.
                    if let Some((fd, len)) = moves_position(op)
                        && result > 0
                        && (result as usize) < len
                    {
                        sys::catch_up(fd, (*record.as_ptr()).place, result.into());
                    }
                    Some(self.result(op, result, flags))
                }
                _ if result < 0 => Some(Outcome(result)),
                _ if stage & stage::CANCEL != 0 => Some(Outcome::CANCELLED),
                _ => self.perform(record),
            };
            if let Some(outcome) = outcome {
                self.finish(record, stage, outcome, done);
            }
        }
    }

    /// What a ring operation's result means, and what it tells about the next.
    pub(super) fn result(&mut self, op: &Op, result: i32, flags: u32) -> Outcome {
        match *op {
            Op::Poll { .. } | Op::Again { .. } if result >= 0 => return Outcome(0),
            Op::Open { flags, .. } if result >= 0 => sqe::opened(result, flags),
            Op::Recv { handle, .. } | Op::RecvMsg { handle, .. } | Op::Accept { handle, .. } => {
                self.notes.of(handle).received(handle.kind, cqueue::sock_nonempty(flags));
            }
            Op::Read { handle, .. } if handle.kind != Kind::File => {
                self.notes.of(handle).received(handle.kind, cqueue::sock_nonempty(flags));
            }
            _ => {}
        }
        Outcome(result)
    }

    /// # Safety
    /// io 1: `record` is lent to us and nowhere; `stage` is where it was.
    pub(super) unsafe fn finish(
        &mut self,
        record: NonNull<Record>,
        stage: u8,
        outcome: Outcome,
        done: &mut Done,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Op::Connect { handle, .. } = (*record.as_ptr()).op {
                // Only the stand-in changes the mode.
                if stage & !stage::CANCEL != stage::RING {
                    let _ = sys::set_nonblocking(handle.raw, false);
                }
            }
            let op = (*record.as_ptr()).op;
            done.push(record, outcome);
            self.pass_turn(&op, done);
        }
    }
}
