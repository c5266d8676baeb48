//! Tests of bast-coro as its users see it.

#![allow(unsafe_code, missing_docs)]

mod context;
mod coroutine;
#[cfg(all(target_os = "linux", not(feature = "sanitizer")))]
mod memory;
mod overflow;
mod pool;
mod random;
#[cfg(all(target_os = "linux", feature = "sanitizer"))]
mod sanitizer;
mod support;
