//! Waiting for a fiber to end, and handles to fibers.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::cancel;
use crate::fiber::{self, Header, Joiner};
use crate::parker::{Unparker, Waiter};
use crate::remote;
use crate::suspend::{self, Done};
use crate::tls;
use crate::wait::{self, Parked, Reason};
use crate::worker::Worker;

/// Same as [`std::thread::JoinHandle`], for a fiber. Dropping it detaches the fiber.
pub struct JoinHandle<T> {
    header: NonNull<Header>,
    /// The waker of whoever has polled this as a future, to which the fiber's cell may point.
    polled: Option<Arc<Waker>>,
    result: PhantomData<T>,
}

// SAFETY: the handle reaches the header by its shared protocols only, and moves a `T` out.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: through a shared handle only thread-safe fields of the header are reached.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// The reference is the handle's from now on, and the fiber's result is a `T`.
    pub(crate) unsafe fn new(header: NonNull<Header>) -> JoinHandle<T> {
        JoinHandle { header, polled: None, result: PhantomData }
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle has a reference.
        unsafe { self.header.as_ref() }
    }

    /// Waits for the fiber to end and returns what it returned.
    ///
    /// From a fiber this parks the fiber, from a plain thread it blocks the thread. If the calling
    /// fiber is cancelled while it waits, it unwinds, and the fiber waited for goes on detached.
    ///
    /// # Errors
    /// The payload of the panic that ended the fiber; [`Cancelled`](crate::Cancelled) if it was
    /// cancelled or its runtime ended before it ran; the reason if no stack was to be had for it.
    ///
    /// # Panics
    /// If a fiber joins itself, which could never return.
    #[inline]
    pub fn join(self) -> thread::Result<T> {
        self.unpolled();
        wait(self.header());
        let mut handle = ManuallyDrop::new(self);
        handle.polled = None;
        // SAFETY: it is done; the handle is consumed, so the result is taken once.
        unsafe { fiber::take_result(handle.header) }
    }

    /// Whether the fiber has ended: then `join` does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header().lifecycle.is_done()
    }

    /// The first half of a `join` that may be given up: the fiber will wake `waiter` when it ends. False if it has ended
    /// already. For `select`.
    ///
    /// # Safety
    /// Nobody else joins meanwhile, and the waiter stays where it is until [`withdraw`](JoinHandle::withdraw) has returned.
    ///
    /// # Panics
    /// If a fiber joins itself.
    pub unsafe fn announce(&self, waiter: wait::Waiter) -> bool {
        self.unpolled();
        // SAFETY: the caller's promise.
        unsafe { announce(self.header(), suspend::current(), waiter) }
    }

    /// Takes back what [`announce`](JoinHandle::announce) has said, if anything: afterwards the fiber knows the
    /// waiter no more. A wake may still come.
    pub fn withdraw(&self) {
        // If the finisher has taken notice of us it will look at the waiter until DONE, which is about to come
        // (module `lifecycle`).
        if !self.header().lifecycle.unregister() {
            while !self.is_finished() {
                thread::yield_now();
            }
        }
    }

    /// What `join` would return; `None` if that would wait. To be had once: a `join` afterwards panics.
    ///
    /// # Panics
    /// If it has been taken before.
    pub fn take_result(&mut self) -> Option<thread::Result<T>> {
        if !self.is_finished() {
            return None;
        }
        // Taking the result gives up a reference, and the handle keeps its own.
        self.header().lifecycle.retain();
        // SAFETY: it is done, and the handle, which alone can ask for the result, is borrowed exclusively; if it
        // has been taken this panics.
        Some(unsafe { fiber::take_result(self.header) })
    }

    /// The fiber.
    #[must_use]
    pub fn fiber(&self) -> Fiber {
        // SAFETY: the handle keeps the header alive.
        Fiber { who: unsafe { Waiter::Fiber(self.header).retain() } }
    }

    /// Same as [`std::thread::JoinHandle::thread`], but by value: [`fiber`](JoinHandle::fiber) under std's name.
    #[must_use]
    pub fn thread(&self) -> Fiber {
        self.fiber()
    }

    /// Asks the fiber to end: its current or next suspension point brings its kernel operation to an
    /// end and unwinds, and `join` then returns [`Cancelled`](crate::Cancelled). Does nothing if the
    /// fiber has ended. Delivered once; see [`mask`](crate::mask) for how to hold it off.
    pub fn cancel(&self) {
        fiber::signal(self.header, remote::CANCEL);
    }
}

/// Same as [`join`](JoinHandle::join), for code that awaits: as long as the fiber runs it is pending. Dropping the
/// handle detaches the fiber here too.
///
/// # Panics
/// If it is polled again after it was ready.
///
/// ```
/// let handle = bast_rt::spawn(|| 6 * 7);
/// assert_eq!(bast_rt::block_on(handle).unwrap(), 42);
/// ```
impl<T> Future for JoinHandle<T> {
    type Output = thread::Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.get_mut();
        let waker = context.waker();
        if !handle.is_finished() {
            handle.unpolled();
            let polled = match handle.polled.take() {
                Some(polled) if polled.will_wake(waker) => polled,
                _ => Arc::new(waker.clone()),
            };
            let polled = NonNull::from(&**handle.polled.insert(polled));
            // SAFETY: the handle is borrowed exclusively, so nobody else joins, and the cell is nobody's now
            // (module `lifecycle`); the waker stays until `unpolled`.
            unsafe { *handle.header().joiner.get() = Some(Joiner::Polling(polled)) };
            // If it has ended meanwhile, the look below finds that.
            handle.header().lifecycle.register();
        }
        handle.take_result().map_or(Poll::Pending, Poll::Ready)
    }
}

