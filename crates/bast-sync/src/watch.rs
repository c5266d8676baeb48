//! A channel that keeps the latest value only: tokio's `watch`.
//!
//! ```text
//!   Sender ── lends the value, changes it ─▶ version + 1 ─▶ wakes whoever has seen an older one
//!                     │                          │
//!               Place<T> (never empty)     Lock<State { version, changed: List, … }>
//!                     │                          │
//!   Receiver ─ shares the value ──── seen ◀──────┘
//! ```
//!
//! The version goes up while the value is still lent. Who shares the value and then reads the
//! version, before it lets go, has the pair that belongs together.
//!
//! Who waits leaves the version that it has seen in its slot, so that a sender wakes those whom the change
//! concerns, and nobody who has come back meanwhile.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use bast_rt::wait::Reason;

pub use std::sync::mpsc::{RecvError, SendError};

use crate::list::{List, wait_in};
use crate::lock::Lock;
use crate::place::{self, Place};
use crate::select::{Place as Arm, Seat};

/// What senders and receivers share.
pub(crate) struct Channel<T> {
    value: Place<T>,
    lock: Lock<State>,
}

struct State {
    version: u64,
    senders: usize,
    receivers: usize,
    /// Those who wait for a later version.
    changed: List,
    /// Those who wait for the last receiver to go.
    closing: List,
}

impl State {
    /// Whether there is a later version than `seen`, which then is seen; an error if there will be none.
    fn look(&self, seen: &mut u64) -> Option<Result<(), RecvError>> {
        if self.version > *seen {
            *seen = self.version;
            return Some(Ok(()));
        }
        (self.senders == 0).then_some(Err(RecvError))
    }
}

impl<T> Channel<T> {
    /// For `select`: what `changed` would return, if it would not wait.
    pub(crate) fn look_for_change(&self, seen: &mut u64) -> Option<Result<(), RecvError>> {
        self.lock.lock().look(seen)
    }

    /// For `select`: waits for a version after `seen`; false if there is one, or will be none.
    ///
    /// # Safety
    /// As [`Seat::take`]; so does the version.
    pub(crate) unsafe fn enlist(&self, seat: &Seat, arm: &Arm<'_>, seen: *mut u64) -> bool {
        let mut state = self.lock.lock();
        // SAFETY: the caller's promise.
        let wait = unsafe { *seen } == state.version && state.senders > 0;
        if wait {
            // SAFETY: as above.
            unsafe { seat.take(&mut state.changed, arm, seen.cast()) };
        }
        wait
    }

    pub(crate) fn delist(&self, seat: &Seat) {
        if seat.is_taken() {
            // SAFETY: it was put into this list, if into any.
            unsafe { seat.leave(&mut self.lock.lock().changed) };
        }
    }

    fn subscribe(self: &Arc<Self>) -> Receiver<T> {
        let mut state = self.lock.lock();
        state.receivers += 1;
        Receiver { seen: state.version, shared: Arc::clone(self) }
    }

    fn share(&self) -> Ref<'_, T>
    where
        T: Sync,
    {
        match self.value.share("watch::borrow", None) {
            Some(value) => Ref { value },
            None => unreachable!("without a deadline there is no timeout"),
        }
    }

    /// The value and its version.
    fn look(&self) -> (Ref<'_, T>, u64)
    where
        T: Sync,
    {
        let value = self.share();
        let version = self.lock.lock().version;
        (value, version)
    }

    /// Waits for a version after `seen`.
    fn changed(&self, seen: &mut u64) -> Result<(), RecvError> {
        let reason = Reason::new("watch::Receiver::changed", self);
        loop {
            let state = self.lock.lock();
            if let Some(result) = state.look(seen) {
                return result;
            }
            let slot = ptr::from_mut(seen).cast();
            wait_in(&self.lock, state, |s| &mut s.changed, slot, &reason, None)
                .unless_interrupted();
        }
    }

    /// Wakes whoever has not seen this version.
    fn publish(&self, version: u64) {
        loop {
            let mut state = self.lock.lock();
            // SAFETY: the slot is the version that the waiter has seen, written before it was linked; it
            // does not change it while it waits.
            let concerns = |slot: *mut ()| unsafe { *slot.cast::<u64>() < version };
            let wake = state.changed.grant_if(concerns, |_| ());
            drop(state);
            if wake.is_none() {
                return;
            }
        }
    }
}

/// Makes a channel with a first value, which the receiver has seen.
///
/// Same as `tokio::sync::watch::channel`.
///
/// # Differences from tokio
/// A receiver that looks at the value makes a sender wait, which suspends the sender's fiber and not its
/// thread. Receivers never wait for a sender that waits, so one fiber may hold several [`Ref`]s. A value that
/// receivers look at is `Sync`.
///
/// ```
/// let (sender, mut receiver) = bast_sync::watch::channel(1);
/// bast_rt::spawn(move || (2..=10).for_each(|i| sender.send(i).unwrap()));
/// let big = *receiver.wait_for(|&n| n > 5).unwrap();
/// assert!((6..=10).contains(&big));
/// ```
#[must_use]
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Channel {
        value: Place::new(Some(value)),
        lock: Lock::new(State {
            version: 1,
            senders: 1,
            receivers: 1,
            changed: List::new(),
            closing: List::new(),
        }),
    });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared, seen: 1 })
}

