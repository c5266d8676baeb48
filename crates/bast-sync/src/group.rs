//! Task groups: fibers that belong together, end together and fail together.
//!
//! ```text
//!   group(|g| …)                    Base { breaker, count }            in the frame of `group`
//!     ├ body    in breaker.run           │  ▲ left: members that something is left of
//!     └ g.spawn ─▶ fiber in breaker.run  │  │
//!                  └ Ended { value, Seat } the fiber's result; its drop counts the member off
//! ```
//!
//! The body and all members run inside one breaker. The first failure, an outside request or
//! [`Group::cancel`] sets it, and everybody unwinds to the edge of the group. Groups nest by that alone:
//! a group opened inside a member is in a frame that unwinds, and it cancels and awaits its own on the way.
//!
//! Why members may borrow: `group` returns or unwinds only when no seat is left. A seat is captured by the
//! fiber's closure, before what the closure does; from there it moves into the fiber's result, after the
//! value. So it goes last, whoever drops it and when: closure, result, handle; and a handle that is
//! forgotten keeps the group waiting, as std's scopes do.
//!
//! The base is in the group's frame and seats point to it. Its last use by a seat is to unlock `count`; the
//! owner sees zero under that lock, so afterwards. The wake is claimed before, under the lock, while the
//! owner cannot leave.

use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use bast_rt::wait::{self, Parked, Reason, Waiter, drop_quietly};
use bast_rt::{Builder, Cancelled, Fiber, Interrupted, JoinHandle};

use crate::breaker::Breaker;
use crate::lock::Lock;

type Payload = Box<dyn Any + Send>;

/// Where nothing unwinds, whoever waits here has to look at the requests by himself.
const ABORTS: bool = cfg!(not(panic = "unwind"));

/// What does not depend on the type of the errors.
struct Base {
    breaker: Breaker,
    count: Lock<Count>,
    /// Who has called `group`, where that matters.
    caller: u64,
}

struct Count {
    /// Seats that are left.
    left: usize,
    /// A member's closure was dropped unrun, for want of a stack or as its runtime ended.
    lost: bool,
    owner: Option<Waiter>,
}

// SAFETY: the waiter is claimed under the lock, while its owner cannot leave.
unsafe impl Send for Count {}

impl Base {
    /// Waits until no seat is left. An outside request cancels the members at once, and is still due
    /// when this returns true.
    fn wait(&self) -> bool {
        let mut interrupted = false;
        if !self.breaker.is_tripped() {
            if self.wait_once() {
                return false;
            }
            self.breaker.trip();
            interrupted = true;
        }
        wait::hold(|| self.wait_once());
        interrupted
    }

    /// False if it was interrupted.
    fn wait_once(&self) -> bool {
        wait::wait(&Reason::new("group", self), None, |wait| {
            loop {
                let mut count = self.count.lock();
                if count.left == 0 {
                    return true;
                }
                count.owner = Some(wait.waiter());
                drop(count);
                match wait.park() {
                    Parked::Interrupted(_) => {
                        self.count.lock().owner = None;
                        return false;
                    }
                    Parked::Look | Parked::TimedOut => {}
                }
                self.pass_on();
            }
        })
    }

    /// Without unwinding: cancels the members if the caller of `group`, who calls this, is to end.
    fn pass_on(&self) {
        if ABORTS && self.caller == wait::id() && wait::is_due() {
            self.breaker.trip();
        }
    }

    /// Without unwinding: waits for the fiber to end, before it is joined.
    fn attend<T>(&self, fiber: &JoinHandle<T>) {
        wait::wait(&Reason::new("GroupJoinHandle::join", self), None, |wait| {
            // SAFETY: the handle is to be joined afterwards; the waiter stays until the fiber is done.
            if unsafe { fiber.announce(wait.waiter()) } {
                while !fiber.is_finished() {
                    self.pass_on();
                    let _ = wait.park();
                }
            }
        });
    }
}

/// A member, as the group counts it.
struct Seat {
    base: NonNull<Base>,
    begun: bool,
}

// SAFETY: it leads to locks and atomics only.
unsafe impl Send for Seat {}

impl Seat {
    fn base(&self) -> &Base {
        // SAFETY: the base is there as long as a seat is left.
        unsafe { self.base.as_ref() }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.begun {
            self.base().count.lock().lost = true;
            self.base().breaker.trip();
        }
        let mut count = self.base().count.lock();
        count.left -= 1;
        // SAFETY: the owner leaves only after it has seen zero under this lock; nothing suspends below.
        let wake = (count.left == 0).then(|| count.owner.take().map(|who| unsafe { who.claim() }));
        drop(count);
        // The base may be gone.
        drop(wake);
    }
}

