//! The atomics of `lock` and `list`, so that loom can take their place.

pub(crate) use bast_rt::wait::{Waiter, Wake, wait};
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicUsize},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicUsize},
    thread::yield_now,
};
