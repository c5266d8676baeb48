//! Same as [`std::time`], with a clock that knows the simulator.

#[doc(inline)]
pub use bast_rt::{Instant, sleep, sleep_until};

#[doc(no_inline)]
pub use std::time::{Duration, SystemTime, SystemTimeError, TryFromFloatSecsError, UNIX_EPOCH};
