//! A pool of things that are expensive to make: connections, child processes.
//!
//! ```text
//!   get ─▶ an idle member? ─ valid ─▶ Pooled
//!            │ none      ╰─ not ─▶ disposed of; its place is free
//!            ├─ a place is free: make one ─▶ Pooled
//!            ╰─ wait, first in, first out ◀── a member comes back, or a place gets free
//! ```
//!
//! A place is the right to have a member: it is idle, in use, or being made, and there are `max` of them.
//! A member that comes back, or a place that gets free, is handed to the first waiter; a waiter that is
//! cancelled at that moment keeps what it was given and gives it back in the ordinary way (`list`). No
//! function of the user's runs under the lock, so all of them may wait.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use bast_rt::wait::{self, Reason};
use bast_rt::{Instant, mask};

use crate::list::{self, List};
use crate::lock::Lock;
use crate::shim::Wake;

/// A bounded set of members that are made when they are needed and used by one fiber at a time.
///
/// ```
/// use bast_sync::Pool;
///
/// let pool = Pool::new(2, || Ok::<_, std::io::Error>(Vec::with_capacity(1 << 16)));
/// let length = pool.with(|buffer: &mut Vec<u8>| {
///     buffer.clear();
///     buffer.extend(b"some work");
///     buffer.len()
/// })?;
/// assert_eq!(length, 9);
/// # Ok::<(), bast_sync::PoolError<std::io::Error>>(())
/// ```
///
/// Waiters are served first in, first out, by hand-off. A member is given out again in the order last in, first
/// out, so that those which are not needed become old.
pub struct Pool<T, E> {
    state: Lock<State<T>>,
    max: usize,
    max_waiters: usize,
    idle_timeout: Option<Duration>,
    create: Box<dyn Fn() -> Result<T, E> + Send + Sync>,
    validate: Box<dyn Fn(&mut T) -> bool + Send + Sync>,
    check: Box<dyn Fn(&mut T) -> bool + Send + Sync>,
    dispose: Option<Box<dyn Fn(T) + Send + Sync>>,
}

struct State<T> {
    /// With the moments at which they came back, oldest first.
    idle: VecDeque<(T, Instant)>,
    /// Places taken: members idle, in use and being made.
    taken: usize,
    waiting: usize,
    waiters: List,
    /// Counts `clear`: members from before are not kept.
    age: u64,
}

/// What a waiter is handed.
enum Grant<T> {
    Member(T, u64),
    /// A place for a member of its own making.
    Place,
}

/// Why there is no member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError<E> {
    /// None could be made.
    Create(E),
    /// As many wait already as may.
    Full,
}

impl<E: fmt::Display> fmt::Display for PoolError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::Create(error) => {
                write!(f, "a member of the pool could not be made: {error}")
            }
            PoolError::Full => f.write_str("the pool is exhausted, and as many wait for it as may"),
        }
    }
}

impl<E: Error + 'static> Error for PoolError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PoolError::Create(error) => Some(error),
            PoolError::Full => None,
        }
    }
}

impl<T, E> Pool<T, E> {
    /// A pool of at most `max` members, each made by `create`. None is made yet.
    ///
    /// # Panics
    /// If `max` is zero.
    pub fn new(
        max: usize,
        create: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Pool<T, E> {
        assert!(max > 0, "a pool without members could never give one out");
        Pool {
            state: Lock::new(State {
                idle: VecDeque::new(),
                taken: 0,
                waiting: 0,
                waiters: List::new(),
                age: 0,
            }),
            max,
            max_waiters: usize::MAX,
            idle_timeout: None,
            create: Box::new(create),
            validate: Box::new(|_| true),
            check: Box::new(|_| false),
            dispose: None,
        }
    }

    /// Asked of an idle member before it is given out: whether it can still be used.
    #[must_use]
    pub fn validate(
        mut self,
        valid: impl Fn(&mut T) -> bool + Send + Sync + 'static,
    ) -> Pool<T, E> {
        self.validate = Box::new(valid);
        self
    }

    /// Asked of a member whose user has panicked or was cancelled: whether it can still be used. Default: no.
    #[must_use]
    pub fn check(mut self, usable: impl Fn(&mut T) -> bool + Send + Sync + 'static) -> Pool<T, E> {
        self.check = Box::new(usable);
        self
    }

    /// What is done with members that are not used any more. Default: they are dropped.
    #[must_use]
    pub fn dispose(mut self, dispose: impl Fn(T) + Send + Sync + 'static) -> Pool<T, E> {
        self.dispose = Some(Box::new(dispose));
        self
    }

    /// How many fibers may wait for a member at a time. Default: any number.
    #[must_use]
    pub fn max_waiters(mut self, waiters: usize) -> Pool<T, E> {
        self.max_waiters = waiters;
        self
    }

    /// How long a member may be idle. It is disposed of when the pool is used next, or by
    /// [`tidy`](Pool::tidy). Default: for ever.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Pool<T, E> {
        self.idle_timeout = Some(timeout);
        self
    }

