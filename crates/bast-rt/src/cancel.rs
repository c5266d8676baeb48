//! Cancellation: asynchronous requests to unwind, delivered at a fiber's suspension points.
//!
//! GHC's asynchronous exceptions, made safe. There are two kinds of request: one for the whole fiber
//! ([`JoinHandle::cancel`]), and one for a scope on its stack, up to whose frame it unwinds (module
//! `interrupt`: timeouts, tokens). A request only leaves a mark. The current or next suspension point
//! first brings its kernel operation to its terminal completion (rt 5) and then unwinds, by
//! `resume_unwind`, so that no panic message is printed. Each request is delivered once. While the
//! fiber unwinds, whatever the reason, and inside [`mask`], suspension points do not raise.
//!
//! `attention` is all that a suspension point looks at: false means that nothing is due. Whoever makes
//! a request sets it, on the home worker; it is cleared by whoever has looked and found nothing.
//!
//! In a program compiled with `panic = "abort"` nothing can unwind. There suspension points that can
//! return an error do so, as long as the request stands, and the others go on waiting (`sleep` returns
//! early).
//!
//! [`JoinHandle::cancel`]: crate::JoinHandle::cancel

use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::ptr;

use crate::fiber::Header;
use crate::interrupt::{Elapsed, Interrupted, Scope};
use crate::suspend;
use crate::tls;
use crate::unwinding::{self, Epoch};
use crate::wait;
use crate::worker::Worker;

/// Whether requests can unwind in this program.
pub(crate) const UNWINDS: bool = cfg!(panic = "unwind");

/// The payload with which a cancelled fiber unwinds; `join` returns it as the error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cancelled {}

impl Cancelled {
    /// For functions that report a cancellation of their own kind: of a token, of a group.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Cancelled {
        Cancelled {}
    }
}

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the fiber was cancelled")
    }
}

impl std::error::Error for Cancelled {}

impl From<Cancelled> for std::io::Error {
    fn from(cancelled: Cancelled) -> Self {
        std::io::Error::other(cancelled)
    }
}

/// What a fiber, or a thread, has been asked to stop.
#[repr(C)]
pub(crate) struct Requests {
    pub(crate) attention: Cell<bool>,
    /// The whole of it is to end: asked for, and raised already.
    pub(crate) cancel: Cell<bool>,
    pub(crate) raised: Cell<bool>,
    /// When it last was seen to unwind (see `unwinding`).
    pub(crate) unwinding: Cell<Epoch>,
    /// Depth of `mask`.
    pub(crate) masks: Cell<u32>,
    /// The scopes that it is in, innermost first.
    pub(crate) scopes: Cell<*const Scope>,
    /// No request, but kept for each fiber and thread too: see `wait::errands`.
    pub(crate) errands: Cell<*const ()>,
}

impl Requests {
    pub(crate) const fn new() -> Requests {
        Requests {
            attention: Cell::new(false),
            cancel: Cell::new(false),
            raised: Cell::new(false),
            unwinding: Cell::new(unwinding::NEVER),
            masks: Cell::new(0),
            scopes: Cell::new(ptr::null()),
            errands: Cell::new(ptr::null()),
        }
    }

    /// Whether nothing is delivered just now, on a plain thread.
    fn held_off_on_thread(&self) -> bool {
        self.masks.get() != 0 || std::thread::panicking()
    }

    /// The next moment at which the clock makes a scope due, on a plain thread; none while that would
    /// not be delivered.
    pub(crate) fn clock(&self) -> Option<u64> {
        if self.scopes.get().is_null() || self.held_off_on_thread() {
            return None;
        }
        let mut first = None;
        let mut scope = self.scopes.get();
        // SAFETY: as in `first`.
        while let Some(this) = unsafe { scope.as_ref() } {
            first = first.into_iter().chain(this.clock()).min();
            scope = this.parent;
        }
        first
    }

    /// Whether the scope is one of those that this fiber or thread is in.
    fn is_in(&self, scope: *const Scope) -> bool {
        let mut inner = self.scopes.get();
        // SAFETY: as in `first`.
        while let Some(this) = unsafe { inner.as_ref() } {
            if ptr::eq(this, scope) {
                return true;
            }
            inner = this.parent;
        }
        false
    }

    /// What the scope raised has not ended it: it is due as before.
    pub(crate) fn lower(&self, scope: *const Scope) {
        if self.is_in(scope) {
            // SAFETY: it is on the list, so its frame is there.
            unsafe { &*scope }.raised.set(false);
        }
    }

    /// The request that is to be delivered first: the one that unwinds furthest.
    fn first(&self) -> Option<Cause> {
        if self.cancel.get() && !self.raised.get() {
            return Some(Cause::Cancel);
        }
        let mut found = None;
        let mut scope = self.scopes.get();
        // SAFETY: a scope is on this fiber's or thread's stack, and leaves the list before its frame goes.
        while let Some(this) = unsafe { scope.as_ref() } {
            if this.is_due() {
                found = Some(Cause::Scope(scope));
            }
            scope = this.parent;
        }
        found
    }
}

