//! A fiber that waits for a future: it polls, and parks until the future's waker is called.
//!
//! ```text
//!   poll ──Ready──▶ value                         wake(), from anywhere, at any time
//!    │ Pending                                      its own worker: `notified` and, if parked, ready
//!    ▼                                              elsewhere: the bit POLL, and a post to the inbox;
//!   notified? ──yes (woken while it was polled)─▶ yield       the worker sets `notified` (rt 2)
//!    │ no                                             │
//!    ▼                                                ▼
//!   park until notified ──────────────────────────▶ poll again
//! ```
//!
//! The waker is the fiber itself. While the future is polled it is borrowed, so that a future that is ready
//! costs its poll; a clone counts as one more reference to the fiber, and may be called or dropped long after the fiber
//! has gone on, or ended: it then wakes it for nothing, which every wait allows for.
//!
//! `notified` is the home worker's, as all of a fiber's state. It is a flag of its own, and not the wake-up
//! that every wait has, because a poll may itself wait for something else (it is code like any other, on a stack of its own): a wake for
//! the future that comes then must not be used up by that. If that something is a future too, it shares the flag; so
//! whoever leaves a nested `block_on` leaves the flag set, and the outer one polls once more than it had to.

use std::future::{Future, IntoFuture};
use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use crate::fiber::{self, Header};
use crate::remote;
use crate::suspend::{self, yield_now};
use crate::wait::{self, Parked, Reason, Unparker, Wait};
use crate::worker::Worker;

const FUTURE: Reason<'static> = Reason::plain("a future");

/// Waits for a future: the fiber suspends, a plain thread blocks. The future is polled here and nowhere else, so
/// it may be `!Send` and may borrow.
///
/// # Panics
/// With the panic of the future.
///
/// # Cancellation
/// A suspension point, if the future is not ready at once. The future is then dropped.
///
/// ```
/// let answer = bast_rt::block_on(async { 6 * 7 });
/// assert_eq!(answer, 42);
/// ```
#[inline]
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    // Not what the block evaluates to: that would leak if the future's destructor panics (rust-lang/rust#47949).
    let value;
    {
        let future = pin!(future.into_future());
        value = match suspend::current() {
            Some((worker, header)) => on_fiber(worker, header, future),
            None => on_thread(future),
        };
    }
    value
}

#[inline]
fn on_fiber<F: Future>(worker: &Worker, header: &Header, mut future: Pin<&mut F>) -> F::Output {
    let _nested = Nested::enter(header);
    // SAFETY: the fiber outlives this frame; what is lent is never dropped.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw(NonNull::from(header))) });
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        if header.notified.replace(false) {
            // A future that wakes itself lets others run; so do we.
            yield_now();
        } else {
            wait::wait_as(Some((worker, header)), &FUTURE, None, |wait| {
                until(wait, || header.notified.replace(false));
            });
        }
    }
}

#[cold]
fn on_thread<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let note = Arc::new(Note { notified: AtomicBool::new(false), who: wait::me() });
    let waker = Waker::from(Arc::clone(&note));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        wait::wait(&FUTURE, None, |wait| until(wait, || note.notified.swap(false, Acquire)));
    }
}

/// Parks until the flag has been taken; at the least, a request that is due is raised.
fn until(wait: &Wait<'_>, notified: impl Fn() -> bool) {
    while !notified() {
        match wait.park() {
            Parked::Look | Parked::TimedOut => {}
            Parked::Interrupted(interruption) => interruption.raise(),
        }
    }
}

/// A `block_on` of this fiber, perhaps inside a poll of another one.
struct Nested<'a> {
    header: &'a Header,
    outer: bool,
}

impl<'a> Nested<'a> {
    #[inline]
    fn enter(header: &'a Header) -> Nested<'a> {
        Nested { header, outer: header.polling.replace(true) }
    }
}

impl Drop for Nested<'_> {
    #[inline]
    fn drop(&mut self) {
        self.header.polling.set(self.outer);
        if self.outer {
            self.header.notified.set(true);
        }
    }
}

/// The waker of a plain thread. `notified` (Release) is set before the thread is woken, and taken (Acquire)
/// before it polls: it sees what the waking side did before.
struct Note {
    notified: AtomicBool,
    who: Unparker,
}

impl Wake for Note {
    fn wake(self: Arc<Note>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Note>) {
        self.notified.store(true, Release);
        self.who.wake();
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

fn raw(header: NonNull<Header>) -> RawWaker {
    RawWaker::new(header.as_ptr().cast(), &VTABLE)
}

/// Whether it is this fiber's.
pub(crate) fn is_of(waker: &Waker, fiber: NonNull<Header>) -> bool {
    waker.data() == fiber.as_ptr().cast_const().cast() && std::ptr::eq(waker.vtable(), &VTABLE)
}

/// # Safety
/// `data` is from [`raw`].
unsafe fn header(data: *const ()) -> NonNull<Header> {
    // SAFETY: it was made of a NonNull.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: a waker's data, which keeps the fiber or borrows it.
    let header = unsafe { header(data) };
    // SAFETY: as above.
    unsafe { header.as_ref() }.lifecycle.retain();
    raw(header)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: an owned waker's data, used up here.
    unsafe {
        wake_by_ref(data);
        release(data);
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: a waker's data, which keeps the fiber or borrows it.
    fiber::signal(unsafe { header(data) }, remote::POLL);
}

unsafe fn release(data: *const ()) {
    // SAFETY: an owned waker's data: its reference.
    unsafe { fiber::release(header(data)) };
}
