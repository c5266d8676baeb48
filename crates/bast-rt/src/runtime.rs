//! A runtime: its workers, how they are made, and how they end.
//!
//! `spawn` from a plain thread uses the default runtime, which is made at first use and lives as long
//! as the process. Others are made by [`Runtime::builder`] and end when they are dropped.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bast_coro::overflow::AltStack;
use bast_coro::{PoolConfig, StackPool};
use bast_io::{Config, Driver, DriverKind, Pool};

use crate::config::{Settings, StackGuards};
use crate::inspect::{self, RuntimeMetrics, Watchdog};
use crate::join::JoinHandle;
use crate::shared::{Queues, Recipe, Shared};
use crate::spawn;
use crate::task;
use crate::tls;
use crate::unwinding;
use crate::worker::Worker;

/// How long dropping a runtime waits for its fibers to end.
const DROP_PATIENCE: Duration = Duration::from_secs(30);

/// The alternate signal stack of a worker.
const SIGNAL_STACK: usize = 64 << 10;

/// A range of fiber ids that nobody else has.
pub(crate) fn id_block() -> Range<u64> {
    const BLOCK: u64 = 1024;
    // Relaxed: only uniqueness matters.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let first = NEXT.fetch_add(BLOCK, Relaxed);
    first..first + BLOCK
}

/// Sets up a [`Runtime`]. What is not set comes from the environment (`BAST_WORKERS`, `BAST_DRIVER`,
/// `BAST_STACK`, `BAST_BLOCKING_THREADS`, `BAST_BLOCKING_QUEUE`, `BAST_WATCHDOG`), else from the machine.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RuntimeBuilder {
    settings: Settings,
}

impl RuntimeBuilder {
    /// How many workers, each an OS thread. Default: one per core that this process may use (cgroup
    /// quotas and CPU affinity count).
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = Some(workers);
        self
    }

    /// Which I/O driver. Default: io_uring, or epoll where the kernel lacks or forbids it.
    pub fn driver(mut self, driver: DriverKind) -> Self {
        self.settings.driver = Some(driver);
        self
    }

    /// The usable stack of each fiber, in bytes of address space; memory is used only as far as the
    /// fiber ever got. Default 256 KiB.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.settings.stack = Some(bytes);
        self
    }

    /// How stacks are guarded. Default: the cheapest way that the kernel has.
    pub fn guards(mut self, guards: StackGuards) -> Self {
        self.settings.guards = guards;
        self
    }

    /// The most threads that the pool for blocking calls may have. Default 512. What comes when all have
    /// work waits for one, first in, first out.
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.settings.blocking.threads = Some(threads);
        self
    }

    /// How many of the pool's threads stay once they have been started. Default 0.
    pub fn blocking_min_threads(mut self, threads: usize) -> Self {
        self.settings.blocking.min_threads = Some(threads);
        self
    }

    /// How long the pool's other threads wait for work before they end. Default 10 s.
    pub fn blocking_keep_alive(mut self, idle: Duration) -> Self {
        self.settings.blocking.idle_for = Some(idle);
        self
    }

    /// How many calls may wait for a thread of the pool before [`try_blocking`](crate::try_run_blocking)
    /// refuses another one. Default 10,000; 0: none that would have to wait. Nothing else is ever refused.
    pub fn blocking_queue(mut self, calls: usize) -> Self {
        self.settings.blocking.queue = Some(calls);
        self
    }

    /// Reports on stderr a fiber that has held its worker for longer than this, without a suspension point:
    /// which one, and its backtrace, whose first line is where it is. Once, and again after twice, four
    /// times … as long. Zero: no watchdog, which is the default. From the environment: `BAST_WATCHDOG=200ms`.
    ///
    /// A fiber that blocks its worker's thread in a call of std is told which of bast's to use instead. The
    /// worker is interrupted by a signal (SIGVTALRM) for the report, and not otherwise. What counts is
    /// time, so a worker whose thread gets no processor may be reported, too.
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.settings.watchdog = Some(limit);
        self
    }

    /// The seed of the simulator (driver `sim`).
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that makes no sense (the message names it); otherwise what the
    /// kernel refused: threads, descriptors, address space.
    pub fn build(self) -> io::Result<Runtime> {
        Runtime::start(&self.settings.resolve()?)
    }
}

