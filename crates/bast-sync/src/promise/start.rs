//! From fibers and futures to promises: Lwt's `start`, `pause` and `detach`, with a fiber where Lwt has a thread.

use std::future::IntoFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bast_rt::JoinHandle;

use super::cell::Source;
use super::error::PromiseError;
use super::resolver::Resolver;
use super::{Outcome, Promise};

/// Runs `f` as a fiber, and promises what it returns: [`bast_rt::spawn`] for code in the style of promises. (A
/// `JoinHandle` is a future too; what a promise has beyond it are the callbacks, and one kind of error.)
///
/// A panic lets the promise fail, and so does the end of a fiber that was cancelled, or never ran.
/// [`Promise::cancel`] cancels the fiber; the promise is resolved when that has ended. Dropping the
/// promise detaches it. Callbacks run on the fiber, after `f`.
///
/// ```
/// use bast_sync::promise::start;
///
/// let sum = start(|| 40).and_then(|forty| start(move || forty + 2));
/// assert_eq!(sum.wait().unwrap(), 42);
/// ```
#[track_caller]
pub fn start<F, T>(f: F) -> Promise<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start_with(move || catch_unwind(AssertUnwindSafe(f)).map_err(PromiseError::panicked))
}

#[track_caller]
fn start_with<F, T>(f: F) -> Promise<T>
where
    F: FnOnce() -> Outcome<T> + Send + 'static,
    T: Send + 'static,
{
    let (promise, resolver) = Promise::new();
    let report = Report(Some(resolver));
    let fiber = bast_rt::spawn(move || {
        let outcome = f();
        report.end(outcome);
    });
    promise.expect_from(Source::Fiber(fiber.fiber()));
    promise
}

/// Resolves the promise of a fiber, also if that never runs.
struct Report<T: Send + 'static>(Option<Resolver<T>>);

impl<T: Send + 'static> Report<T> {
    fn end(mut self, outcome: Outcome<T>) {
        if let Some(resolver) = self.0.take() {
            resolver.complete(outcome);
        }
    }
}

impl<T: Send + 'static> Drop for Report<T> {
    fn drop(&mut self) {
        if let Some(resolver) = self.0.take() {
            resolver.complete(Err(PromiseError::cancelled()));
        }
    }
}

/// A promise that is resolved when the fibers that are ready have had a turn. Each is a fiber, on which its callbacks run.
#[track_caller]
pub fn pause() -> Promise<()> {
    start(bast_rt::yield_now)
}

impl<T: Send + 'static> Promise<T> {
    /// The promise of what a future gives. A fiber drives it, from now on; cancelling drops the future.
    #[track_caller]
    pub fn of<F>(future: F) -> Promise<T>
    where
        F: IntoFuture<Output = T> + Send + 'static,
    {
        start(move || bast_rt::block_on(future))
    }
}

/// A fiber waits for the other one, and [`Promise::cancel`] cancels the latter. [`start`] needs no second fiber.
impl<T: Send + 'static> From<JoinHandle<T>> for Promise<T> {
    #[track_caller]
    fn from(handle: JoinHandle<T>) -> Promise<T> {
        let fiber = handle.fiber();
        let promise = start_with(move || handle.join().map_err(PromiseError::panicked));
        promise.expect_from(Source::Fiber(fiber));
        promise
    }
}
