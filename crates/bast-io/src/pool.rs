//! The blocking pool: threads for what no kernel does asynchronously.
//!
//! ```text
//!   driver ──submit──▶ queue ──▶ thread: execute ──▶ the driver's Remote list ──wake──▶ driver
//!              └─cancel: still queued? unlink ─────────────────▲ (ECANCELED)
//!                        running, and interruptible? its thread is interrupted (module `interrupt`)
//! ```
//!
//! Threads are started on demand up to a bound and end when they have been idle for a while
//! ([`Bounds`]). The queue links the records themselves, so that a job allocates nothing and there is no
//! need to bound it: a call that waits for room *is* a record in the queue, first in, first out. Only a
//! call that would rather be refused than wait (`limited`) looks at the queue's length. `queued`, `next`
//! and `prev` of a record in the queue belong to the queue's lock; from the unlinking on the record is
//! the thread's, until it is pushed to `Remote`.
//!
//! **No thread to be had** (`EAGAIN`: a limit of processes or of memory). As long as one lives, jobs wait
//! for it, and each submission tries again to start another. A thread decides to end under the lock and
//! with the queue empty, so "one lives" is true until a job that was queued under the same lock is seen.
//! If none lives, the job is not taken and the error goes to its submitter.

mod bounds;
mod load;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::blocking;
use crate::driver::remote::Remote;
use crate::fifo;
use crate::interrupt::{self, Thread};
use crate::list::List;
use crate::sys::c;
use crate::sys::{self, Mode};
use crate::{Op, Outcome, Record};

use self::load::Load;
pub use self::{bounds::Bounds, load::PoolStats};

/// A bounded set of threads that run blocking operations for any number of drivers. Dropping the
/// last reference ends its threads; a driver keeps one.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    bounds: Bounds,
}

#[derive(Debug)]
struct State {
    queue: List,
    queued: usize,
    idle: usize,
    threads: usize,
    /// Those of them that were started and have not looked at the queue yet: as good as idle.
    starting: usize,
    names: usize,
    load: Load,
    /// More than there is, so that no thread can be made.
    #[cfg(test)]
    stack_size: Option<usize>,
    closing: bool,
    /// The interruptible calls that run now: at most one a thread.
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    record: NonNull<Record>,
    thread: Thread,
    interrupted: bool,
}

// SAFETY: the records on the queue are lent to the pool (io 1) and are touched under its lock only.
unsafe impl Send for State {}

impl Pool {
    /// A pool of at most `max_threads` threads (at least one). None is started yet.
    #[must_use]
    pub fn new(max_threads: usize) -> Pool {
        Pool::with_bounds(Bounds { max_threads, ..Bounds::DEFAULT })
    }

    /// A pool with these bounds. No thread is started yet.
    #[must_use]
    pub fn with_bounds(bounds: Bounds) -> Pool {
        let state = State {
            queue: List::new(),
            queued: 0,
            idle: 0,
            threads: 0,
            starting: 0,
            names: 0,
            load: Load::default(),
            #[cfg(test)]
            stack_size: None,
            closing: false,
            running: Vec::new(),
        };
        Pool {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Condvar::new(),
                bounds: Bounds { max_threads: bounds.max_threads.max(1), ..bounds },
            }),
        }
    }

    /// The process's common pool.
    #[must_use]
    pub fn shared() -> Arc<Pool> {
        static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Pool::with_bounds(Bounds::DEFAULT))))
    }

    /// How many threads there are now.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.shared.lock().threads
    }

    /// What there is now.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let state = self.shared.lock();
        state.load.stats(state.threads, state.idle)
    }

    /// What it was made with.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.shared.bounds
    }

    /// Queues `record` and promises that it comes back through `home`, once. `Err`: the record was not
    /// kept. `EAGAIN`: no thread exists and none could be started. `EBUSY`: it is limited, and as many
    /// wait as may.
    ///
    /// # Safety
    /// Contract io 1; `home` is told before it goes away (see [`Pool::forget`]).
    pub(crate) unsafe fn submit(
        &self,
        record: NonNull<Record>,
        home: &Arc<Remote>,
    ) -> Result<(), Outcome> {
        let mut state = self.shared.lock();
        // SAFETY: io 1: the record is lent to us.
        unsafe {
            (*record.as_ptr()).home = Arc::as_ptr(home);
            (*record.as_ptr()).queued = true;
            state.queue.push_back(record);
        }
        state.queue_grows(1);
        if state.idle + state.starting >= state.queued {
            drop(state);
            self.shared.changed.notify_one();
            return Ok(());
        }
        // The lock is held while the thread starts: it is rare, and it makes "none exists and none
        // can be started" one decision.
        if state.threads < self.shared.bounds.max_threads && self.start(&mut state) {
            return Ok(());
        }
        // SAFETY: as above.
        let limited = matches!(unsafe { &(*record.as_ptr()).op }, Op::Call { limited: true, .. });
        let ahead = state.queued - state.idle - state.starting - 1;
        let refusal = if state.threads == 0 {
            c::EAGAIN
        } else if limited && ahead >= self.shared.bounds.queue {
            state.load.refused();
            c::EBUSY
        } else {
            state.load.waits();
            return Ok(());
        };
        // SAFETY: it was queued above, under the same lock.
        unsafe { state.unlink(record) };
        Err(Outcome::from_errno(refusal))
    }

    fn start(&self, state: &mut State) -> bool {
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name(format!("bast-blocking-{}", state.names));
        #[cfg(test)]
        let builder = match state.stack_size {
            Some(size) => builder.stack_size(size),
            None => builder,
        };
        let started = builder.spawn(move || shared.run()).is_ok();
        if started {
            state.threads += 1;
            state.starting += 1;
            state.names += 1;
        }
        started
    }

    /// Takes `record` back if no thread has begun with it. `false`: it will come through `home`; if it can be
    /// interrupted it was, once.
    ///
    /// # Safety
    /// `record` was submitted here and has not come back.
    pub(crate) unsafe fn cancel(&self, record: NonNull<Record>) -> bool {
        let mut state = self.shared.lock();
        // SAFETY: `queued` belongs to the lock that we hold.
        unsafe {
            let queued = (*record.as_ptr()).queued;
            if queued {
                state.unlink(record);
            } else if let Some(call) = state.running.iter_mut().find(|c| c.record == record) {
                call.interrupted = true;
                // A thread whose call is listed lives: it takes it off the list before it goes on.
                interrupt::interrupt(call.thread);
            }
            queued
        }
    }

    /// Takes back, uncompleted, all queued records of a driver that goes away; how many.
    pub(crate) fn forget(&self, home: &Arc<Remote>) -> usize {
        let mut state = self.shared.lock();
        let mut next = state.queue.front();
        let mut n = 0;
        while let Some(record) = next {
            // SAFETY: records on the queue are lent to us, and we hold its lock.
            unsafe {
                next = (*record.as_ptr()).next;
                if std::ptr::eq((*record.as_ptr()).home, Arc::as_ptr(home)) {
                    state.unlink(record);
                    n += 1;
                }
            }
        }
        n
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
    }
}