/// What is known of a driver once there is one: its name, and why it is not the one that was wanted.
type Made = io::Result<(&'static str, Option<String>)>;

/// A worker's life on its thread; `begun` hears how it began.
pub(crate) fn work(
    shared: &Arc<Shared>,
    index: usize,
    queues: Queues,
    config: &Config,
    stacks: PoolConfig,
    begun: impl FnOnce(Made),
) {
    // A driver belongs to the thread that makes it (io 4).
    let made = Driver::new(config).and_then(|driver| Ok((driver, StackPool::with_config(stacks)?)));
    let (driver, stacks) = match made {
        Ok(made) => made,
        Err(error) => return begun(Err(error)),
    };
    shared.posts[index].open(shared, driver.waker());
    begun(Ok((driver.name(), driver.fallback_reason().map(ToOwned::to_owned))));
    // std's own has no room for a backtrace. Without it there is none of a fiber that is interrupted; all
    // else works.
    let signals = AltStack::at_least(SIGNAL_STACK);
    let board = &shared.posts[index].board;
    board.open(if signals.is_ok() { bast_io::probe::this_thread() } else { 0 });
    let worker = Worker::new(Arc::clone(shared), index, queues, driver, stacks);
    tls::set_worker(&worker);
    worker.run();
    worker.post.board.close();
    tls::set_worker(std::ptr::null());
}

/// A set of workers and the fibers on them.
///
/// Dropping it cancels every fiber, waits until all have ended, and stops the workers.
///
/// ```
/// let runtime = bast_rt::Runtime::builder().workers(1).build()?;
/// assert_eq!(runtime.run(|| 6 * 7), 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Runtime {
    shared: Arc<Shared>,
    ended: Arc<Ended>,
    threads: Vec<thread::JoinHandle<()>>,
    driver: &'static str,
    fallback: Option<String>,
    watchdog: Option<Watchdog>,
}

/// Counts the workers that have ended.
#[derive(Default)]
struct Ended {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Runtime {
    /// Sets up a runtime of your own.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    fn start(settings: &crate::config::Resolved) -> io::Result<Runtime> {
        unwinding::watch_panics();
        inspect::set_detection(settings.deadlock);
        if let Some(format) = settings.dump {
            inspect::listen(format)?;
        }
        let queues: Vec<_> = (0..settings.workers).map(|_| Queues::new()).collect();
        let recipe = Recipe { driver: settings.driver, stacks: settings.stacks() };
        let pool = Arc::new(Pool::with_bounds(settings.blocking));
        let shared = Arc::new(Shared::new(&queues, Arc::clone(&pool), recipe));
        let ended = Arc::new(Ended::default());
        let (report, reports) = mpsc::channel();
        let mut runtime = Runtime {
            shared,
            ended,
            threads: Vec::new(),
            driver: "",
            fallback: None,
            watchdog: None,
        };
        // On an error `runtime` is dropped, which ends the workers that did start.
        for (index, queues) in queues.into_iter().enumerate() {
            let shared = Arc::clone(&runtime.shared);
            let ended = Arc::clone(&runtime.ended);
            let report = report.clone();
            let config = Config {
                kind: settings.driver,
                pool: Arc::clone(&pool),
                entries: 256,
                seed: settings.seed.wrapping_add(index as u64),
            };
            let stacks = settings.stacks();
            let thread = thread::Builder::new().name(format!("bast-{index}")).spawn(move || {
                work(&shared, index, queues, &config, stacks, move |made| {
                    let _ = report.send(made);
                });
                ended.one_more();
            })?;
            runtime.threads.push(thread);
        }
        drop(report);
        for made in reports {
            (runtime.driver, runtime.fallback) = made?;
        }
        inspect::register(&runtime.shared);
        if let Some(limit) = settings.watchdog {
            runtime.watchdog = Some(Watchdog::start(&runtime.shared, limit)?);
        }
        Ok(runtime)
    }

