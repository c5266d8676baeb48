//! [`Coroutine`]: the bare fiber as an object. Call it, and it runs until it yields.
//!
//! ```text
//!              call                     returns or panics
//!    Hold ───────────────► Exec ────────────────────────────► Term
//!     ▲                     │                                  │
//!     └────── yield_now ────┘                 reset ───► Hold ◄┘
//! ```
//!
//! Panics and unwinding are done here, above the switch. The body runs inside `catch_unwind`; what
//! it ends with is left in the [`Record`], and `call` returns or re-raises it on the caller's
//! stack.
//!
//! A coroutine that is dropped while it is suspended is resumed once more, with `cancel` set: its
//! `yield_now` then raises [`Unwind`] and the frames are left one after the other. From then on a
//! `yield_now` in a destructor returns at once (a second panic there would abort), and one in
//! code that has caught the unwinding raises it again. So that last resume always comes to the
//! end of the body, and the stack goes back when nothing lives on it any more (coro 1).

use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::thread;

use crate::builder::Builder;
use crate::context::{Context, Suspender};
use crate::error::StackError;
use crate::pool::StackPool;
use crate::stack::Stack;
use crate::yielder::{Control, State, Unwind, Yielder};

type Body<R> = Box<dyn FnOnce(&Yielder<'_>) -> R>;

/// Shared by the coroutine and its handle; its address does not change.
struct Record<R> {
    control: Control,
    body: Cell<Option<Body<R>>>,
    outcome: UnsafeCell<Option<thread::Result<R>>>,
    name: Option<Box<str>>,
}

/// A function that can be left in the middle and gone on with later, on a stack of its own.
///
/// No thread, no scheduler: [`call`](Coroutine::call) runs it on the calling thread until it
/// yields or ends. It stays on the thread that made it.
///
/// ```
/// use bast_coro::{Coroutine, State};
///
/// let mut sum = Coroutine::new(|y| {
///     let mut sum = 0;
///     for i in 1..=3 {
///         sum += i;
///         y.yield_now();
///     }
///     sum
/// });
/// while sum.call() != State::Term {}
/// assert_eq!(sum.take_result(), Some(6));
/// ```
///
/// # Panics in the body
/// A panic comes out of the `call` during which it happens, with its payload, and the coroutine
/// has ended.
///
/// # Dropping
/// Dropping a suspended coroutine unwinds its stack, so that the destructors of everything on it
/// run. If the body panics meanwhile the panic goes on in the thread that drops, unless that one
/// is panicking already. A body that catches every unwinding and yields again for ever makes the
/// drop last for ever.
///
/// In programs built with `panic = "abort"` there is no unwinding: a panic in the body aborts,
/// and so does dropping a suspended coroutine, with a message. Run it to its end, or leak it with
/// [`std::mem::forget`], which also leaks its stack.
pub struct Coroutine<R: 'static> {
    record: Rc<Record<R>>,
    /// Boxed, as it must not move while the coroutine may.
    context: UnsafeCell<Option<Box<Context>>>,
    /// Where the stack comes from and goes back to; a pool of one unless it was given.
    pool: Rc<RefCell<StackPool>>,
    stack_size: usize,
}

