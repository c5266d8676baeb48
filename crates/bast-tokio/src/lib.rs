//! Futures that need tokio, awaited from bast's fibers.
//!
//! ```
//! use std::time::Duration;
//! use bast_tokio::InTokio;
//!
//! let fiber = bast::spawn(|| {
//!     // One future: polled here, by the fiber, with tokio's timers and sockets at hand.
//!     async { tokio::time::sleep(Duration::from_millis(1)).await }.tokio_wait();
//!     // Or a whole piece of direct-style code, in which bast's own `wait` is enough.
//!     bast_tokio::run(|| {
//!         use bast::future::Wait;
//!         let task = tokio::spawn(async { 6 * 7 });
//!         bast::yield_now(); // suspending is no matter
//!         task.wait().unwrap()
//!     })
//! });
//! assert_eq!(fiber.join().unwrap(), 42);
//! ```
//!
//! sqlx, reqwest, tonic, redis and whatever else is made on tokio look for its runtime in a thread-local and
//! panic if none is there. This crate puts one there while their code runs: a runtime in the
//! background, whose one thread waits for sockets and timers and runs what is spawned by `tokio::spawn`. The
//! future itself is polled by its fiber (or task, or thread), and its waker comes to the fiber from that thread.
//!
//! ```text
//!   worker of bast                                     thread "bast-tokio"
//!   ──────────────                                     ───────────────────
//!   fiber A: wait(Tokio(future))                        sockets, timers, spawned tasks
//!     poll ── in the context ──▶ Pending                     │
//!     park: the context is taken off the thread              │
//!   fiber B runs, outside any context                        │
//!     A ready ◀───────────────── wake ───────────────────────┘
//!     the context is put back; poll ──▶ Ready
//! ```
//!
//! The context belongs to the fiber, not to the thread: a switch hook ([`bast::hook`]) takes it off the
//! thread at each suspension and puts it back afterwards (module `context`). So a poll may even suspend
//! the fiber itself, by a blocking call of bast's in an `async fn`. The hook is added when the crate is used for the
//! first time, and from then on each switch of each fiber pays some tens of nanoseconds for it (`examples/costs.rs`).
//!
//! # Which runtime
//! | where | which |
//! |---|---|
//! | inside [`run_on`], or a [`Tokio::on`] that polls | that one |
//! | on a thread of tokio, or inside `Handle::enter` | the one that is there |
//! | elsewhere | the one in the background, started now if it was not |
//!
//! The background runtime (`multi_thread`, one worker) lives until the process ends; tasks that run then are not
//! waited for. Who wants more threads or an orderly end makes a `tokio::runtime::Runtime` and uses
//! [`run_on`]. Once it is gone, futures that wait for it fail with tokio's error or panic, which says so.
//!
//! # What does not work
//! * tokio's `block_on`, `blocking_recv` and the like on a fiber block the whole worker, which no panic tells: use
//!   [`wait`]. In a task of tokio's they panic, as ever.
//! * `block_in_place` on a fiber is a plain call, so it blocks the worker: use [`bast::blocking`]. In
//!   tasks (`tokio::spawn`) it works, and so does `spawn_blocking` everywhere.
//! * A `tokio::runtime::EnterGuard` of the user's own, held while the fiber suspends, cannot be taken off the thread.
//!   Inside [`run`] the end of `run` panics and says so. Use [`run_on`] instead of the guard.
//! * `tokio::task_local!`: inside its `scope`, a poll must not suspend the fiber by itself. It swaps values in a
//!   thread-local around each poll, which other fibers would see. (Waiting by `await` is right.)
//!
//! # Platforms
//! The crate has no code for any one system. tokio waits by its own means (epoll, kqueue, on Windows a completion port
//! of its own), whatever bast's driver is. The tests are run on Linux and, for Windows, by Wine
//! (`cargo xtask windows --package bast-tokio`).
//!
//! # Streams
//! `tokio::io`'s traits are made of `futures-io`'s, and the reverse, by `tokio_util::compat`.
//!
//! # Why not `async-compat`
//! It enters its runtime around each poll as well, and is enough on threads. It knows nothing of fibers: its guard
//! stays on the thread when a poll suspends, where tokio panics as soon as a second fiber does the same. And it
//! has only its own, single-threaded runtime.

#![forbid(unsafe_code)]

mod background;
mod context;
mod future;
mod tls;

pub use background::handle;
pub use future::{InTokio, Tokio};

use std::future::{Future, IntoFuture};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Waits for a future that needs tokio: [`bast::block_on`] in [`run`].
///
/// # Panics
/// With the panic of the future. If the background runtime cannot be started.
///
/// # Cancellation
/// A suspension point, if the future is not ready at once. The future is then dropped, in the context.
///
/// ```
/// bast_tokio::wait(async { tokio::task::yield_now().await });
/// ```
pub fn wait<F: IntoFuture>(future: F) -> F::Output {
    run(|| bast::block_on(future))
}

/// Runs a closure in tokio's context: all of tokio's functions work in it, and each future can be waited for by
/// bast's own [`wait`](bast::future::Wait::wait).
///
/// The closure may suspend. Fibers that it spawns begin outside the context.
///
/// # Panics
/// With the panic of the closure. If the background runtime cannot be started. At its end, if the
/// fiber was suspended while it held an `EnterGuard` of tokio's own.
///
/// ```
/// use std::time::Duration;
/// use bast::future::Wait;
///
/// let late = bast_tokio::run(|| {
///     tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).wait()
/// });
/// assert!(late.is_err());
/// ```
pub fn run<R>(f: impl FnOnce() -> R) -> R {
    context::within(None, f)
}

/// As [`run`], in the context of a runtime of your own.
///
/// # Panics
/// As [`run`].
///
/// ```
/// use bast::future::Wait;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
/// let id = bast_tokio::run_on(runtime.handle(), || {
///     tokio::spawn(async { tokio::runtime::Handle::current().id() }).wait()
/// });
/// assert_eq!(id?, runtime.handle().id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_on<R>(handle: &Handle, f: impl FnOnce() -> R) -> R {
    context::within(Some(handle), f)
}

/// Same as [`tokio::spawn`], from anywhere: the task runs on tokio's threads.
///
/// Its handle can be awaited everywhere, without a context. As tokio's, it detaches the task when it is
/// dropped, also when the fiber that waits for it is cancelled.
///
/// # Panics
/// If the background runtime cannot be started.
///
/// ```
/// use bast::future::Wait;
///
/// let task = bast_tokio::spawn(async { tokio::task::block_in_place(|| 7) });
/// assert_eq!(task.wait().unwrap(), 7);
/// ```
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    run(|| tokio::spawn(future))
}
