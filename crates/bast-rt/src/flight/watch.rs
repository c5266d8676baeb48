//! Readiness for code that is polled: try, and if it would have to wait, be woken when trying again is of use.
//!
//! ```text
//!   poll_io ──wait under way? ──yes──▶ Pending (the last waker is the one that is called)
//!               │ no
//!               ▼
//!             attempt ──done──▶ Ready          ◀─── no buffer is lent while it waits
//!               │ EAGAIN
//!               ▼
//!             begin a wait for readiness ──▶ Pending; ready at once: attempt again
//! ```
//!
//! `drained` is a hint (Relaxed): a wrong one costs a wait that ends at once, or a try in vain. After a short read the
//! next poll so goes straight to the wait, as a fiber's does.
//!
//! The system call is made by the poll, into the caller's own buffer, so an idle connection keeps no memory but its
//! record, and a wait that is given up loses nothing.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bast_io::{Handle, Interest, Kind, Op, Outcome};

use super::{Flight, Goal, Keep};
use crate::tls;

/// How often readiness may prove wrong in one poll before others get a turn.
const VAIN: u32 = 3;

/// One direction of a descriptor, for code that polls. May be shared: of several that poll, the last is woken.
pub struct Watch {
    interest: Interest,
    flight: OnceLock<Arc<Flight>>,
    /// The last transfer took all that there was.
    drained: AtomicBool,
}

impl Watch {
    /// Nothing is waited for yet.
    #[must_use]
    pub const fn new(interest: Interest) -> Watch {
        Watch { interest, flight: OnceLock::new(), drained: AtomicBool::new(false) }
    }

    /// Calls `attempt` until it says something else than `WouldBlock`; between two calls the descriptor becomes ready,
    /// or may have. `keep`, which has the handle, is asked for once.
    ///
    /// # Errors
    /// That of `attempt`, or of the wait.
    pub fn poll_io<T>(
        &self,
        context: &mut Context<'_>,
        handle: &Handle,
        keep: impl Fn() -> Keep,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let waker = context.waker();
        match self.flight.get().and_then(|flight| flight.look(waker)) {
            Some(Poll::Pending) => return Poll::Pending,
            // What has landed says no more than to try.
            Some(Poll::Ready(_)) => self.drained.store(false, Relaxed),
            None => {}
        }
        if tls::worker().is_some_and(|worker| !worker.may_go_on()) {
            waker.wake_by_ref();
            return Poll::Pending;
        }
        for _ in 0..VAIN {
            if !self.drained.swap(false, Relaxed) {
                match attempt() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return Poll::Ready(result),
                }
            }
            let flight = self.flight.get_or_init(|| Flight::new(Some(keep())));
            let op = Op::Again { handle: handle.as_ref(), interest: self.interest };
            match flight.begin(Goal::Done(op), waker) {
                Poll::Pending => return Poll::Pending,
                // Given up when a worker ended: there may be another.
                Poll::Ready(Outcome::CANCELLED) => {}
                Poll::Ready(outcome) => _ = outcome.into_result()?,
            }
        }
        waker.wake_by_ref();
        Poll::Pending
    }

    /// [`poll_io`](Watch::poll_io) for up to `len` bytes. If a stream has moved fewer, the next call does not try
    /// in vain: it waits for readiness first.
    ///
    /// # Errors
    /// As [`poll_io`](Watch::poll_io).
    pub fn poll_bytes(
        &self,
        context: &mut Context<'_>,
        handle: &Handle,
        keep: impl Fn() -> Keep,
        len: usize,
        attempt: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let polled = self.poll_io(context, handle, keep, attempt);
        if let Poll::Ready(Ok(n)) = polled
            && (1..len).contains(&n)
            && handle.as_ref().kind() == Kind::Stream
        {
            self.drained.store(true, Relaxed);
        }
        polled
    }
}

impl Drop for Watch {
    /// Cancels what it waits for. The descriptor is kept until that has ended.
    fn drop(&mut self) {
        if let Some(flight) = self.flight.get() {
            flight.abandon();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("interest", &self.interest).finish_non_exhaustive()
    }
}
