//! The programs of SOUNDNESS.md, each run as a test.
//!
//! Those of `lazy_local` and `scoped_local` show what no library of fibers can prevent. They do so
//! without undefined behaviour: they stop one step before it, and check that the step is possible. If
//! one of them fails, the limit has moved, and SOUNDNESS.md has to be changed with it.
//!
//! A binary of its own beside `it`, so that what it does to thread-locals and panic counts of its
//! workers stays in this process: `cargo test -p bast --test soundness`.

mod documents;
mod hooked;
mod kept;
mod lazy_local;
mod neighbours;
mod scoped_local;
#[cfg(not(feature = "sanitizer"))]
mod unwinding;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bast::Runtime;

/// All fibers of these tests share one thread.
fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().expect("a runtime")
}

/// Lets the other fibers run until one of them has set the flag.
fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        bast::yield_now();
    }
}
