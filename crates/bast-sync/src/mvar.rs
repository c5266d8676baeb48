//! `MVar`: Concurrent Haskell's box for one value. Its machinery is in `place`; here are its names.
//!
//! Across workers. Hand-off in strict order means that an operation costs what it takes to make the next in the
//! queue run. If that one lives on another worker, and all fibers there wait for the same box, its worker sleeps: two
//! system calls and the waking of a thread for each hand-over. So it was a convoy: two fibers on two pinned workers
//! that took and put in a loop needed 0.7 to 3 µs for each pair, one of them alone 17 ns.
//!
//! The order is kept, and the remedy is in the worker, which watches its inbox for a moment before it
//! sleeps, if that has been of use (`bast-rt`'s `worker::linger`): 0.10 to 0.15 µs for the same, and a round trip
//! of ping-pong across workers 0.64 µs instead of 6.4. Spinning in the waiter, which would know less (the queue's
//! next may be any fiber of its worker), would hold up its neighbours. With many fibers on each worker a queue sorts itself:
//! who puts and takes again goes to the end, behind those of his worker who came with him, so that the runs of
//! one worker stay together and most hand-overs are local.

use std::fmt;
use std::time::Duration;

use crate::place::{Place, after};

/// A box that is empty or holds a value: Concurrent Haskell's `Control.Concurrent.MVar`.
///
/// [`take`](MVar::take) waits until there is a value and leaves the box empty; [`put`](MVar::put) waits until it is empty and fills it.
/// So it is a channel for one value, a lock with the value inside (`take` to lock, `put` to unlock; or
/// [`modify`](MVar::modify)), and what other things are made of: see the examples.
///
/// Who waits is served first in, first out, and for each value exactly one taker is woken. With a `put` the
/// value goes straight to the first taker, with a `take` the first putter's value moves in. Everyone who waits in [`read`](MVar::read)
/// sees a new value before a taker gets it.
///
/// All of it works from fibers and from plain threads. There is no poisoning.
///
/// # Differences from Haskell
/// While [`modify`](MVar::modify) and its kin work on the value the box counts as full: nobody can slip another value
/// in, so they are atomic whatever other putters do, and giving the value back never waits.
///
/// # Examples
/// An unbounded channel, as Haskell's `Chan`: a chain of boxes, of which the last is empty.
///
/// ```
/// use bast_sync::MVar;
/// use std::sync::Arc;
///
/// type Hole<T> = Arc<MVar<Item<T>>>;
/// struct Item<T>(T, Hole<T>);
/// struct Chan<T> { first: MVar<Hole<T>>, last: MVar<Hole<T>> }
///
/// impl<T> Chan<T> {
///     fn new() -> Chan<T> {
///         let hole = Hole::new(MVar::new_empty());
///         Chan { first: MVar::new(hole.clone()), last: MVar::new(hole) }
///     }
///     fn send(&self, value: T) {
///         self.last.modify(|last| {
///             let hole = Hole::new(MVar::new_empty());
///             last.put(Item(value, hole.clone())); // it is empty: this does not wait
///             *last = hole;
///         });
///     }
///     fn recv(&self) -> T {
///         // May wait, and be cancelled, in here: then `first` is as it was.
///         self.first.modify(|first| {
///             let Item(value, next) = first.take();
///             *first = next;
///             value
///         })
///     }
/// }
/// impl<T> Drop for Chan<T> {
///     fn drop(&mut self) {
///         // One by one: a long chain that dropped itself would recurse.
///         while let Some(Item(_, next)) = self.first.with(|first| first.try_take()) {
///             self.first.modify(|first| *first = next);
///         }
///     }
/// }
///
/// let chan = Arc::new(Chan::new());
/// let sender = Arc::clone(&chan);
/// bast_rt::spawn(move || (0..100).for_each(|i| sender.send(i)));
/// assert_eq!((0..100).map(|_| chan.recv()).sum::<i32>(), 4950);
/// ```
///
/// A semaphore, as Haskell's `QSem`. Who is cancelled while he waits leaves the queue; if his turn has
/// come at the same moment he passes it on.
///
/// ```
/// use bast_sync::MVar;
/// use std::collections::VecDeque;
/// use std::sync::Arc;
///
/// struct QSem(MVar<(usize, VecDeque<Arc<MVar<()>>>)>);
///
/// impl QSem {
///     fn new(units: usize) -> QSem { QSem(MVar::new((units, VecDeque::new()))) }
///     fn wait(&self) {
///         let turn = self.0.modify(|(units, queue)| {
///             if *units > 0 {
///                 *units -= 1;
///                 return None;
///             }
///             queue.push_back(Arc::new(MVar::new_empty()));
///             queue.back().cloned()
///         });
///         if let Some(turn) = turn {
///             let waiting = Waiting { sem: self, turn: &turn };
///             turn.take();
///             std::mem::forget(waiting);
///         }
///     }
///     fn signal(&self) {
///         self.0.modify(|(units, queue)| match queue.pop_front() {
///             Some(turn) => turn.put(()),
///             None => *units += 1,
///         });
///     }
/// }
///
/// struct Waiting<'a> { sem: &'a QSem, turn: &'a Arc<MVar<()>> }
/// impl Drop for Waiting<'_> {
///     fn drop(&mut self) {
///         self.sem.0.modify(|(_, queue)| queue.retain(|turn| !Arc::ptr_eq(turn, self.turn)));
///         if self.turn.try_take().is_some() {
///             self.sem.signal();
///         }
///     }
/// }
///
/// let sem = Arc::new(QSem::new(2));
/// let users: Vec<_> = (0..10).map(|_| {
///     let sem = Arc::clone(&sem);
///     bast_rt::spawn(move || {
///         sem.wait();
///         bast_rt::yield_now(); // at most two are here
///         sem.signal();
///     })
/// }).collect();
/// users.into_iter().for_each(|user| user.join().unwrap());
/// assert_eq!(sem.0.with(|(units, _)| *units), 2);
/// ```
pub struct MVar<T> {
    pub(crate) place: Place<T>,
}

