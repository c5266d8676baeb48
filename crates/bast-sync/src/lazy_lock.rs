//! `LazyLock`: a value that is computed when it is first wanted. A [`Once`], and a cell that holds the closure before
//! the run, nothing if that fails, and else the value.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::once::{Once, Progress};

union Data<T, F> {
    value: ManuallyDrop<T>,
    f: ManuallyDrop<F>,
}

/// Same as [`std::sync::LazyLock`].
///
/// # Differences from std
/// * The closure may suspend; who comes meanwhile waits. That is what to use instead of a lazy
///   `thread_local!` whose initializer waits.
/// * Using it from its own closure panics.
/// * A closure that is cancelled, or whose time is up, has failed, and poisons.
///
/// ```
/// use bast_sync::LazyLock;
///
/// static SQUARES: LazyLock<Vec<u32>> = LazyLock::new(|| {
///     bast_rt::yield_now();
///     (0..10).map(|n| n * n).collect()
/// });
/// assert_eq!(SQUARES[3], 9);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    once: Once,
    data: UnsafeCell<Data<T, F>>,
}

// SAFETY: as std's: only `&T` is shared; the closure is called by whichever thread comes first.
unsafe impl<T: Sync + Send, F: Send> Sync for LazyLock<T, F> {}

impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Same as [`std::sync::LazyLock::new`].
    #[inline]
    pub const fn new(f: F) -> LazyLock<T, F> {
        let data = Data { f: ManuallyDrop::new(f) };
        LazyLock { once: Once::new(), data: UnsafeCell::new(data) }
    }

    /// Same as [`std::sync::LazyLock::force`].
    ///
    /// # Panics
    /// If the closure panics, or has before; or if called from the closure.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.once.call_once_force(|state| {
            if state.is_poisoned() {
                poisoned();
            }
            let data = this.data.get();
            // SAFETY: not poisoned and not complete, so the closure is there; one runs at a time.
            let f = unsafe { ManuallyDrop::take(&mut (*data).f) };
            let value = ManuallyDrop::new(f());
            // SAFETY: as above; nobody reads before this run has completed.
            unsafe { data.write(Data { value }) };
        });
        // SAFETY: complete: written before that (Release, Acquire), and only read since.
        unsafe { &(*this.data.get()).value }
    }

    /// Same as [`std::sync::LazyLock::force_mut`].
    ///
    /// # Panics
    /// If the closure panics, or has before.
    #[inline]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        // SAFETY: complete, and the caller's alone.
        unsafe { &mut this.data.get_mut().value }
    }
}

impl<T, F> LazyLock<T, F> {
    /// Same as [`std::sync::LazyLock::get`].
    #[inline]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        // SAFETY: complete.
        if this.once.is_completed() { Some(unsafe { &(*this.data.get()).value }) } else { None }
    }

    /// Same as [`std::sync::LazyLock::get_mut`].
    #[inline]
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        match this.once.progress() {
            // SAFETY: complete, and the caller's alone.
            Progress::Complete => Some(unsafe { &mut this.data.get_mut().value }),
            Progress::Incomplete | Progress::Poisoned => None,
        }
    }
}

#[cold]
fn poisoned() -> ! {
    panic!("LazyLock instance has previously been poisoned")
}

impl<T, F> Drop for LazyLock<T, F> {
    fn drop(&mut self) {
        let data = self.data.get_mut();
        // SAFETY: the state says which field is there.
        unsafe {
            match self.once.progress() {
                Progress::Incomplete => ManuallyDrop::drop(&mut data.f),
                Progress::Complete => ManuallyDrop::drop(&mut data.value),
                Progress::Poisoned => {}
            }
        }
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_tuple("LazyLock");
        match LazyLock::get(self) {
            Some(value) => d.field(value),
            None => d.field(&format_args!("<uninit>")),
        };
        d.finish()
    }
}
