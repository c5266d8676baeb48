//! The end of a promise that resolves it: once, as that uses it up, and at the latest when it is dropped.

use std::error::Error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::Outcome;
use super::cell::{Cell, Source};
use super::error::PromiseError;
use crate::errands;

/// Resolves its [`Promise`](super::Promise). Made by [`Promise::new`](super::Promise::new).
///
/// It is used up by that, so a promise that is resolved twice is not compiled:
///
/// ```compile_fail,E0382
/// let (promise, resolver) = bast_sync::promise::Promise::new();
/// resolver.resolve(1);
/// resolver.resolve(2);
/// ```
///
/// Dropping it unused breaks the promise: that fails with an error that [`is_broken`](PromiseError::is_broken).
#[must_use = "dropping it breaks the promise"]
pub struct Resolver<T: Send + 'static> {
    /// None: used.
    cell: Option<Arc<Cell<T>>>,
}

impl<T: Send + 'static> Resolver<T> {
    pub(super) fn new(cell: Arc<Cell<T>>) -> Resolver<T> {
        Resolver { cell: Some(cell) }
    }

    /// Gives the value. Callbacks of the promise run before this returns, unless it is called by a
    /// callback: then when that has returned. If the promise has been cancelled the value is dropped.
    ///
    /// Never waits by itself and is no suspension point; callbacks may wait.
    pub fn resolve(self, value: T) {
        self.complete(Ok(value));
    }

    /// Lets the promise fail with an error, a text, or the [`PromiseError`] of another promise.
    pub fn reject(self, error: impl Into<Box<dyn Error + Send + Sync>>) {
        self.complete(Err(PromiseError::new(error)));
    }

    /// As [`resolve`](Resolver::resolve) or [`reject`](Resolver::reject).
    pub(crate) fn complete(mut self, outcome: Outcome<T>) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome<T>) {
        if let Some(cell) = self.cell.take()
            && let Some(step) = cell.complete(outcome)
        {
            errands::run(step);
        }
    }

    /// Whether somebody has called [`Promise::cancel`](super::Promise::cancel), for this promise or one that waits for it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| Arc::clone(cell).root().is_cancelled())
    }

    /// Says what [`Promise::cancel`](super::Promise::cancel) does: it calls `f`, once and on the canceller's fiber, and the promise stays as it is
    /// until this resolver is used. Without, cancelling lets the promise fail at once. A second call replaces the
    /// first. If it has been cancelled already, and has not failed by that, `f` is called now.
    pub fn on_cancel(&self, f: impl FnOnce() + Send + 'static) {
        if let Some(cell) = &self.cell {
            Arc::clone(cell).expect_from(Source::Hook(Box::new(f)));
        }
    }
}

impl<T: Send + 'static> Drop for Resolver<T> {
    fn drop(&mut self) {
        if self.cell.is_some() {
            self.end(Err(PromiseError::broken()));
        }
    }
}

// As for the promise.
impl<T: Send + 'static> UnwindSafe for Resolver<T> {}
impl<T: Send + 'static> RefUnwindSafe for Resolver<T> {}

impl<T: Send + 'static> fmt::Debug for Resolver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}
