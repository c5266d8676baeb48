//! Callbacks of promises run one after the other, and not one inside the other: so a chain of a million needs the stack of one.
//!
//! ```text
//!   resolve ─▶ run(step) ──▶ step, the step that follows from it, and so on; then the queue
//!                              │ the callback resolves another promise, or is chained to one that is resolved
//!                              ▼
//!                           run(step) of the same fiber finds the queue, leaves its step there, and returns
//! ```
//!
//! The queue is on the stack of the outermost `run`, and its fiber (or thread) points to it meanwhile; a neighbour that
//! runs because a callback suspended has its own. A callback that waits for a promise first does
//! what is queued (`catch_up`), as the promise may be waiting there.
//!
//! Steps run masked: a cancellation or a timeout is meant for the fiber that resolves, and must not end
//! a callback that happens to run on it.

use std::sync::Arc;

/// Something to be done once. It does not panic.
pub(crate) trait Step: Send + Sync {
    /// Does it, and returns what follows.
    fn step(self: Arc<Self>) -> Option<Arc<dyn Step>>;
}

fn steps(first: Arc<dyn Step>) {
    let mut next = Some(first);
    while let Some(step) = next {
        next = step.step();
    }
}

#[cfg(not(loom))]
mod queue {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::ptr;
    use std::sync::Arc;

    use bast_rt::wait::{errands, set_errands};

    use super::{Step, steps};

    #[derive(Default)]
    struct Queue(RefCell<VecDeque<Arc<dyn Step>>>);

    impl Queue {
        fn empty(&self) {
            loop {
                let Some(step) = self.0.borrow_mut().pop_front() else { return };
                steps(step);
            }
        }
    }

    /// The queue of a `run` further out on this stack.
    fn outer<'a>() -> Option<&'a Queue> {
        // SAFETY: only `run_with` sets it, of the same fiber or thread: so its frame is below ours, and
        // there, as it takes the pointer back before it goes. Callers keep the borrow to their own frames.
        unsafe { errands().cast::<Queue>().as_ref() }
    }

    /// Calls `first`, and then does what has been queued meanwhile. Not inside another.
    fn run_with<R>(first: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                set_errands(ptr::null());
            }
        }
        let queue = Queue::default();
        set_errands(ptr::from_ref(&queue).cast());
        let _leave = Leave;
        bast_rt::mask(|| {
            let result = first();
            queue.empty();
            result
        })
    }

    /// Does a step and what follows from it: now, or if this is called by a callback, when that has returned.
    pub(crate) fn run(step: Arc<dyn Step>) {
        match outer() {
            Some(queue) => queue.0.borrow_mut().push_back(step),
            None => run_with(|| steps(step)),
        }
    }

    /// Calls a callback, with `with`, and then what it has queued; gives that back if a callback is calling this.
    pub(crate) fn call<C, R>(with: C, callback: impl FnOnce(C) -> R) -> Result<R, C> {
        match outer() {
            Some(_) => Err(with),
            None => Ok(run_with(|| callback(with))),
        }
    }

    /// Does what is queued, if this is called by a callback.
    #[inline]
    pub(crate) fn catch_up() {
        if let Some(queue) = outer() {
            queue.empty();
        }
    }
}

/// loom's threads are no fibers, and share one thread. Its chains are short.
#[cfg(loom)]
mod queue {
    use std::sync::Arc;

    use super::{Step, steps};

    pub(crate) fn run(step: Arc<dyn Step>) {
        steps(step);
    }

    pub(crate) fn call<C, R>(with: C, callback: impl FnOnce(C) -> R) -> Result<R, C> {
        Ok(callback(with))
    }

    pub(crate) fn catch_up() {}
}

pub(crate) use queue::{call, catch_up, run};