// The result is not in the handle.
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Makes the fiber forget the waker, if it knows it.
    fn unpolled(&self) {
        if self.polled.is_some() {
            self.withdraw();
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.unpolled();
        // SAFETY: the handle's reference.
        unsafe { fiber::detach(self.header) };
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fiber", &self.fiber()).finish_non_exhaustive()
    }
}

/// Leaves the waiter for the finisher to find; false if the fiber has ended already.
///
/// # Safety
/// Nobody else joins, and the waiter stays until it has been unregistered or the fiber is done.
unsafe fn announce(target: &Header, who: Option<(&Worker, &Header)>, waiter: wait::Waiter) -> bool {
    assert!(who.is_none_or(|(_, me)| !std::ptr::eq(target, me)), "a fiber cannot join itself");
    // SAFETY: nobody else joins, and without WAITER the cell is the joiner's, unless the fiber has ended:
    // then it is nobody's.
    unsafe { *target.joiner.get() = Some(Joiner::Waiting(waiter.0)) };
    target.lifecycle.register()
}

/// Waits until the fiber is done; raises if the caller is cancelled, unless it is done then.
fn wait(target: &Header) {
    if target.lifecycle.is_done() {
        return;
    }
    let who = suspend::current();
    let holder = AtomicU64::new(target.id);
    let reason = Reason::new("JoinHandle::join", target).held_by(&holder);
    let Some((worker, me)) = who else { return wait_on_thread(target, &reason) };
    // As `wait::wait_as`, by hand: that is 6 ns of the 50 that spawn and join take together.
    me.waiting.set((&raw const reason).cast());
    let _done = Done(me);
    let waiter = wait::Waiter(Waiter::Fiber(NonNull::from(me)));
    // SAFETY: the handle is consumed, so nobody else joins; this frame is not left before `unregister`, or DONE.
    if !unsafe { announce(target, who, waiter) } {
        return;
    }
    while !target.lifecycle.is_done() {
        // Leave only if the finisher has not taken notice of us (module `lifecycle`).
        if cancel::UNWINDS
            && let Some(cause) = cancel::due(worker, me)
            && target.lifecycle.unregister()
        {
            cancel::raise(&me.requests, cause);
        }
        worker.park(me);
    }
}

#[cold]
fn wait_on_thread(target: &Header, reason: &Reason<'_>) {
    wait::wait_as(None, reason, None, |wait| {
        // SAFETY: as in `wait`.
        if !unsafe { announce(target, None, wait.waiter()) } {
            return;
        }
        while !target.lifecycle.is_done() {
            match wait.park() {
                Parked::Look | Parked::TimedOut => {}
                Parked::Interrupted(interruption) if target.lifecycle.unregister() => {
                    interruption.raise()
                }
                Parked::Interrupted(_) => thread::yield_now(),
            }
        }
    });
}

/// A fiber's identity, unique in the process. Same as [`std::thread::ThreadId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FiberId(NonZeroU64);

impl FiberId {
    pub(crate) fn new(id: u64) -> FiberId {
        FiberId(NonZeroU64::new(id).expect("ids start at 1"))
    }

    /// The number.
    #[must_use]
    pub fn as_u64(&self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FiberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Same as [`std::thread::Thread`]: a handle to a fiber, or to a plain thread that uses bast.
#[derive(Clone)]
pub struct Fiber {
    who: Unparker,
}

// As std's: a panic leaves no handle half made.
impl UnwindSafe for Fiber {}
impl RefUnwindSafe for Fiber {}

impl Fiber {
    /// Makes the fiber's current or next [`park`](crate::park) return.
    #[inline]
    pub fn unpark(&self) {
        self.who.unpark();
    }

    /// As [`JoinHandle::cancel`]. A fiber may cancel itself: its next suspension point unwinds. Does nothing to a
    /// plain thread.
    pub fn cancel(&self) {
        if let Waiter::Fiber(header) = self.who.waiter() {
            fiber::signal(header, remote::CANCEL);
        }
    }

    /// The fiber's identity.
    #[must_use]
    pub fn id(&self) -> FiberId {
        FiberId::new(match self.who.waiter() {
            // SAFETY: `who` keeps it alive.
            Waiter::Fiber(header) => unsafe { header.as_ref() }.id,
            // SAFETY: as above.
            Waiter::Thread(parker) => unsafe { parker.as_ref() }.id(),
        })
    }

    /// The name given by [`Builder::name`](crate::Builder::name), or the thread's.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self.who.waiter() {
            // SAFETY: `who` keeps it alive.
            Waiter::Fiber(header) => unsafe { &*header.as_ptr() }.meta.as_ref()?.name.as_deref(),
            // SAFETY: as above.
            Waiter::Thread(parker) => unsafe { &*parker.as_ptr() }.name(),
        }
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// The fiber that calls, or the thread outside fibers. Same as [`std::thread::current`].
#[must_use]
pub fn current() -> Fiber {
    Fiber { who: me() }
}

/// Who calls, as something that can be woken.
pub(crate) fn me() -> Unparker {
    match suspend::current() {
        // SAFETY: the current fiber is alive.
        Some((_, header)) => unsafe { Waiter::Fiber(NonNull::from(header)).retain() },
        None => {
            let parker: Arc<_> = tls::parker();
            // SAFETY: `parker` is.
            unsafe { Waiter::thread(&parker).retain() }
        }
    }
}
