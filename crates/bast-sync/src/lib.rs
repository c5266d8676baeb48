//! What makes a fiber wait for a fiber: locks, channels, `MVar`, select, task groups.
//!
//! All of it is made of two parts: a short lock around the state of a primitive ([`lock`](mod@lock)), and one list
//! of waiters with one protocol for waking them (`list`). Everything works from fibers, from plain threads
//! and between them; nothing here knows which of them calls.
//!
//! Reading order: `lock`, `list`, `mutex` (the smallest user of both), then what you are interested in.

#[allow(unsafe_code)]
mod breaker;
#[allow(unsafe_code)]
mod channel;
#[allow(unsafe_code)]
mod crew;
#[allow(unsafe_code)]
mod group;
#[allow(unsafe_code)]
mod list;
#[allow(unsafe_code)]
mod lock;
pub mod mpmc;
#[allow(unsafe_code)]
pub mod mpsc;
mod pace;
mod par;
#[allow(unsafe_code)]
pub mod select;
mod shim;
mod token;

pub use group::{Group, GroupJoinHandle, group};
pub use par::{
    for_each_concurrent, join, join_all, par_map, par_map_unordered, race, race_ok, try_join_all,
};
pub use token::{CancelToken, DropGuard};

pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
