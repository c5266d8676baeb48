//! M fibers on N workers: the scheduler of bast.
//!
//! The only crate that knows both a stack ([`bast_coro`]) and the I/O manager ([`bast_io`]). It decides
//! who runs next, and nothing else: no system call and no operating system's name is in here.
//!
//! Reading order: `remote` and `inbox` (how other threads reach a fiber), `lifecycle` (how it ends),
//! `fiber` (the record), `worker` (the loop), `idle` (sleeping and waking), `suspend` (what a fiber can
//! wait for). The contracts cited as "rt 1" and so on are in ARCHITECTURE.md.

mod aside;
#[allow(unsafe_code)]
mod block_on;
#[allow(unsafe_code)]
mod blocking;
mod bound;
#[allow(unsafe_code)]
mod cancel;
mod cancel_on_drop;
mod config;
mod ending;
#[allow(unsafe_code)]
mod fiber;
#[allow(unsafe_code)]
mod flight;
pub mod hook;
mod idle;
#[allow(unsafe_code)]
mod inbox;
#[allow(unsafe_code)]
mod inspect;
#[allow(unsafe_code)]
mod interrupt;
#[allow(unsafe_code)]
mod join;
mod lifecycle;
#[allow(unsafe_code)]
mod local;
#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_tests;
#[allow(unsafe_code)]
pub mod ops;
#[allow(unsafe_code)]
mod panics;
#[allow(unsafe_code)]
mod parker;
#[allow(unsafe_code)]
mod post;
#[allow(unsafe_code)]
mod records;
mod remote;
mod ring;
#[allow(unsafe_code)]
mod runtime;
#[allow(unsafe_code)]
mod scope;
#[allow(unsafe_code)]
mod shared;
mod shim;
#[allow(unsafe_code)]
mod spawn;
#[allow(unsafe_code)]
mod suspend;
#[allow(unsafe_code)]
pub mod task;
mod time;
#[allow(unsafe_code)]
mod tls;
#[cfg(feature = "tracing")]
pub mod trace;
mod unwinding;
#[allow(unsafe_code)]
pub mod wait;
#[allow(unsafe_code)]
mod wheel;
#[allow(unsafe_code)]
mod worker;

pub use aside::aside;
pub use bast_coro::StackError;
pub use bast_io::DriverKind;
pub use block_on::block_on;
pub use blocking::{
    BlockingError, run_abandonable, run_blocking, run_blocking_interruptible, try_run_blocking,
};
pub use cancel::{Cancelled, mask, stop_requested};
pub use cancel_on_drop::CancelOnDrop;
pub use config::StackGuards;
pub use flight::{Keep, Sleep, Watch, elapse};
pub use inspect::{
    Dump, FiberDump, Frame, Metrics, RuntimeMetrics, WorkerMetrics, dump, dump_on_signal, metrics,
};
pub use interrupt::{Elapsed, Interrupted, deadline, interruptible, timeout};
pub use join::{Fiber, FiberId, JoinHandle, current};
pub use local::{AccessError, LocalKey};
pub use runtime::{Runtime, RuntimeBuilder, StillRunning};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use spawn::{Builder, spawn, spawn_local, workers};
pub use suspend::{park, park_timeout, perform, sleep, sleep_until, yield_now};
pub use time::Instant;