    /// Runs `f` as a fiber of this runtime and waits for it.
    ///
    /// # Panics
    /// With the panic of `f`.
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: joined below, before anything that `f` borrows can go.
        let handle = unsafe { spawn::spawn_on(&self.shared, f, None) };
        // Masked: `f` may borrow from this frame.
        crate::cancel::mask(|| handle.join()).unwrap_or_else(|payload| unwinding::pass_on(payload))
    }

    /// Same as [`spawn`](crate::spawn), on this runtime.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: everything is 'static.
        unsafe { spawn::spawn_on(&self.shared, f, None) }
    }

    /// Same as [`task::spawn`](crate::task::spawn), on this runtime.
    #[track_caller]
    pub fn spawn_task<F>(&self, future: F) -> task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn_on(&self.shared, future)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// How many workers it has.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.posts.len()
    }

    /// What its workers have counted; see [`metrics`](crate::metrics()).
    #[must_use]
    pub fn metrics(&self) -> RuntimeMetrics {
        inspect::metrics_of(&self.shared)
    }

    /// The I/O driver that runs: `"uring"`, `"epoll"` or `"sim"`.
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.driver
    }

    /// Why io_uring was wanted and is not used.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Cancels every fiber and waits up to `timeout` until all have ended and the workers are gone.
    ///
    /// # Errors
    /// [`StillRunning`] says what was left after `timeout`: fibers that compute without a suspension
    /// point, block their worker, or wait in a destructor. They go on ending by themselves.
    pub fn shutdown(mut self, timeout: Duration) -> Result<(), StillRunning> {
        self.stop(timeout)
    }

    fn stop(&mut self, timeout: Duration) -> Result<(), StillRunning> {
        self.shared.stop();
        let threads = std::mem::take(&mut self.threads);
        let inside = tls::worker().is_some_and(|w| Arc::ptr_eq(w.shared.runtime(), &self.shared));
        if inside {
            // A fiber of this very runtime drops it: its own worker cannot be waited for.
            return Ok(());
        }
        let wait = || self.ended.wait(threads.len(), timeout);
        // A fiber of another runtime must not hold up its worker.
        if crate::run_blocking(wait) {
            for thread in threads {
                // A worker's panic would be a bug in bast; it has been printed.
                let _ = thread.join();
            }
            return Ok(());
        }
        let fibers = self.shared.loads.iter().map(|load| load.live.load(Relaxed)).collect();
        let bound = self.shared.bound.list().iter().map(|bound| bound.live()).sum();
        Err(StillRunning { fibers, bound })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.threads.is_empty()
            && let Err(report) = self.stop(DROP_PATIENCE)
        {
            eprintln!("bast: a runtime was dropped, but {report}");
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("workers", &self.workers())
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl Ended {
    fn one_more(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    fn wait(&self, all: usize, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count < all {
            let left = match deadline {
                None => Duration::from_secs(3600),
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                return false;
            }
            count =
                self.changed.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// What had not ended when [`Runtime::shutdown`] gave up waiting.
#[derive(Debug, Clone)]
pub struct StillRunning {
    fibers: Vec<usize>,
    bound: usize,
}

impl StillRunning {
    /// How many fibers are left on each worker.
    #[must_use]
    pub fn fibers(&self) -> &[usize] {
        &self.fibers
    }

    /// How many fibers are left on threads of their own ([`Builder::bound`](crate::Builder::bound)).
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }
}

impl fmt::Display for StillRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} fibers have not ended although they were cancelled (per worker: {:?}; bound: {}); they compute \
             without a suspension point, block their worker's thread, or wait in a destructor",
            self.fibers.iter().sum::<usize>() + self.bound,
            self.fibers,
            self.bound
        )
    }
}

impl std::error::Error for StillRunning {}

/// The default runtime, made at first use.
///
/// # Panics
/// If it cannot be made: a bad environment variable, or a kernel that refuses threads or descriptors.
pub(crate) fn default_runtime() -> &'static Runtime {
    static DEFAULT: OnceLock<Runtime> = OnceLock::new();
    DEFAULT.get_or_init(|| match Runtime::builder().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("bast cannot start its default runtime: {error}"),
    })
}