/// What a member's fiber is made of. The order of the fields is that of their drops.
struct Member<'scope, 'env, E, F> {
    f: F,
    group: &'scope Group<'scope, 'env, E>,
    seat: Seat,
}

impl<T, E, F: FnOnce() -> Result<T, E>> Member<'_, '_, E, F> {
    fn run(self) -> Ended<T> {
        let Member { f, group, mut seat } = self;
        seat.begun = true;
        let value = match catch_unwind(AssertUnwindSafe(|| group.base.breaker.run(f))) {
            Ok(Some(Ok(value))) => Some(value),
            Ok(Some(Err(error))) => {
                group.fail(error);
                None
            }
            Ok(None) => None,
            Err(payload) if payload.is::<Cancelled>() => None,
            Err(payload) => {
                group.panicked(payload);
                None
            }
        };
        Ended { value, _seat: seat }
    }
}

/// The result of a member's fiber. The order of the fields is that of their drops.
struct Ended<T> {
    value: Option<T>,
    _seat: Seat,
}

struct Failures<E> {
    error: Option<E>,
    panic: Option<Payload>,
}

/// A group of fibers, inside the function given to [`group`].
pub struct Group<'scope, 'env: 'scope, E: 'env> {
    base: Base,
    failures: Lock<Failures<E>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` and the fibers that it starts in the group. If one of them fails, by an error or a panic, `f` and the
/// other fibers are cancelled. Returns after all of them have ended; they may borrow what outlives the call.
///
/// This is what is called a nursery (Trio), a `coroutineScope` (Kotlin), a task scope (Java, Swift) or an
/// `errgroup` (Go). Unlike in a [`scope`](bast_rt::scope) nobody has to be joined for a failure to be seen.
///
/// Whoever is cancelled unwinds from the suspension point that it is at, or comes to next, as by
/// [`CancelToken`](crate::CancelToken); a fiber that has not begun does not begin. Fibers that compute
/// without suspending, or are inside [`mask`](bast_rt::mask), are waited for.
///
/// Groups nest: one that is opened by a member is cancelled with it. Everything else that waits for its
/// fibers (`race`, `par_map`, …) does likewise. Fibers started with plain [`spawn`](bast_rt::spawn) are not in the
/// group.
///
/// # Errors
/// The first error, in time, that `f` or a member returned. [`Cancelled`], converted, if [`Group::cancel`]
/// interrupted `f`, or if a member could not be started.
///
/// # Panics
/// With the first panic of `f` or a member, even if there was an error before. (A [`Cancelled`] with which a
/// member unwinds on its own is no panic, and no failure.)
///
/// # Cancellation
/// If the calling fiber is cancelled, or a timeout, token or group around the call ends, the members are
/// cancelled at once, and the call unwinds after all have ended. With `panic = "abort"` nothing unwinds:
/// I/O of `f` and of the members fails, and the call returns after they have returned.
///
/// ```
/// use std::io;
/// use std::time::Duration;
///
/// let words = vec!["one", "three"];
/// let sum = bast_sync::group(|g| {
///     let first = g.spawn(|| Ok(words[0].len()));
///     let second = g.spawn(|| Ok(words[1].len()));
///     io::Result::Ok(first.join()? + second.join()?)
/// });
/// assert_eq!(sum.unwrap(), 8);
///
/// let failed = bast_sync::group(|g| {
///     g.spawn(|| io::Result::<()>::Err(io::ErrorKind::NotFound.into()));
///     g.spawn(|| Ok(bast_rt::sleep(Duration::MAX)));
///     Ok(())
/// });
/// assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
/// ```
pub fn group<'env, F, T, E>(f: F) -> Result<T, E>
where
    F: for<'scope> FnOnce(&'scope Group<'scope, 'env, E>) -> Result<T, E>,
    E: From<Cancelled> + Send + 'env,
{
    wait::begin("group");
    let group = Group {
        base: Base {
            breaker: Breaker::new(),
            count: Lock::new(Count { left: 0, lost: false, owner: None }),
            caller: if ABORTS { wait::id() } else { 0 },
        },
        failures: Lock::new(Failures { error: None, panic: None }),
        scope: PhantomData,
        env: PhantomData,
    };
    let body = catch_unwind(AssertUnwindSafe(|| group.base.breaker.run(|| f(&group))));
    let mut value = None;
    let mut passing = None;
    match body {
        Ok(Some(Ok(it))) => value = Some(it),
        Ok(Some(Err(error))) => group.fail(error),
        Ok(None) => {}
        // An outside request on its way.
        Err(payload) if payload.is::<Cancelled>() || payload.is::<Interrupted>() => {
            group.cancel();
            passing = Some(payload);
        }
        Err(payload) => group.panicked(payload),
    }
    let interrupted = group.base.wait();
    let lost = group.base.count.lock().lost;
    let (panic, error) = {
        let mut failures = group.failures.lock();
        (failures.panic.take(), failures.error.take())
    };
    if let Some(payload) = panic.or(passing) {
        wait::resume_unwind(payload);
    }
    if interrupted {
        wait::check();
    }
    match (error, value) {
        (Some(error), _) => Err(error),
        (None, Some(value)) if !lost => Ok(value),
        (None, _) => Err(Cancelled::new().into()),
    }
}