impl<T> MVar<T> {
    /// With a value in it.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> MVar<T> {
        MVar { place: Place::new(Some(value)) }
    }

    /// With a value in it.
    #[cfg(loom)]
    pub fn new(value: T) -> MVar<T> {
        MVar { place: Place::new(Some(value)) }
    }

    /// Empty.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new_empty() -> MVar<T> {
        MVar { place: Place::new(None) }
    }

    /// Empty.
    #[cfg(loom)]
    #[must_use]
    pub fn new_empty() -> MVar<T> {
        MVar { place: Place::new(None) }
    }

    /// Takes the value out, and waits for one if it is empty.
    ///
    /// # Cancellation
    /// A taker that is interrupted has taken nothing. One that has been handed a value returns it, and the
    /// next suspension point unwinds.
    #[inline]
    pub fn take(&self) -> T {
        without_limit(self.place.take("MVar::take", None))
    }

    /// As [`take`](MVar::take), and gives up after `timeout`. Zero takes what is there.
    pub fn take_timeout(&self, timeout: Duration) -> Option<T> {
        self.place.take("MVar::take_timeout", after(timeout))
    }

    /// Takes the value if that needs no wait: `None` if it is empty, or if another reads or modifies the
    /// value at this moment.
    pub fn try_take(&self) -> Option<T> {
        self.place.try_take()
    }

    /// Puts a value in, and waits until it is empty if it is not.
    ///
    /// # Cancellation
    /// The value of a putter that is interrupted is dropped; it has not been in the box. To keep it use
    /// [`try_put`](MVar::try_put), `select!`, or [`mask`](bast_rt::mask).
    #[inline]
    pub fn put(&self, value: T) {
        // Without a deadline it is never given back.
        let _ = self.place.put(value, "MVar::put", None);
    }

    /// As [`put`](MVar::put), and gives up after `timeout`. Zero puts it if there is room.
    ///
    /// # Errors
    /// The value, if the time was up.
    pub fn put_timeout(&self, value: T, timeout: Duration) -> Result<(), T> {
        self.place.put(value, "MVar::put_timeout", after(timeout))
    }

    /// Puts a value in if it is empty.
    ///
    /// # Errors
    /// The value, if it is not.
    pub fn try_put(&self, value: T) -> Result<(), T> {
        self.place.try_put(value)
    }

    /// A copy of the value, which stays; waits for one if it is empty. All who wait get the value that
    /// is put next, before a taker does.
    ///
    /// `T::clone` runs while the value is in the box. If it waits, takers wait with it.
    ///
    /// # Cancellation
    /// Nothing has happened.
    #[inline]
    pub fn read(&self) -> T
    where
        T: Clone + Sync,
    {
        T::clone(&*without_limit(self.place.share("MVar::read", None)))
    }

    /// As [`read`](MVar::read), and gives up after `timeout`.
    pub fn read_timeout(&self, timeout: Duration) -> Option<T>
    where
        T: Clone + Sync,
    {
        self.place.share("MVar::read_timeout", after(timeout)).map(|value| T::clone(&*value))
    }

    /// A copy of the value if that needs no wait: `None` if it is empty, or if another modifies the value at
    /// this moment.
    pub fn try_read(&self) -> Option<T>
    where
        T: Clone + Sync,
    {
        self.place.try_share().map(|value| T::clone(&*value))
    }

    /// Puts in a value for the one that is there, which it waits for and returns. Atomic.
    ///
    /// # Cancellation
    /// As for [`put`](MVar::put).
    pub fn swap(&self, value: T) -> T {
        std::mem::replace(&mut *without_limit(self.place.lend("MVar::swap", None)), value)
    }

    /// Runs `f` with the value, alone: Haskell's `withMVar`. Waits for a value if it is empty.
    ///
    /// `f` may wait. To others the value is neither there to take nor gone: they wait until `f` has ended,
    /// and if `f` itself takes from this box, or puts, it waits for ever.
    ///
    /// # Panics
    /// With the panic of `f`. The value stays.
    ///
    /// # Cancellation
    /// Before `f` has begun nothing has happened. If `f` is interrupted the value stays.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        let lent = without_limit(self.place.lend("MVar::with", None));
        f(&lent)
    }

    /// Runs `f` with the value, alone, and lets it change it: Haskell's `modifyMVar`. Waits for a value
    /// if it is empty.
    ///
    /// `f` works on the value where it is. However it ends, by returning, by a panic or by a cancellation,
    /// the value stays, with what `f` has done to it until then, and the next one is let in at once.
    /// So an `f` that first computes and then assigns changes all or nothing. Otherwise as [`with`](MVar::with).
    ///
    /// # Panics
    /// With the panic of `f`.
    ///
    /// # Cancellation
    /// As for [`with`](MVar::with).
    ///
    /// ```
    /// let total = bast_sync::MVar::new(40);
    /// assert_eq!(total.modify(|n| { *n += 2; *n }), 42);
    /// ```
    #[inline]
    pub fn modify<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let mut lent = without_limit(self.place.lend("MVar::modify", None));
        f(&mut lent)
    }

    /// Whether it has no value. What `with` and `modify` work on counts as there. May be out of date when it returns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.place.is_full()
    }

    /// The value, if there is one: no locking, as nobody else has it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.place.get_mut()
    }

    /// The value, if there is one.
    pub fn into_inner(self) -> Option<T> {
        self.place.into_inner()
    }
}

/// What a wait without a deadline returns.
#[inline]
fn without_limit<R>(granted: Option<R>) -> R {
    match granted {
        Some(granted) => granted,
        None => unreachable!("without a deadline there is no timeout"),
    }
}

impl<T> From<T> for MVar<T> {
    fn from(value: T) -> MVar<T> {
        MVar::new(value)
    }
}

impl<T> fmt::Debug for MVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MVar").field("is_empty", &self.is_empty()).finish_non_exhaustive()
    }
}
