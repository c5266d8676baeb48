//! Promises, after OCaml's Lwt: values that will come, and callbacks that wait for them.
//!
//! ```text
//!   Promise::new() ──▶ (Promise<T>, Resolver<T>)
//!                          │              └── resolve(value) / reject(error) / dropped: broken
//!              map, and_then, catch, finally      │
//!                          ▼                      ▼
//!                      Promise<U> ◀────────── the callback runs here
//! ```
//!
//! * **Callbacks run where the promise is resolved**, before `resolve` returns, whether anybody waits for the result or
//!   not; on a promise that is resolved already they run at once. That is what a promise has beyond a future: a future is a
//!   computation that somebody has to drive, and Rust has `async` for that; a promise is on its way by itself. A
//!   callback is to be short: while it waits for something the one who resolves waits, and so do the callbacks
//!   after it. It is not to be called under a lock that a callback takes. For longer work it returns the promise of a
//!   fiber: `and_then(|x| start(move || …))`. Callbacks of one fiber never nest: those that a callback sets off run when it has returned.
//! * **A promise has one owner**, as values have in Rust; what uses the value uses up the promise. Dropping a promise lets go of it,
//!   as dropping a `JoinHandle` does: callbacks run all the same. [`cancel`](Promise::cancel) ends what it waits for.
//! * **One error type.** A promise fails in ways that its maker has not named: broken, cancelled, by a panic. `both`,
//!   `all`, `pick` bring promises of different origins together. With a parameter `E` each of these would want a
//!   `From` bound and an enum around `E`; so there is [`PromiseError`], which holds any error and gives it back by
//!   [`downcast`](PromiseError::downcast). Who wants errors in the types has `Promise<Result<T, E>>`.
//! * A panic in a callback rejects the promise that the callback was to resolve.
//! * A promise is a [`Future`], so fibers, plain threads and tasks can all wait for it; and any future becomes a promise by
//!   [`Promise::of`]. In direct style: [`start`] runs a function as a fiber and gives a promise, [`wait`](Promise::wait) is its inverse.
//!
//! ```
//! use bast_sync::promise::{Promise, start};
//!
//! let page = start(|| "in direct style".len()).and_then(|n| {
//!     Promise::both(Promise::ready(n), start(|| 20)).map(|(a, b)| a + b)
//! });
//! assert_eq!(page.wait()?, 35);
//!
//! let (promise, resolver) = Promise::new();
//! let text = promise.map(|n: u32| n.to_string()).catch(|why| Promise::ready(why.to_string()));
//! resolver.reject("no number today");
//! assert_eq!(text.wait()?, "no number today");
//! # Ok::<(), bast_sync::promise::PromiseError>(())
//! ```

mod cell;
mod error;
mod gather;
#[cfg(all(test, loom))]
mod loom_tests;
mod resolver;
#[cfg(not(loom))]
mod start;
#[cfg(all(test, not(loom)))]
mod tests;

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bast_rt::wait::drop_quietly;

use crate::errands::{self, Step};

use cell::{Callback, Cell, Source};

pub use error::PromiseError;
pub use resolver::Resolver;
#[cfg(not(loom))]
pub use start::{pause, start};

type Outcome<T> = Result<T, PromiseError>;

/// A value that will come, or an error. See the [module](self).
#[must_use = "who does not want the value says so by `drop`; callbacks run all the same"]
pub struct Promise<T>(Inner<T>);

enum Inner<T> {
    /// Needs no cell.
    Ready(Outcome<T>),
    Cell(Arc<Cell<T>>),
    Taken,
}

impl<T> Promise<T> {
    /// A promise that is resolved.
    pub const fn ready(value: T) -> Promise<T> {
        Promise(Inner::Ready(Ok(value)))
    }

    /// A promise that has failed with an error, a text, or the [`PromiseError`] of another promise.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Promise<T> {
        Promise(Inner::Ready(Err(PromiseError::new(error))))
    }

    /// Whether the value or error is there, so that nobody would have to wait.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        match &self.0 {
            Inner::Ready(_) => true,
            Inner::Cell(cell) => cell.is_done(),
            Inner::Taken => false,
        }
    }

    fn take(&mut self) -> Inner<T> {
        mem::replace(&mut self.0, Inner::Taken)
    }
}

