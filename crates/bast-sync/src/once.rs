//! `Once`: something that is done one time.
//!
//! ```text
//!   INCOMPLETE ──▶ RUNNING ──▶ COMPLETE
//!                   │  ▲
//!          unwinds  ▼  │ call_once_force
//!                 POISONED
//! ```
//!
//! **Policy**: when a run ends, all who wait are released; after a failed one the first of them to get there is the
//! next to run.
//!
//! Ordering: `state` is written under the lock of the waiters, COMPLETE with Release, and read with Acquire by those
//! who find it complete without the lock.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use bast_rt::wait::Reason;

use crate::crowd::Crowd;
use crate::lock::{Guard, Lock};
use crate::shim::{AtomicU8, identity};

const INCOMPLETE: u8 = 0;
const POISONED: u8 = 1;
const RUNNING: u8 = 2;
const COMPLETE: u8 = 3;

/// Same as [`std::sync::Once`].
///
/// # Differences from std
/// * The closure may suspend; who comes meanwhile waits.
/// * Calling it from its own closure panics.
/// * A closure that is cancelled, or whose time is up, has failed, and poisons.
///
/// ```
/// use bast_sync::Once;
///
/// static START: Once = Once::new();
/// START.call_once(|| println!("once"));
/// START.call_once(|| unreachable!());
/// assert!(START.is_completed());
/// ```
pub struct Once {
    state: AtomicU8,
    waiters: Lock<Crowd>,
    /// Who runs the closure.
    runner: AtomicU64,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// Same as [`std::sync::OnceState`].
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Same as [`std::sync::OnceState::is_poisoned`].
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

/// How far a `Once` that nobody else uses has got.
pub(crate) enum Progress {
    Incomplete,
    Poisoned,
    Complete,
}

/// Ends a run, also by unwinding.
struct Run<'a> {
    once: &'a Once,
    end: u8,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let once = self.once;
        {
            let _guard = once.waiters.lock();
            once.runner.store(0, Relaxed);
            once.state.store(self.end, Release);
        }
        Crowd::release(&once.waiters, |crowd| crowd);
    }
}

// As std's, it has no `Default`.
#[allow(clippy::new_without_default)]
impl Once {
    /// Same as [`std::sync::Once::new`].
    #[must_use]
    pub const fn new() -> Once {
        Once {
            state: AtomicU8::new(INCOMPLETE),
            waiters: Lock::new(Crowd::new()),
            runner: AtomicU64::new(0),
        }
    }

    /// Same as [`std::sync::Once::call_once`].
    ///
    /// # Panics
    /// If the closure panics, or one has before; or if called from the closure.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    #[inline]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(false, &mut |_| f.take().expect("called once")());
        }
    }

    /// Same as [`std::sync::Once::call_once_force`].
    ///
    /// # Panics
    /// If the closure panics, or if called from the closure.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    #[inline]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(true, &mut |state| f.take().expect("called once")(state));
        }
    }

    /// Same as [`std::sync::Once::is_completed`].
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.state.load(Acquire) == COMPLETE
    }

    /// Same as [`std::sync::Once::wait`].
    ///
    /// # Panics
    /// If a closure has panicked, or if called from the closure.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    pub fn wait(&self) {
        self.wait_for(false);
    }

    /// Same as [`std::sync::Once::wait_force`].
    ///
    /// # Panics
    /// If called from the closure.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    pub fn wait_force(&self) {
        self.wait_for(true);
    }

    #[cold]
    fn call(&self, force: bool, f: &mut dyn FnMut(&OnceState)) {
        loop {
            let guard = self.waiters.lock();
            let state = self.state.load(Acquire);
            match state {
                COMPLETE => return,
                RUNNING => self.queue(guard, "Once::call_once"),
                POISONED if !force => {
                    drop(guard);
                    poisoned();
                }
                _ => {
                    self.state.store(RUNNING, Relaxed);
                    self.runner.store(identity().0, Relaxed);
                    drop(guard);
                    let mut run = Run { once: self, end: POISONED };
                    f(&OnceState { poisoned: state == POISONED });
                    run.end = COMPLETE;
                    return;
                }
            }
        }
    }

    fn wait_for(&self, force: bool) {
        while !self.is_completed() {
            let guard = self.waiters.lock();
            match self.state.load(Acquire) {
                COMPLETE => return,
                POISONED if !force => {
                    drop(guard);
                    poisoned();
                }
                _ => self.queue(guard, "Once::wait"),
            }
        }
    }

    /// Waits for the end of a run.
    fn queue(&self, guard: Guard<'_, Crowd>, what: &'static str) {
        let (id, _) = identity();
        if self.runner.load(Relaxed) == id && id != u64::MAX {
            drop(guard);
            panic!("{what}: called from the closure that it would wait for");
        }
        let reason = Reason::new(what, self).held_by(&self.runner);
        Crowd::wait(&self.waiters, guard, |crowd| crowd, || (), &reason, None).unless_interrupted();
    }

    pub(crate) fn progress(&mut self) -> Progress {
        match self.state.load(Acquire) {
            INCOMPLETE => Progress::Incomplete,
            COMPLETE => Progress::Complete,
            // Never RUNNING: the runner would hold a reference.
            _ => Progress::Poisoned,
        }
    }
}

#[cold]
fn poisoned() -> ! {
    panic!("Once instance has previously been poisoned")
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.is_poisoned()).finish()
    }
}
