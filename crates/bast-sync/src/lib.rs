//! What makes a fiber wait for a fiber: locks, channels, `MVar`, select, task groups.
//!
//! All of it is made of two parts: a short lock around the state of a primitive (`lock`), and one list of
//! waiters with one protocol for waking them (`list`). Everything works from fibers, from plain threads
//! and between them; nothing here knows which of them calls.
//!
//! Reading order: `lock`, `list`, `gate` and `mutex` (the way in and out of a lock), `crowd` (waiters that are let go
//! at once), then what you are interested in.

mod barrier;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod breaker;
#[allow(unsafe_code)]
pub mod broadcast;
#[allow(unsafe_code)]
mod channel;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod combine;
mod condvar;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod crew;
#[allow(unsafe_code)]
mod crowd;
#[allow(unsafe_code)]
mod errands;
#[allow(unsafe_code)]
mod gate;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod group;
mod iterators;
#[allow(unsafe_code)]
mod lazy_lock;
#[allow(unsafe_code)]
mod list;
#[allow(unsafe_code)]
mod lock;
#[cfg(all(test, loom))]
mod loom_channels;
#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_tests;
pub mod mpmc;
#[allow(unsafe_code)]
pub mod mpsc;
#[allow(unsafe_code)]
mod mutex;
mod mvar;
mod notify;
mod once;
#[allow(unsafe_code)]
mod once_lock;
#[allow(unsafe_code)]
pub mod oneshot;
mod pace;
#[cfg(not(loom))]
mod par;
#[allow(unsafe_code)]
mod place;
mod poison;
#[allow(unsafe_code)]
mod pool;
pub mod promise;
#[allow(unsafe_code)]
mod reentrant;
#[allow(unsafe_code)]
mod rwlock;
#[allow(unsafe_code)]
pub mod select;
mod semaphore;
#[allow(unsafe_code)]
mod shim;
#[cfg(not(loom))]
pub mod stream;
#[cfg(all(test, not(loom)))]
mod thread_tests;
#[cfg(not(loom))]
mod token;
mod wait_group;
#[allow(unsafe_code)]
pub mod watch;

pub use barrier::{Barrier, BarrierWaitResult};
#[cfg(not(loom))]
pub use combine::{Combiner, Failure, Sink};
pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(not(loom))]
pub use group::{Group, GroupJoinHandle, group};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard};
pub use mvar::MVar;
pub use notify::Notify;
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
#[cfg(not(loom))]
pub use par::{
    for_each_concurrent, join, join_all, par_map, par_map_unordered, race, race_ok, try_join_all,
};
pub use pool::{Pool, PoolError, PoolStatus, Pooled};
pub use reentrant::{ReentrantLock, ReentrantLockGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
#[cfg(not(loom))]
pub use token::{CancelToken, DropGuard};
pub use wait_group::WaitGroup;
