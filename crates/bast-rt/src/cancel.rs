//! Cancellation: an asynchronous request to end a fiber, delivered at its suspension points.
//!
//! GHC's asynchronous exceptions, made safe: the request only sets a mark on the fiber (through its
//! home worker). The fiber's current or next suspension point first brings its kernel operation to its
//! terminal completion (rt 5) and then unwinds with [`Cancelled`], by `resume_unwind`, so that no panic
//! message is printed. It is delivered once. While the fiber unwinds, whatever the reason, and inside
//! [`mask`], suspension points do not raise.

use std::panic::resume_unwind;

use crate::fiber::Header;
use crate::tls;
use crate::worker::Worker;

/// The payload with which a cancelled fiber unwinds; `join` returns it as the error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cancelled {}

impl Cancelled {
    pub(crate) fn new() -> Cancelled {
        Cancelled {}
    }
}

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the fiber was cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// Whether a suspension point of the current fiber has to raise now.
#[inline]
pub(crate) fn is_due(worker: &Worker, header: &Header) -> bool {
    header.cancel.get() && is_deliverable(worker, header)
}

#[cold]
fn is_deliverable(worker: &Worker, header: &Header) -> bool {
    !header.raised.get() && header.masks.get() == 0 && !worker.is_unwinding(header)
}

/// Raises if that is due.
#[inline]
pub(crate) fn check(worker: &Worker, header: &Header) {
    if is_due(worker, header) {
        raise(header);
    }
}

/// Unwinds the fiber.
#[cold]
pub(crate) fn raise(header: &Header) -> ! {
    header.raised.set(true);
    header.unwinding.set(true);
    resume_unwind(Box::new(Cancelled::new()))
}

/// Runs `f` with cancellation held off: a request that arrives meanwhile is delivered at the first
/// suspension point after `f`. Outside a fiber it just calls `f`.
///
/// ```
/// let done = bast_rt::spawn(|| bast_rt::mask(|| {
///     bast_rt::yield_now(); // would raise here if the fiber had been cancelled
///     true
/// }));
/// assert!(done.join().unwrap());
/// ```
pub fn mask<R>(f: impl FnOnce() -> R) -> R {
    struct Unmask<'a>(&'a Header);
    impl Drop for Unmask<'_> {
        fn drop(&mut self) {
            self.0.masks.set(self.0.masks.get() - 1);
        }
    }

    let Some(fiber) = tls::worker().and_then(|worker| worker.current()) else { return f() };
    // SAFETY: the current fiber outlives this frame, which is on its stack.
    let header = unsafe { fiber.as_ref() };
    header.masks.set(header.masks.get() + 1);
    let _unmask = Unmask(header);
    f()
}
