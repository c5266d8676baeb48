//! Stackless tasks: futures that the workers poll, between fibers.
//!
//! ```text
//!   spawn ──▶ registry of a post (a Waker, until the future is gone)
//!     │
//!     ▼            ┌── its worker's queue ◀── woken on a worker of the runtime
//!   scheduled ─────┤                                            (any worker may steal it)
//!     ▲            └── injector, or mail of a local task's worker ◀── woken elsewhere
//!     │ wake                            │
//!     └────────── pending ◀── polled ◀──┘ ──ready, panicked, cancelled──▶ future dropped ──▶ joined
//! ```
//!
//! `async-task` has the record: one allocation with the future or its output, the references, and the
//! state that sees to it that a task is scheduled once however often it is woken, and polled by one thread
//! at a time. What is here is where it is scheduled (`queue`), what is polled (`work`: panics,
//! cancellation), who knows of it (`registry`), and who waits for it (`handle`).
//!
//! A poll runs on the worker's own stack. So it must not wait as a fiber does: what would block says so by
//! a panic (`must_not_wait`), which is the task's.

mod handle;
mod queue;
mod registry;
mod work;

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::{Context, Poll};

use async_task::{ScheduleInfo, WithInfo};

pub use handle::JoinHandle;
pub(crate) use queue::{LocalTasks, Tasks};
pub(crate) use registry::{Registry, sites};
use work::Work;

use crate::post::Post;
use crate::shared::Shared;
use crate::spawn::here;
use crate::tls;
use crate::worker::Worker;

/// A task that is to be polled.
pub(crate) type Runnable = async_task::Runnable<Meta>;

/// What the scheduler knows of a task.
pub(crate) struct Meta {
    /// Whose registry it is in; the only worker of a local task.
    post: &'static Post,
    key: AtomicUsize,
    /// The number of its runtime.
    runtime: u64,
    local: bool,
    /// Its next poll drops the future instead.
    cancelled: AtomicBool,
}

/// Starts a task: the future is polled by the workers of the calling fiber's or task's runtime, or of the default
/// runtime, until it is ready, whether or not somebody waits for it.
///
/// A task has no stack of its own: it costs its future and some 100 bytes, and any worker may take it over each
/// time that it is polled. In return it may only `await`. What bast does for fibers by waiting in place
/// (`sleep`, `join`, locks that are taken, I/O) panics in a task, if it would have to wait: `await` it, or
/// use a fiber ([`spawn`](crate::spawn())).
///
/// # What a task sees
/// * Thread-locals are its worker's of the moment: others use them between two polls.
/// * It has no `fiber_local!` variables: using one panics.
/// * [`current`](crate::current) is the worker's thread; [`timeout`](crate::timeout()) and [`mask`](crate::mask) are
///   for code that waits in place, and do nothing for an `await`.
/// * Switch hooks ([`hook`](crate::hook)) are not called for tasks; each poll begins with the neutral state.
///
/// # Panics
/// If the default runtime cannot be started.
///
/// ```
/// use bast_rt::task;
///
/// let answer = task::spawn(async {
///     let six = bast_rt::spawn(|| 6); // a fiber
///     task::yield_now().await;
///     six.await.unwrap() * 7
/// });
/// assert_eq!(answer.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (shared, worker) = here();
    start(shared, worker, future)
}

/// As [`spawn`], on this very worker, which alone polls and drops the future: it need not be `Send`.
///
/// # Panics
/// Outside a fiber or task: a plain thread has no worker.
///
/// ```
/// use std::rc::Rc;
/// bast_rt::spawn(|| {
///     let text = Rc::new(String::from("not Send"));
///     let shared = Rc::clone(&text);
///     assert_eq!(bast_rt::task::spawn_local(async move { shared.len() }).join().unwrap(), text.len());
/// }).join().unwrap();
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let Some(worker) = tls::worker() else {
        panic!("task::spawn_local outside a fiber or task: a plain thread has no worker");
    };
    // SAFETY: local: `schedule` brings it to this worker only.
    unsafe { make(future, worker.post, worker.shared.number, true) }
}

/// As [`spawn`], on a given runtime.
#[track_caller]
pub(crate) fn spawn_on<F>(shared: &Arc<Shared>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    start(shared, tls::worker().filter(|worker| Arc::ptr_eq(&worker.shared, shared)), future)
}

#[track_caller]
fn start<F>(shared: &Shared, worker: Option<&Worker>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let post = worker.map_or_else(|| shared.any_post(), |worker| worker.post);
    // SAFETY: all is Send.
    unsafe { make(future, post, shared.number, false) }
}

/// # Safety
/// What is not `Send` is `local`, and `post` is this thread's worker's then.
#[track_caller]
unsafe fn make<F>(
    future: F,
    post: &'static Post,
    runtime: u64,
    local: bool,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
{
    let cancelled = AtomicBool::new(false);
    let meta = Meta { post, key: AtomicUsize::new(0), runtime, local, cancelled };
    // SAFETY: `schedule` is Send and Sync and borrows nothing, the future borrows its own record's `Meta` at most.
    // What is not Send is polled and dropped by one worker: `schedule` sees to that.
    let (runnable, task) = unsafe {
        async_task::Builder::new()
            .metadata(meta)
            .spawn_unchecked(|meta| Work::new(future, meta), WithInfo(schedule))
    };
    post.tasks.enter(&runnable, Location::caller());
    runnable.schedule();
    JoinHandle::new(task)
}

/// Queues a task that has been woken, or is new.
///
/// It has no captures: async-task would count references to keep them.
fn schedule(task: Runnable, info: ScheduleInfo) {
    let meta = task.metadata();
    match tls::worker() {
        Some(worker) if meta.local && ptr::eq(worker.post, meta.post) => worker.push_local(task),
        // A bound thread is no worker for what others could do.
        Some(worker)
            if !meta.local
                && worker.shared.number == meta.runtime
                && worker.shared.home.is_none() =>
        {
            worker.push_task(task, info.woken_while_running);
        }
        _ => queue::send(task),
    }
}

/// Lets others run: the other tasks of this worker, and its fibers.
///
/// For [`spawn`]ed tasks and any other async code. Fibers use [`yield_now`](crate::yield_now()).
#[must_use = "a future does nothing unless it is awaited"]
pub fn yield_now() -> impl Future<Output = ()> + Send + Sync + Unpin {
    struct YieldNow {
        yielded: bool,
    }

    impl Future for YieldNow {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    YieldNow { yielded: false }
}

/// Whether this code runs in the poll of a task.
#[inline]
pub(crate) fn is_polling() -> bool {
    tls::worker().is_some_and(|worker| worker.tasks.is_polling())
}

/// To be called where a plain thread would block. In the poll of a task, whose thread is a worker's, it panics.
///
/// (Not while it unwinds: a second panic would end the process. Nor where others use the caller's frames, and whoever
/// waits for them must not leave: [`hold`](crate::wait::hold). Such waits hold up the worker.)
#[inline]
pub(crate) fn must_not_wait(what: &str) {
    if is_polling() && !std::thread::panicking() && !tls::requests().is_held() {
        refuse(what);
    }
}

#[cold]
fn refuse(what: &str) -> ! {
    panic!(
        "{what} has to wait, which would block the worker of this task: await it in its async form, or call \
         it in a fiber (bast::spawn) and await that"
    );
}