/// A request that is due.
#[derive(Clone, Copy)]
pub(crate) enum Cause {
    Cancel,
    Scope(*const Scope),
}

impl Cause {
    /// Whether it is a timeout.
    pub(crate) fn is_time(self) -> bool {
        match self {
            Cause::Cancel => false,
            // SAFETY: of this fiber's list; the frame is still there, as this has not unwound.
            Cause::Scope(scope) => unsafe { &*scope }.is_time(),
        }
    }

    /// What an operation fails with that was given up because of it. Never of the kind `Interrupted`,
    /// upon which much of std tries again.
    pub(crate) fn into_error(self) -> io::Error {
        if self.is_time() { Elapsed::new().into() } else { io::Error::other(Cancelled::new()) }
    }
}

/// What a suspension point of the current fiber has to raise now.
#[inline(always)]
pub(crate) fn due(worker: &Worker, header: &Header) -> Option<Cause> {
    if header.requests.attention.get() { look(worker, header) } else { None }
}

#[cold]
fn look(worker: &Worker, header: &Header) -> Option<Cause> {
    let requests = &header.requests;
    if requests.masks.get() != 0 || worker.is_unwinding(header) {
        return None;
    }
    let first = requests.first();
    requests.attention.set(first.is_some());
    first
}

/// As [`due`], for a plain thread, which nobody tells to look.
pub(crate) fn due_on_thread(requests: &Requests) -> Option<Cause> {
    if requests.scopes.get().is_null() || requests.held_off_on_thread() {
        return None;
    }
    requests.first()
}

/// Raises if that is due.
#[inline(always)]
pub(crate) fn check(worker: &Worker, header: &Header) {
    if header.requests.attention.get() {
        check_slowly(worker, header);
    }
}

#[cold]
fn check_slowly(worker: &Worker, header: &Header) {
    if UNWINDS && let Some(cause) = look(worker, header) {
        raise(&header.requests, cause);
    }
}

/// Unwinds the fiber or thread.
///
/// # Panics
/// If it is not in the scope that is to end: an interruption that was kept for too long.
#[cold]
pub(crate) fn raise(requests: &Requests, cause: Cause) -> ! {
    match cause {
        Cause::Cancel => {
            requests.raised.set(true);
            unwinding::begin();
            resume_unwind(Box::new(Cancelled::new()))
        }
        Cause::Scope(scope) => {
            assert!(requests.is_in(scope), "an interruption was raised outside of its scope");
            // SAFETY: it is on the list, so its frame is there.
            unsafe { &*scope }.raised.set(true);
            unwinding::begin();
            resume_unwind(Box::new(Interrupted::new(scope)))
        }
    }
}

/// Raises; where nothing can unwind, the error that says the same.
#[cold]
pub(crate) fn give_up(requests: &Requests, cause: Cause) -> io::Error {
    if UNWINDS {
        raise(requests, cause);
    }
    cause.into_error()
}

/// Runs `f` with cancellation held off: a request that arrives meanwhile is delivered at the first
/// suspension point after `f`. So are timeouts around it; those begun inside `f` are held off as well.
///
/// ```
/// let done = bast_rt::spawn(|| bast_rt::mask(|| {
///     bast_rt::yield_now(); // would raise here if the fiber had been cancelled
///     true
/// }));
/// assert!(done.join().unwrap());
/// ```
pub fn mask<R>(f: impl FnOnce() -> R) -> R {
    struct Unmask<'a>(&'a Requests);
    impl Drop for Unmask<'_> {
        fn drop(&mut self) {
            self.0.masks.set(self.0.masks.get() - 1);
        }
    }

    let requests = mine();
    requests.masks.set(requests.masks.get() + 1);
    let _unmask = Unmask(requests);
    f()
}

/// Whether the caller has been asked to stop: its fiber has been cancelled, or the time is up or the token
/// cancelled of a scope that it is in. For code that computes, and for programs compiled with
/// `panic = "abort"`, where nothing unwinds and a loop has to end by itself.
///
/// It says whether a suspension point would unwind now, or fail. So it is false inside [`mask`], in
/// destructors while the fiber unwinds, and once the request has been delivered.
///
/// It never unwinds. A fiber that asks again and again lets the other fibers of its worker run now and then;
/// that is when requests come in, so it may take some dozens of calls to hear of one.
///
/// ```
/// let fiber = bast_rt::spawn(|| {
///     let mut rounds = 0u64;
///     while !bast_rt::stop_requested() {
///         rounds += 1; // computes
///     }
///     rounds
/// });
/// bast_rt::sleep(std::time::Duration::from_millis(5));
/// fiber.cancel();
/// # let _ =
/// fiber.join(); // the rounds, as nothing in the loop unwinds
/// ```
#[must_use]
pub fn stop_requested() -> bool {
    wait::spend();
    wait::is_due()
}

/// The requests to the calling fiber, or to the thread outside fibers.
pub(crate) fn mine<'a>() -> &'a Requests {
    match suspend::current() {
        Some((_, header)) => &header.requests,
        None => tls::requests(),
    }
}
