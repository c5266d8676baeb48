//! The readiness driver: the kernel says when to try, the driver does the loop (contract io 5).
//!
//! ```text
//!   submit ──try──▶ done: the outcome, inline
//!              └─EAGAIN─▶ wait list of the descriptor ──edge──▶ try again, in turn ──▶ done
//!              └─no kernel waits for this─▶ pool ──▶ remote list ──▶ done
//!   cancel: off the list ──▶ ready (ECANCELED) ──next poll──▶ done
//! ```
//!
//! The selector below is epoll, or kqueue; `table` holds what is known about each descriptor and the argument
//! why no edge is missed; `wait` is the retry loop; this file is the driver's face.
//!
//! Where an operation goes: sockets and pipes are tried and wait here. Files, `Open`, `Statx`, `Fsync`
//! and `Call` go to the pool, except reads that the page cache can answer (`RWF_NOWAIT`), and what
//! it has for a `SendFile` (see `warm`). A `Splice` without a file is tried at once; with one it first waits here until
//! the pollable ends are ready, and then runs on the pool, where only the disk can delay it.

#[cfg(all(target_os = "linux", not(bast_kqueue)))]
mod epoll;
#[cfg(any(not(target_os = "linux"), bast_kqueue))]
mod kqueue;
mod table;
mod wait;

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

#[cfg(all(target_os = "linux", not(bast_kqueue)))]
use self::epoll::{Selector, TELLS_ALL};
#[cfg(any(not(target_os = "linux"), bast_kqueue))]
use self::kqueue::{Selector, TELLS_ALL};
use self::table::Table;
use super::remote::Remote;
use super::{Config, DriverKind, Wait};
use crate::list::List;
use crate::sys::{self, Mode, c};
use crate::{Done, Op, Outcome, Pool, Record, Waker};

/// One edge: which descriptor under which identity, and what for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) fd: i32,
    /// The low half of the handle's id; 0 for a foreign descriptor.
    pub(super) mark: u32,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer has ended its half, or there is an error, or urgent data: a short read does not mean
    /// that nothing more is to be read.
    pub(super) unusual: bool,
}

/// What this system's readiness is called.
pub(super) const KIND: DriverKind = if cfg!(all(target_os = "linux", not(bast_kqueue))) {
    DriverKind::Epoll
} else {
    DriverKind::Kqueue
};
pub(super) const NAME: &str = if matches!(KIND, DriverKind::Epoll) { "epoll" } else { "kqueue" };

/// How many events ahead the record that waits is prefetched.
const AHEAD: usize = 4;

/// Where a record is, kept in its `stage`.
mod stage {
    /// On the list of readers of its descriptor (of a splice: of its source).
    pub(super) const READER: u8 = 1;
    /// On the list of writers of its descriptor (of a splice: of its destination).
    pub(super) const WRITER: u8 = 2;
    /// With the pool.
    pub(super) const POOL: u8 = 3;
    /// With the pool, and to be cancelled when it comes back undecided.
    pub(super) const POOL_CANCEL: u8 = 4;
    /// On the `again` list.
    pub(super) const AGAIN: u8 = 5;
    /// Completed, waiting for the next poll.
    pub(super) const READY: u8 = 6;
}

/// A driver on a readiness selector.
pub(crate) struct Readiness {
    selector: Selector,
    table: Table,
    /// Records on the table's lists.
    waiting: usize,
    /// Records with the pool.
    pooled: usize,
    /// Splices whose ends were all ready and that still said EAGAIN: tried once in each poll.
    again: List,
    /// Completed by `cancel`.
    ready: Done,
    pool: Arc<Pool>,
    remote: Arc<Remote>,
}

impl Readiness {
    pub(crate) fn new(config: &Config) -> io::Result<Readiness> {
        let waker = Waker::new()?;
        Ok(Readiness {
            selector: Selector::new(&waker)?,
            table: Table::default(),
            waiting: 0,
            pooled: 0,
            again: List::new(),
            ready: Done::new(),
            pool: Arc::clone(&config.pool),
            remote: Arc::new(Remote::new(waker)),
        })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.remote.waker().clone()
    }

    pub(crate) fn pending(&self) -> usize {
        self.waiting + self.pooled + self.ready.len()
    }

    /// # Safety
    /// As [`Driver::submit`](crate::Driver::submit).
    pub(crate) unsafe fn submit(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: io 1: the record is lent to us; nothing changes its operation meanwhile.
        unsafe {
            let op = &(*record.as_ptr()).op;
            match op {
                Op::Connect { .. } => self.connect(record),
                Op::Again { handle, interest } => self.again(record, *handle, *interest),
                Op::Poll { .. } | Op::Splice { .. } => self.advance(record),
                Op::SendFile { to, .. } => self.send_file(record, *to, false),
                _ => match op.waits_for() {
                    Some((handle, interest)) => self.start(record, op, handle, interest),
                    None if op.is_immediate() => Some(sys::call(op, Mode::NoWait)),
                    None => match sys::read_cached(op) {
                        Some(outcome) if outcome.0 >= 0 => Some(outcome),
                        _ => self.offload(record),
                    },
                },
            }
        }
    }

