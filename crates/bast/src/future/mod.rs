//! Futures in direct style: a fiber waits for any [`Future`], and a [`JoinHandle`](crate::JoinHandle) is one.
//!
//! ```
//! use bast::future::Wait;
//!
//! async fn square(n: u32) -> u32 {
//!     n * n
//! }
//!
//! assert_eq!(square(5).wait(), 25);
//! // And from the other side: code that awaits a fiber.
//! let sum = async { bast::spawn(|| 40).await.unwrap() + 2 };
//! assert_eq!(sum.wait(), 42);
//! ```

pub mod io;

use std::future::IntoFuture;

#[doc(inline)]
pub use bast_rt::{Sleep, block_on, elapse as timeout};

use crate::time::Instant;
use std::time::Duration;

/// A future that ends after `duration`.
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(duration)
}

/// A future that ends at `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(deadline)
}

/// [`block_on`] as a method.
pub trait Wait: IntoFuture {
    /// Waits for the future: the fiber suspends, a plain thread blocks. See [`block_on`].
    ///
    /// # Panics
    /// With the panic of the future.
    fn wait(self) -> Self::Output
    where
        Self: Sized,
    {
        block_on(self)
    }
}

impl<F: IntoFuture> Wait for F {}
