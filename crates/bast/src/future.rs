//! Futures in direct style: a fiber waits for any [`Future`], and a [`JoinHandle`](crate::JoinHandle) is one.
//!
//! | from | to | by |
//! |---|---|---|
//! | a future | its value, in a fiber or plain thread | [`wait`](Wait::wait), [`block_on`] |
//! | a function in direct style | a future | [`spawn`](crate::spawn()); [`cancel_on_drop`](crate::JoinHandle::cancel_on_drop) gives it a future's way to end |
//! | the same | a promise | [`start`](crate::start) |
//! | a future, a [`JoinHandle`](crate::JoinHandle) | a promise | [`Promise::of`](crate::promise::Promise::of), `Promise::from` |
//! | a promise | its value | [`Promise::wait`](crate::promise::Promise::wait), `.await` |
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

use std::future::IntoFuture;

#[doc(inline)]
pub use bast_rt::block_on;

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
