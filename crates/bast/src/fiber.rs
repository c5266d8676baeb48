//! Fibers, with the names of [`std::thread`]. The crate's root exports them as well.
//!
//! # Differences from std
//! * [`std::thread::Thread`] is [`Fiber`] here, `ThreadId` is [`FiberId`].
//! * A fiber can be cancelled: whatever suspends it then unwinds with [`Cancelled`].
//! * [`park`] never wakes without a reason.
//! * `thread_local!` variables belong to the worker thread, so fibers share them; those of
//!   [`fiber_local!`](crate::fiber_local) are each fiber's own.

#[doc(inline)]
pub use bast_rt::{
    AccessError, Builder, CancelOnDrop, Cancelled, Elapsed, Fiber, FiberId, Interrupted,
    JoinHandle, LocalKey, Scope, ScopedJoinHandle, current, deadline, mask, park, park_timeout,
    scope, sleep, sleep_until, spawn, spawn_local, stop_requested, timeout, yield_now,
};

#[doc(inline)]
pub use bast_rt::{
    BlockingError, run_blocking as blocking, run_blocking_interruptible as blocking_interruptible,
    try_run_blocking as try_blocking,
};

#[doc(no_inline)]
pub use std::thread::available_parallelism;
