//! A socket's own time limits, in the kernel's form.

use std::time::Duration;

use crate::sys::c;

/// A length of time, in microseconds. Zero is "never" to the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Time(c::timeval);

impl Time {
    /// What it counts; the rest is cut off.
    #[cfg(test)]
    pub(super) const UNIT: Duration = Duration::from_micros(1);

    /// `None` is zero. What is shorter than a microsecond becomes one.
    #[must_use]
    pub fn new(value: Option<Duration>) -> Time {
        let mut time = c::timeval { tv_sec: 0, tv_usec: 0 };
        if let Some(value) = value {
            time.tv_sec = c::time_t::try_from(value.as_secs()).unwrap_or(c::time_t::MAX);
            time.tv_usec = value.subsec_micros() as _;
            if (time.tv_sec, time.tv_usec) == (0, 0) {
                time.tv_usec = 1;
            }
        }
        Time(time)
    }

    /// The time; `None` if it is zero.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        let seconds = Duration::from_secs(u64::try_from(self.0.tv_sec).unwrap_or(0));
        let value = seconds + Duration::from_micros(u64::try_from(self.0.tv_usec).unwrap_or(0));
        (!value.is_zero()).then_some(value)
    }
}