impl State {
    fn queue_grows(&mut self, by: isize) {
        self.queued = self.queued.wrapping_add_signed(by);
        self.load.queue_is(self.queued);
    }

    /// # Safety
    /// `record` is on the queue.
    unsafe fn unlink(&mut self, record: NonNull<Record>) {
        // SAFETY: the caller's promise.
        unsafe {
            self.queue.remove(record);
            (*record.as_ptr()).queued = false;
        }
        self.queue_grows(-1);
    }
}

impl Shared {
    /// No job runs under the lock, so that poison says nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes an operation that is on the list of those that can be interrupted.
    ///
    /// # Safety
    /// `record` was lent to the pool and belongs to this thread.
    unsafe fn interruptibly(&self, record: NonNull<Record>) -> Outcome {
        interrupt::admit();
        // SAFETY: io 1: the operation does not change.
        let outcome = unsafe { execute(&(*record.as_ptr()).op) };
        let mut state = self.lock();
        let place = state.running.iter().position(|call| call.record == record);
        let interrupted = place.is_some_and(|place| state.running.swap_remove(place).interrupted);
        drop(state);
        if interrupted {
            interrupt::drain();
        }
        outcome
    }

    /// A thread's life.
    fn run(&self) {
        let mut state = self.lock();
        state.starting -= 1;
        loop {
            if let Some(record) = state.queue.front() {
                // SAFETY: it is the queue's head; from here on it is ours.
                let op = unsafe {
                    state.unlink(record);
                    (*record.as_ptr()).op
                };
                let busy = state.threads - state.idle - state.starting;
                state.load.begun(busy);
                let interruptible = sys::is_interruptible(&op);
                if interruptible {
                    let thread = interrupt::this_thread();
                    state.running.push(Running { record, thread, interrupted: false });
                }
                drop(state);
                // SAFETY: it was lent to the pool and is unlinked.
                let outcome = unsafe {
                    if interruptible { self.interruptibly(record) } else { execute(&op) }
                };
                // SAFETY: as above.
                unsafe { hand_back(record, outcome) };
                state = self.lock();
                continue;
            }
            if state.closing {
                break;
            }
            // One that is to stay has nothing to ask the clock.
            let spare = state.threads > self.bounds.min_threads;
            let idle_for = if spare { self.bounds.idle_for } else { Duration::MAX };
            state.idle += 1;
            let (again, timeout) = self
                .changed
                .wait_timeout_while(state, idle_for, |s| s.queue.is_empty() && !s.closing)
                .unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            let spare = state.threads > self.bounds.min_threads;
            if timeout.timed_out() && state.queue.is_empty() && spare {
                break;
            }
        }
        state.threads -= 1;
    }
}

/// Executes an operation.
///
/// # Safety
/// Contract io 1.
unsafe fn execute(op: &Op) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: io 1.
        unsafe {
            match *op {
                // Only the disk may be waited for here: the driver watches the peer.
                Op::SendFile { .. } | Op::Splice { .. } => {
                    op.unblock_ends();
                    sys::call(op, Mode::NoWait)
                }
                Op::Open { path, flags, mode } => fifo::open(path, flags, mode),
                _ => blocking::execute(op, None),
            }
        }
    }));
    // A panic in `Op::Call` is its caller's to catch; the record completes nevertheless.
    outcome.unwrap_or_else(|payload| {
        // Dropping a payload may panic too; the payload of that is let go of without.
        if let Err(worse) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(worse);
        }
        Outcome::from_errno(c::EIO)
    })
}

/// Hands a record back that has been executed.
///
/// # Safety
/// `record` was lent to the pool and belongs to this thread.
unsafe fn hand_back(record: NonNull<Record>, outcome: Outcome) {
    // SAFETY: the driver waits for the record, hence its `Remote` lives. Our own reference keeps it
    // alive beyond the push, when the driver may already be gone. The record is not ours after the push.
    unsafe {
        let home = (*record.as_ptr()).home;
        Arc::increment_strong_count(home);
        let home = Arc::from_raw(home);
        (*record.as_ptr()).outcome = outcome;
        home.push(record);
    }
}

#[cfg(test)]
mod tests;
