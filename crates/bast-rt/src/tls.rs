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
    static TURN: Cell<u64> = const { Cell::new(0) };
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

/// The next number of this thread's sequence: steps of the golden ratio, whose multiples (Weyl, 1916) are
/// spread evenly over any division of the range, from a place that changes every 64 steps. Steps alone would let
/// a program whose number of steps depends on their outcome pass over a part of the range for ever.
#[inline(never)]
pub(crate) fn turn() -> u64 {
    TURN.with(|state| {
        let mut x = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        if x.is_multiple_of(64) {
            // The finalizer of splitmix64 (Steele, Lea, Flood, 2014); the count in the low bits goes on.
            let mut y = x ^ std::ptr::from_ref(state).addr() as u64;
            y = (y ^ (y >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            y = (y ^ (y >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x = (y ^ (y >> 31)) & !63;
        }
        state.set(x);
        x
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_three() -> usize {
        (((turn() >> 32) * 3) >> 32) as usize
    }

    #[test]
    fn turns_are_spread_evenly() {
        let mut counts = [0; 3];
        (0..3000).for_each(|_| counts[of_three()] += 1);
        assert!(counts.iter().all(|&count| (900..1100).contains(&count)), "{counts:?}");
    }

    /// Steps of the golden ratio alone would never come to the last third here.
    #[test]
    fn who_steers_by_the_outcome_passes_over_nothing() {
        let mut counts = [0; 3];
        for _ in 0..30_000 {
            let which = of_three();
            counts[which] += 1;
            (0..[1, 2, 0][which]).for_each(|_| _ = turn());
        }
        assert!(counts.iter().all(|&count| count > 300), "{counts:?}");
    }

    #[test]
    fn one_in_sixteen_ends_in_zeros() {
        assert_eq!((0..16_000).filter(|_| turn().is_multiple_of(16)).count(), 1000);
    }
}
