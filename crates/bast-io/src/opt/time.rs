//! A socket's own time limits, in the kernel's form.

use std::time::Duration;

use crate::sys::c;

/// A length of time, in microseconds. Zero is "never" to the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Time(c::timeval);

impl Time {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_there_and_back() {
        let there_and_back = |d| Time::new(d).get();
        assert_eq!(there_and_back(None), None);
        // Zero means "never", so nothing that was asked for may become zero.
        let least = Some(Duration::from_micros(1));
        assert_eq!(there_and_back(Some(Duration::ZERO)), least);
        assert_eq!(there_and_back(Some(Duration::from_nanos(999))), least);
        let odd = Some(Duration::new(3, 7_000));
        assert_eq!(there_and_back(odd), odd);
        assert!(there_and_back(Some(Duration::MAX)) > Some(Duration::from_secs(1 << 40)));
    }
}
