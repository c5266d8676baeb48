//! The io_uring driver: the kernel performs the operation and says how it went.
//!
//! ```text
//!   submit ──try──▶ done: the outcome, inline
//!              └────▶ RING: the operation's own entry ──completion──▶ done
//!                       └─ the kernel would not wait (-EAGAIN), or has no such operation
//!                          ▼
//!                     GATE: a poll entry for an end that is not ready ──▶ try ──▶ done
//!                          ▲                                            └─EAGAIN─┐
//!                          └─────────────────────────────────────────────────────┘
//!   cancel: a cancel entry; the target's own completion is the terminal one
//! ```
//!
//! `turn` sees to the order among operations on one descriptor, `steps` takes one operation through the
//! stages above, `sqe` builds its entry, `ring` is the pair of queues; this file is the driver's face.
//!
//! System calls are saved by batching: entries are submitted by the same `enter` that waits. A
//! non-waiting poll with nothing to submit and no completion is four loads. Yet a plain `send` that
//! succeeds at once is cheaper than an entry and its completion, and so is a `recv` or `accept` that
//! finds something: `notes` says when to try.
//!
//! Ring operations here: connect, recv, send (once a try has failed), recvmsg, sendmsg, accept, poll,
//! and for files read, write, open, fsync, statx, splice. `SendFile` has no ring operation: the call is
//! made at once if the file is in memory (see `warm`), else on the pool, and its socket is polled for. What
//! a kernel lacks is polled for (sockets) or goes to the pool (files).
//!
//! The waker's eventfd is watched by one multishot poll. It is edge-like, so that nobody reads the
//! eventfd; should the kernel end it, arming it anew reports what came between.

mod notes;
mod ring;
mod sqe;
mod steps;
mod turn;

use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{opcode, types};

use self::notes::Notes;
use self::ring::Ring;
use super::remote::Remote;
use super::{Config, Wait};
use crate::sys::{self, Mode};
use crate::{Done, Op, Outcome, Pool, Record, Waker};

/// Where a record is, kept in its `stage`; with `CANCEL` once its end was asked for.
mod stage {
    /// Its own entry is with the ring.
    pub(super) const RING: u8 = 1;
    /// A poll entry for one of its ends is.
    pub(super) const GATE: u8 = 2;
    /// With the pool.
    pub(super) const POOL: u8 = 4;
    /// Completed, waiting for the next poll.
    pub(super) const READY: u8 = 5;
    /// Waiting for its turn: another operation of the same kind on the same descriptor is under way.
    pub(super) const QUEUED: u8 = 6;
    pub(super) const CANCEL: u8 = 0x80;
    pub(super) const POOL_CANCEL: u8 = POOL | CANCEL;
}

/// How many completions ahead the record is prefetched.
const AHEAD: usize = 4;

/// Completions of the waker's poll.
const WAKE: u64 = 1;
/// Completions of cancel entries: the target's own completion tells.
const CANCEL: u64 = 2;

/// A driver on io_uring.
pub(crate) struct Uring {
    ring: Ring,
    notes: Notes,
    /// Records with the ring, each with exactly one completion to come.
    in_ring: usize,
    /// Records with the pool.
    pooled: usize,
    /// Records that wait for their turn.
    queued: usize,
    /// Completed by `cancel`.
    ready: Done,
    pool: Arc<Pool>,
    remote: Arc<Remote>,
}

impl Uring {
    /// A ring for the calling thread. The error is a sentence for people.
    pub(crate) fn new(config: &Config) -> Result<Uring, String> {
        Uring::without(config, &[])
    }

    /// As `new`, on a kernel that lacks the operations `forbidden`.
    pub(super) fn without(config: &Config, forbidden: &[u8]) -> Result<Uring, String> {
        let waker = Waker::new().map_err(|e| format!("eventfd: {e}"))?;
        let mut uring = Uring {
            ring: Ring::new(config.entries, forbidden)?,
            notes: Notes::default(),
            in_ring: 0,
            pooled: 0,
            queued: 0,
            ready: Done::new(),
            pool: Arc::clone(&config.pool),
            remote: Arc::new(Remote::new(waker)),
        };
        uring.watch_waker();
        // Also shows whether entering is allowed at all.
        uring.ring.enter().map_err(|e| format!("io_uring_enter: {e}"))?;
        Ok(uring)
    }

    pub(crate) fn waker(&self) -> Waker {
        self.remote.waker().clone()
    }

    pub(crate) fn pending(&self) -> usize {
        self.in_ring + self.pooled + self.queued + self.ready.len()
    }

    fn watch_waker(&mut self) {
        let fd = types::Fd(self.remote.waker().fd());
        let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build();
        // SAFETY: the entry names no memory; the eventfd outlives the ring.
        unsafe { self.ring.push(poll.user_data(WAKE)) };
    }

    /// # Safety
    /// As [`Driver::submit`](crate::Driver::submit).
    pub(crate) unsafe fn submit(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: io 1: the record is lent to us; nothing changes its operation meanwhile.
        unsafe {
            (*record.as_ptr()).stage = 0;
            let op = &(*record.as_ptr()).op;
            match op {
                Op::Connect { .. } | Op::Poll { .. } | Op::Again { .. } => self.enlist(record),
                Op::SendFile { to, .. } => {
                    self.notes.of(*to).nonblocking = true;
                    self.send_file(record)
                }
                Op::Splice { .. } => match sys::spliced(op) {
                    Some(outcome) if !outcome.is_errno(libc::EAGAIN) => Some(outcome),
                    _ => self.advance(record),
                },
                _ => match op.waits_for() {
                    Some((handle, interest)) => self.start(record, op, handle, interest),
                    None if op.is_immediate() => Some(sys::call(op, Mode::NoWait)),
                    None => self.enlist(record),
                },
            }
        }
    }

