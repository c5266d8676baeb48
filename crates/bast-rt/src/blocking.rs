//! Calls that block, on the blocking pool while the fiber waits: GHC's *safe* foreign calls, and the
//! interruptible ones.
//!
//! ```text
//!   fiber                       pool
//!   ─────                       ────
//!   Job on its stack ──Op::Call──▶ f() ──▶ result in the Job ──completion──▶ fiber takes it
//!   a request comes ──▶ queued still? taken back, f never runs: raise
//!                       running? run_blocking waits; the interruptible one has the system call fail
//!                       with EINTR, again every millisecond, until f has returned
//!                       (run_abandonable waits in a fiber of its own, which its caller lets go of)
//! ```
//!
//! The result of what has run is not lost: it goes to the caller, and the next suspension point raises. Only an
//! error of the kind `Interrupted` says that nothing was done; if a request is due then, that is what it is
//! about, and it is raised in its place.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use bast_io::{Op, Outcome};

use crate::cancel;
use crate::spawn::spawn;
use crate::suspend::{self, perform};
use crate::task;
use crate::tls;
use crate::unwinding;
use crate::wait;

/// Whether a call can be interrupted, and whether it would rather be refused than wait in a full queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Plain,
    Interruptible,
    Limited,
}

/// What the pool runs, and where it leaves the result.
struct Job<F, T> {
    f: Option<F>,
    result: Option<thread::Result<T>>,
}

impl<F: FnOnce() -> T, T> Job<F, T> {
    fn new(f: F) -> Job<F, T> {
        Job { f: Some(f), result: None }
    }

    /// Runs it on the pool. If it raises, or leaves no result, `f` has not run.
    fn perform(&mut self, how: How) -> Outcome {
        unsafe fn call<F: FnOnce() -> T, T>(data: *mut ()) -> i32 {
            // SAFETY: `data` is the job, lent until the operation has completed (io 1).
            let job = unsafe { &mut *data.cast::<Job<F, T>>() };
            if let Some(f) = job.f.take() {
                job.result = Some(catch_unwind(AssertUnwindSafe(f)));
            }
            0
        }

        let data = std::ptr::from_mut(self).cast();
        let (interruptible, limited) = (how == How::Interruptible, how == How::Limited);
        let op = Op::Call { call: call::<F, T>, data, interruptible, limited };
        // SAFETY: the job is borrowed until the operation has completed, as `perform` waits for that (rt 5).
        // What makes `f` fit for another thread its callers ask for.
        unsafe { perform(op, None) }
    }
}

/// Runs `f` on the blocking pool while the fiber waits, so that a call that blocks does not hold up
/// the other fibers of this worker: GHC's *safe* foreign call. Outside a fiber it just calls `f`.
///
/// `f` may borrow: this returns only after `f` has ended, and a request to cancel the fiber meanwhile
/// is delivered afterwards.
///
/// # Panics
/// With the panic of `f`. If no thread can be started and the pool has none, with a message that says so.
///
/// ```
/// let text = String::from("borrowed");
/// bast_rt::spawn(move || {
///     let sum: u32 = bast_rt::run_blocking(|| text.bytes().map(u32::from).sum());
///     assert_eq!(sum, 868);
/// }).join().unwrap();
/// ```
pub fn run_blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if suspend::current().is_none() {
        task::must_not_wait("blocking");
        return f();
    }
    masked(f, How::Plain).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// As [`run_blocking`], but if the pool has no thread for `f` and its queue is full it says so at once, and `f`
/// does not run: for servers that shed load rather than let it pile up. The limit is
/// [`RuntimeBuilder::blocking_queue`](crate::RuntimeBuilder::blocking_queue).
///
/// Outside a fiber it just calls `f`.
///
/// # Errors
/// [`BlockingError`]: the queue is full, or no thread can be started and the pool has none.
///
/// # Panics
/// With the panic of `f`.
///
/// ```
/// bast_rt::spawn(|| {
///     assert_eq!(bast_rt::try_run_blocking(|| 6 * 7).unwrap(), 42);
/// }).join().unwrap();
/// ```
pub fn try_run_blocking<F, T>(f: F) -> Result<T, BlockingError>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if suspend::current().is_none() {
        task::must_not_wait("try_blocking");
        return Ok(f());
    }
    masked(f, How::Limited)
}

fn masked<F: FnOnce() -> T, T>(f: F, how: How) -> Result<T, BlockingError> {
    let mut job = Job::new(f);
    // Masked: the result must not get lost once `f` has begun.
    let outcome = cancel::mask(|| job.perform(how));
    match job.result {
        Some(Ok(value)) => Ok(value),
        Some(Err(payload)) => unwinding::pass_on(payload),
        None => Err(BlockingError::of(outcome)),
    }
}

/// Why the blocking pool has not run a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlockingError {
    /// All threads have work, and as many calls wait for one as may.
    #[non_exhaustive]
    Full {
        /// How many calls may wait.
        queue: usize,
        /// How many threads there may be.
        threads: usize,
    },
    /// The pool has no thread, and this is why none could be started.
    NoThread(io::Error),
}

impl BlockingError {
    fn of(outcome: Outcome) -> BlockingError {
        match (outcome.into_result(), suspend::current()) {
            (Err(error), Some((worker, _))) if error.kind() == io::ErrorKind::ResourceBusy => {
                let bounds = worker.shared.pool.bounds();
                BlockingError::Full { queue: bounds.queue, threads: bounds.max_threads }
            }
            (Err(error), _) => BlockingError::NoThread(error),
            (Ok(_), _) => BlockingError::NoThread(io::Error::other("no reason given")),
        }
    }
}

