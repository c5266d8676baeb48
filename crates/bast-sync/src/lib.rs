//! What makes a fiber wait for a fiber: locks, channels, `MVar`, select, task groups.
//!
//! All of it is made of two parts: a short lock around the state of a primitive (`lock`), and one list
//! of waiters with one protocol for waking them (`list`). Everything works from fibers, from plain threads
//! and between them; nothing here knows which of them calls.
//!
//! Reading order: `lock`, `list`, `mutex` (the smallest user of both), then what you are interested in.

#[allow(unsafe_code)]
mod channel;
#[allow(unsafe_code)]
mod list;
#[allow(unsafe_code)]
mod lock;
#[cfg(all(test, loom))]
mod loom_channels;
pub mod mpmc;
#[allow(unsafe_code)]
pub mod mpsc;
mod pace;
#[allow(unsafe_code)]
pub mod select;
mod shim;

pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
