//! The crate's only thread-locals, behind functions that are never inlined.
//!
//! The compiler may keep a thread-local's address in a register across calls. A fiber that has run
//! stays on its thread (contract rt 1), so a kept address stays right; the functions are `inline(never)`
//! all the same, so that a kind of fiber that does move has one place to change.

use std::cell::{Cell, OnceCell};
use std::ptr;
use std::sync::Arc;

use crate::cancel::Requests;
use crate::local::Locals;
use crate::parker::ThreadParker;
use crate::worker::Worker;

thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
    static PARKER: OnceCell<Arc<ThreadParker>> = const { OnceCell::new() };
    static REQUESTS: Requests = const { Requests::new() };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static LOCALS: Locals = const { Locals::new() };
    static END_OF_LOCALS: EndOfLocals = const { EndOfLocals };
}

/// Ends the thread's `fiber_local!` variables with the thread, if it has any.
struct EndOfLocals;

impl Drop for EndOfLocals {
    fn drop(&mut self) {
        locals().end();
    }
}

/// The worker that runs on this thread, if one does. It outlives everything that it runs.
#[inline(never)]
pub(crate) fn worker() -> Option<&'static Worker> {
    // SAFETY: `set_worker` is given a worker that lives until it is unset at the thread's end, and
    // only code that the worker calls can run here meanwhile; no caller keeps the reference longer
    // than its own frame, which on a fiber ends before the worker (rt 6).
    unsafe { WORKER.get().as_ref() }
}

/// Declares the worker of this thread.
pub(crate) fn set_worker(worker: *const Worker) {
    WORKER.set(worker);
}

/// What this thread blocks on when it is not a worker.
#[inline(never)]
pub(crate) fn parker() -> Arc<ThreadParker> {
    // A thread that blocks while its thread-locals are being destroyed gets a parker for this once.
    PARKER
        .try_with(|cell| cell.get_or_init(|| Arc::new(ThreadParker::new())).clone())
        .unwrap_or_else(|_| Arc::new(ThreadParker::new()))
}

/// The id of this thread, when it is not a worker.
#[inline(never)]
pub(crate) fn thread_id() -> u64 {
    PARKER
        .try_with(|cell| cell.get_or_init(|| Arc::new(ThreadParker::new())).id())
        .unwrap_or(u64::MAX)
}

/// What this thread was asked to stop, when it is not a worker.
#[inline(never)]
pub(crate) fn requests<'a>() -> &'a Requests {
    // SAFETY: without a destructor the variable lives as long as its thread, and `Requests` is not Sync:
    // the reference does not leave it.
    REQUESTS.with(|requests| unsafe { &*std::ptr::from_ref(requests) })
}

/// The `fiber_local!` variables of this thread, for code that runs outside fibers.
#[inline(never)]
pub(crate) fn locals<'a>() -> &'a Locals {
    // SAFETY: as for `requests`.
    LOCALS.with(|locals| unsafe { &*std::ptr::from_ref(locals) })
}

/// Has this thread's `fiber_local!` variables ended when it ends.
pub(crate) fn end_locals_with_thread() {
    // An error would mean that they have been ended, and then there is nothing to end.
    let _ = END_OF_LOCALS.try_with(|_| ());
}

/// xorshift64*: Marsaglia, "Xorshift RNGs" (2003); Vigna (2014).
#[inline(never)]
pub(crate) fn random() -> u64 {
    RANDOM.with(|state| {
        let mut x = state.get();
        if x == 0 {
            x = std::ptr::from_ref(state).addr() as u64 | 1;
        }
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}