impl<R: 'static> Coroutine<R> {
    /// A coroutine with a stack of its own, of the default size.
    ///
    /// # Panics
    /// If there is no memory for the stack; [`Builder::create`] returns the error instead.
    #[track_caller]
    pub fn new<F>(body: F) -> Coroutine<R>
    where
        F: FnOnce(&Yielder<'_>) -> R + 'static,
    {
        or_panic(Builder::new().create(body))
    }

    /// A coroutine with a stack from `pool`, which gets it back when the body has ended. That is
    /// what to use for many coroutines: a recycled stack costs next to nothing.
    ///
    /// The pool must not be borrowed while its coroutines are made, end or are dropped.
    ///
    /// # Panics
    /// If there is no memory for the stack.
    #[track_caller]
    pub fn with_pool<F>(pool: &Rc<RefCell<StackPool>>, body: F) -> Coroutine<R>
    where
        F: FnOnce(&Yielder<'_>) -> R + 'static,
    {
        or_panic(Builder::new().create_in(pool, body))
    }

    /// Runs the body until it yields ([`State::Hold`]) or has ended ([`State::Term`]).
    ///
    /// # Panics
    /// * With the body's panic, if it panics.
    /// * If the coroutine has ended already.
    /// * If the coroutine is running: called from within itself, directly or by others.
    #[track_caller]
    pub fn call(&self) -> State {
        let control = &self.record.control;
        match control.state.get() {
            State::Hold => {}
            State::Exec => panic!("coroutine '{}' was called while it is running", self.label()),
            State::Term => panic!("coroutine '{}' was called after it had ended", self.label()),
        }
        control.note_caller();
        if self.run() {
            // SAFETY: the body has ended, so nobody else uses the outcome. No reference to it is
            // out: `result` gives one only in Term, and this call began in Hold.
            let outcome = unsafe { &mut *self.record.outcome.get() };
            if let Some(Err(payload)) = outcome.take_if(|o| o.is_err()) {
                panic::resume_unwind(payload);
            }
        }
        control.state.get()
    }

    /// Resumes once; true if the body has ended, and then the stack has gone back.
    fn run(&self) -> bool {
        let control = &self.record.control;
        control.state.set(State::Exec);
        // SAFETY: only `run`, `drop` and `reset` use the context. `drop` and `reset` are
        // exclusive, and a second `run` inside this one is stopped by the state.
        let slot = unsafe { &mut *self.context.get() };
        let ended = slot.as_ref().is_some_and(|context| context.resume());
        if ended {
            control.state.set(State::Term);
            self.free(slot.take());
        } else {
            control.state.set(State::Hold);
        }
        ended
    }

    fn free(&self, context: Option<Box<Context>>) {
        if let Some(context) = context {
            let stack = context.into_stack();
            self.pool.borrow_mut().give(stack);
        }
    }

    /// Where the coroutine is in its life.
    pub fn state(&self) -> State {
        self.record.control.state.get()
    }

    /// The value that the body has returned. `None` before that, and after a panic.
    pub fn result(&self) -> Option<&R> {
        if self.state() != State::Term {
            return None;
        }
        // SAFETY: the body has ended; who changes the outcome after that has `&mut self`.
        unsafe { &*self.record.outcome.get() }.as_ref()?.as_ref().ok()
    }

    /// Takes the value that the body has returned.
    pub fn take_result(&mut self) -> Option<R> {
        if self.state() != State::Term {
            return None;
        }
        // SAFETY: the body has ended, and `&mut self` excludes references from `result`.
        unsafe { &mut *self.record.outcome.get() }.take()?.ok()
    }

    /// Takes a new body, for a coroutine that has ended or was not yet called.
    ///
    /// # Panics
    /// If the coroutine is suspended, or if there is no memory for the stack.
    #[track_caller]
    pub fn reset<F>(&mut self, body: F)
    where
        F: FnOnce(&Yielder<'_>) -> R + 'static,
    {
        if let Some(context) = self.context.get_mut() {
            assert!(!context.started(), "a suspended coroutine cannot be reset: drop it");
        } else {
            or_panic(self.prepare());
        }
        // SAFETY: no body runs, and `&mut self` excludes references from `result`.
        drop(unsafe { &mut *self.record.outcome.get() }.take());
        self.record.body.set(Some(Box::new(body)));
        self.record.control.state.set(State::Hold);
    }

    /// The name given by [`Builder::name`].
    pub fn name(&self) -> Option<&str> {
        self.record.name.as_deref()
    }

    /// Usable bytes of the stack.
    pub fn stack_size(&self) -> usize {
        self.stack_size
    }

    /// A coroutine that was not called yet, with a stack from `pool`.
    pub(crate) fn make<F>(
        name: Option<Box<str>>,
        pool: Rc<RefCell<StackPool>>,
        stack_size: usize,
        body: F,
    ) -> Result<Coroutine<R>, StackError>
    where
        F: FnOnce(&Yielder<'_>) -> R + 'static,
    {
        let control = Control::new();
        let record = Rc::new(Record {
            control,
            body: Cell::new(Some(Box::new(body) as Body<R>)),
            outcome: UnsafeCell::new(None),
            name,
        });
        let mut coroutine = Coroutine { record, context: UnsafeCell::new(None), pool, stack_size };
        coroutine.prepare()?;
        Ok(coroutine)
    }

    fn label(&self) -> &str {
        self.name().unwrap_or("<unnamed>")
    }

    /// Takes a stack and makes it ready to run the record's body.
    fn prepare(&mut self) -> Result<(), StackError> {
        let stack: Stack = self.pool.borrow_mut().take_sized(self.stack_size)?;
        self.stack_size = stack.usable_size();
        if let Some(name) = &self.record.name {
            // SAFETY: the record lives until the stack has been given back, see drop.
            unsafe { stack.set_label(name.as_ptr(), name.len()) };
        }
        let arg = Rc::as_ptr(&self.record).cast_mut().cast();
        // SAFETY: the record is counted and outlives the context (drop ends the context first);
        // Coroutine is neither Send nor Sync (coro 2); `entry` catches; it is boxed below.
        let context = unsafe { Context::new(stack, entry::<R>, arg) };
        self.context = UnsafeCell::new(Some(Box::new(context)));
        Ok(())
    }
}

/// # Safety
/// `arg` is a `Record<R>` that outlives the context.
unsafe fn entry<R>(suspender: &Suspender, arg: *mut ()) {
    // SAFETY: the caller's promise. Shared only: the handle never makes a `&mut Record` while
    // the context runs.
    let record = unsafe { &*arg.cast::<Record<R>>() };
    let yielder = Yielder { suspender, control: &record.control };
    let Some(body) = record.body.take() else { return };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| body(&yielder)));
    // SAFETY: in Exec nobody else uses the outcome.
    unsafe { *record.outcome.get() = Some(outcome) };
}

impl<R: 'static> Drop for Coroutine<R> {
    fn drop(&mut self) {
        let Some(context) = self.context.get_mut() else { return };
        if context.started() {
            if self.state() == State::Exec {
                // Only unsafe code gets here: `call` borrows the coroutine while it runs.
                eprintln!("bast-coro: coroutine '{}' was dropped while running", self.label());
                std::process::abort();
            }
            if cfg!(panic = "abort") {
                eprintln!(
                    "bast-coro: suspended coroutine '{}' was dropped, and with panic=abort it \
                     cannot be unwound",
                    self.label()
                );
                std::process::abort();
            }
            self.record.control.note_caller();
            self.record.control.cancel.set(true);
            // The body cannot suspend any more, but it may have done so on another coroutine's
            // stack in between; so until the end.
            while !self.run() {}
            // SAFETY: the body has ended, and `&mut self` excludes references from `result`.
            let outcome = unsafe { &mut *self.record.outcome.get() }.take();
            if let Some(Err(payload)) = outcome
                && !payload.is::<Unwind>()
                && !thread::panicking()
            {
                panic::resume_unwind(payload);
            }
        } else {
            let context = self.context.get_mut().take();
            self.free(context);
        }
    }
}

impl<R: 'static> fmt::Debug for Coroutine<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coroutine")
            .field("name", &self.name())
            .field("state", &self.state())
            .field("stack_size", &self.stack_size)
            .finish()
    }
}

#[track_caller]
fn or_panic<T>(result: Result<T, StackError>) -> T {
    match result {
        Ok(value) => value,
        Err(e) => panic!("{e}"),
    }
}
