//! What a worker shows to others at all times.
//!
//! ```text
//!   the worker ──plain add (load, store)──▶ Counter ◀──load── whoever looks
//! ```
//!
//! Each counter has one writer, so an addition is a load and a store and no locked instruction. Both sides
//! are Relaxed: a reader learns a number that was true a moment ago, and concludes nothing about other
//! memory from it. `quiet` and `spells` are the exception; their argument is in module `quiet`.
//!
//! A board lies in its worker's post and is as immortal: posts are never freed, only used again. A runtime
//! that takes over a post clears its board before its worker starts.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use super::request::Request;

/// A number that one thread writes.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline]
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A worker's figures, its thread, and the requests to it.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Board {
    /// Fibers resumed. Also the heartbeat that the watchdog listens to.
    pub(crate) resumes: Counter,
    pub(crate) polls: Counter,
    pub(crate) steals: Counter,
    pub(crate) task_polls: Counter,
    pub(crate) task_steals: Counter,
    pub(crate) remote_wakes: Counter,
    pub(crate) timers: Counter,
    pub(crate) submitted: Counter,
    pub(crate) inline: Counter,
    pub(crate) spawned: Counter,
    pub(crate) started: Counter,
    pub(crate) ended: Counter,
    pub(crate) ready: Counter,
    pub(crate) stacks_live: Counter,
    pub(crate) stacks_free: Counter,
    pub(crate) stacks_hot: Counter,
    pub(crate) stack_bytes: Counter,
    /// Whether it is in a wait of its driver.
    pub(crate) asleep: AtomicBool,
    /// Asleep with nothing pending (module `quiet`), and how often it has begun to be.
    pub(crate) quiet: AtomicBool,
    pub(crate) spells: AtomicU64,
    /// Whether there is something at the desk.
    pub(crate) asked: AtomicBool,
    /// The kernel's id of its thread.
    pub(crate) thread: AtomicI32,
    /// Requests to be answered; `None` while no worker is there to do it.
    desk: Mutex<Option<Vec<Arc<Request>>>>,
}

impl Board {
    /// The worker begins.
    pub(crate) fn open(&self, thread: i32) {
        let Board {
            resumes,
            polls,
            steals,
            task_polls,
            task_steals,
            remote_wakes,
            timers,
            submitted,
            inline,
            spawned,
            started,
            ended,
            ready,
            stacks_live,
            stacks_free,
            stacks_hot,
            stack_bytes,
            asleep,
            quiet,
            spells: _,
            asked,
            thread: id,
            desk,
        } = self;
        let counters = [
            resumes,
            polls,
            steals,
            task_polls,
            task_steals,
            remote_wakes,
            timers,
            submitted,
            inline,
            spawned,
            started,
            ended,
            ready,
            stacks_live,
            stacks_free,
            stacks_hot,
            stack_bytes,
        ];
        counters.into_iter().for_each(|counter| counter.set(0));
        for flag in [asleep, quiet, asked] {
            flag.store(false, SeqCst);
        }
        id.store(thread, SeqCst);
        *desk.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// The worker has ended.
    pub(crate) fn close(&self) {
        self.thread.store(0, SeqCst);
        // Whose post this will be is not asleep before it has begun.
        self.quiet.store(false, SeqCst);
        let left = self.desk.lock().unwrap_or_else(PoisonError::into_inner).take();
        for request in left.into_iter().flatten() {
            request.refuse(self);
        }
    }

    /// Leaves a request; false if nobody is there to answer it. The caller wakes the worker.
    pub(super) fn ask(&self, request: Arc<Request>) -> bool {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(desk) = &mut *desk else { return false };
        desk.push(request);
        // Under the lock, as taking is: the flag is true exactly while something is there.
        self.asked.store(true, Relaxed);
        true
    }

    /// Takes what is at the desk.
    pub(super) fn take(&self) -> Vec<Arc<Request>> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        self.asked.store(false, Relaxed);
        desk.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
