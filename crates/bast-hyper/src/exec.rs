//! Where hyper's futures run: as tasks, or each on a fiber.

use std::future::Future;

use hyper::rt::Executor;

/// Runs hyper's futures as tasks ([`bast::task::spawn`]), on the runtime of the caller.
///
/// A future that panics ends its own task.
#[derive(Clone, Copy, Debug, Default)]
pub struct BastExecutor(());

impl BastExecutor {
    /// The executor; it has no state.
    #[must_use]
    pub fn new() -> BastExecutor {
        BastExecutor(())
    }
}

impl<F> Executor<F> for BastExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(bast::task::spawn(future));
    }
}

/// Runs each of hyper's futures on a fiber of its own, which costs a stack. In return their code, the service's above
/// all, may be direct style: it may sleep, lock, and read files in place, and nobody else has to wait for it.
///
/// That is for connections, which the program spawns itself, and for what an HTTP/2 connection spawns: its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct FiberExecutor(());

impl FiberExecutor {
    /// The executor; it has no state.
    #[must_use]
    pub fn new() -> FiberExecutor {
        FiberExecutor(())
    }
}

impl<F> Executor<F> for FiberExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(bast::spawn(move || bast::block_on(future)));
    }
}
