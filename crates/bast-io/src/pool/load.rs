//! How much a pool has to do: counted under its lock.
//!
//! The time that calls wait is an integral: while `n` of them are queued it grows by `n` seconds each second.
//! So no call carries a time of its own, and the clock is read only when the length of the queue changes.

use std::time::Duration;

use crate::sys;

/// What a [`Pool`](super::Pool) has at one moment, and what it has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Threads.
    pub threads: usize,
    /// Those of them that wait for something to do.
    pub idle: usize,
    /// Calls that no thread has begun with.
    pub queued: usize,
    /// The most threads that were at work at once.
    pub busy_most: usize,
    /// The most calls that were queued at once.
    pub queued_most: usize,
    /// Calls that a thread has begun with.
    pub calls: u64,
    /// Calls that came when every thread had work and no more were allowed or to be had.
    pub waits: u64,
    /// The time that all calls together have been queued.
    pub waited: Duration,
    /// Calls that were refused, as the queue was full.
    pub refused: u64,
}

/// The part of [`PoolStats`] that is counted.
#[derive(Debug, Default)]
pub(super) struct Load {
    queued: usize,
    since: u64,
    waited: u64,
    queued_most: usize,
    busy_most: usize,
    calls: u64,
    waits: u64,
    refused: u64,
}

impl Load {
    /// The queue has another length.
    pub(super) fn queue_is(&mut self, queued: usize) {
        let now = sys::now();
        self.waited = self.waited_at(now);
        self.since = now;
        self.queued = queued;
        self.queued_most = self.queued_most.max(queued);
    }

    fn waited_at(&self, now: u64) -> u64 {
        self.waited.saturating_add((now - self.since).saturating_mul(self.queued as u64))
    }

    /// A thread begins with a call.
    pub(super) fn begun(&mut self, busy: usize) {
        self.calls += 1;
        self.busy_most = self.busy_most.max(busy);
    }

    /// A call has to wait for a thread that has other work.
    pub(super) fn waits(&mut self) {
        self.waits += 1;
    }

    /// A call was refused.
    pub(super) fn refused(&mut self) {
        self.refused += 1;
    }

    pub(super) fn stats(&self, threads: usize, idle: usize) -> PoolStats {
        PoolStats {
            threads,
            idle,
            queued: self.queued,
            busy_most: self.busy_most,
            queued_most: self.queued_most,
            calls: self.calls,
            waits: self.waits,
            waited: Duration::from_nanos(self.waited_at(sys::now())),
            refused: self.refused,
        }
    }
}
