//! The blocking pool: threads for what no kernel does asynchronously.
//!
//! ```text
//!   driver ──submit──▶ queue ──▶ thread: execute ──▶ the driver's Remote list ──wake──▶ driver
//!              └─cancel: still queued? unlink ─────────────────▲ (ECANCELED)
//!                        running, and interruptible? a signal to its thread (module `interrupt`)
//! ```
//!
//! Threads are started on demand up to a bound and end after ten idle seconds. The queue links the
//! records themselves, so that a job allocates nothing. `queued`, `next` and `prev` of a record in
//! the queue belong to the queue's lock; from the unlinking on the record is the thread's, until it
//! is pushed to `Remote`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::blocking;
use crate::driver::remote::Remote;
use crate::interrupt::{self, Thread};
use crate::list::List;
use crate::sys::{self, Mode};
use crate::{Op, Outcome, Record};

const IDLE: Duration = Duration::from_secs(10);

/// A bounded set of threads that run blocking operations for any number of drivers. Dropping the
/// last reference ends its threads; a driver keeps one.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// What a [`Pool`] has at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Threads.
    pub threads: usize,
    /// Those of them that wait for something to do.
    pub idle: usize,
    /// Calls that no thread has begun with.
    pub queued: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    max: usize,
    idle_for: Duration,
}

#[derive(Debug)]
struct State {
    queue: List,
    queued: usize,
    idle: usize,
    threads: usize,
    names: usize,
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
    /// How many threads a pool may have unless said otherwise.
    pub const DEFAULT_MAX_THREADS: usize = 512;

    /// A pool of at most `max_threads` threads (at least one). None is started yet.
    #[must_use]
    pub fn new(max_threads: usize) -> Pool {
        Pool::with_idle(max_threads, IDLE)
    }

