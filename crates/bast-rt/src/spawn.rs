//! Starting fibers.

use std::io;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::bound;
use crate::config;
use crate::fiber::{self, Header, Meta, State};
use crate::join::JoinHandle;
use crate::local;
use crate::post::Post;
use crate::remote;
use crate::runtime::default_runtime;
use crate::scope::{Scope, ScopedJoinHandle};
use crate::shared::Shared;
use crate::tls;
use crate::worker::Worker;

/// Same as [`std::thread::spawn`]: starts a fiber on the runtime of the calling fiber, or on the
/// default runtime.
///
/// Any worker may start the fiber; from its first run on it stays where it is, so thread-locals,
/// `Rc`s and guards may be held across anything that suspends.
///
/// # Panics
/// If the default runtime cannot be started.
///
/// ```
/// let answer = bast_rt::spawn(|| 6 * 7);
/// assert_eq!(answer.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: everything is 'static.
    unsafe { spawn_here(f, None) }
}

/// Starts a fiber on this very worker, whose closure and result need not be `Send`.
///
/// # Panics
/// Outside a fiber: a plain thread has no worker.
#[track_caller]
pub fn spawn_local<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    Builder::new().spawn_local(f).expect("failed to spawn a fiber")
}

/// How many workers there are: of the calling fiber's runtime, or outside a fiber of the default runtime.
///
/// # Panics
/// If the default runtime cannot be started.
#[must_use]
pub fn workers() -> usize {
    here().0.posts.len()
}

/// # Safety
/// What `f` and `T` borrow outlives the fiber.
#[track_caller]
pub(crate) unsafe fn spawn_here<F, T>(f: F, meta: Option<Box<Meta>>) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let (shared, worker) = here();
    // SAFETY: the caller's promise.
    unsafe { place_new(shared, worker, f, meta) }
}

/// The runtime of the caller, and the worker of it that the caller runs on: none on a plain thread, and none
/// on a bound one, which keeps to itself.
pub(crate) fn here() -> (&'static Arc<Shared>, Option<&'static Worker>) {
    match tls::worker() {
        None => (default_runtime().shared(), None),
        Some(worker) if worker.shared.home.is_some() => (worker.shared.runtime(), None),
        Some(worker) => (&worker.shared, Some(worker)),
    }
}

/// As `spawn_here`, on a given runtime.
///
/// # Safety
/// What `f` and `T` borrow outlives the fiber.
#[track_caller]
pub(crate) unsafe fn spawn_on<F, T>(
    shared: &Arc<Shared>,
    f: F,
    meta: Option<Box<Meta>>,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let worker = tls::worker().filter(|worker| Arc::ptr_eq(&worker.shared, shared));
    // SAFETY: the caller's promise.
    unsafe { place_new(shared, worker, f, meta) }
}

#[track_caller]
unsafe fn place_new<F: FnOnce() -> T, T>(
    shared: &Shared,
    worker: Option<&Worker>,
    f: F,
    meta: Option<Box<Meta>>,
) -> JoinHandle<T> {
    let (header, handle) = make(f, worker, meta);
    shared.place(header, worker);
    handle
}

#[track_caller]
fn make<F, T>(
    f: F,
    worker: Option<&Worker>,
    meta: Option<Box<Meta>>,
) -> (NonNull<Header>, JoinHandle<T>)
where
    F: FnOnce() -> T,
{
    let inherited = local::inherit(worker);
    let header = fiber::create(f, worker, meta, Location::caller());
    if let Some(inherited) = inherited {
        // SAFETY: just made, shown to nobody.
        unsafe { header.as_ref() }.locals.adopt(inherited);
    }
    // SAFETY: `create` made one reference for the handle, and the result is a `T`.
    (header, unsafe { JoinHandle::new(header) })
}

/// Starts a fiber on one worker.
///
/// # Safety
/// What `f` and `T` borrow outlives the fiber.
#[track_caller]
unsafe fn spawn_at<F, T>(
    post: &'static Post,
    shared: &Shared,
    here: Option<&Worker>,
    f: F,
    meta: Option<Box<Meta>>,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let (header, handle) = make(f, here, meta);
    if here.is_none() {
        shared.count_outside();
    }
    // SAFETY: just made, not started.
    fiber::settle_unshared(unsafe { header.as_ref() }, post);
    // The first signal to a fiber with a home that is still `New` starts it there.
    fiber::signal(header, remote::WAKE);
    handle
}

