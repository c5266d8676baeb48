//! Where fibers wait: the suspension points everything else is made of.
//!
//! Each one has the same form: say what to wait for, park, and when woken look whether it has come; if
//! the fiber was cancelled meanwhile, first take back what was said, then raise.

use std::ptr::NonNull;
use std::time::{Duration, Instant as StdInstant};

use bast_io::{Op, Outcome, Record, blocking};

use crate::cancel::{self, Cause};
use crate::fiber::Header;
use crate::task;
use crate::time::Instant;
use crate::tls;
use crate::wait::{self, Parked, Reason};
use crate::wheel::Timer;
use crate::worker::Worker;

/// The worker and the fiber that runs here, if a fiber does.
#[inline(always)]
pub(crate) fn current<'a>() -> Option<(&'a Worker, &'a Header)> {
    let worker = tls::worker()?;
    let fiber = worker.current()?;
    // SAFETY: the current fiber outlives every frame on its stack.
    Some((worker, unsafe { &*fiber.as_ptr() }))
}

/// A timer armed for the current fiber; leaving the scope disarms it, also by unwinding.
pub(crate) struct Alarm<'a> {
    worker: &'a Worker,
    timer: NonNull<Timer>,
}

impl<'a> Alarm<'a> {
    /// # Safety
    /// `timer` stays where it is while the alarm exists, and is touched through it only.
    #[inline]
    pub(crate) unsafe fn arm(worker: &'a Worker, timer: NonNull<Timer>) -> Alarm<'a> {
        // SAFETY: the caller's promise; dropping the alarm removes it.
        unsafe { worker.arm(timer) };
        Alarm { worker, timer }
    }

    #[inline]
    pub(crate) fn fired(&self) -> bool {
        // SAFETY: the timer outlives the alarm; only this thread touches it.
        unsafe { (*self.timer.as_ptr()).fired }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        // SAFETY: armed in this wheel, or fired.
        unsafe { self.worker.wheel().remove(self.timer) };
    }
}

/// Runs an operation and waits until it has completed: the fiber parks, a plain thread blocks.
///
/// After `timeout` the operation is cancelled; the outcome is then [`Outcome::TIMED_OUT`], or the real one if
/// the operation won the race. If the fiber is cancelled, or a [`timeout`](crate::timeout()) around it runs
/// out, so is the operation, and once it has completed this unwinds; an operation that won that race
/// gives its real outcome, and the next suspension point unwinds. (With `panic = "abort"` the outcome is
/// [`Outcome::CANCELLED`] or `TIMED_OUT`, now and for each further operation.)
///
/// Whatever happens, it returns or unwinds only after the kernel has let go of the operation's memory
/// (contract rt 5). That is why borrowed buffers are enough.
///
/// # Safety
/// The pointers in `op` are valid for what the operation does, until this returns.
#[inline]
pub unsafe fn perform(op: Op, timeout: Option<Duration>) -> Outcome {
    let Some((worker, header)) = current() else {
        // SAFETY: the caller's promise.
        return unsafe { perform_on_thread(&op, timeout) };
    };
    if let Some(cause) = cancel::due(worker, header) {
        return interrupted(header, cause);
    }
    let mut record = Record::new(op, std::ptr::from_ref(header).cast_mut().cast());
    let record = NonNull::from(&mut record);
    // SAFETY: io 1: the record stays on this stack until it has completed, as `wait` waits for that;
    // the memory is the caller's promise.
    match unsafe { worker.submit(record) } {
        Some(outcome) => {
            worker.spend_inline(header);
            outcome
        }
        // SAFETY: submitted and pending.
        None => unsafe { wait(worker, header, record, timeout) },
    }
}

/// An operation that was not begun, or was given up, because of a request.
#[cold]
fn interrupted(header: &Header, cause: Cause) -> Outcome {
    if cancel::UNWINDS {
        cancel::raise(&header.requests, cause);
    }
    if cause.is_time() { Outcome::TIMED_OUT } else { Outcome::CANCELLED }
}

/// # Safety
/// As [`perform`].
unsafe fn perform_on_thread(op: &Op, timeout: Option<Duration>) -> Outcome {
    wait::check();
    if task::is_polling() {
        // SAFETY: the caller's promise.
        if let Some(outcome) = unsafe { blocking::attempt(op) } {
            return outcome;
        }
        task::must_not_wait(op.name());
    }
    let requests = tls::requests();
    let deadline = timeout.and_then(|timeout| StdInstant::now().checked_add(timeout));
    let Some(scope) = requests.clock() else {
        // SAFETY: the caller's promise; the call blocks until it is over.
        return unsafe { blocking::execute(op, deadline) };
    };
    let left = Duration::from_nanos(scope.saturating_sub(Instant::now().0));
    let scope = StdInstant::now().checked_add(left);
    // SAFETY: as above.
    let outcome = unsafe { blocking::execute(op, deadline.into_iter().chain(scope).min()) };
    if outcome == Outcome::TIMED_OUT {
        wait::check();
    }
    outcome
}

/// # Safety
/// `record` is pending in this worker's driver, for this fiber.
unsafe fn wait(
    worker: &Worker,
    header: &Header,
    record: NonNull<Record>,
    timeout: Option<Duration>,
) -> Outcome {
    header.blocked_on.set(Some(record));
    let mut timer = Timer::new(0, std::ptr::null());
    let alarm = timeout.map(|timeout| {
        timer =
            Timer::new(after(worker.driver().now(), timeout), std::ptr::from_ref(header).cast());
        // SAFETY: the timer is not moved or named again before the alarm goes.
        unsafe { Alarm::arm(worker, NonNull::from(&mut timer)) }
    });
    let mut asked = false;
    let mut cause = None;
    let mut timed_out = false;
    while header.blocked_on.get().is_some() {
        worker.park(header);
        if header.blocked_on.get().is_none() {
            break;
        }
        timed_out |= alarm.as_ref().is_some_and(Alarm::fired);
        cause = cause.or_else(|| cancel::due(worker, header));
        if (timed_out || cause.is_some()) && !asked {
            asked = true;
            // SAFETY: `blocked_on` says that it is pending.
            unsafe { worker.driver().cancel(record) };
            // SAFETY: as above.
            unsafe { insist(worker, header, record) };
        }
    }
    drop(alarm);
    // SAFETY: completed: the record is ours again.
    let outcome = unsafe { record.as_ref() }.outcome();
    // An operation that won the race has its real result (io 2): bytes that have been taken, a handle.
    // It goes to the caller, and the next suspension point raises.
    if outcome == Outcome::CANCELLED
        && let Some(cause) = cause
    {
        return interrupted(header, cause);
    }
    if timed_out && outcome == Outcome::CANCELLED {
        return Outcome::TIMED_OUT;
    }
    outcome
}

/// How often an interruptible call is interrupted until it ends.
const AGAIN: Duration = Duration::from_millis(1);

/// Waits for an operation that was asked to end, and asks again if it is one that has to be.
///
/// # Safety
/// As [`wait`].
#[cold]
unsafe fn insist(worker: &Worker, header: &Header, record: NonNull<Record>) {
    // SAFETY: an operation does not change while it is lent.
    if !matches!(unsafe { record.as_ref() }.op(), Op::Call { interruptible: true, .. }) {
        return;
    }
    while header.blocked_on.get().is_some() {
        let mut timer =
            Timer::new(after(worker.driver().now(), AGAIN), std::ptr::from_ref(header).cast());
        // SAFETY: the timer is not moved or named again before the alarm goes.
        let alarm = unsafe { Alarm::arm(worker, NonNull::from(&mut timer)) };
        while header.blocked_on.get().is_some() && !alarm.fired() {
            worker.park(header);
        }
        if header.blocked_on.get().is_some() {
            // SAFETY: it is pending.
            unsafe { worker.driver().cancel(record) };
        }
    }
}

/// Same as [`std::thread::yield_now`]: lets the other fibers of this worker run first.
///
/// A suspension point: raises if the fiber has been cancelled. Outside a fiber it yields the thread.
#[inline(always)]
pub fn yield_now() {
    match current() {
        None => {
            wait::check();
            task::must_not_wait("yield_now");
            std::thread::yield_now();
        }
        Some((worker, header)) => {
            cancel::check(worker, header);
            worker.yield_now(header);
            cancel::check(worker, header);
        }
    }
}

/// Same as [`std::thread::sleep`], for the fiber.
///
/// It never returns early; under load it may return late by what the other fibers of the worker take,
/// and by the timers' resolution of 16 µs. A duration of zero only yields: what is ready runs first, timers and
/// I/O get their turn as they do among fibers that yield, and no timer is set.
pub fn sleep(duration: Duration) {
    if duration.is_zero() {
        return yield_now();
    }
    match current() {
        None if tls::requests().scopes.get().is_null() => {
            task::must_not_wait("sleep");
            std::thread::sleep(duration);
        }
        _ => sleep_to(Instant(after(Instant::now().0, duration))),
    }
}

/// Sleeps until the deadline; one that has passed only yields.
pub fn sleep_until(deadline: Instant) {
    if deadline <= Instant::now() { yield_now() } else { sleep_to(deadline) }
}

fn sleep_to(deadline: Instant) {
    static SLEEP: Reason<'_> = Reason::plain("sleep");
    wait::wait(&SLEEP, Some(deadline), |wait| {
        // Without unwinding a request ends the sleep early.
        while cancel::UNWINDS || wait::due().is_none() {
            match wait.park() {
                Parked::Look => {}
                Parked::TimedOut => break,
                Parked::Interrupted(interruption) => interruption.raise(),
            }
        }
    });
}

/// Same as [`std::thread::park`], for the fiber: waits for [`Fiber::unpark`](crate::Fiber::unpark).
///
/// Unlike std's it never returns without reason, except by unwinding when the fiber is cancelled.
#[inline(always)]
pub fn park() {
    match current() {
        None => park_thread(None),
        Some((worker, header)) => {
            cancel::check(worker, header);
            header.waiting.set(&raw const PARK);
            let _done = Done(header);
            while !header.token.replace(false) {
                worker.park(header);
                cancel::check(worker, header);
            }
        }
    }
}

/// [`park`] on a plain thread.
fn park_thread(deadline: Option<u64>) {
    let (parker, requests) = (tls::parker(), tls::requests());
    loop {
        wait::check();
        task::must_not_wait("park");
        let now = bast_io::driver::monotonic_now();
        let clock = requests.clock().filter(|&at| cancel::UNWINDS || at > now);
        let first = deadline.into_iter().chain(clock).min();
        if parker.park(first.map(|at| Duration::from_nanos(at.saturating_sub(now))), &PARK)
            || deadline.is_some_and(|at| at <= now)
        {
            return;
        }
    }
}

static PARK: Reason<'_> = Reason::plain("park");

/// The end of a wait, also by unwinding.
pub(crate) struct Done<'a>(pub(crate) &'a Header);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(std::ptr::null());
    }
}

/// Same as [`std::thread::park_timeout`], for the fiber.
pub fn park_timeout(timeout: Duration) {
    let Some((worker, header)) = current() else {
        return park_thread(Some(after(bast_io::driver::monotonic_now(), timeout)));
    };
    cancel::check(worker, header);
    if header.token.replace(false) {
        return;
    }
    if timeout.is_zero() {
        return yield_now();
    }
    let deadline = Instant(after(worker.driver().now(), timeout));
    wait::wait(&PARK, Some(deadline), |wait| {
        while !header.token.replace(false) {
            match wait.park() {
                Parked::Look => {}
                Parked::TimedOut => break,
                Parked::Interrupted(interruption) => interruption.raise(),
            }
        }
    });
}

/// The clock reading `duration` after `now`; what does not fit is never.
pub(crate) fn after(now: u64, duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(u64::MAX, |nanos| now.saturating_add(nanos))
}
