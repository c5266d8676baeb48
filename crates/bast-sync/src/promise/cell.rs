//! What a promise and whoever resolves it share.
//!
//! ```text
//!              complete                     attach, poll
//!   Pending ─────────────▶ Done(outcome) ─────────────▶ Taken
//!      │ a callback has returned this promise: what resolves it
//!      ▼ resolves the promise that the callback is to resolve
//!   Merged ──▶ another cell                 E ◀── D ◀── the handle of who resolves: `complete` walks to the root
//! ```
//!
//! A cell has one promise, which nobody can clone, so one consumer: a callback, a waker, or nobody any more. And it
//! has one producer: a [`Resolver`](super::Resolver), or the callback of another cell. Both sides have an `Arc`; the
//! value is moved in and out under the lock, and everything else of the user's (callbacks, wakers, destructors) is
//! used when the lock has been let go.
//!
//! **Why merging.** `fn step(n) { pause().and_then(|_| step(n + 1)) }` makes a promise in each round, and each is
//! waited for by the one before. Handing the value back through all of them would keep them all. So when a callback
//! returns a pending promise, that is made another name of the cell which the callback is to resolve: the union of Lwt's
//! proxies. A merged cell is kept by its producer only, which goes to the root before it merges again or completes; so the
//! loop has two cells at any time. The walk lets go of each cell when it has the next: dropping a long chain of names does not recurse.
//!
//! **Cancelling** goes the other way: a cell knows where its outcome is to come from (`source`), as long as it is pending. That
//! makes a cycle of references, from the upper cell by its callback to the lower and back, which ends when the
//! upper one is complete; and that it will be, as a producer that is dropped breaks its promise. `cancelled` stays set:
//! a callback that runs at that moment and returns a pending promise finds it when that is merged.
//!
//! One lock is held at a time; but to merge takes both, in the order of their addresses. For only a root may get another name:
//! if each of two callbacks, on two threads, returned the promise that the other is to resolve, and did not see that the other
//! merges, names would go round in a circle, and so would whoever walks to the root. Ordering is the lock's: who takes the outcome has locked after whoever left it.

use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bast_rt::Fiber;
use bast_rt::wait::drop_quietly;

use super::Outcome;
use super::error::PromiseError;
use super::quietly;
use crate::errands::{self, Step};
use crate::lock::{Guard, Lock};

/// One promise.
pub(super) struct Cell<T> {
    lock: Lock<State<T>>,
}

struct State<T> {
    stage: Stage<T>,
    consumer: Consumer<T>,
    source: Source,
    cancelled: bool,
}

enum Stage<T> {
    Pending,
    Done(Outcome<T>),
    Taken,
    Merged(Arc<Cell<T>>),
}

enum Consumer<T> {
    Nobody,
    /// The promise has been dropped.
    Gone,
    Waker(Waker),
    Callback(Box<dyn Callback<T>>),
}

/// What a promise is chained to. It does not panic.
pub(super) trait Callback<T>: Send {
    /// Uses the outcome, and returns the step that follows, if that completes a cell.
    fn run(self: Box<Self>, outcome: Outcome<T>) -> Option<Arc<dyn Step>>;
}

/// What can be told that nobody wants its outcome.
pub(super) trait Cancel: Send + Sync {
    /// Cancels it; what is to be cancelled instead is added to `more`.
    fn cancel(self: Arc<Self>, more: &mut Vec<Arc<dyn Cancel>>);
}

/// Cancels, however long the way is.
pub(super) fn cancel(first: Arc<dyn Cancel>) {
    let mut more = vec![first];
    while let Some(next) = more.pop() {
        next.cancel(&mut more);
    }
}

/// Where an outcome is to come from: what a cancellation ends.
pub(super) enum Source {
    /// A callback that runs, or is about to: nothing can be done about it.
    Nothing,
    /// A resolver that has not said how: cancelling completes the cell.
    Resolver,
    /// A resolver that has said how.
    Hook(Box<dyn FnOnce() + Send>),
    Fiber(Fiber),
    Upstream(Arc<dyn Cancel>),
}

impl Source {
    /// What is not needed any more.
    fn discard(self) {
        if let Source::Hook(hook) = self {
            drop_quietly(hook);
        }
    }
}