fn invalid<T>(message: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Same as [`std::thread::Builder`], for fibers.
///
/// ```
/// let fiber = bast_rt::Builder::new().name("worker bee".into()).stack_size(64 << 10).spawn(|| {
///     bast_rt::current().name().map(str::to_owned)
/// })?;
/// assert_eq!(fiber.join().unwrap().as_deref(), Some("worker bee"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until spawn is called"]
pub struct Builder {
    meta: Meta,
    worker: Option<usize>,
    bound: bool,
}

impl Builder {
    /// No name, the runtime's stack size, any worker.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the fiber: in panics' and overflow messages, and for [`current`](crate::current).
    pub fn name(mut self, name: String) -> Builder {
        self.meta.name = Some(name.into_boxed_str());
        self
    }

    /// The usable stack, in bytes of address space (16 KiB to 1 GiB, rounded up to pages).
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.meta.stack_size = Some(bytes);
        self
    }

    /// The worker on which the fiber is to run, counted from 0.
    pub fn worker(mut self, index: usize) -> Builder {
        self.worker = Some(index);
        self
    }

    /// Gives the fiber an OS thread of its own, on which all its code runs, from its first line to its last
    /// destructor: for libraries that need a fixed thread (state of C in thread-locals, GL contexts, ptrace).
    /// Its `thread_local!` variables are its own, and end after the fiber has, with the thread.
    ///
    /// Everything else is as for any fiber: it can be cancelled and joined, waits for operations, locks and
    /// channels, and so on. It may block its thread, which holds up nobody else; while it does, it cannot be
    /// cancelled. What it spawns runs on the runtime's ordinary workers, except for
    /// [`spawn_local`]: that runs on this thread.
    ///
    /// The thread has the fiber's name. The stack has 2 MiB unless told otherwise. A bound fiber costs
    /// as much as a thread, and handing something to one or from it costs a switch of threads. There may be as
    /// many as the system has threads; [`spawn`](Builder::spawn) says so if there is none left.
    ///
    /// ```
    /// use std::cell::Cell;
    /// thread_local! { static ERRNO_OF_SOME_LIBRARY: Cell<i32> = const { Cell::new(0) } }
    ///
    /// let bound = bast_rt::Builder::new().bound().spawn(|| {
    ///     ERRNO_OF_SOME_LIBRARY.set(7);
    ///     bast_rt::sleep(std::time::Duration::from_millis(1)); // nobody else runs on this thread
    ///     ERRNO_OF_SOME_LIBRARY.get()
    /// })?;
    /// assert_eq!(bound.join().unwrap(), 7);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bound(mut self) -> Builder {
        self.bound = true;
        self
    }

    /// Same as [`std::thread::Builder::spawn`].
    ///
    /// # Errors
    /// `InvalidInput` for a stack size or worker that cannot be had; `OutOfMemory` while no stacks can
    /// be had, with the number of fibers reached and the limit that was hit. For a [`bound`](Builder::bound)
    /// fiber: that of the system if there is no thread to be had, or no driver for it (descriptors);
    /// `Unsupported` on the simulator.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: everything is 'static.
        unsafe { self.spawn_unchecked(f) }
    }

    /// Same as [`std::thread::Builder::spawn_scoped`].
    ///
    /// # Errors
    /// As [`spawn`](Builder::spawn).
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        scope.start(self, f)
    }

    /// Same as [`std::thread::Builder::spawn_unchecked`].
    ///
    /// # Safety
    /// What `f` borrows outlives the fiber. What `T` borrows outlives the result: that is gone when `join`
    /// has returned it; without a join, only `T`'s own destructor can say when.
    ///
    /// # Errors
    /// As [`spawn`](Builder::spawn).
    #[track_caller]
    pub unsafe fn spawn_unchecked<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let (shared, here) = here();
        if self.bound {
            // SAFETY: the caller's promise.
            return unsafe { self.spawn_bound(shared, here, f) };
        }
        let meta = self.check(shared)?;
        let Some(index) = self.worker else {
            // SAFETY: the caller's promise.
            return Ok(unsafe { spawn_here(f, meta) });
        };
        let Some(post) = shared.posts.get(index) else {
            let message = format!("worker {index}: the runtime has {}", shared.posts.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        // SAFETY: the caller's promise.
        Ok(unsafe { spawn_at(post, shared, here, f, meta) })
    }

    /// # Safety
    /// As [`Builder::spawn_unchecked`].
    #[track_caller]
    unsafe fn spawn_bound<F, T>(
        mut self,
        shared: &Arc<Shared>,
        here: Option<&Worker>,
        f: F,
    ) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        if self.worker.is_some() {
            return invalid("a bound fiber has a thread of its own: do not set a worker");
        }
        self.meta.stack_size.get_or_insert(bound::STACK);
        let meta = self.check(shared)?;
        let berth = bound::open(shared, self.meta.name.as_deref())?;
        // SAFETY: the caller's promise.
        let handle = unsafe { spawn_at(berth.post(), shared, here, f, meta) };
        berth.taken();
        Ok(handle)
    }

    /// Same as [`spawn_local`], with the builder's settings. `worker` must not be set.
    ///
    /// # Errors
    /// As [`spawn`](Builder::spawn); `InvalidInput` outside a fiber or with a worker set.
    #[track_caller]
    pub fn spawn_local<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        if self.bound {
            return invalid("a bound fiber has a thread of its own: it is not local to this one");
        }
        let Some(worker) = tls::worker() else {
            return invalid("spawn_local outside a fiber: a plain thread has no worker");
        };
        if self.worker.is_some() {
            return invalid("a local fiber runs on this worker: do not set another");
        }
        let meta = self.check(&worker.shared)?;
        let (header, handle) = make(f, Some(worker), meta);
        // SAFETY: just made, not started.
        let fiber = unsafe { header.as_ref() };
        fiber::settle_unshared(fiber, worker.post);
        debug_assert_eq!(fiber.state.get(), State::New);
        worker.enqueue(header);
        Ok(handle)
    }

    fn check(&self, shared: &Shared) -> io::Result<Option<Box<Meta>>> {
        if let Some(why) = shared.exhausted() {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
        }
        let stack_size = self.meta.stack_size.map(config::check_stack).transpose()?;
        let name = self.meta.name.clone();
        Ok((name.is_some() || stack_size.is_some()).then(|| Box::new(Meta { name, stack_size })))
    }
}
