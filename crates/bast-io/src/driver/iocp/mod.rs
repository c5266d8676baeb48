//! The completion-port driver.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::remote::Remote;
use super::{Config, Wait};
use crate::sys::{self, Mode};
use crate::{Done, Outcome, Pool, Record, Waker};

/// Where a record is, kept in its `stage`.
mod stage {
    /// With the pool.
    pub(super) const POOL: u8 = 1;
    /// Completed, waiting for the next poll.
    pub(super) const READY: u8 = 2;
}

/// A driver on a completion port.
pub(crate) struct Iocp {
    /// Records with the pool.
    pooled: usize,
    /// Completed by `cancel`.
    ready: Done,
    pool: Arc<Pool>,
    remote: Arc<Remote>,
}

impl Iocp {
    pub(crate) fn new(config: &Config) -> io::Result<Iocp> {
        Ok(Iocp {
            pooled: 0,
            ready: Done::new(),
            pool: Arc::clone(&config.pool),
            remote: Arc::new(Remote::new(Waker::new()?)),
        })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.remote.waker().clone()
    }

    pub(crate) fn pending(&self) -> usize {
        self.pooled + self.ready.len()
    }

    /// # Safety
    /// As [`Driver::submit`](crate::Driver::submit).
    pub(crate) unsafe fn submit(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: io 1: the record is lent to us; nothing changes its operation meanwhile.
        unsafe {
            let op = &(*record.as_ptr()).op;
            if op.is_immediate() {
                return Some(sys::call(op, Mode::NoWait));
            }
            self.offload(record)
        }
    }

    /// # Safety
    /// `record` was submitted here and has not come back.
    pub(crate) unsafe fn cancel(&mut self, record: NonNull<Record>) {
        // SAFETY: io 1: it is lent to us.
        unsafe {
            if (*record.as_ptr()).stage == stage::POOL && self.pool.cancel(record) {
                self.pooled -= 1;
                (*record.as_ptr()).stage = stage::READY;
                self.ready.push(record, Outcome::CANCELLED);
            }
        }
    }

    pub(crate) fn poll(&mut self, wait: Wait, done: &mut Done) -> io::Result<()> {
        self.collect(done);
        let timeout = match wait {
            Wait::No => return Ok(()),
            Wait::AtMost(d) => Some(d),
            Wait::Forever => None,
        };
        if done.is_empty() {
            self.remote.waker().wait(timeout);
            self.collect(done);
        }
        Ok(())
    }

    /// What has completed without the kernel.
    fn collect(&mut self, done: &mut Done) {
        done.append(&mut self.ready);
        let mut next = if self.pooled > 0 { self.remote.take() } else { None };
        while let Some(record) = next {
            self.pooled -= 1;
            // SAFETY: io 1: the pool has handed the record back to us.
            unsafe {
                next = (*record.as_ptr()).next;
                done.push(record, (*record.as_ptr()).outcome);
            }
        }
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

impl Drop for Iocp {
    fn drop(&mut self) {
        self.pooled -= self.pool.forget(&self.remote);
        self.pooled = super::await_pool(&self.remote, self.pooled);
    }
}