impl<T> Cell<T> {
    pub(super) fn new(source: Source) -> Arc<Cell<T>> {
        Cell::at(Stage::Pending, source)
    }

    pub(super) fn done(outcome: Outcome<T>) -> Arc<Cell<T>> {
        Cell::at(Stage::Done(outcome), Source::Nothing)
    }

    fn at(stage: Stage<T>, source: Source) -> Arc<Cell<T>> {
        let state = State { stage, consumer: Consumer::Nobody, source, cancelled: false };
        Arc::new(Cell { lock: Lock::new(state) })
    }

    /// The cell that this one is a name of.
    pub(super) fn root(self: Arc<Self>) -> Arc<Cell<T>> {
        let mut this = self;
        loop {
            let state = this.lock.lock();
            let Stage::Merged(next) = &state.stage else {
                drop(state);
                return this;
            };
            let next = Arc::clone(next);
            drop(state);
            this = next;
        }
    }

    /// Whether the outcome is there.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.lock.lock().stage, Stage::Done(_))
    }

    /// Whether somebody has asked to cancel it. Of the root.
    pub(super) fn is_cancelled(&self) -> bool {
        self.lock.lock().cancelled
    }

    /// The promise goes, and leaves the outcome to nobody.
    pub(super) fn leave(&self) {
        let mut state = self.lock.lock();
        let consumer = mem::replace(&mut state.consumer, Consumer::Gone);
        let stage = match state.stage {
            Stage::Done(_) => mem::replace(&mut state.stage, Stage::Taken),
            _ => Stage::Taken,
        };
        drop(state);
        drop((consumer, stage));
    }

    /// The outcome, or else the waker is left to be called.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Outcome<T>> {
        let mut fresh = None;
        loop {
            let mut state = self.lock.lock();
            if let Stage::Done(_) = state.stage {
                let Stage::Done(outcome) = mem::replace(&mut state.stage, Stage::Taken) else {
                    unreachable!("it is done");
                };
                return Poll::Ready(outcome);
            }
            if let Consumer::Waker(known) = &state.consumer
                && known.will_wake(waker)
            {
                return Poll::Pending;
            }
            if let Some(fresh) = fresh.take() {
                let old = mem::replace(&mut state.consumer, Consumer::Waker(fresh));
                drop(state);
                drop(old);
                return Poll::Pending;
            }
            drop(state);
            // It may be waiting for a callback that waits for the caller's.
            errands::catch_up();
            fresh = Some(waker.clone());
        }
    }
}

/// What is left to be done when an outcome is in its place.
enum Then {
    Nothing,
    Step,
    Wake(Waker),
}

