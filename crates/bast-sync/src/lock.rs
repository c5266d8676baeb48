//! The lock around the state of a primitive: held for a few dozen instructions, never across a
//! suspension, a call of user code or the drop of a user's value.
//!
//! So a fiber that finds it taken does not wait for another fiber of its worker, only for another thread,
//! and not for long, unless that thread has lost its processor: then spinning gives way to yielding the
//! thread, and that to short sleeps. A spin lock costs one atomic read-modify-write for lock and unlock
//! together (its unlock is a store), which is what an uncontended mutex, a send or a receive costs.
//!
//! Ordering: the swap that takes it is Acquire, the store that releases it Release.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use crate::shim::{self, AtomicBool, Turn};

const SPINS: u32 = 64;
const YIELDS: u32 = 32;
const NAP: Duration = Duration::from_micros(50);

/// State under its lock.
pub(crate) struct Lock<T> {
    locked: AtomicBool,
    state: UnsafeCell<T>,
    turn: Turn,
}

// SAFETY: the lock gives the state to one thread at a time.
unsafe impl<T: Send> Send for Lock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(state: T) -> Lock<T> {
        Lock { locked: AtomicBool::new(false), state: UnsafeCell::new(state), turn: Turn::new() }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.turn.enter();
        if self.locked.swap(true, Acquire) {
            self.contend();
        }
        Guard { lock: self }
    }

    /// For who takes two of them: the lower one first.
    pub(crate) fn rank(&self) -> usize {
        self.turn.rank(std::ptr::from_ref(self).addr())
    }

    #[cold]
    fn contend(&self) {
        let mut tries = 0_u32;
        loop {
            // Look before the next swap: that would take the cache line away from the holder.
            while self.locked.load(Relaxed) {
                tries = tries.saturating_add(1);
                if tries < SPINS {
                    shim::spin_loop();
                } else if tries < SPINS + YIELDS {
                    shim::yield_now();
                } else {
                    std::thread::sleep(NAP);
                }
            }
            if !self.locked.swap(true, Acquire) {
                return;
            }
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.state.get_mut()
    }
}

/// The state, while it is locked.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: locked.
        unsafe { &*self.lock.state.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: locked.
        unsafe { &mut *self.lock.state.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.locked.store(false, Release);
        self.lock.turn.leave();
    }
}
