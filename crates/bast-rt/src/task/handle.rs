//! Waiting for a task.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use async_task::Task;

use super::Meta;
use super::work::Output;
use crate::block_on::{self, block_on};
use crate::interrupt;
use crate::tls;

/// The handle to a task. Dropping it detaches the task.
///
/// It is a future itself; from a fiber, or a plain thread, use [`join`](JoinHandle::join).
#[must_use = "dropping it detaches the task: let _ = … says that this is meant"]
pub struct JoinHandle<T> {
    /// Until the result has been taken.
    task: Option<Task<Output<T>, Meta>>,
    /// The waker of whoever has polled this.
    polled: Option<Arc<Quiet>>,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(task: Task<Output<T>, Meta>) -> JoinHandle<T> {
        JoinHandle { task: Some(task), polled: None }
    }

    /// Waits for the task to end and returns what its future returned. From a fiber this parks the fiber, from a plain
    /// thread it blocks the thread; a task awaits the handle instead.
    ///
    /// If the calling fiber is cancelled while it waits, it unwinds, and the task goes on detached.
    ///
    /// # Errors
    /// The payload of the panic that ended the task; [`Cancelled`](crate::Cancelled) if it was cancelled, or
    /// its runtime ended.
    ///
    /// # Panics
    /// In a task that would have to wait. If the result has been taken.
    pub fn join(self) -> thread::Result<T> {
        block_on(self)
    }

    /// Whether the task has ended: then `join` does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(Task::is_finished)
    }

    /// Has the future dropped: by a worker of its runtime (a local task's own), when it is not being polled. Whoever
    /// joins then hears [`Cancelled`](crate::Cancelled). Does nothing if the future was ready before that.
    pub fn cancel(&self) {
        if let Some(task) = &self.task
            && !task.is_finished()
        {
            let meta = task.metadata();
            meta.cancelled.store(true, Release);
            meta.post.tasks.wake(meta.key.load(Relaxed));
        }
    }
}

/// What [`join`](JoinHandle::join) returns, for code that awaits.
///
/// # Panics
/// If it is polled again after it was ready.
impl<T> Future for JoinHandle<T> {
    type Output = thread::Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.get_mut();
        let Some(task) = &mut handle.task else {
            panic!("the JoinHandle of a task was polled again after it was ready");
        };
        let waker = context.waker();
        let polled = if is_ours(waker) || task.is_finished() {
            Pin::new(task).poll(context)
        } else {
            let quiet = match handle.polled.take() {
                Some(quiet) if quiet.0.will_wake(waker) => quiet,
                _ => Arc::new(Quiet(waker.clone())),
            };
            let waker = Waker::from(Arc::clone(handle.polled.insert(quiet)));
            Pin::new(task).poll(&mut Context::from_waker(&waker))
        };
        polled.map(|output| {
            handle.task = None;
            output.take()
        })
    }
}

/// Whether it is the waker of the fiber or task that runs here. Those do not panic.
fn is_ours(waker: &Waker) -> bool {
    let Some(worker) = tls::worker() else { return false };
    match worker.current() {
        Some(header) => block_on::is_of(waker, header),
        None => worker.tasks.is_polling() && waker.data() == worker.tasks.polled(),
    }
}

/// A waker whose panics end nothing: async-task would end the process.
struct Quiet(Waker);

impl Wake for Quiet {
    fn wake(self: Arc<Quiet>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Quiet>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.0.wake_by_ref())) {
            interrupt::let_go(payload);
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("task::JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
