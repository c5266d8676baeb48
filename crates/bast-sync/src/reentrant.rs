//! `ReentrantLock`: a [`Gate`] with one unit, which its holder may pass again.
//!
//! ```text
//!   lock ─▶ is it held by me? ─ yes ─▶ depth + 1 ─╮
//!             ╰─ no ─▶ take(1), depth = 1 ────────┴▶ guard ─▶ drop: depth - 1; at 0: put(1)
//! ```
//!
//! Who may touch what: `depth` belongs to the holder. Whether the caller is that, the gate's `holder` says: nobody
//! but the caller itself makes that be its own id, or not be it any more, so a Relaxed read is enough.
//!
//! **Policy**: as [`Mutex`](crate::Mutex)'s.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::gate::Gate;

const WHAT: &str = "ReentrantLock::lock";

/// Same as std's `ReentrantLock` (unstable there): a lock that its holder may take again. It is never poisoned.
///
/// # Differences from std
/// * A fiber that waits lets the other fibers of its worker run.
/// * The holder is a fiber or a plain thread: fibers of one worker exclude each other.
///
/// ```
/// use std::cell::Cell;
/// use bast_sync::ReentrantLock;
///
/// static COUNT: ReentrantLock<Cell<u32>> = ReentrantLock::new(Cell::new(0));
/// let outer = COUNT.lock();
/// COUNT.lock().set(1);
/// assert_eq!(outer.get(), 1);
/// ```
pub struct ReentrantLock<T: ?Sized> {
    gate: Gate<1>,
    depth: Cell<u32>,
    value: T,
}

// SAFETY: it owns the value; the depth is a number.
unsafe impl<T: ?Sized + Send> Send for ReentrantLock<T> {}
// SAFETY: the gate lets one fiber or thread at a time have guards, and guards stay where they are: so `&T` is
// used by one thread at a time, and so is the depth.
unsafe impl<T: ?Sized + Send> Sync for ReentrantLock<T> {}

impl<T: ?Sized + UnwindSafe> UnwindSafe for ReentrantLock<T> {}
impl<T: ?Sized + UnwindSafe> RefUnwindSafe for ReentrantLock<T> {}

/// Gives the value of a [`ReentrantLock`] to its holder.
#[must_use = "if unused the lock will immediately unlock"]
#[clippy::has_significant_drop]
pub struct ReentrantLockGuard<'a, T: ?Sized + 'a> {
    lock: &'a ReentrantLock<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for ReentrantLockGuard<'_, T> {}

impl<T> ReentrantLock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> ReentrantLock<T> {
        ReentrantLock { gate: Gate::new(1), depth: Cell::new(0), value }
    }
}

impl<T: ?Sized> ReentrantLock<T> {
    /// Waits until nobody else holds it.
    ///
    /// # Panics
    /// If it is held 2^32 times.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait. Without a wait it is no suspension point.
    pub fn lock(&self) -> ReentrantLockGuard<'_, T> {
        if !self.gate.is_mine() {
            self.gate.take(1, WHAT, None).or_raise();
        }
        self.guard()
    }

    /// Takes it if nobody else holds it, and it is not another's turn.
    pub fn try_lock(&self) -> Option<ReentrantLockGuard<'_, T>> {
        (self.gate.is_mine() || self.gate.try_take(1) == Some(true)).then(|| self.guard())
    }

    /// For the holder.
    fn guard(&self) -> ReentrantLockGuard<'_, T> {
        self.depth.set(self.depth.get().checked_add(1).expect("a lock held 2^32 times"));
        ReentrantLockGuard { lock: self, not_send: PhantomData }
    }
}

impl<T: ?Sized> Deref for ReentrantLockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.lock.value
    }
}

impl<T: ?Sized> Drop for ReentrantLockGuard<'_, T> {
    fn drop(&mut self) {
        let depth = &self.lock.depth;
        depth.set(depth.get() - 1);
        if depth.get() == 0 {
            self.lock.gate.put(1);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("ReentrantLock");
        match self.try_lock() {
            Some(guard) => d.field("data", &&*guard),
            None => d.field("data", &"<locked>"),
        };
        d.finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantLockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