    /// A member, which goes back when it is dropped. Waits until there is one.
    ///
    /// # Errors
    /// What `create` said; [`PoolError::Full`].
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn get(&self) -> Result<Pooled<'_, T, E>, PoolError<E>> {
        self.tidy();
        let mut grant = self.take()?;
        loop {
            match grant {
                Grant::Place => return self.make(),
                Grant::Member(mut member, age) => {
                    let place = Place(self);
                    if (self.validate)(&mut member) {
                        std::mem::forget(place);
                        return Ok(Pooled { pool: self, member: Some(member), age, failed: false });
                    }
                    self.discard(member);
                    // Its place is ours.
                    std::mem::forget(place);
                    grant = Grant::Place;
                }
            }
        }
    }

    /// Runs `f` with a member.
    ///
    /// # Errors
    /// As [`get`](Pool::get).
    ///
    /// # Panics
    /// With the panic of `f`. The member is [checked](Pool::check) then.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Result<R, PoolError<E>> {
        Ok(f(&mut *self.get()?))
    }

    /// A member that is idle, or a place, or waits for either.
    fn take(&self) -> Result<Grant<T>, PoolError<E>> {
        let mut state = self.state.lock();
        if let Some((member, _)) = state.idle.pop_back() {
            return Ok(Grant::Member(member, state.age));
        }
        if state.taken < self.max {
            state.taken += 1;
            return Ok(Grant::Place);
        }
        if state.waiting >= self.max_waiters {
            return Err(PoolError::Full);
        }
        state.waiting += 1;
        let mut slot: Option<Grant<T>> = None;
        let reason = Reason::new("Pool::get", self);
        let to = (&raw mut slot).cast();
        // Who leaves the list and who is counted off is the same under the lock: else `Full` would come too early.
        let left = |state: &mut State<T>| state.waiting -= 1;
        let end = list::wait_in_with(
            &self.state,
            state,
            |state| &mut state.waiters,
            to,
            (|| (), left),
            &reason,
            None,
        );
        match slot {
            Some(grant) => Ok(grant),
            None => {
                // Interrupted: there is no deadline.
                end.unless_interrupted();
                unreachable!("a wait without a deadline ends with a grant or an interruption")
            }
        }
    }

    fn make(&self) -> Result<Pooled<'_, T, E>, PoolError<E>> {
        let place = Place(self);
        let age = self.state.lock().age;
        let member = (self.create)().map_err(PoolError::Create)?;
        std::mem::forget(place);
        Ok(Pooled { pool: self, member: Some(member), age, failed: false })
    }

    fn discard(&self, member: T) {
        match &self.dispose {
            Some(dispose) => dispose(member),
            None => drop(member),
        }
    }

    /// Hands a member or a place to the first waiter; gives it back if nobody waits.
    fn hand_over(state: &mut State<T>, grant: Grant<T>) -> (Option<Wake>, Option<Grant<T>>) {
        let mut grant = Some(grant);
        let wake = state.waiters.grant(|slot| {
            // SAFETY: waiters of this list have a slot for a grant (`take`), which is theirs to fill
            // until they are settled.
            unsafe { slot.cast::<Option<Grant<T>>>().write(grant.take()) };
        });
        if wake.is_some() {
            state.waiting -= 1;
        }
        (wake, grant)
    }

    fn free_place(&self) {
        let mut state = self.state.lock();
        let (wake, left) = Self::hand_over(&mut state, Grant::Place);
        if left.is_some() {
            state.taken -= 1;
        }
        drop(state);
        drop(wake);
    }

    fn put_back(&self, member: T, age: u64) {
        let mut state = self.state.lock();
        if age != state.age {
            drop(state);
            let _place = Place(self);
            return self.discard(member);
        }
        let (wake, left) = Self::hand_over(&mut state, Grant::Member(member, age));
        if let Some(Grant::Member(member, _)) = left {
            // Under the lock, so that the moments are in order.
            state.idle.push_back((member, Instant::now()));
        }
        drop(state);
        drop(wake);
    }

    /// Disposes of members that have been idle for too long.
    pub fn tidy(&self) {
        let Some(timeout) = self.idle_timeout else { return };
        let now = Instant::now();
        loop {
            let mut state = self.state.lock();
            let old = match state.idle.front() {
                Some((_, since)) if now.saturating_duration_since(*since) >= timeout => {
                    state.idle.pop_front()
                }
                _ => None,
            };
            drop(state);
            let Some((member, _)) = old else { return };
            let _place = Place(self);
            self.discard(member);
        }
    }

    /// Disposes of all idle members now, and of those in use when they come back. If disposing of one unwinds, the others
    /// are dropped.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.age += 1;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        // Before the first is disposed of: if that unwinds, the places of the others get free as well.
        let idle: Vec<_> = idle.into_iter().map(|(member, _)| (member, Place(self))).collect();
        for (member, _place) in idle {
            self.discard(member);
        }
    }

    /// How many members are idle, in use or being made, and how many fibers wait.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        let state = self.state.lock();
        PoolStatus { idle: state.idle.len(), members: state.taken, waiting: state.waiting }
    }
}

