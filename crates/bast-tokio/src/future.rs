//! A future that is made, polled and dropped in tokio's context.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use crate::context;

pin_project! {
    /// A future that sees a runtime of tokio's while it is polled, and while it is dropped.
    ///
    /// It can be awaited anywhere: by a fiber, a task, a thread, or in another `async` block.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use bast_tokio::Tokio;
    ///
    /// let begun = Instant::now();
    /// bast::block_on(Tokio::new(async { tokio::time::sleep(Duration::from_millis(2)).await }));
    /// assert!(begun.elapsed() >= Duration::from_millis(2));
    /// ```
    ///
    /// A future that is made by a function of tokio's, and not by an `async` block, often needs the context when it is
    /// made: `tokio::time::sleep(…)` alone panics. Make it in an `async` block, as above, or in [`run`](crate::run).
    pub struct Tokio<F> {
        // Dropped when it has come to its end.
        #[pin]
        future: Option<F>,
        handle: Option<Handle>,
    }

    impl<F> PinnedDrop for Tokio<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                context::within(this.handle.as_ref(), || this.future.set(None));
            }
        }
    }
}

impl<F: Future> Tokio<F> {
    /// In the context that is there at each poll, or else the background runtime's.
    pub fn new(future: impl IntoFuture<IntoFuture = F>) -> Tokio<F> {
        let future = context::within(None, || future.into_future());
        Tokio { future: Some(future), handle: None }
    }

    /// In the context of a runtime of your own.
    ///
    /// ```
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let id = bast_tokio::Tokio::on(runtime.handle(), async { tokio::runtime::Handle::current().id() });
    /// assert_eq!(bast::block_on(id), runtime.handle().id());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on(handle: &Handle, future: impl IntoFuture<IntoFuture = F>) -> Tokio<F> {
        let future = context::within(Some(handle), || future.into_future());
        Tokio { future: Some(future), handle: Some(handle.clone()) }
    }
}

impl<F: Future> Future for Tokio<F> {
    type Output = F::Output;

    /// # Panics
    /// With the panic of the future. When it is polled after it has come to its end.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        context::within(this.handle.as_ref(), || {
            let future = this.future.as_mut().as_pin_mut();
            let polled = future.expect("a future is not polled after its end").poll(context);
            if polled.is_ready() {
                this.future.set(None);
            }
            polled
        })
    }
}

impl<F> fmt::Debug for Tokio<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = self.future.is_none();
        f.debug_struct("Tokio").field("ended", &ended).finish_non_exhaustive()
    }
}

/// [`Tokio::new`] and [`wait`](crate::wait) as methods of every future.
pub trait InTokio: IntoFuture + Sized {
    /// The future in tokio's context. See [`Tokio`].
    fn in_tokio(self) -> Tokio<Self::IntoFuture> {
        Tokio::new(self)
    }

    /// Waits for the future, in tokio's context. See [`wait`](crate::wait).
    ///
    /// # Panics
    /// As [`wait`](crate::wait).
    fn tokio_wait(self) -> Self::Output {
        crate::wait(self)
    }
}

impl<F: IntoFuture> InTokio for F {}
