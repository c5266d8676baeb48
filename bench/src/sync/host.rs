//! Fibers and threads behind one trait, so that a benchmark of blocking calls is written once.

use crate::micro::{self, Job};
use std::thread;

/// Where tasks that block run.
pub(super) trait Host: 'static {
    /// Runs the measuring task; with fibers, on worker 0.
    fn enter<T: Send + 'static>(
        job: &Job,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String>;

    /// Starts a task, and gives what joins it. Threads go where the OS puts them.
    fn spawn<T: Send + 'static>(
        worker: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> impl FnOnce() -> T;

    fn yield_now();
}

/// bast's fibers.
pub(super) struct Fibers;

impl Host for Fibers {
    fn enter<T: Send + 'static>(
        job: &Job,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let rt = micro::bast_runtime("bast", job.workers)?;
        Ok(rt.run(|| Fibers::spawn(0, f)()))
    }

    fn spawn<T: Send + 'static>(
        worker: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> impl FnOnce() -> T {
        let task = bast::Builder::new().worker(worker).spawn(f).expect("there is a stack");
        || task.join().expect("no panic")
    }

    fn yield_now() {
        bast::yield_now();
    }
}

/// std's threads.
pub(super) struct Threads;

impl Host for Threads {
    fn enter<T: Send + 'static>(
        _: &Job,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        Ok(f())
    }

    fn spawn<T: Send + 'static>(
        _: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> impl FnOnce() -> T {
        let task = thread::spawn(f);
        || task.join().expect("no panic")
    }

    fn yield_now() {
        thread::yield_now();
    }
}
