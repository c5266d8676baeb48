//! Scopes that can be interrupted: a part of a fiber's stack that unwinds while the rest goes on.
//!
//! ```text
//!   frames of the fiber      scopes, innermost first          made due by
//!   ─────────────────────    ─────────────────────────        ─────────────────────────────
//!   timeout(1 s, …)          Scope ◀─┐                        its timer, in the worker's wheel
//!     interruptible(flag, …) Scope ◀─┼─┐                      the flag, and a signal to look
//!       sleep                        │ └ parent
//! ```
//!
//! A suspension point that finds a scope due unwinds with [`Interrupted`], which names the scope; the
//! scope's frame catches that and lets everything else pass. If several are due at once the outermost
//! goes first, as it ends the others. So nested timeouts are told apart.
//!
//! All of this belongs to the fiber and its home worker; only the flag is written by others. Whoever
//! sets a flag tells the fiber to look afterwards ([`Unparker::interrupt`](crate::wait::Unparker)), and
//! the fiber reads the flag when it enters the scope and when it is told (Release and Acquire on the
//! flag; the signal is a wake, so none is lost).
//!
//! On a plain thread a scope is due when the clock or the flag says so; bast's own waits there look at
//! it, and calls that the thread makes by itself do not.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use std::time::Duration;

use crate::cancel::{self, Cancelled, Requests};
use crate::suspend::{self, Alarm, after};
use crate::time::Instant;
use crate::tls;
use crate::unwinding;
use crate::wheel::Timer;

/// One scope, in the frame of the function that catches for it.
pub(crate) struct Scope {
    pub(crate) parent: *const Scope,
    pub(crate) raised: Cell<bool>,
    source: Source,
}

enum Source {
    /// A timer of the home worker's wheel.
    Timer(NonNull<Timer>),
    /// A reading of the clock, for plain threads.
    Clock(u64),
    /// The deadline had passed at the beginning.
    Passed,
    Flag(NonNull<AtomicBool>),
}

impl Scope {
    pub(crate) fn is_due(&self) -> bool {
        !(cancel::UNWINDS && self.raised.get())
            && match self.source {
                // SAFETY: the timer is in a frame around the scope; only this thread touches it.
                Source::Timer(timer) => unsafe { (*timer.as_ptr()).fired },
                Source::Clock(at) => at <= bast_io::driver::monotonic_now(),
                Source::Passed => true,
                // SAFETY: the flag is borrowed by the function that made the scope.
                Source::Flag(flag) => unsafe { flag.as_ref() }.load(Acquire),
            }
    }

    pub(crate) fn is_time(&self) -> bool {
        !matches!(self.source, Source::Flag(_))
    }

    /// When it will be due by itself, if the clock decides.
    pub(crate) fn clock(&self) -> Option<u64> {
        match self.source {
            Source::Clock(at) if !self.raised.get() => Some(at),
            _ => None,
        }
    }
}

/// The payload with which an interrupted scope unwinds. Code that catches it has to pass it on
/// (`std::panic::resume_unwind`): it is meant for a [`timeout`] or token further out.
#[derive(Debug)]
pub struct Interrupted {
    scope: *const Scope,
}

// SAFETY: the pointer is compared, and never followed.
unsafe impl Send for Interrupted {}

impl Interrupted {
    pub(crate) fn new(scope: *const Scope) -> Interrupted {
        Interrupted { scope }
    }
}

/// The time given to [`timeout`] or [`deadline`] has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Elapsed {}