    fn with_idle(max_threads: usize, idle_for: Duration) -> Pool {
        let state = State {
            queue: List::new(),
            queued: 0,
            idle: 0,
            threads: 0,
            names: 0,
            closing: false,
            running: Vec::new(),
        };
        Pool {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Condvar::new(),
                max: max_threads.max(1),
                idle_for,
            }),
        }
    }

    /// The process's common pool.
    #[must_use]
    pub fn shared() -> Arc<Pool> {
        static SHARED: OnceLock<Arc<Pool>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Pool::new(Pool::DEFAULT_MAX_THREADS))))
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
        PoolStats { threads: state.threads, idle: state.idle, queued: state.queued }
    }

    /// Queues `record` and promises that it comes back through `home`, once. `Err`: no thread exists
    /// and none could be started; the record was not kept.
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
        state.queued += 1;
        if state.idle >= state.queued {
            drop(state);
            self.shared.changed.notify_one();
            return Ok(());
        }
        // The lock is held while the thread starts: it is rare, and it makes "none exists and none
        // can be started" one decision.
        if state.threads < self.shared.max && !self.start(&mut state) && state.threads == 0 {
            // SAFETY: it was queued above, under the same lock.
            unsafe { state.unlink(record) };
            return Err(Outcome::from_errno(libc::EAGAIN));
        }
        Ok(())
    }

    fn start(&self, state: &mut State) -> bool {
        let shared = Arc::clone(&self.shared);
        let name = format!("bast-blocking-{}", state.names);
        let started = std::thread::Builder::new().name(name).spawn(move || shared.run()).is_ok();
        if started {
            state.threads += 1;
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
    /// # Safety
    /// `record` is on the queue.
    unsafe fn unlink(&mut self, record: NonNull<Record>) {
        // SAFETY: the caller's promise.
        unsafe {
            self.queue.remove(record);
            (*record.as_ptr()).queued = false;
        }
        self.queued -= 1;
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
        loop {
            if let Some(record) = state.queue.front() {
                // SAFETY: it is the queue's head; from here on it is ours.
                let op = unsafe {
                    state.unlink(record);
                    (*record.as_ptr()).op
                };
                let interruptible = matches!(op, Op::Call { interruptible: true, .. });
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
            state.idle += 1;
            let (again, timeout) = self
                .changed
                .wait_timeout_while(state, self.idle_for, |s| s.queue.is_empty() && !s.closing)
                .unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
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
            match op {
                // Only the disk may be waited for here: the driver watches the peer.
                Op::SendFile { .. } | Op::Splice { .. } => sys::call(op, Mode::NoWait),
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
        Outcome::from_errno(libc::EIO)
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
mod tests {
    use super::*;
    use crate::Waker;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    fn home() -> Arc<Remote> {
        Arc::new(Remote::new(Waker::new().expect("eventfd")))
    }

    fn record(call: unsafe fn(*mut ()) -> i32, data: *mut ()) -> Record {
        Record::new(Op::Call { call, data, interruptible: false }, std::ptr::null_mut())
    }

    fn wait_for(home: &Remote, n: usize) -> Vec<Outcome> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut got = Vec::new();
        while got.len() < n && Instant::now() < end {
            home.waker().wait(Some(Duration::from_millis(100)));
            let mut next = home.take();
            while let Some(r) = next {
                // SAFETY: the record is ours again; it lives in the test's frame.
                let r = unsafe { r.as_ref() };
                next = r.next;
                got.push(r.outcome);
            }
        }
        got
    }

    unsafe fn gate(data: *mut ()) -> i32 {
        // SAFETY: the tests pass a counter that outlives the call.
        let gate = unsafe { &*data.cast::<AtomicUsize>() };
        while gate.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        5
    }

    unsafe fn panics(_: *mut ()) -> i32 {
        std::panic::resume_unwind(Box::new("on purpose"));
    }

    #[test]
    fn runs_cancels_and_survives_a_panic() {
        let (pool, home) = (Pool::new(1), home());
        let open = AtomicUsize::new(0);
        let data = (&raw const open).cast_mut().cast::<()>();
        let mut running = record(gate, data);
        let mut queued = record(gate, data);
        let mut bad = record(panics, data);
        let (r, q, b) = ((&mut running).into(), (&mut queued).into(), (&mut bad).into());
        // SAFETY: the records and the gate outlive the wait below.
        unsafe {
            pool.submit(r, &home).expect("thread");
            while !pool.shared.lock().queue.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            pool.submit(b, &home).expect("thread");
            pool.submit(q, &home).expect("thread");
            assert!(pool.cancel(q), "it waits behind the running one");
            assert!(!pool.cancel(q), "and is gone");
            assert!(!pool.cancel(r), "a running one runs to its end");
        }
        open.store(1, Ordering::Release);
        let mut got = wait_for(&home, 2);
        got.sort_by_key(|o| o.0);
        assert_eq!(got, [Outcome::from_errno(libc::EIO), Outcome(5)]);
        assert_eq!(pool.threads(), 1, "the bound holds and the panic ended nothing");
    }

    #[test]
    fn threads_come_on_demand_and_go_when_idle() {
        let (pool, home) = (Pool::with_idle(8, Duration::from_millis(50)), home());
        let open = AtomicUsize::new(0);
        let data = (&raw const open).cast_mut().cast::<()>();
        let mut records: Vec<_> = (0..12).map(|_| record(gate, data)).collect();
        for r in &mut records {
            // SAFETY: the records and the gate outlive the wait below.
            unsafe { pool.submit(r.into(), &home) }.expect("thread");
        }
        assert_eq!(pool.threads(), 8);
        open.store(1, Ordering::Release);
        assert_eq!(wait_for(&home, 12), vec![Outcome(5); 12]);
        let end = Instant::now() + Duration::from_secs(20);
        while pool.threads() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(pool.threads(), 0);
    }

    #[test]
    fn dropping_the_pool_ends_its_threads() {
        let (pool, home) = (Pool::new(2), home());
        let open = AtomicUsize::new(1);
        let mut r = record(gate, (&raw const open).cast_mut().cast());
        // SAFETY: the record and the gate outlive the wait below.
        unsafe { pool.submit((&mut r).into(), &home) }.expect("thread");
        assert_eq!(wait_for(&home, 1), [Outcome(5)]);
        let shared = Arc::clone(&pool.shared);
        drop(pool);
        let end = Instant::now() + Duration::from_secs(5);
        while shared.lock().threads > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(shared.lock().threads, 0, "long before they would have been idle for too long");
    }
}
