//! What is polled: the task's future, with everything it can do wrong kept in.
//!
//! `async-task` ends the process if a destructor panics in its hands. So the future is dropped in here, in the poll
//! that ends it; the output goes out in a wrapper whose destructor lets no panic through; and a
//! cancelled task is polled once more, in which its future is dropped. To async-task every task simply becomes ready.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::task::{Context, Poll};
use std::thread;

use super::Meta;
use crate::cancel::Cancelled;
use crate::tls;
use crate::wait::drop_quietly;

/// The future of a task.
pub(super) struct Work<'a, F> {
    /// Pinned with the whole.
    future: Option<F>,
    meta: &'a Meta,
}

/// What the task has come to.
pub(super) struct Output<T>(Option<thread::Result<T>>);

impl<T> Output<T> {
    pub(super) fn take(mut self) -> thread::Result<T> {
        self.0.take().unwrap_or_else(|| Err(Box::new(Cancelled::new())))
    }
}

impl<T> Drop for Output<T> {
    fn drop(&mut self) {
        if let Some(unwanted) = self.0.take() {
            drop_quietly(unwanted);
        }
    }
}

impl<'a, F> Work<'a, F> {
    pub(super) fn new(future: F, meta: &'a Meta) -> Work<'a, F> {
        Work { future: Some(future), meta }
    }
}

impl<F: Future> Future for Work<'_, F> {
    type Output = Output<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future in it is not moved: it is polled, and dropped, where it is.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let mut future = unsafe { Pin::new_unchecked(&mut this.future) };
        // Acquire: whoever cancelled it did what it did before that.
        let polled = if this.meta.cancelled.load(Acquire) {
            Ok(Poll::Ready(Err(Box::new(Cancelled::new()) as Box<dyn Any + Send>)))
        } else {
            catch_unwind(AssertUnwindSafe(|| match future.as_mut().as_pin_mut() {
                Some(future) => future.poll(context).map(Ok),
                None => unreachable!("async-task does not poll what was ready"),
            }))
        };
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(payload) => Err(payload),
        };
        let dropped = catch_unwind(AssertUnwindSafe(|| future.set(None)));
        Poll::Ready(Output(Some(match (result, dropped) {
            (result, Ok(())) => result,
            // The first panic is the one that tells what went wrong.
            (Err(payload), Err(later)) if !payload.is::<Cancelled>() => {
                drop_quietly(later);
                Err(payload)
            }
            (result, Err(payload)) => {
                drop_quietly(result);
                Err(payload)
            }
        })))
    }
}

impl<F> Drop for Work<'_, F> {
    fn drop(&mut self) {
        let post = self.meta.post;
        if post.tasks.leave(self.meta.key.load(Relaxed))
            && tls::worker().is_some_and(|worker| worker.shared.is_stopping())
        {
            // Its worker waits for this.
            post.wake();
        }
    }
}
