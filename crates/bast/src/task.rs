//! Stackless tasks on the workers of the fibers: for async code that comes in great numbers or from elsewhere.
//!
//! ```
//! use bast::task;
//!
//! let answer = task::spawn(async {
//!     let six = bast::spawn(|| 6); // a fiber
//!     task::yield_now().await;
//!     six.await.unwrap() * 7
//! });
//! assert_eq!(answer.join().unwrap(), 42);
//! ```

#[doc(inline)]
pub use bast_rt::task::{JoinHandle, spawn, spawn_local, yield_now};