impl Elapsed {
    pub(crate) fn new() -> Elapsed {
        Elapsed {}
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// Runs `f`, for `duration` at most: when that has passed, the suspension point that `f` is at, or comes to,
/// unwinds to here. Works around anything that suspends.
///
/// The kernel operation in flight is cancelled first and has ended when this returns; one that
/// completed all the same gives `f` its result, and the next suspension point unwinds. `f` runs on the
/// calling fiber; what it computes without suspending is not interrupted, and if it returns without
/// having been, its result counts, however late. So `Duration::ZERO` lets `f` do what needs no wait. (The
/// worker looks at its clock between fibers: code that always finds what it needs may pass some tens
/// of suspension points more before it is interrupted.)
///
/// Timeouts nest, and each catches its own. Inside [`mask`](crate::mask), and in destructors while the
/// fiber unwinds, none interrupts. Locks of bast held by `f` when it is interrupted are poisoned, as by a
/// panic.
///
/// On a plain thread bast's own functions are interrupted, and nothing else.
///
/// # Errors
/// [`Elapsed`] if `f` was interrupted by this very timeout.
///
/// # Cancellation
/// A request to cancel the fiber, and timeouts further out, pass through.
///
/// ```
/// use std::time::Duration;
/// bast_rt::spawn(|| {
///     let slow = bast_rt::timeout(Duration::from_millis(5), || {
///         bast_rt::sleep(Duration::from_secs(60));
///     });
///     assert!(slow.is_err());
///     assert_eq!(bast_rt::timeout(Duration::from_secs(60), || 6 * 7), Ok(42));
/// }).join().unwrap();
/// ```
///
/// With `panic = "abort"` nothing unwinds: I/O inside `f` fails with `TimedOut` from then on, `sleep` returns
/// early, and what `f` returns counts.
#[inline]
pub fn timeout<R>(duration: Duration, f: impl FnOnce() -> R) -> Result<R, Elapsed> {
    let now = Instant::now().0;
    run_until(now, after(now, duration), f)
}

/// As [`timeout`], until a moment.
///
/// # Errors
/// As [`timeout`].
pub fn deadline<R>(at: Instant, f: impl FnOnce() -> R) -> Result<R, Elapsed> {
    run_until(Instant::now().0, at.0, f)
}

fn run_until<R>(now: u64, at: u64, f: impl FnOnce() -> R) -> Result<R, Elapsed> {
    let Some((worker, header)) = suspend::current() else {
        return run(tls::requests(), Source::Clock(at), f).ok_or(Elapsed {});
    };
    let requests = &header.requests;
    if at <= now {
        requests.attention.set(true);
        return run(requests, Source::Passed, f).ok_or(Elapsed {});
    }
    let mut timer = Timer::new(at, std::ptr::from_ref(header).cast());
    timer.interrupts = true;
    let timer = NonNull::from(&mut timer);
    // SAFETY: the timer is not moved or named again before the alarm goes.
    let _alarm = unsafe { Alarm::arm(worker, timer) };
    run(requests, Source::Timer(timer), f).ok_or(Elapsed {})
}

/// Runs `f`; once `flag` is true its suspension points unwind to here.
///
/// Whoever sets the flag has to tell the fiber to look, with
/// [`Unparker::interrupt`](crate::wait::Unparker::interrupt).
///
/// `None` if `f` was interrupted because of this flag.
pub fn interruptible<R>(flag: &AtomicBool, f: impl FnOnce() -> R) -> Option<R> {
    let requests = cancel::mine();
    requests.attention.set(true);
    run(requests, Source::Flag(NonNull::from(flag)), f)
}

#[inline]
fn run<R>(requests: &Requests, source: Source, f: impl FnOnce() -> R) -> Option<R> {
    let scope = Scope { parent: requests.scopes.get(), raised: Cell::new(false), source };
    let unwinding = requests.unwinding.get();
    requests.scopes.set(&raw const scope);
    let result = catch_unwind(AssertUnwindSafe(f));
    requests.scopes.set(scope.parent);
    match result {
        Ok(value) => Some(value),
        // `raised`: a payload kept from an earlier scope at this address is not ours.
        Err(payload)
            if scope.raised.get()
                && payload
                    .downcast_ref::<Interrupted>()
                    .is_some_and(|p| p.scope == &raw const scope) =>
        {
            requests.unwinding.set(unwinding);
            None
        }
        Err(payload) => unwinding::pass_on(payload),
    }
}

/// Runs destructors of what nobody wants. A panic has been printed and ends here. A request that has unwound
/// from a suspension point in there is due again afterwards: it was meant for whoever calls this.
pub(crate) fn quietly(f: impl FnOnce()) {
    let requests = cancel::mine();
    let (raised, unwinding) = (requests.raised.get(), requests.unwinding.get());
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return };
    requests.unwinding.set(unwinding);
    if payload.is::<Cancelled>() {
        requests.raised.set(raised);
    } else if let Some(interrupted) = payload.downcast_ref::<Interrupted>() {
        requests.lower(interrupted.scope);
    }
    requests.attention.set(true);
    let_go(payload);
}

/// Drops what a panic has left. Its own destructor may panic as well, and so on: what does not come to an end is
/// let go of without.
pub(crate) fn let_go(mut payload: Box<dyn Any + Send>) {
    for _ in 0..8 {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(worse) => payload = worse,
        }
    }
    std::mem::forget(payload);
}