/// See [`Pool::status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Members that nobody uses.
    pub idle: usize,
    /// All members, also those being made.
    pub members: usize,
    /// Fibers and threads that wait for one.
    pub waiting: usize,
}

/// A place that gets free when this is dropped.
struct Place<'a, T, E>(&'a Pool<T, E>);

impl<T, E> Drop for Place<'_, T, E> {
    fn drop(&mut self) {
        self.0.free_place();
    }
}

impl<T, E> Drop for Pool<T, E> {
    fn drop(&mut self) {
        for (member, _) in std::mem::take(&mut self.state.get_mut().idle) {
            self.discard(member);
        }
    }
}

impl<T, E> fmt::Debug for Pool<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("max", &self.max).field("status", &self.status()).finish()
    }
}

/// A member of a [`Pool`], in use. Dropping it gives it back.
pub struct Pooled<'a, T, E> {
    pool: &'a Pool<T, E>,
    /// Taken by the drop only.
    member: Option<T>,
    age: u64,
    failed: bool,
}

impl<T, E> Pooled<'_, T, E> {
    /// Says that this member is of no further use: it will be disposed of instead of going back.
    pub fn fail(&mut self) {
        self.failed = true;
    }
}

impl<T, E> Deref for Pooled<'_, T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        self.member.as_ref().expect("there until the drop")
    }
}

impl<T, E> DerefMut for Pooled<'_, T, E> {
    fn deref_mut(&mut self) -> &mut T {
        self.member.as_mut().expect("there until the drop")
    }
}

impl<T, E> Drop for Pooled<'_, T, E> {
    fn drop(&mut self) {
        let Some(mut member) = self.member.take() else { return };
        let place = Place(self.pool);
        let usable =
            mask(|| !self.failed && (!wait::is_unwinding() || (self.pool.check)(&mut member)));
        if usable {
            std::mem::forget(place);
            self.pool.put_back(member, self.age);
        } else {
            self.pool.discard(member);
        }
    }
}

impl<T: fmt::Debug, E> fmt::Debug for Pooled<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pooled").field(&**self).finish()
    }
}
