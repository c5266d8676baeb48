//! The atomics of the small state machines, so that loom can take their place.
//!
//! Only the mechanisms that are model-checked use this module (`ending`, `inbox`, `idle`, `lifecycle`,
//! `remote`); the rest of the crate uses `std` and is not run under loom.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicPtr, AtomicU8, AtomicUsize, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicPtr, AtomicU8, AtomicUsize, fence},
};