    /// # Safety
    /// `record` was submitted here and has not come back.
    pub(crate) unsafe fn cancel(&mut self, record: NonNull<Record>) {
        // SAFETY: io 1: it is lent to us. Of a record with the pool only `stage` is touched, which the
        // pool leaves alone.
        unsafe {
            let stage = (*record.as_ptr()).stage;
            match stage {
                stage::RING | stage::GATE => {
                    let cancel = opcode::AsyncCancel::new(sqe::user_data(record)).build();
                    self.ring.push(cancel.user_data(CANCEL));
                }
                stage::POOL if self.pool.cancel(record) => {
                    self.pooled -= 1;
                    (*record.as_ptr()).stage = stage::READY;
                    self.ready.push(record, Outcome::CANCELLED);
                    return;
                }
                stage::POOL => {}
                stage::POOL_CANCEL => {
                    // It runs, and is interrupted once more if it can be.
                    self.pool.cancel(record);
                    return;
                }
                stage::QUEUED => {
                    let waits_for = (*record.as_ptr()).op.waits_for();
                    let Some((handle, interest)) = waits_for else { return };
                    self.notes.of(handle).side(interest).waiting.remove(record);
                    self.queued -= 1;
                    (*record.as_ptr()).stage = stage::READY;
                    self.ready.push(record, Outcome::CANCELLED);
                    return;
                }
                _ => return,
            }
            (*record.as_ptr()).stage = stage | stage::CANCEL;
        }
    }

    pub(crate) fn poll(&mut self, wait: Wait, done: &mut Done) -> io::Result<()> {
        self.collect(done);
        let timeout = match wait {
            Wait::No => Some(Duration::ZERO),
            Wait::AtMost(d) => Some(d),
            Wait::Forever => None,
        };
        let block = timeout != Some(Duration::ZERO) && done.is_empty();
        if block && self.remote.waker().sleep().begin() {
            let result = self.ring.enter_and_wait(timeout);
            self.remote.waker().sleep().end();
            result?;
        } else {
            if block {
                // Notified: what woke us is looked at by the caller, once it has had its events.
                self.remote.waker().sleep().end();
            }
            if !self.ring.has_work() {
                return Ok(());
            }
            self.ring.enter()?;
        }
        self.collect(done);
        Ok(())
    }

    fn collect(&mut self, done: &mut Done) {
        done.append(&mut self.ready);
        loop {
            let mut room = [const { MaybeUninit::uninit() }; 32];
            let entries = self.ring.reap_into(&mut room);
            for (i, entry) in entries.iter().enumerate() {
                if let Some(soon) = entries.get(i + AHEAD) {
                    // A record, or one of the few small numbers: then it is no address at all.
                    sys::prefetch(soon.user_data() as *const Record);
                }
                self.handle(entry, done);
            }
            if entries.len() < 32 {
                break;
            }
        }
        if self.pooled > 0 && !self.remote.is_empty() {
            self.collect_remote(done);
        }
    }

    #[cold]
    fn collect_remote(&mut self, done: &mut Done) {
        let mut next = self.remote.take();
        while let Some(record) = next {
            self.pooled -= 1;
            // SAFETY: io 1: the pool has handed the record back to us.
            unsafe {
                next = (*record.as_ptr()).next;
                let (stage, outcome) = ((*record.as_ptr()).stage, (*record.as_ptr()).outcome);
                let gated = (*record.as_ptr()).op.is_gated();
                let outcome = match outcome {
                    o if !o.is_errno(libc::EAGAIN) || !gated => Some(o),
                    _ if stage & stage::CANCEL != 0 => Some(Outcome::CANCELLED),
                    _ => self.advance(record),
                };
                if let Some(outcome) = outcome {
                    done.push(record, outcome);
                }
            }
        }
    }
}

impl Drop for Uring {
    /// Cancels everything and waits until the kernel and the pool have let go of every record, then
    /// closes the ring (contract io 1). Handles that came for nobody are closed (contract io 2).
    fn drop(&mut self) {
        self.pooled -= self.pool.forget(&self.remote);
        self.pooled = super::await_pool(&self.remote, self.pooled);
        // Entries that the kernel has never seen need no end.
        let unseen = self.ring.take_backlog();
        self.in_ring -= unseen.iter().filter(|e| e.get_user_data() > CANCEL).count();
        while self.in_ring > 0 {
            let all = opcode::AsyncCancel2::new(types::CancelBuilder::any().all()).build();
            // SAFETY: the entry names no memory.
            unsafe { self.ring.push(all.user_data(CANCEL)) };
            // Again after a while, for what was just between two stages.
            if self.ring.enter_and_wait(Some(Duration::from_millis(100))).is_err() {
                // The ring is unusable, and nothing says when the kernel is done with the memory.
                // Going on would break io 1.
                eprintln!("bast-io: io_uring failed with {} operations in flight", self.in_ring);
                std::process::abort();
            }
            while let Some(entry) = self.ring.reap() {
                if entry.user_data() <= CANCEL {
                    continue;
                }
                self.in_ring -= 1;
                // SAFETY: io 1: lent until this, its completion.
                let record = unsafe { NonNull::new_unchecked(entry.user_data() as *mut Record) };
                // SAFETY: as above.
                let record = unsafe { record.as_ref() };
                let in_ring = record.stage & !stage::CANCEL == stage::RING;
                if in_ring && record.op.yields_handle() && entry.result() >= 0 {
                    let _ = sys::close(entry.result());
                }
                if let (Op::Connect { handle, .. }, false) = (record.op, in_ring) {
                    let _ = sys::set_nonblocking(handle.raw, false);
                }
            }
        }
    }
}
