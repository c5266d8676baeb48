//! A socket's own time limits, in Windows' form.

use std::time::Duration;

/// A length of time, in milliseconds. Zero is "never" to the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Time(u32);

impl Time {
    /// What it counts; the rest is cut off.
    #[cfg(test)]
    pub(super) const UNIT: Duration = Duration::from_millis(1);

    /// `None` is zero. What is shorter than a millisecond becomes one.
    #[must_use]
    pub fn new(value: Option<Duration>) -> Time {
        let millis = |d: Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX).max(1);
        Time(value.map_or(0, millis))
    }

    /// The time; `None` if it is zero.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        (self.0 != 0).then(|| Duration::from_millis(self.0.into()))
    }
}