impl<'scope, E> Group<'scope, '_, E> {
    /// Starts a fiber in the group, from `f` or from a member. If the group has been cancelled the fiber does not
    /// begin.
    ///
    /// # Panics
    /// If no fiber can be started.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> GroupJoinHandle<'scope, T>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Send,
    {
        self.spawn_with(Builder::new(), f).expect("failed to spawn a fiber")
    }

    /// As [`spawn`](Group::spawn), with a name, a stack size or a worker.
    ///
    /// # Errors
    /// As [`Builder::spawn`]. As a member could not be started the group is cancelled then.
    #[track_caller]
    pub fn spawn_with<F, T>(
        &'scope self,
        builder: Builder,
        f: F,
    ) -> io::Result<GroupJoinHandle<'scope, T>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Send,
    {
        let base = &self.base;
        if base.breaker.is_tripped() {
            return Ok(GroupJoinHandle { fiber: None, base });
        }
        base.count.lock().left += 1;
        let seat = Seat { base: NonNull::from(base), begun: false };
        let member = Member { f, group: self, seat };
        // SAFETY: the group does not end before the seat has gone, which goes after all that borrows.
        let spawned = unsafe { builder.spawn_unchecked(move || member.run()) };
        Ok(GroupJoinHandle { fiber: Some(spawned?), base })
    }

    /// Cancels the members and the function given to [`group`], wherever they wait. `group` then returns what that
    /// function returned, if it was not interrupted. Does nothing the second time.
    pub fn cancel(&self) {
        self.base.breaker.trip();
    }

    /// Whether it has been cancelled, by whatever.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.base.breaker.is_tripped()
    }

    fn fail(&self, error: E) {
        let mut failures = self.failures.lock();
        let late = if failures.error.is_none() {
            failures.error = Some(error);
            None
        } else {
            Some(error)
        };
        drop(failures);
        self.cancel();
        drop_quietly(late);
    }

    fn panicked(&self, payload: Payload) {
        let mut failures = self.failures.lock();
        let late = if failures.panic.is_none() {
            failures.panic = Some(payload);
            None
        } else {
            Some(payload)
        };
        drop(failures);
        self.cancel();
        drop_quietly(late);
    }
}

impl<E> fmt::Debug for Group<'_, '_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.base.count.lock().left;
        f.debug_struct("Group")
            .field("is_cancelled", &self.is_cancelled())
            .field("left", &left)
            .finish_non_exhaustive()
    }
}

/// Same as [`ScopedJoinHandle`](bast_rt::ScopedJoinHandle), for a member of a [`Group`]. Dropping it leaves the member
/// in the group.
pub struct GroupJoinHandle<'scope, T> {
    /// None: it was not started.
    fiber: Option<JoinHandle<Ended<T>>>,
    base: &'scope Base,
}

impl<T> GroupJoinHandle<'_, T> {
    /// Waits for the member to end, and returns what it returned.
    ///
    /// # Errors
    /// [`Cancelled`] if it was cancelled. Its error or panic goes to the caller of [`group`]; as that cancels
    /// the group, who joins such a member unwinds as well, and gets [`Cancelled`] only where nothing can
    /// unwind (inside [`mask`](bast_rt::mask), for example).
    ///
    /// # Cancellation
    /// As [`JoinHandle::join`]; the member stays in the group.
    pub fn join(self) -> Result<T, Cancelled> {
        if ABORTS && let Some(fiber) = &self.fiber {
            self.base.attend(fiber);
        }
        if let Some(fiber) = self.fiber
            && let Ok(Ended { value: Some(value), .. }) = fiber.join()
        {
            return Ok(value);
        }
        if self.base.breaker.is_tripped() {
            // The signal may still be under way: raise now, so that nobody sees the error that ends him.
            wait::me().interrupt();
            wait::check();
        }
        Err(Cancelled::new())
    }

    /// Whether the member has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fiber.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Cancels this member alone. That is no failure.
    pub fn cancel(&self) {
        if let Some(fiber) = &self.fiber {
            fiber.cancel();
        }
    }

    /// The fiber; `None` if it was not started.
    #[must_use]
    pub fn fiber(&self) -> Option<Fiber> {
        self.fiber.as_ref().map(JoinHandle::fiber)
    }
}

impl<T> fmt::Debug for GroupJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupJoinHandle").field("fiber", &self.fiber()).finish_non_exhaustive()
    }
}
