//! The runtime in the background.
//!
//! `multi_thread`, because `block_in_place` works there only; one worker, because what is polled by fibers is
//! not polled there: it waits for sockets and timers and runs what libraries spawn (the connections of
//! reqwest and tonic). It is never dropped: fibers may use it until the process ends.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).thread_name("bast-tokio").enable_all().build();
    runtime.unwrap_or_else(|error| {
        panic!(
            "bast-tokio cannot start its background runtime, which takes a thread and three \
             descriptors (on Unix see `ulimit -u -n`): {error}"
        )
    })
});

/// The background runtime, which is started if it was not: one worker thread, all of tokio's drivers.
///
/// # Panics
/// If it cannot be started, now and from then on.
pub fn handle() -> &'static Handle {
    RUNTIME.handle()
}