impl<T: Send + 'static> Promise<T> {
    /// A promise, and what resolves it.
    pub fn new() -> (Promise<T>, Resolver<T>) {
        let cell = Cell::new(Source::Resolver);
        (Promise(Inner::Cell(Arc::clone(&cell))), Resolver::new(cell))
    }

    /// Waits for it: the fiber suspends, a plain thread blocks.
    ///
    /// # Errors
    /// Why there is no value.
    ///
    /// # Cancellation
    /// A suspension point, if it is not resolved yet. The promise is dropped then, and what it waits for goes on.
    pub fn wait(self) -> Result<T, PromiseError> {
        bast_rt::block_on(self)
    }

    /// Calls `f` with the value: Lwt's `map`.
    pub fn map<U, F>(self, f: F) -> Promise<U>
    where
        U: Send + 'static,
        F: FnOnce(T) -> U + Send + 'static,
    {
        self.then(move |outcome| Promise(Inner::Ready(outcome.map(f))))
    }

    /// Calls `f` with the value, and goes on as the promise that it returns: Lwt's `bind`.
    ///
    /// Loops are made of it, by recursion. However often they go round, they need no stack, and no more memory:
    ///
    /// ```
    /// use bast_sync::promise::{Promise, pause};
    ///
    /// fn count(n: u32, end: u32) -> Promise<u32> {
    ///     if n == end { Promise::ready(n) } else { pause().and_then(move |()| count(n + 1, end)) }
    /// }
    /// assert_eq!(count(0, 1000).wait().unwrap(), 1000);
    /// ```
    pub fn and_then<U, F>(self, f: F) -> Promise<U>
    where
        U: Send + 'static,
        F: FnOnce(T) -> Promise<U> + Send + 'static,
    {
        self.then(move |outcome| match outcome {
            Ok(value) => f(value),
            Err(error) => Promise(Inner::Ready(Err(error))),
        })
    }

    /// Calls `f` with the error, if it fails, and goes on as the promise that it returns.
    pub fn catch<F>(self, f: F) -> Promise<T>
    where
        F: FnOnce(PromiseError) -> Promise<T> + Send + 'static,
    {
        self.then(move |outcome| match outcome {
            Ok(value) => Promise::ready(value),
            Err(error) => f(error),
        })
    }

    /// Calls `f` when it is resolved or has failed, and waits for what that returns. If that fails it
    /// fails with that error, else it goes on as it would have without: Lwt's `finalize`.
    pub fn finally<F>(self, f: F) -> Promise<T>
    where
        F: FnOnce() -> Promise<()> + Send + 'static,
    {
        self.then(move |outcome| match f().take() {
            Inner::Ready(done) => Promise(Inner::Ready(done.and(outcome))),
            later => Promise(later).then(move |done| Promise(Inner::Ready(done.and(outcome)))),
        })
    }

    /// Calls `f` with the value or the error, and goes on as the promise that it returns: what all the others are
    /// made of. Lwt's `try_bind`.
    pub fn then<U, F>(mut self, f: F) -> Promise<U>
    where
        U: Send + 'static,
        F: FnOnce(Result<T, PromiseError>) -> Promise<U> + Send + 'static,
    {
        let (from, source) = match self.take() {
            Inner::Ready(outcome) => match errands::call((f, outcome), |(f, o)| call(f, o)) {
                Ok(promise) => return promise,
                Err((f, outcome)) => return chain(Cell::done(outcome), Source::Nothing, f),
            },
            Inner::Cell(cell) => (Arc::clone(&cell), Source::Upstream(cell)),
            Inner::Taken => panic!("{POLLED}"),
        };
        chain(from, source, f)
    }

    /// Ends what it waits for, if that can be told: a fiber of [`start`] is cancelled, a [`Resolver`] with an
    /// [`on_cancel`](Resolver::on_cancel) is told, and any other's promise fails with an error that
    /// [`is_cancelled`](PromiseError::is_cancelled). From there it comes down to this promise as any error
    /// does, through `catch` and `finally`. Does nothing if it is resolved.
    pub fn cancel(&self) {
        if let Inner::Cell(cell) = &self.0 {
            let source: Arc<dyn cell::Cancel> = cell.clone();
            cell::cancel(source);
        }
    }
}

impl<T: Send + 'static> Promise<T> {
    /// Says what cancelling ends.
    fn expect_from(&self, source: Source) {
        if let Inner::Cell(cell) = &self.0 {
            Arc::clone(cell).expect_from(source);
        }
    }
}

/// Chains a callback to a cell whose promise is used up.
fn chain<T, U, F>(from: Arc<Cell<T>>, source: Source, f: F) -> Promise<U>
where
    T: Send + 'static,
    U: Send + 'static,
    F: FnOnce(Outcome<T>) -> Promise<U> + Send + 'static,
{
    let to = Cell::new(source);
    from.attach(Box::new(Chained { f, to: Arc::clone(&to) }));
    Promise(Inner::Cell(to))
}

/// A callback, and what it is to resolve.
struct Chained<F, U> {
    f: F,
    to: Arc<Cell<U>>,
}

impl<T, U, F> Callback<T> for Chained<F, U>
where
    U: Send + 'static,
    F: FnOnce(Outcome<T>) -> Promise<U> + Send + 'static,
{
    fn run(self: Box<Self>, outcome: Outcome<T>) -> Option<Arc<dyn Step>> {
        let Chained { f, to } = *self;
        match call(f, outcome).take() {
            Inner::Ready(outcome) => to.complete(outcome),
            Inner::Cell(inner) => Cell::merge(inner, to),
            Inner::Taken => to.complete(Err(PromiseError::new(POLLED))),
        }
    }
}

/// Calls a callback of the user's.
fn call<T, U>(f: impl FnOnce(Outcome<T>) -> Promise<U>, outcome: Outcome<T>) -> Promise<U> {
    catch_unwind(AssertUnwindSafe(|| f(outcome))).unwrap_or_else(failed_by)
}

fn failed_by<T>(panic: Box<dyn Any + Send>) -> Promise<T> {
    Promise(Inner::Ready(Err(PromiseError::panicked(panic))))
}

/// Calls what must not end us by a panic, which has been printed.
fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        drop_quietly(payload);
    }
}

const POLLED: &str = "a promise was used after it had given its value";

/// # Panics
/// If it is polled again after it was ready.
impl<T> Future for Promise<T> {
    type Output = Result<T, PromiseError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Inner::Cell(cell) = &this.0 {
            let Poll::Ready(outcome) = cell.poll(context.waker()) else { return Poll::Pending };
            this.0 = Inner::Taken;
            return Poll::Ready(outcome);
        }
        match this.take() {
            Inner::Ready(outcome) => Poll::Ready(outcome),
            _ => panic!("{POLLED}"),
        }
    }
}

// The value is not pinned.
impl<T> Unpin for Promise<T> {}

// A panic leaves no promise half made.
impl<T> UnwindSafe for Promise<T> {}
impl<T> RefUnwindSafe for Promise<T> {}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Inner::Cell(cell) = &self.0 {
            cell.leave();
        }
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("resolved", &self.is_resolved()).finish_non_exhaustive()
    }
}
