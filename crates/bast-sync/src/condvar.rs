//! `Condvar`: a crowd that waits without the mutex.
//!
//! ```text
//!   wait(guard): into the list ─▶ guard dropped ─▶ park … notified ─▶ the mutex is taken again
//! ```
//!
//! A waiter is in the list before it lets go of the mutex, so whoever changes the condition under the mutex and
//! then notifies finds it.
//!
//! **Policy**: first in, first out. A waiter that is interrupted before it is notified leaves; one that was notified,
//! and is interrupted when it takes the mutex again, notifies another in its place.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use bast_rt::Instant;
use bast_rt::wait::Reason;

use crate::crowd::Crowd;
use crate::gate::Taken;
use crate::list::End;
use crate::lock::Lock;
use crate::mutex::MutexGuard;

/// Same as [`std::sync::Condvar`].
///
/// # Differences from std
/// * Waiters are notified in the order in which they came.
/// * One condition variable may be used with several mutexes.
///
/// ```
/// use bast_sync::{Condvar, Mutex};
///
/// static READY: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
/// let waiter = bast_rt::spawn(|| {
///     let ready = READY.1.wait_while(READY.0.lock().unwrap(), |ready| !*ready).unwrap();
///     assert!(*ready);
/// });
/// *READY.0.lock().unwrap() = true;
/// READY.1.notify_one();
/// waiter.join().unwrap();
/// ```
pub struct Condvar {
    waiters: Lock<Crowd>,
}

impl UnwindSafe for Condvar {}
impl RefUnwindSafe for Condvar {}

/// Same as [`std::sync::WaitTimeoutResult`].
#[derive(Debug, PartialEq, Eq, Copy, Clone)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait ended because the time was up.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Same as [`std::sync::Condvar::new`].
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar { waiters: Lock::new(Crowd::new()) }
    }

    /// Same as [`std::sync::Condvar::wait`].
    ///
    /// # Errors
    /// The guard, if the mutex is poisoned.
    ///
    /// # Cancellation
    /// Unwinds without the mutex, and does not poison it.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_until(guard, None).0
    }

    /// Same as [`std::sync::Condvar::wait_while`].
    ///
    /// # Errors
    /// The guard, if the mutex is poisoned.
    ///
    /// # Cancellation
    /// As [`wait`](Condvar::wait).
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Same as [`std::sync::Condvar::wait_timeout`].
    ///
    /// # Errors
    /// The guard, if the mutex is poisoned.
    ///
    /// # Cancellation
    /// As [`wait`](Condvar::wait).
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        // What does not fit is never.
        let deadline = Instant::now().checked_add(duration);
        let (guard, timed_out) = self.wait_until(guard, deadline);
        let result = WaitTimeoutResult(timed_out);
        match guard {
            Ok(guard) => Ok((guard, result)),
            Err(error) => Err(PoisonError::new((error.into_inner(), result))),
        }
    }

    /// Same as [`std::sync::Condvar::wait_timeout_while`].
    ///
    /// # Errors
    /// The guard, if the mutex is poisoned.
    ///
    /// # Cancellation
    /// As [`wait`](Condvar::wait).
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        duration: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let start = Instant::now();
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let Some(left) = duration.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
            else {
                return Ok((guard, WaitTimeoutResult(true)));
            };
            guard = self.wait_timeout(guard, left)?.0;
        }
    }

    /// Same as [`std::sync::Condvar::notify_one`].
    pub fn notify_one(&self) {
        let wake = self.waiters.lock().release_one();
        drop(wake);
    }

    /// Same as [`std::sync::Condvar::notify_all`].
    pub fn notify_all(&self) {
        Crowd::release(&self.waiters, |crowd| crowd);
    }

    fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (LockResult<MutexGuard<'a, T>>, bool) {
        let mutex = guard.mutex();
        let reason = Reason::new("Condvar::wait", self);
        let unlock = || drop(guard);
        let end = Crowd::wait(
            &self.waiters,
            self.waiters.lock(),
            |crowd| crowd,
            unlock,
            &reason,
            deadline,
        );
        if let End::Interrupted(interruption) = end {
            interruption.raise();
        }
        if let Taken::No(End::Interrupted(interruption)) = mutex.take() {
            if matches!(end, End::Granted) {
                self.notify_one();
            }
            interruption.raise();
        }
        (mutex.guard(), matches!(end, End::TimedOut))
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