    /// # Safety
    /// As [`Driver::attempt`](crate::Driver::attempt).
    pub(crate) unsafe fn attempt(&mut self, op: &Op) -> Outcome {
        // SAFETY: the caller's promise.
        let outcome = unsafe { sys::call(op, Mode::NoWait) };
        self.attempted(op, outcome);
        outcome
    }

    /// # Safety
    /// `record` was submitted here and has not come back.
    pub(crate) unsafe fn cancel(&mut self, record: NonNull<Record>) {
        // SAFETY: io 1: it is lent to us. Of a record with the pool only `op` and `stage` are touched,
        // and the pool leaves `stage` alone.
        unsafe {
            match (*record.as_ptr()).stage {
                stage::READER | stage::WRITER => {
                    self.unqueue(record);
                    let op = &(*record.as_ptr()).op;
                    if let Op::Connect { handle, .. } = *op {
                        sys::calm(handle.raw);
                    }
                }
                stage::POOL if self.pool.cancel(record) => self.pooled -= 1,
                stage::POOL => {
                    (*record.as_ptr()).stage = stage::POOL_CANCEL;
                    return;
                }
                stage::POOL_CANCEL => {
                    // It runs, and is interrupted once more if it can be.
                    self.pool.cancel(record);
                    return;
                }
                stage::AGAIN => {
                    self.again.remove(record);
                    self.waiting -= 1;
                }
                _ => return,
            }
            (*record.as_ptr()).stage = stage::READY;
            self.ready.push(record, Outcome::CANCELLED);
        }
    }

    pub(crate) fn poll(&mut self, wait: Wait, done: &mut Done) -> io::Result<()> {
        self.collect(done);
        let timeout = match wait {
            Wait::No => Some(Duration::ZERO),
            Wait::AtMost(d) => Some(d),
            Wait::Forever => None,
        };
        let block = timeout != Some(Duration::ZERO) && done.is_empty() && self.again.is_empty();
        if block && self.remote.waker().sleep().begin() {
            let result = self.select(timeout, done);
            self.remote.waker().sleep().end();
            result?;
        } else {
            if block {
                // Notified: what woke us is looked at by the caller, once it has had its events.
                self.remote.waker().sleep().end();
            }
            if self.waiting > 0 {
                self.select(Some(Duration::ZERO), done)?;
            }
        }
        self.collect(done);
        Ok(())
    }

    /// What has completed without the selector.
    fn collect(&mut self, done: &mut Done) {
        done.append(&mut self.ready);
        if self.pooled > 0 && !self.remote.is_empty() {
            self.collect_remote(done);
        }
        if !self.again.is_empty() {
            self.collect_again(done);
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
                let outcome = match (*record.as_ptr()).outcome {
                    o if !o.is_errno(c::EAGAIN) || !(*record.as_ptr()).op.is_gated() => Some(o),
                    _ if (*record.as_ptr()).stage == stage::POOL_CANCEL => Some(Outcome::CANCELLED),
                    _ => self.advance(record),
                };
                if let Some(outcome) = outcome {
                    done.push(record, outcome);
                }
            }
        }
    }

    #[cold]
    fn collect_again(&mut self, done: &mut Done) {
        let last = self.again.back();
        while let Some(record) = self.again.pop_front() {
            self.waiting -= 1;
            // SAFETY: io 1: it was lent to us and is on no list now.
            unsafe {
                if let Some(outcome) = self.advance(record) {
                    done.push(record, outcome);
                }
            }
            if Some(record) == last {
                break;
            }
        }
    }

    /// Waits for edges and serves who waited for them.
    fn select(&mut self, timeout: Option<Duration>, done: &mut Done) -> io::Result<()> {
        self.selector.wait(timeout)?;
        for i in 0..self.selector.got() {
            if let Some(soon) = self.selector.edge(i + AHEAD) {
                self.table.prefetch(soon.fd);
            }
            if let Some(edge) = self.selector.edge(i) {
                self.serve(edge, done);
            }
        }
        Ok(())
    }

    /// Gives a record to the pool.
    ///
    /// # Safety
    /// io 1: `record` is lent to us and on no list.
    unsafe fn offload(&mut self, record: NonNull<Record>) -> Option<Outcome> {
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
}

impl Drop for Readiness {
    /// Lets go of every record. Those on lists are touched by nobody else; those with the pool are
    /// waited for (contract io 1). A handle that was opened for nobody is closed (contract io 2).
    fn drop(&mut self) {
        for record in self.table.drain() {
            // SAFETY: io 1: it was on a list, hence lent.
            if let Op::Connect { handle, .. } = unsafe { record.as_ref() }.op {
                sys::calm(handle.raw);
            }
        }
        self.pooled -= self.pool.forget(&self.remote);
        self.pooled = super::await_pool(&self.remote, self.pooled);
    }
}
