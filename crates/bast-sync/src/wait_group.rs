//! `WaitGroup`: waiting until all others are through.
//!
//! Go counts with `Add` and `Done`; crossbeam clones and drops, and that is the shape here. What a fiber owns is dropped
//! however it ends, by a panic and by a cancellation too, so the group cannot wait for one that is gone; a count
//! cannot become negative; and a share is taken before the fiber starts, because it is moved into it.
//!
//! **Policy**: when the last share goes all who wait are released, in the order in which they came.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bast_rt::Instant;
use bast_rt::wait::Reason;

use crate::crowd::Crowd;
use crate::list::End;
use crate::lock::Lock;

/// Shares of a work; [`wait`](WaitGroup::wait) waits until the others have been dropped.
///
/// ```
/// use bast_sync::WaitGroup;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let (group, done) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
/// for _ in 0..10 {
///     let (share, done) = (group.clone(), Arc::clone(&done));
///     bast_rt::spawn(move || {
///         done.fetch_add(1, Relaxed);
///         drop(share);
///     });
/// }
/// group.wait();
/// assert_eq!(done.load(Relaxed), 10);
/// ```
pub struct WaitGroup {
    inner: Arc<Inner>,
}

struct Inner {
    state: Lock<State>,
}

struct State {
    shares: usize,
    waiters: Crowd,
}

impl WaitGroup {
    /// A group with one share.
    #[must_use]
    pub fn new() -> WaitGroup {
        let state = State { shares: 1, waiters: Crowd::new() };
        WaitGroup { inner: Arc::new(Inner { state: Lock::new(state) }) }
    }

    /// Drops this share and waits until there is none left.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    pub fn wait(self) {
        self.wait_until(None);
    }

    /// As [`wait`](WaitGroup::wait), for a limited time; false if there are shares left then.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    #[must_use]
    pub fn wait_timeout(self, timeout: Duration) -> bool {
        // What does not fit is never.
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(self, deadline: Option<Instant>) -> bool {
        let inner = Arc::clone(&self.inner);
        drop(self);
        let state = inner.state.lock();
        if state.shares == 0 {
            return true;
        }
        let reason = Reason::new("WaitGroup::wait", &*inner);
        let end: End =
            Crowd::wait(&inner.state, state, |state| &mut state.waiters, || (), &reason, deadline);
        end.granted()
    }
}

impl Clone for WaitGroup {
    /// Another share.
    fn clone(&self) -> WaitGroup {
        self.inner.state.lock().shares += 1;
        WaitGroup { inner: Arc::clone(&self.inner) }
    }
}

impl Drop for WaitGroup {
    fn drop(&mut self) {
        let left = {
            let mut state = self.inner.state.lock();
            state.shares -= 1;
            state.shares
        };
        if left == 0 {
            Crowd::release(&self.inner.state, |state| &mut state.waiters);
        }
    }
}

impl Default for WaitGroup {
    fn default() -> WaitGroup {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.inner.state.lock().shares;
        f.debug_struct("WaitGroup").field("shares", &shares).finish()
    }
}
