//! `Semaphore`: a [`Gate`] with as many units as there are permits.
//!
//! **Policy**: first in, first out, by hand-off. Who wants many permits is not overtaken by those who want few: while
//! it is first in the queue, permits are kept for it. If it gives up, those behind it get them.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use bast_rt::Instant;
use bast_rt::wait::spend;

use crate::gate::{Gate, Taken};
use crate::list::End;

/// A number of permits.
///
/// The shape is that of tokio's, without the `await`.
///
/// ```
/// use bast_sync::Semaphore;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// let (two, inside, most) = (Semaphore::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
/// bast_rt::scope(|s| {
///     for _ in 0..10 {
///         s.spawn(|| {
///             let _permit = two.acquire().unwrap();
///             most.fetch_max(inside.fetch_add(1, Relaxed) + 1, Relaxed);
///             bast_rt::yield_now();
///             inside.fetch_sub(1, Relaxed);
///         });
///     }
/// });
/// assert!(most.into_inner() <= 2);
/// ```
pub struct Semaphore {
    gate: Gate<0>,
}

impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Semaphore {}

/// The semaphore has been closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcquireError {}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore has been closed.
    Closed,
    /// There are not enough permits now, or others wait; or the time is up.
    NoPermits,
}

/// Permits of a [`Semaphore`]; dropping it gives them back.
#[must_use = "if unused the permits are given back at once"]
#[clippy::has_significant_drop]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

/// As [`SemaphorePermit`], for keeping: it owns a reference to its semaphore.
#[must_use = "if unused the permits are given back at once"]
#[clippy::has_significant_drop]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl Semaphore {
    /// The greatest number of permits.
    pub const MAX_PERMITS: usize = usize::MAX >> 3;

    /// With this many permits.
    ///
    /// # Panics
    /// If there are more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[must_use]
    pub const fn new(permits: usize) -> Semaphore {
        assert!(permits <= Semaphore::MAX_PERMITS, "more than Semaphore::MAX_PERMITS");
        Semaphore { gate: Gate::new(permits) }
    }

    /// Permits that nobody has.
    pub fn available_permits(&self) -> usize {
        self.gate.free()
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// If the semaphore is closed, or is closed meanwhile.
    ///
    /// # Cancellation
    /// Unwinds if it has to wait, without a permit.
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Waits for that many permits, and takes them all at once.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    ///
    /// # Cancellation
    /// As [`acquire`](Semaphore::acquire).
    pub fn acquire_many(&self, permits: usize) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.take(permits, None).map_err(|_| AcquireError {})?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// As [`acquire`](Semaphore::acquire), for a limited time.
    ///
    /// # Errors
    /// `Closed`, or `NoPermits` if the time is up.
    ///
    /// # Cancellation
    /// As [`acquire`](Semaphore::acquire).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.acquire_many_timeout(1, timeout)
    }

    /// As [`acquire_many`](Semaphore::acquire_many), for a limited time.
    ///
    /// # Errors
    /// As [`acquire_timeout`](Semaphore::acquire_timeout).
    ///
    /// # Cancellation
    /// As [`acquire`](Semaphore::acquire).
    pub fn acquire_many_timeout(
        &self,
        permits: usize,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        // What does not fit is never.
        self.take(permits, Instant::now().checked_add(timeout))?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// A permit, if there is one now and nobody waits.
    ///
    /// # Errors
    /// `Closed` or `NoPermits`.
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// That many permits, if they are there now and nobody waits.
    ///
    /// # Errors
    /// `Closed` or `NoPermits`.
    pub fn try_acquire_many(&self, permits: usize) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_take(permits)?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// As [`acquire`](Semaphore::acquire).
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    ///
    /// # Cancellation
    /// As [`acquire`](Semaphore::acquire).
    pub fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    ///
    /// # Cancellation
    /// As [`acquire`](Semaphore::acquire).
    pub fn acquire_many_owned(
        self: Arc<Self>,
        permits: usize,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.take(permits, None).map_err(|_| AcquireError {})?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits })
    }

    /// As [`try_acquire`](Semaphore::try_acquire).
    ///
    /// # Errors
    /// `Closed` or `NoPermits`.
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_take(1)?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits: 1 })
    }

    /// Adds permits.
    ///
    /// # Panics
    /// If more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS) would be free.
    pub fn add_permits(&self, permits: usize) {
        let sum = self.gate.free().checked_add(permits);
        assert!(
            sum.is_some_and(|sum| sum <= Semaphore::MAX_PERMITS),
            "more than Semaphore::MAX_PERMITS"
        );
        self.gate.put(permits);
    }

    /// Takes up to `permits` free ones away for good, and says how many it were.
    pub fn forget_permits(&self, permits: usize) -> usize {
        self.gate.remove_free(permits)
    }

    /// Refuses all who wait, and all who come.
    pub fn close(&self) {
        self.gate.close();
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    fn take(&self, permits: usize, deadline: Option<Instant>) -> Result<(), TryAcquireError> {
        spend();
        match self.gate.take(permits, "Semaphore::acquire", deadline) {
            Taken::Yes => Ok(()),
            Taken::Closed => Err(TryAcquireError::Closed),
            Taken::No(End::Interrupted(interruption)) => interruption.raise(),
            Taken::No(_) => Err(TryAcquireError::NoPermits),
        }
    }

    fn try_take(&self, permits: usize) -> Result<(), TryAcquireError> {
        match self.gate.try_take(permits) {
            None => Err(TryAcquireError::Closed),
            Some(false) => Err(TryAcquireError::NoPermits),
            Some(true) => Ok(()),
        }
    }
}

impl SemaphorePermit<'_> {
    /// Takes the permits away from the semaphore for good.
    pub fn forget(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// How many these are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.permits
    }
}

impl OwnedSemaphorePermit {
    /// Takes the permits away from the semaphore for good.
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// How many these are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.permits
    }

    /// Whose these are.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        self.semaphore.gate.put(self.permits);
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.semaphore.gate.put(self.permits);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available_permits", &self.available_permits())
            .field("closed", &self.is_closed())
            .finish()
    }
}

impl fmt::Debug for SemaphorePermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnedSemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSemaphorePermit")
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore is closed")
    }
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::Closed => "the semaphore is closed",
            TryAcquireError::NoPermits => "no permits are free",
        })
    }
}

impl std::error::Error for AcquireError {}
impl std::error::Error for TryAcquireError {}
