//! One protocol for everything that waits for somebody else: what `bast-sync` is made of.
//!
//! ```text
//!   waiter                                          waker
//!   ──────                                          ─────
//!   wait(reason, deadline, |wait| {
//!     under the lock: leave wait.waiter() in a list
//!     loop until the condition holds:               under the lock: take the waiter from the list,
//!       wait.park() ─────────────────┐                claim() it, make the condition true
//!         Look: look again           │              after unlocking: drop the Wake ──▶ parks no more
//!         TimedOut, Interrupted:     │
//!           under the lock: still in the list? leave it, and give up.
//!           Otherwise somebody has claimed us: the condition is about to hold.
//!   })
//! ```
//!
//! The rules that make this sound:
//! * A [`Waiter`] is borrowed. It may be [claimed](Waiter::claim) only while its owner cannot leave, that is
//!   before the condition is made true, under the lock that the owner takes to leave.
//! * On one worker a claim costs nothing: the owner cannot run before the claimer suspends or ends,
//!   and a [`Wake`] is used up before that. Across workers, and for threads, it takes a reference.
//! * A wake is a reason to look, not the condition: `park` may return without one.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::cancel::{self, Cause};
use crate::fiber::Header;
use crate::parker::{self, ThreadParker};
use crate::remote;
use crate::suspend::{self, Alarm, Done};
use crate::task;
use crate::time::Instant;
use crate::tls;
use crate::wheel::Timer;
use crate::worker::Worker;

/// What somebody waits for, for those who look at it from outside.
#[derive(Debug)]
pub struct Reason<'a> {
    /// What it is doing: `"Mutex::lock"`.
    pub what: &'static str,
    /// Where the object is.
    pub object: *const (),
    /// The [`id`] of whoever could end the wait, if one can be named; 0: nobody.
    pub holder: Option<&'a AtomicU64>,
}

