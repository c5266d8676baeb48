#![doc = include_str!("../README.md")]

#[cfg(feature = "rayon")]
mod compute;
pub mod fiber;
pub mod fs;
pub mod future;
pub mod group;
pub mod inspect;
pub mod io;
pub mod net;
#[allow(unsafe_code)]
pub mod os;
pub mod process;
pub mod signal;
pub mod sync;
pub mod task;
pub mod thread;
pub mod time;

pub use fiber::{
    BlockingError, Builder, CancelOnDrop, Cancelled, Elapsed, Fiber, FiberId, JoinHandle, Scope,
    ScopedJoinHandle, available_parallelism, blocking, blocking_interruptible, current, deadline,
    mask, park, park_timeout, scope, sleep, sleep_until, spawn, spawn_local, stop_requested,
    timeout, try_blocking, yield_now,
};

#[cfg(feature = "rayon")]
pub use compute::compute;
pub use future::block_on;
pub use group::{CancelToken, for_each_concurrent, group, join_all, par_map, race};

// The macro and the module of this name.
#[doc(inline)]
pub use bast_rt::{fiber_local, hook};
#[doc(inline)]
pub use bast_sync::select;

#[doc(inline)]
pub use bast_sync::promise::{self, start};
#[doc(inline)]
pub use bast_sync::stream;

#[cfg(feature = "tracing")]
#[doc(inline)]
pub use bast_rt::trace;
pub use inspect::{Dump, Metrics, dump, dump_on_signal, metrics};

pub use bast_rt::{DriverKind, Runtime, RuntimeBuilder, StackError, StackGuards, StillRunning};
