//! What makes a fiber wait for a fiber: locks, channels, `MVar`, select, task groups.
//!
//! All of it is made of two parts: a short lock around the state of a primitive (`lock`), and one list of
//! waiters with one protocol for waking them (`list`). Everything works from fibers, from plain threads
//! and between them; nothing here knows which of them calls.
//!
//! Reading order: `lock`, `list`, `gate` and `mutex` (the way in and out of a lock), `crowd` (waiters that are let go
//! at once), then what you are interested in.

mod barrier;
mod condvar;
#[allow(unsafe_code)]
mod crowd;
#[allow(unsafe_code)]
mod gate;
#[allow(unsafe_code)]
mod lazy_lock;
#[allow(unsafe_code)]
mod list;
#[allow(unsafe_code)]
mod lock;
#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_tests;
#[allow(unsafe_code)]
mod mutex;
mod notify;
mod once;
#[allow(unsafe_code)]
mod once_lock;
mod poison;
#[allow(unsafe_code)]
mod rwlock;
mod semaphore;
#[allow(unsafe_code)]
mod shim;
#[cfg(all(test, not(loom)))]
mod thread_tests;
mod wait_group;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
pub use wait_group::WaitGroup;
