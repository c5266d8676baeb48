//! A socket's own time limits, in Windows' form.

use std::time::Duration;

/// A length of time, in milliseconds. Zero is "never" to the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Time(u32);

impl Time {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_there_and_back() {
        let there_and_back = |d| Time::new(d).get();
        assert_eq!(there_and_back(None), None);
        // Zero means "never", so nothing that was asked for may become zero.
        let least = Some(Duration::from_millis(1));
        assert_eq!(there_and_back(Some(Duration::ZERO)), least);
        assert_eq!(there_and_back(Some(Duration::from_nanos(999))), least);
        let odd = Some(Duration::new(3, 7_000_000));
        assert_eq!(there_and_back(odd), odd);
        assert!(there_and_back(Some(Duration::MAX)) > Some(Duration::from_secs(1 << 20)));
    }
}
