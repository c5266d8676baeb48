//! The body's side of a coroutine: yielding, and being unwound.
//!
//! ```text
//!   yield_now ──► suspend ──► resumed by call ────────────────────► go on
//!       │             └─────► resumed by drop ──► raise Unwind ──► destructors ──► root
//!       │                                                              │
//!       └── being dropped and in a destructor: nothing ◄── yield_now ──┘
//! ```

use std::cell::Cell;
use std::fmt;
use std::panic;
use std::thread;

use crate::context::Suspender;

/// Where a [`Coroutine`](crate::Coroutine) is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started, or suspended by a yield: it can be called.
    Hold,
    /// Running, or waiting for a coroutine that it has called itself.
    Exec,
    /// It has returned or panicked.
    Term,
}

/// What the body of a coroutine yields with.
pub struct Yielder<'a> {
    pub(crate) suspender: &'a Suspender,
    pub(crate) control: &'a Control,
}

impl Yielder<'_> {
    /// Suspends the coroutine: its [`call`](crate::Coroutine::call) returns. Comes back at the next call.
    ///
    /// If the coroutine is dropped instead, this unwinds, so that destructors run. In a
    /// destructor that runs because of that, it does nothing.
    pub fn yield_now(&self) {
        let control = self.control;
        // Only a reference that was smuggled out (by a scoped thread-local, say) can get here.
        assert!(control.state.get() == State::Exec, "yield_now outside of the running coroutine");
        if !control.cancel.get() {
            let unwinding = control.note_unwinding();
            self.suspender.suspend();
            if !control.cancel.get() || unwinding {
                return;
            }
        } else if thread::panicking() {
            return;
        }
        // Not a panic: no message, no hook.
        panic::resume_unwind(Box::new(Unwind));
    }
}

impl fmt::Debug for Yielder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yielder").finish_non_exhaustive()
    }
}

/// The payload that unwinds a dropped coroutine.
pub(crate) struct Unwind;

/// What both sides look at.
pub(crate) struct Control {
    pub(crate) state: Cell<State>,
    /// The coroutine is being dropped: leave every frame.
    pub(crate) cancel: Cell<bool>,
    /// The body is unwinding by a panic of its own, and yields in one of its destructors.
    pub(crate) unwinding: Cell<bool>,
    /// The caller was unwinding when it called, so that `panicking()` says nothing of the body.
    pub(crate) caller_panics: Cell<bool>,
}

impl Control {
    pub(crate) fn new() -> Control {
        Control {
            state: Cell::new(State::Hold),
            cancel: Cell::new(false),
            unwinding: Cell::new(false),
            caller_panics: Cell::new(false),
        }
    }

    /// Whether the frame that is about to suspend belongs to a destructor in an unwinding. If so
    /// it must never be unwound a second time. `thread::panicking` counts for the whole thread:
    /// once this coroutine has suspended so, callers look as if they panicked, hence the memory.
    pub(crate) fn note_unwinding(&self) -> bool {
        if !thread::panicking() {
            self.unwinding.set(false);
        } else if !self.caller_panics.get() {
            self.unwinding.set(true);
        }
        self.unwinding.get()
    }

    pub(crate) fn note_caller(&self) {
        if !self.unwinding.get() {
            self.caller_panics.set(thread::panicking());
        }
    }
}
