//! Same as [`std::thread`], for fibers: what a program's `use std::thread` becomes. [`fiber`](crate::fiber) has the same
//! under bast's own names, and what std has not.
//!
//! ```
//! use bast::thread;
//!
//! let worker = thread::Builder::new().name("worker".into()).spawn(|| {
//!     assert_eq!(thread::current().name(), Some("worker"));
//!     thread::park();
//! }).unwrap();
//! worker.thread().unpark();
//! worker.join().unwrap();
//! ```
//!
//! # Differences from std
//! * `thread` of a handle returns a [`Thread`] by value.
//! * `thread_local!` variables belong to the worker thread, so fibers share them; `use bast::fiber_local as
//!   thread_local` makes them each fiber's own.
//! * [`fiber`](crate::fiber) lists more.

#[doc(inline)]
pub use bast_rt::{
    AccessError, Builder, Fiber as Thread, FiberId as ThreadId, JoinHandle, LocalKey, Scope,
    ScopedJoinHandle, current, park, park_timeout, scope, sleep, spawn, yield_now,
};

#[doc(no_inline)]
pub use std::thread::{Result, available_parallelism, panicking};