impl<'a> Reason<'a> {
    /// Waiting in `what` for `object`.
    pub fn new<T>(what: &'static str, object: &T) -> Reason<'a> {
        Reason { what, object: ptr::from_ref(object).cast(), holder: None }
    }

    /// Names who could end the wait.
    #[must_use]
    pub fn held_by(mut self, holder: &'a AtomicU64) -> Reason<'a> {
        self.holder = Some(holder);
        self
    }

    /// Waiting in `what`, for nothing that has an address.
    pub(crate) const fn plain(what: &'static str) -> Reason<'static> {
        Reason { what, object: ptr::null(), holder: None }
    }
}

// SAFETY: the pointer is printed and compared, and never followed.
unsafe impl Sync for Reason<'_> {}

/// Who waits: a fiber or a thread. A borrow; see the head of this file for how long it is good.
#[derive(Clone, Copy, Debug)]
pub struct Waiter(pub(crate) parker::Waiter);

impl Waiter {
    /// The right to wake the waiter, whatever it does after this.
    ///
    /// # Safety
    /// The waiter cannot stop waiting before the caller lets it. The `Wake` is dropped before
    /// the caller suspends.
    #[inline]
    pub unsafe fn claim(self) -> Wake {
        if let parker::Waiter::Fiber(header) = self.0
            && let Some(worker) = tls::worker()
            && worker.is_home_of(header)
        {
            return Wake { who: Claimed::Here(worker, header), local: PhantomData };
        }
        // SAFETY: the caller's promise.
        Wake { who: Claimed::Away(unsafe { self.0.retain() }), local: PhantomData }
    }

    /// As [`claim`](Waiter::claim), for keeping.
    ///
    /// # Safety
    /// The waiter cannot stop waiting before the caller lets it.
    #[must_use]
    pub unsafe fn retain(self) -> Unparker {
        // SAFETY: the caller's promise.
        Unparker(unsafe { self.0.retain() })
    }
}

/// Wakes a claimed waiter when it is dropped.
#[must_use = "dropping it wakes the waiter: after the lock has been released, if possible"]
pub struct Wake {
    who: Claimed,
    local: PhantomData<*const ()>,
}

enum Claimed {
    /// The worker is this thread's, on which the wake stays.
    Here(&'static Worker, NonNull<Header>),
    Away(parker::Unparker),
}

impl Drop for Wake {
    #[inline]
    fn drop(&mut self) {
        match &self.who {
            Claimed::Here(worker, header) => worker.wake(*header),
            Claimed::Away(unparker) => unparker.wake(),
        }
    }
}

/// An owned reference to a fiber or thread that may wait.
#[derive(Clone)]
pub struct Unparker(parker::Unparker);

impl Unparker {
    /// Makes it look at the flags of its [`interruptible`](crate::interruptible) scopes.
    pub fn interrupt(&self) {
        match self.0.waiter() {
            parker::Waiter::Fiber(header) => crate::fiber::signal(header, remote::LOOK),
            parker::Waiter::Thread(_) => self.0.wake(),
        }
    }

    /// Makes it look at its condition.
    pub fn wake(&self) {
        self.0.wake();
    }
}

/// The calling fiber, or thread.
#[must_use]
pub fn me() -> Unparker {
    Unparker(crate::join::me())
}

/// Calls `f` with the calling fiber, or thread, as a borrow that is good until `f` returns: nothing is counted.
#[inline]
pub fn with_me<R>(f: impl FnOnce(Waiter) -> R) -> R {
    match suspend::current() {
        Some((_, header)) => f(Waiter(parker::Waiter::Fiber(NonNull::from(header)))),
        None => {
            let parker = tls::parker();
            f(Waiter(parker::Waiter::Thread(NonNull::from(&*parker))))
        }
    }
}

/// One wait of the calling fiber or thread.
pub struct Wait<'a> {
    who: Who<'a>,
    deadline: Option<u64>,
}

enum Who<'a> {
    Fiber { worker: &'a Worker, header: &'a Header, alarm: Option<Alarm<'a>> },
    Thread(Arc<ThreadParker>, &'a Reason<'a>),
}

/// Why [`Wait::park`] returned.
#[derive(Clone, Copy)]
#[must_use]
pub enum Parked {
    /// Perhaps somebody has woken it.
    Look,
    /// The deadline has passed.
    TimedOut,
    /// The fiber has been cancelled, or a scope that it is in is to end: leave the list, and then raise.
    Interrupted(Interruption),
}

/// Why a fiber has to stop waiting.
#[derive(Clone, Copy)]
pub struct Interruption(Cause);

impl Interruption {
    /// Unwinds. To be called on the fiber or thread that was interrupted, before anything else that
    /// suspends.
    ///
    /// # Panics
    /// If the scope that it is about has been left.
    pub fn raise(self) -> ! {
        cancel::raise(cancel::mine(), self.0)
    }
}

/// Runs `body`, in which the calling fiber or thread waits, until `deadline` at the latest.
///
/// # Panics
/// With the panic of `body`.
#[inline]
pub fn wait<R>(
    reason: &Reason<'_>,
    deadline: Option<Instant>,
    body: impl FnOnce(&Wait<'_>) -> R,
) -> R {
    wait_as(suspend::current(), reason, deadline, body)
}

/// As [`wait`], by a caller that knows who it is.
#[inline]
pub(crate) fn wait_as<R>(
    who: Option<(&Worker, &Header)>,
    reason: &Reason<'_>,
    deadline: Option<Instant>,
    body: impl FnOnce(&Wait<'_>) -> R,
) -> R {
    let deadline = deadline.map(|Instant(at)| at);
    let Some((worker, header)) = who else {
        return body(&Wait { who: Who::Thread(tls::parker(), reason), deadline });
    };
    header.waiting.set(ptr::from_ref(reason).cast());
    let _done = Done(header);
    let mut timer = None;
    let alarm = deadline.map(|at| {
        let timer = timer.insert(Timer::new(at, ptr::from_ref(header).cast()));
        // SAFETY: the timer is not moved or named again before the alarm goes.
        unsafe { Alarm::arm(worker, NonNull::from(timer)) }
    });
    body(&Wait { who: Who::Fiber { worker, header, alarm }, deadline })
}

impl Wait<'_> {
    /// Who waits here.
    #[inline]
    pub fn waiter(&self) -> Waiter {
        Waiter(match &self.who {
            Who::Fiber { header, .. } => parker::Waiter::Fiber(NonNull::from(*header)),
            Who::Thread(parker, _) => parker::Waiter::thread(parker),
        })
    }

    /// Waits to be woken. What is due already is said without waiting.
    #[inline]
    pub fn park(&self) -> Parked {
        match &self.who {
            Who::Fiber { worker, header, alarm } => {
                if cancel::UNWINDS
                    && let Some(cause) = cancel::due(worker, header)
                {
                    return Parked::Interrupted(Interruption(cause));
                }
                if alarm.as_ref().is_some_and(Alarm::fired) {
                    return Parked::TimedOut;
                }
                worker.park(header);
                Parked::Look
            }
            Who::Thread(parker, reason) => self.park_thread(parker, reason),
        }
    }

    #[cold]
    fn park_thread(&self, parker: &ThreadParker, reason: &Reason<'_>) -> Parked {
        let requests = tls::requests();
        if cancel::UNWINDS
            && let Some(cause) = cancel::due_on_thread(requests)
        {
            return Parked::Interrupted(Interruption(cause));
        }
        task::must_not_wait(reason.what);
        let now = bast_io::driver::monotonic_now();
        if self.deadline.is_some_and(|at| at <= now) {
            return Parked::TimedOut;
        }
        let clock = requests.clock();
        if cancel::UNWINDS && clock.is_some_and(|at| at <= now) {
            return Parked::Look;
        }
        // Without unwinding a scope's time passes and nothing comes of it here.
        let ahead = clock.filter(|&at| at > now);
        let first = self.deadline.into_iter().chain(ahead).min();
        parker.wait(first.map(|at| Duration::from_nanos(at - now)), reason);
        Parked::Look
    }
}

/// The id of the calling fiber, or of the thread: what [`Reason::holder`] holds.
#[inline]
#[must_use]
pub fn id() -> u64 {
    match suspend::current() {
        Some((_, header)) => header.id,
        None => tls::thread_id(),
    }
}

/// The [`id`] of the caller, and where it runs: the same place for two fibers of one worker, different ones for
/// different threads. Never 0.
#[inline]
#[must_use]
pub fn identity() -> (u64, usize) {
    match suspend::current() {
        Some((worker, header)) => (header.id, ptr::from_ref(worker).addr()),
        None => (tls::thread_id(), ptr::from_ref(tls::requests()).addr()),
    }
}

/// Whether the calling fiber unwinds. Same as [`std::thread::panicking`], but right also in the rare case in which
/// that speaks of a neighbour as well (module `unwinding`). Unwinding by a cancellation or a timeout counts.
#[inline]
#[must_use]
pub fn is_unwinding() -> bool {
    std::thread::panicking() && is_unwinding_slowly()
}

#[cold]
fn is_unwinding_slowly() -> bool {
    match suspend::current() {
        Some((worker, header)) => worker.is_unwinding(header),
        None => true,
    }
}

/// Accounts for work that did not have to wait: now and then it lets the other fibers of this worker run,
/// so that somebody who always finds something to do cannot starve them (rt 4). Never raises.
#[inline]
pub fn spend() {
    if let Some((worker, header)) = suspend::current() {
        worker.spend_one(header);
    }
}

/// The request that is due to the calling fiber or thread.
#[cold]
pub(crate) fn due() -> Option<Cause> {
    match suspend::current() {
        Some((worker, header)) => cancel::due(worker, header),
        None => cancel::due_on_thread(tls::requests()),
    }
}

/// Raises if the calling fiber has been cancelled, or a scope that it is in is to end: a suspension
/// point that does not wait.
#[inline]
pub fn check() {
    match suspend::current() {
        Some((worker, header)) => cancel::check(worker, header),
        None => check_thread(),
    }
}

#[cold]
fn check_thread() {
    let requests = tls::requests();
    if cancel::UNWINDS
        && let Some(cause) = cancel::due_on_thread(requests)
    {
        cancel::raise(requests, cause);
    }
}

/// Whether [`check`] would raise. In a program compiled with `panic = "abort"`, where nothing raises: whether
/// the calling fiber has been asked to end, or a scope that it is in.
#[cold]
#[must_use]
pub fn is_due() -> bool {
    due().is_some()
}

/// Same as [`std::panic::resume_unwind`], for a payload that a primitive caught in order to bring something
/// to its end first. The panic hook does not see that, so the fiber is noted as unwinding here.
pub fn resume_unwind(payload: Box<dyn std::any::Any + Send>) -> ! {
    crate::unwinding::pass_on(payload)
}

/// Drops what nobody wants. A panic of its destructor has been printed and ends here; a request that interrupted
/// the destructor is due again afterwards.
pub fn drop_quietly<T>(value: T) {
    crate::interrupt::quietly(|| drop(value));
}

/// A word of the calling fiber, or thread, which means nothing here: null, or what
/// [`set_errands`] has been given. For the callbacks of promises, which run one after the other and not one inside the other.
#[inline]
#[must_use]
pub fn errands() -> *const () {
    cancel::mine().errands.get()
}

/// See [`errands`].
#[inline]
pub fn set_errands(errands: *const ()) {
    cancel::mine().errands.set(errands);
}

/// A number for fair choices: scale its upper half to the number of candidates. Successive numbers of a thread
/// are spread more evenly than random ones would be, and the processor predicts branches that depend on them
/// better. The lowest four bits count: they are all 0 in one call of 16.
#[must_use]
#[inline]
pub fn turn() -> u64 {
    tls::turn()
}