impl<T: Send + 'static> Cell<T> {
    /// The producer has the outcome. The consumer's callback is returned as a step to be done.
    pub(super) fn complete(self: Arc<Self>, outcome: Outcome<T>) -> Option<Arc<dyn Step>> {
        let (mut this, mut outcome) = (self, outcome);
        loop {
            this = this.root();
            match this.put(outcome) {
                Ok(Then::Nothing) => return None,
                Ok(Then::Step) => return Some(this),
                Ok(Then::Wake(waker)) => {
                    quietly(|| waker.wake());
                    return None;
                }
                // Merged just now.
                Err(back) => outcome = back,
            }
        }
    }

    fn put(&self, outcome: Outcome<T>) -> Result<Then, Outcome<T>> {
        let mut state = self.lock.lock();
        match state.stage {
            Stage::Pending => {}
            Stage::Merged(_) => return Err(outcome),
            Stage::Done(_) | Stage::Taken => {
                drop(state);
                drop_quietly(outcome);
                return Ok(Then::Nothing);
            }
        }
        let source = mem::replace(&mut state.source, Source::Nothing);
        let mut unwanted = None;
        if let Consumer::Gone = state.consumer {
            state.stage = Stage::Taken;
            unwanted = Some(outcome);
        } else {
            state.stage = Stage::Done(outcome);
        }
        let then = match mem::replace(&mut state.consumer, Consumer::Nobody) {
            Consumer::Waker(waker) => Then::Wake(waker),
            callback @ Consumer::Callback(_) => {
                state.consumer = callback;
                Then::Step
            }
            Consumer::Nobody | Consumer::Gone => Then::Nothing,
        };
        drop(state);
        source.discard();
        if unwanted.is_some() {
            drop_quietly(unwanted);
        }
        Ok(then)
    }

    /// Chains the callback to the promise, which is used up.
    pub(super) fn attach(self: Arc<Self>, callback: Box<dyn Callback<T>>) {
        let mut state = self.lock.lock();
        let is_done = matches!(state.stage, Stage::Done(_));
        // A waker, of whoever has polled the promise before.
        let old = mem::replace(&mut state.consumer, Consumer::Callback(callback));
        drop(state);
        drop(old);
        if is_done {
            errands::run(self);
        }
    }

    /// `outer` is to be resolved as `inner`, whose promise is used up here.
    pub(super) fn merge(inner: Arc<Cell<T>>, outer: Arc<Cell<T>>) -> Option<Arc<dyn Step>> {
        let mut outer = outer;
        loop {
            outer = outer.root();
            if Arc::ptr_eq(&inner, &outer) {
                return outer.complete(Err(PromiseError::cycle()));
            }
            let (mut state, root) = Cell::lock_both(&inner, &outer);
            if let Stage::Merged(_) = root.stage {
                continue;
            }
            let next = match state.stage {
                Stage::Pending => Stage::Merged(Arc::clone(&outer)),
                _ => Stage::Taken,
            };
            let stage = mem::replace(&mut state.stage, next);
            let old = mem::replace(&mut state.consumer, Consumer::Nobody);
            let source = mem::replace(&mut state.source, Source::Nothing);
            let cancelled = state.cancelled;
            drop((state, root));
            drop(old);
            if let Stage::Done(outcome) = stage {
                return outer.complete(outcome);
            }
            outer.expect(source, cancelled);
            return None;
        }
    }

    fn lock_both<'a>(
        one: &'a Cell<T>,
        two: &'a Cell<T>,
    ) -> (Guard<'a, State<T>>, Guard<'a, State<T>>) {
        if one.lock.rank() < two.lock.rank() {
            let one = one.lock.lock();
            (one, two.lock.lock())
        } else {
            let two = two.lock.lock();
            (one.lock.lock(), two)
        }
    }

    /// Says what a cancellation ends from now on.
    pub(super) fn expect_from(self: Arc<Self>, source: Source) {
        self.expect(source, false);
    }

    fn expect(self: Arc<Self>, source: Source, cancelled: bool) {
        let mut this = self;
        loop {
            this = this.root();
            let mut state = this.lock.lock();
            let unused = match state.stage {
                Stage::Merged(_) => continue,
                Stage::Pending => mem::replace(&mut state.source, source),
                Stage::Done(_) | Stage::Taken => source,
            };
            state.cancelled |= cancelled;
            let cancelled = state.cancelled;
            drop(state);
            unused.discard();
            if cancelled {
                cancel(this);
            }
            return;
        }
    }
}

impl<T: Send + 'static> Step for Cell<T> {
    fn step(self: Arc<Self>) -> Option<Arc<dyn Step>> {
        let mut state = self.lock.lock();
        let stage = mem::replace(&mut state.stage, Stage::Taken);
        let consumer = mem::replace(&mut state.consumer, Consumer::Nobody);
        drop(state);
        drop(self);
        match (stage, consumer) {
            (Stage::Done(outcome), Consumer::Callback(callback)) => callback.run(outcome),
            _ => None,
        }
    }
}

impl<T: Send + 'static> Cancel for Cell<T> {
    fn cancel(self: Arc<Self>, more: &mut Vec<Arc<dyn Cancel>>) {
        let this = self.root();
        let mut state = this.lock.lock();
        let Stage::Pending = state.stage else { return };
        state.cancelled = true;
        let source = mem::replace(&mut state.source, Source::Nothing);
        drop(state);
        match source {
            Source::Nothing => {}
            Source::Resolver => {
                if let Some(step) = this.complete(Err(PromiseError::cancelled())) {
                    errands::run(step);
                }
            }
            Source::Hook(hook) => quietly(hook),
            Source::Fiber(fiber) => fiber.cancel(),
            Source::Upstream(source) => more.push(source),
        }
    }
}
