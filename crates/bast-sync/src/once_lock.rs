//! `OnceLock`: a value that is written once. A [`Once`] and a cell: the cell is written by the run that completes, and
//! only read from then on.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::once::{Once, Progress};

/// Same as [`std::sync::OnceLock`].
///
/// # Differences from std
/// * The closure of `get_or_init` may suspend; who comes meanwhile waits.
/// * Initializing it from its own closure panics.
///
/// ```
/// use bast_sync::OnceLock;
///
/// static NAME: OnceLock<String> = OnceLock::new();
/// assert_eq!(NAME.get(), None);
/// let reader = bast_rt::spawn(|| NAME.wait().len());
/// assert_eq!(NAME.get_or_init(|| "bast".into()), "bast");
/// assert_eq!(reader.join().unwrap(), 4);
/// ```
pub struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<MaybeUninit<T>>,
    owns: PhantomData<T>,
}

// SAFETY: as std's: threads share `&T`, and one may drop or take what another has put in.
unsafe impl<T: Sync + Send> Sync for OnceLock<T> {}
// SAFETY: it owns the value.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// Same as [`std::sync::OnceLock::new`].
    #[must_use]
    pub const fn new() -> OnceLock<T> {
        OnceLock {
            once: Once::new(),
            value: UnsafeCell::new(MaybeUninit::uninit()),
            owns: PhantomData,
        }
    }

    /// Same as [`std::sync::OnceLock::get`].
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: complete.
        if self.once.is_completed() { Some(unsafe { self.get_unchecked() }) } else { None }
    }

    /// Same as [`std::sync::OnceLock::get_mut`].
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        match self.once.progress() {
            // SAFETY: complete, and ours alone.
            Progress::Complete => Some(unsafe { self.value.get_mut().assume_init_mut() }),
            Progress::Incomplete | Progress::Poisoned => None,
        }
    }

    /// Same as [`std::sync::OnceLock::wait`].
    ///
    /// # Cancellation
    /// Unwinds if it has to wait.
    #[inline]
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        // SAFETY: complete.
        unsafe { self.get_unchecked() }
    }

    /// Same as [`std::sync::OnceLock::set`].
    ///
    /// # Errors
    /// The value, if there was one already.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait for somebody who is about to set it.
    #[inline]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("taken once"));
        match value {
            None => Ok(()),
            Some(value) => Err(value),
        }
    }

    /// Same as [`std::sync::OnceLock::get_or_init`].
    ///
    /// # Panics
    /// If `f` panics; the cell stays empty then. If called from its own closure.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait for somebody who is about to set it.
    #[inline]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        self.once.call_once_force(|_| {
            let value = f();
            // SAFETY: one closure runs at a time, and nobody reads before one has completed.
            unsafe { (*self.value.get()).write(value) };
        });
        // SAFETY: complete.
        unsafe { self.get_unchecked() }
    }

    /// Same as [`std::sync::OnceLock::into_inner`].
    #[inline]
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Same as [`std::sync::OnceLock::take`].
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        match std::mem::replace(&mut self.once, Once::new()).progress() {
            // SAFETY: it was complete, and is not any more.
            Progress::Complete => Some(unsafe { self.value.get_mut().assume_init_read() }),
            Progress::Incomplete | Progress::Poisoned => None,
        }
    }

    /// # Safety
    /// Complete.
    #[inline]
    unsafe fn get_unchecked(&self) -> &T {
        // SAFETY: written before COMPLETE was (Release), which the caller has seen (Acquire); only read since.
        unsafe { (*self.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for OnceLock<T> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => d.field(value),
            None => d.field(&format_args!("<uninit>")),
        };
        d.finish()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().map_or_else(OnceLock::new, |value| OnceLock::from(value.clone()))
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = Self::new();
        // Empty, so it takes the value.
        let _ = cell.set(value);
        cell
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}