/// The end that changes the value. The channel is closed when all its clones are gone.
pub struct Sender<T> {
    shared: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Replaces the value. Waits while somebody looks at it.
    ///
    /// # Errors
    /// The new value, if there is no receiver; the old one stays.
    ///
    /// # Cancellation
    /// While it waits: nothing has happened, and the new value is dropped.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        drop(self.send_replace(value));
        Ok(())
    }

    /// Replaces the value, receivers or not, and returns the old one.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| mem::swap(old, &mut value));
        value
    }

    /// Changes the value where it is, receivers or not.
    ///
    /// # Panics
    /// With the panic of `change`. The value is what it left, and receivers do not take it for a new one.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// As [`send_modify`](Sender::send_modify); the value counts as new if `change` says so. Returns what it
    /// said.
    ///
    /// # Panics
    /// As `send_modify`.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let Some(mut value) = self.shared.value.lend("watch::Sender::send", None) else {
            unreachable!("without a deadline there is no timeout");
        };
        if !change(&mut value) {
            return false;
        }
        let version = {
            let mut state = self.shared.lock.lock();
            state.version += 1;
            state.version
        };
        // Those who are woken will want to look at it.
        drop(value);
        self.shared.publish(version);
        true
    }

    /// The value. While the guard exists senders wait.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T>
    where
        T: Sync,
    {
        self.shared.share()
    }

    /// A receiver that has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        self.shared.subscribe()
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.lock.lock().receivers
    }

    /// Whether there is no receiver.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there is no receiver. There may be new ones when it returns.
    ///
    /// # Cancellation
    /// Nothing has happened.
    pub fn closed(&self) {
        let shared = &*self.shared;
        let state = shared.lock.lock();
        if state.receivers > 0 {
            let slot = ptr::null_mut();
            let reason = Reason::new("watch::Sender::closed", shared);
            wait_in(&shared.lock, state, |s| &mut s.closing, slot, &reason, None)
                .unless_interrupted();
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.shared.lock.lock().senders += 1;
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock.lock();
        state.senders -= 1;
        if state.senders > 0 {
            return;
        }
        // Nobody waits in a closed channel, so this ends.
        while let Some(wake) = state.changed.grant(|_| ()) {
            drop(state);
            drop(wake);
            state = self.shared.lock.lock();
        }
    }
}

/// An end that sees the value.
pub struct Receiver<T> {
    shared: Arc<Channel<T>>,
    /// The version that it has seen.
    seen: u64,
}

impl<T> Receiver<T> {
    /// The value, which does not count as seen by this. While the guard exists senders wait.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T>
    where
        T: Sync,
    {
        self.shared.share()
    }

    /// The value, which counts as seen from now on.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T>
    where
        T: Sync,
    {
        let (value, version) = self.shared.look();
        self.seen = version;
        value
    }

    /// Whether there is a value that it has not seen.
    ///
    /// # Errors
    /// If there is none and all senders are gone.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        let state = self.shared.lock.lock();
        let changed = state.version > self.seen;
        if changed || state.senders > 0 { Ok(changed) } else { Err(RecvError) }
    }

    /// Waits for a value that it has not seen; then it counts as seen.
    ///
    /// # Errors
    /// If all senders are gone and it has seen the last value.
    ///
    /// # Cancellation
    /// No change is lost: the next call returns it.
    pub fn changed(&mut self) -> Result<(), RecvError> {
        self.shared.changed(&mut self.seen)
    }

    /// Waits for a value for which `wanted` is true, beginning with the present one. What it has been
    /// asked about counts as seen.
    ///
    /// # Errors
    /// If all senders are gone and the last value is not wanted.
    ///
    /// # Panics
    /// With the panic of `wanted`.
    ///
    /// # Cancellation
    /// As [`changed`](Receiver::changed).
    pub fn wait_for(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError>
    where
        T: Sync,
    {
        let Receiver { shared, seen } = self;
        loop {
            let (value, version) = shared.look();
            *seen = version;
            if wanted(&value) {
                return Ok(value);
            }
            drop(value);
            shared.changed(seen)?;
        }
    }

    /// For `select`.
    pub(crate) fn parts(&mut self) -> (&Channel<T>, &mut u64) {
        (&self.shared, &mut self.seen)
    }

    /// Makes the present value count as new.
    pub fn mark_changed(&mut self) {
        // The first value has version 1.
        self.seen = 0;
    }

    /// Makes the present value count as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.lock.lock().version;
    }
}

impl<T> Clone for Receiver<T> {
    /// Another receiver, that has seen what this one has.
    fn clone(&self) -> Receiver<T> {
        self.shared.lock.lock().receivers += 1;
        Receiver { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock.lock();
        state.receivers -= 1;
        while state.receivers == 0
            && let Some(wake) = state.closing.grant(|_| ())
        {
            drop(state);
            drop(wake);
            state = self.shared.lock.lock();
        }
    }
}

/// The value, while somebody looks at it.
pub struct Ref<'a, T: Sync> {
    value: place::Shared<'a, T>,
}

impl<T: Sync> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Sync + fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
