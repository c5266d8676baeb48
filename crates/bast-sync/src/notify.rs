//! `Notify`: an event without a value.
//!
//! ```text
//!   notify_one:      a waiter? it goes on.   none? one permit is kept, and the next wait takes it
//!   notify_waiters:  all who wait go on; nothing is kept
//! ```
//!
//! **Policy**: first in, first out, by hand-off. A waiter that has been notified is so, whatever else happens to it: an
//! interruption that comes later is delivered later. So no notification is lost.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use bast_rt::Instant;
use bast_rt::wait::{Reason, spend};

use crate::crowd::Crowd;
use crate::lock::Lock;

/// Tells waiters that something has happened. As tokio's.
///
/// ```
/// use bast_sync::Notify;
///
/// static NEWS: Notify = Notify::new();
/// NEWS.notify_one(); // kept
/// NEWS.notify_one(); // and not counted
/// bast_rt::spawn(|| NEWS.wait()).join().unwrap();
/// assert!(!NEWS.wait_timeout(std::time::Duration::from_millis(1)));
/// ```
pub struct Notify {
    state: Lock<State>,
}

struct State {
    permit: bool,
    waiters: Crowd,
}

impl UnwindSafe for Notify {}
impl RefUnwindSafe for Notify {}

impl Notify {
    /// Without a permit.
    #[must_use]
    pub const fn new() -> Notify {
        Notify { state: Lock::new(State { permit: false, waiters: Crowd::new() }) }
    }

    /// Lets the first waiter go on; if there is none, the next to come does not wait.
    pub fn notify_one(&self) {
        let mut state = self.state.lock();
        let wake = state.waiters.release_one();
        state.permit |= wake.is_none();
        drop(state);
        drop(wake);
    }

    /// Lets all go on who wait now.
    pub fn notify_waiters(&self) {
        Crowd::release(&self.state, |state| &mut state.waiters);
    }

    /// Waits to be notified, or takes the permit.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait, and has not been notified.
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// As [`wait`](Notify::wait), for a limited time; whether it was notified.
    ///
    /// # Cancellation
    /// As [`wait`](Notify::wait).
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        // What does not fit is never.
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        spend();
        let mut state = self.state.lock();
        if std::mem::take(&mut state.permit) {
            return true;
        }
        let reason = Reason::new("Notify::wait", self);
        Crowd::wait(&self.state, state, |state| &mut state.waiters, || (), &reason, deadline)
            .granted()
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("permit", &self.state.lock().permit).finish_non_exhaustive()
    }
}