impl fmt::Display for BlockingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockingError::Full { queue, threads } => write!(
                f,
                "the queue for blocking calls is full: {threads} threads have work and {queue} calls \
                 wait; try again later, or raise blocking_threads (BAST_BLOCKING_THREADS) or \
                 blocking_queue (BAST_BLOCKING_QUEUE)"
            ),
            BlockingError::NoThread(error) => write!(
                f,
                "the pool for blocking calls has no thread and can start none: {error}; look at the \
                 limits of processes (ulimit -u, pids.max) and of memory"
            ),
        }
    }
}

impl std::error::Error for BlockingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BlockingError::Full { .. } => None,
            BlockingError::NoThread(error) => Some(error),
        }
    }
}

impl From<BlockingError> for io::Error {
    /// `ResourceBusy` for a full queue; otherwise the kind that the system gave.
    fn from(error: BlockingError) -> io::Error {
        let kind = match &error {
            BlockingError::Full { .. } => io::ErrorKind::ResourceBusy,
            BlockingError::NoThread(error) => error.kind(),
        };
        io::Error::new(kind, error)
    }
}

/// As [`run_blocking`], for a call that nothing can interrupt and that may take long: when the fiber is cancelled, or a
/// timeout around it runs out, `f` is left behind. It ends when it ends, and what it returns is dropped.
///
/// The thread of the pool is `f`'s until then, so the caller has to see to it that not too many are left behind.
/// (A fiber of its own waits for `f`, and this one for that fiber.)
///
/// On a plain thread it just calls `f`, except inside a [`timeout`](crate::timeout()).
///
/// # Panics
/// As [`run_blocking`].
///
/// # Cancellation
/// A suspension point.
///
/// ```
/// use std::time::Duration;
/// bast_rt::spawn(|| {
///     let left = bast_rt::timeout(Duration::from_millis(5), || {
///         bast_rt::run_abandonable(|| std::thread::sleep(Duration::from_millis(100)))
///     });
///     assert!(left.is_err());
///     assert_eq!(bast_rt::run_abandonable(|| 6 * 7), 42);
/// }).join().unwrap();
/// ```
pub fn run_abandonable<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if suspend::current().is_none() {
        wait::check();
        task::must_not_wait("blocking");
        if tls::requests().clock().is_none() {
            return f();
        }
    }
    if cancel::mine().masks.get() != 0 || wait::is_unwinding() {
        // Nothing would be delivered. And when the runtime ends no more fibers begin, but this has to run.
        return run_blocking(f);
    }
    match spawn(move || run_blocking(f)).join() {
        Ok(value) => value,
        Err(payload) => unwinding::pass_on(payload),
    }
}

/// As [`run_blocking`], for a system call that can be interrupted: when the fiber is cancelled, or a timeout
/// around it expires, the call that `f` is in fails with `EINTR`.
///
/// `f` is to return the error that it got, [`Interrupted`](io::ErrorKind::Interrupted). (Functions that try
/// again by themselves when they see it, as many of std do, cannot be interrupted.) It is interrupted again every
/// millisecond until it has returned, so that it does not matter where it was. If it returns something else, or
/// another error, that was the outcome: it is returned here, and the next suspension point unwinds. So what
/// `f` has read or opened is not lost.
///
/// Outside a fiber, and in one that runs on the simulator, it just calls `f`. Inside [`mask`](crate::mask) and
/// in destructors while the fiber unwinds it is not interrupted.
///
/// On Unix the interruption is a SIGURG to the pool's thread, whose handler does nothing. If the program has
/// a handler of its own for that signal, that one stays, and `f` is not interrupted. A call that blocks
/// the signal, or that no signal ends, is waited for.
///
/// # Errors
/// That of `f`; with nobody's request due also `Interrupted`. The reason, if no thread can be started and the pool
/// has none.
///
/// # Panics
/// With the panic of `f`.
///
/// # Cancellation
/// A suspension point: unwinds if `f` has not begun, or was interrupted.
///
/// ```
/// use std::io::{self, Read};
/// use std::time::Duration;
/// bast_rt::spawn(|| {
///     let (mut reader, _writer) = io::pipe().unwrap();
///     let read = bast_rt::timeout(Duration::from_millis(5), || {
///         bast_rt::run_blocking_interruptible(|| reader.read(&mut [0; 8]))
///     });
///     assert!(read.is_err()); // the time is up, and the read has ended
/// }).join().unwrap();
/// ```
pub fn run_blocking_interruptible<F, T>(f: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send,
    T: Send,
{
    let Some((worker, header)) = suspend::current() else {
        wait::check();
        task::must_not_wait("blocking_interruptible");
        return f();
    };
    let mut job = Job::new(f);
    let outcome = job.perform(How::Interruptible);
    match job.result {
        Some(Ok(Err(error))) if bast_io::is_interruption(&error) => {
            match cancel::due(worker, header) {
                Some(cause) => Err(cancel::give_up(&header.requests, cause)),
                None => Err(error),
            }
        }
        Some(Ok(result)) => result,
        Some(Err(payload)) => unwinding::pass_on(payload),
        None => match cancel::due(worker, header) {
            Some(cause) => Err(cancel::give_up(&header.requests, cause)),
            None => Err(BlockingError::of(outcome).into()),
        },
    }
}
