//! `Mutex`: a [`Gate`] with one unit around a value.
//!
//! ```text
//!   lock ─▶ take(1) ─▶ MutexGuard ─▶ drop: poison if it unwinds, put(1)
//! ```
//!
//! **Policy**: hand-off to a fiber of the same worker; barging, at most three times in a row, while one of
//! another worker is on its way (see `gate`).

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};

use crate::gate::{Gate, Taken};
use crate::poison::{Before, Poison};

const WHAT: &str = "Mutex::lock";

/// Same as [`std::sync::Mutex`].
///
/// # Differences from std
/// * A fiber that waits lets the other fibers of its worker run. The lock may be held across anything that suspends.
/// * Waiters get the lock in the order of their arrival; a newcomer may overtake a waiter of another worker,
///   three times at most.
/// * Locking it twice panics.
/// * A fiber that is cancelled, or whose time is up, while it holds the lock unwinds, and so poisons it.
///
/// ```
/// use bast_sync::Mutex;
///
/// static TOTAL: Mutex<u32> = Mutex::new(0);
/// let adders: Vec<_> = (1..=4)
///     .map(|n| bast_rt::spawn(move || {
///         let mut total = TOTAL.lock().unwrap();
///         let before = *total;
///         bast_rt::yield_now();
///         *total = before + n;
///     }))
///     .collect();
/// adders.into_iter().for_each(|adder| adder.join().unwrap());
/// assert_eq!(*TOTAL.lock().unwrap(), 10);
/// ```
pub struct Mutex<T: ?Sized> {
    gate: Gate<1>,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: as std's: it owns the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: the gate lets one guard at a time exist, and a guard gives `&mut T` to one fiber or thread.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// A broken value is behind the poison.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// Same as [`std::sync::MutexGuard`].
#[must_use = "if unused the Mutex will immediately unlock"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized + 'a> {
    mutex: &'a Mutex<T>,
    before: Before,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// Same as [`std::sync::Mutex::new`].
    #[inline]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { gate: Gate::new(1), poison: Poison::new(), value: UnsafeCell::new(value) }
    }

    /// Same as [`std::sync::Mutex::into_inner`].
    ///
    /// # Errors
    /// The value, if the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison;
        poisoned.wrap(self.value.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Same as [`std::sync::Mutex::lock`].
    ///
    /// # Errors
    /// The guard, if the lock is poisoned.
    ///
    /// # Panics
    /// If the calling fiber or thread holds the lock already.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait. Without a wait it is no suspension point.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.gate.take(1, WHAT, None).or_raise();
        self.guard()
    }

    /// Same as [`std::sync::Mutex::try_lock`].
    ///
    /// # Errors
    /// `WouldBlock` if the lock is held, or is another's turn. The guard, if it is poisoned.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.gate.try_take(1) == Some(true) {
            Ok(self.guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Locks again after a wait on a condition; leaves it to the caller to raise.
    pub(crate) fn take(&self) -> Taken {
        self.gate.take(1, WHAT, None)
    }

    /// The guard of a lock that has been taken.
    #[inline]
    pub(crate) fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let before = self.poison.enter();
        self.poison.wrap(MutexGuard { mutex: self, before, not_send: PhantomData })
    }

    /// Same as [`std::sync::Mutex::is_poisoned`].
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Same as [`std::sync::Mutex::clear_poison`].
    #[inline]
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// Same as [`std::sync::Mutex::get_mut`].
    ///
    /// # Errors
    /// The value, if the lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.wrap(self.value.get_mut())
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The lock that is held.
    pub(crate) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.poison.leave(self.before);
        self.mutex.gate.put(1);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => d.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => d.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => d.field("data", &format_args!("<locked>")),
        };
        d.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}
