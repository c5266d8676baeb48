//! `RwLock`: a [`Gate`] with very many units around a value. A reader takes one of them, a writer all.
//!
//! **Policy**: first in, first out, readers that stand together at the head going in together; nobody
//! overtakes a waiting writer, so neither side starves. An open gate is handed off or barged through as a
//! `Mutex` is (see `gate`).

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockError, TryLockResult};

use crate::gate::Gate;
use crate::poison::{Before, Poison};

/// More than there can be readers.
const SHARED: usize = usize::MAX >> 1;

/// Same as [`std::sync::RwLock`].
///
/// # Differences from std
/// * A fiber that waits lets the other fibers of its worker run. The lock may be held across anything that suspends.
/// * Who waits is let in in the order of arrival. So reading again while one reads already hangs if a writer
///   has come in between (std leaves that open).
/// * Locking it while one holds it for writing panics.
/// * A fiber that is cancelled, or whose time is up, while it writes unwinds, and so poisons the lock.
///
/// ```
/// use bast_sync::RwLock;
///
/// let lock = RwLock::new(vec![1]);
/// {
///     let (one, two) = (lock.read().unwrap(), lock.read().unwrap());
///     assert_eq!(one.len() + two.len(), 2);
///     assert!(lock.try_write().is_err());
/// }
/// lock.write().unwrap().push(2);
/// assert_eq!(*lock.read().unwrap(), [1, 2]);
/// ```
pub struct RwLock<T: ?Sized> {
    gate: Gate<SHARED>,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: as std's: it owns the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share `&T`, which needs `Sync`; a writer may be on another thread, which needs `Send`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

// A broken value is behind the poison.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// Same as [`std::sync::RwLockReadGuard`].
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

/// Same as [`std::sync::RwLockWriteGuard`].
#[must_use = "if unused the RwLock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized + 'a> {
    lock: &'a RwLock<T>,
    before: Before,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    /// Same as [`std::sync::RwLock::new`].
    #[inline]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { gate: Gate::new(SHARED), poison: Poison::new(), value: UnsafeCell::new(value) }
    }

    /// Same as [`std::sync::RwLock::into_inner`].
    ///
    /// # Errors
    /// The value, if the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison;
        poisoned.wrap(self.value.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Same as [`std::sync::RwLock::read`].
    ///
    /// # Errors
    /// The guard, if the lock is poisoned.
    ///
    /// # Panics
    /// If the calling fiber or thread holds the lock for writing.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait. Without a wait it is no suspension point.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.gate.take(1, "RwLock::read", None).or_raise();
        self.poison.wrap(RwLockReadGuard { lock: self, not_send: PhantomData })
    }

    /// Same as [`std::sync::RwLock::try_read`].
    ///
    /// # Errors
    /// `WouldBlock` if somebody writes, or waits. The guard, if the lock is poisoned.
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if self.gate.try_take(1) == Some(true) {
            Ok(self.poison.wrap(RwLockReadGuard { lock: self, not_send: PhantomData })?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Same as [`std::sync::RwLock::write`].
    ///
    /// # Errors
    /// The guard, if the lock is poisoned.
    ///
    /// # Panics
    /// If the calling fiber or thread holds the lock for writing already.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait. Without a wait it is no suspension point.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.gate.take(SHARED, "RwLock::write", None).or_raise();
        self.write_guard()
    }

    /// Same as [`std::sync::RwLock::try_write`].
    ///
    /// # Errors
    /// `WouldBlock` if somebody reads or writes, or waits. The guard, if the lock is poisoned.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if self.gate.try_take(SHARED) == Some(true) {
            Ok(self.write_guard()?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    #[inline]
    fn write_guard(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let before = self.poison.enter();
        self.poison.wrap(RwLockWriteGuard { lock: self, before, not_send: PhantomData })
    }

    /// Same as [`std::sync::RwLock::is_poisoned`].
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Same as [`std::sync::RwLock::clear_poison`].
    #[inline]
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// Same as [`std::sync::RwLock::get_mut`].
    ///
    /// # Errors
    /// The value, if the lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.wrap(self.value.get_mut())
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Same as [`std::sync::RwLockWriteGuard::downgrade`].
    pub fn downgrade(s: Self) -> RwLockReadGuard<'a, T> {
        let guard = ManuallyDrop::new(s);
        let lock = guard.lock;
        lock.poison.leave(guard.before);
        lock.gate.keep_one();
        RwLockReadGuard { lock, not_send: PhantomData }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds a reader's unit: nobody writes.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds all units.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds all units.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.gate.put(1);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.leave(self.before);
        self.lock.gate.put(SHARED);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => d.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => d.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => d.field("data", &format_args!("<locked>")),
        };
        d.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}
