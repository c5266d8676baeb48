//! The runtime's clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::OnceLock;
use std::time::{Duration, Instant as StdInstant};

use crate::tls;

/// Same as [`std::time::Instant`], on the clock of the runtime.
///
/// # Differences from std
/// In a fiber of a runtime that runs on the simulator this is the simulator's virtual clock, which
/// jumps to the next event when all fibers wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub(crate) u64);

impl Instant {
    /// The present moment.
    #[must_use]
    pub fn now() -> Instant {
        match tls::worker() {
            Some(worker) => Instant(worker.driver().now()),
            None => Instant(bast_io::driver::monotonic_now()),
        }
    }

    /// Time since `earlier`, or zero if that is later.
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// Time since `earlier`, or zero if that is later.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// Time since `earlier`, or `None` if that is later.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_nanos)
    }

    /// Time since this moment.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(*self)
    }

    /// `self + duration`, or `None` if that cannot be represented.
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(u64::try_from(duration.as_nanos()).ok()?).map(Instant)
    }

    /// `self - duration`, or `None` if that cannot be represented.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(u64::try_from(duration.as_nanos()).ok()?).map(Instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// # Panics
    /// If the sum cannot be represented.
    fn add(self, duration: Duration) -> Instant {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// # Panics
    /// If the difference cannot be represented.
    fn sub(self, duration: Duration) -> Instant {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl From<StdInstant> for Instant {
    /// The same moment on the kernel's monotonic clock.
    fn from(std: StdInstant) -> Instant {
        // Both are the same clock; std hides its reading, so compare them once.
        static ORIGIN: OnceLock<(StdInstant, u64)> = OnceLock::new();
        let &(origin, nanos) =
            ORIGIN.get_or_init(|| (StdInstant::now(), bast_io::driver::monotonic_now()));
        let clamp = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Instant(match std.checked_duration_since(origin) {
            Some(later) => nanos.saturating_add(clamp(later)),
            None => nanos.saturating_sub(clamp(origin.duration_since(std))),
        })
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&Duration::from_nanos(self.0)).finish()
    }
}
