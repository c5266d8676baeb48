//! A place for one value: empty, full, being read, or lent. What `MVar` and `watch` are made of.
//!
//! ```text
//!            put                      share                 share
//!   EMPTY ─────────▶ FULL, users 0 ─────────▶ FULL, users 1 ─────▶ FULL, users 2 …
//!     ▲                │  ▲     ▲◀──────────── a reader's guard goes ◀──┘
//!     └───── take ─────┘  │ lend
//!                         ▼
//!                    FULL, users LENT      the one who has it may change it in place
//! ```
//!
//! Who finds the place in another state waits in one of three lists: readers, takers (a lend is one, as
//! it needs the value for itself), putters. Each change of state is followed by `pump`, which moves on
//! as far as the state allows: a putter's value in, then **all** the readers that wait, then the first
//! taker. So it is direct hand-off, first in, first out, and one wake for each step that somebody has
//! waited for. Nobody barges: a taker that comes while others wait goes behind them, also while `pump`
//! has let go of the lock between two steps. Only readers pass takers, as they take nothing away.
//!
//! A value that is being read or changed stays where it is, and the place counts as full: so nobody
//! can slip another value in, and giving it back, in a guard's destructor, never waits. That is what makes
//! `modify` safe against panics and cancellation.
//!
//! Who may touch what: `value` is moved in and out under the lock, when `users` is 0. While `users` is
//! n, n guards have `&T`; while it is LENT, one has `&mut T`. `users` changes under the lock only, so its
//! Acquire and Release order all of that. A waiter's slot is the granter's while it holds the lock
//! (module `list`).

mod arms;
mod guards;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use bast_rt::Instant;
use bast_rt::wait::Reason;

use crate::list::{List, wait_in};
use crate::lock::{Guard, Lock};
use crate::pace::Pace;
use crate::shim::Wake;

pub(crate) use guards::{Lent, Shared};

const LENT: usize = usize::MAX;

/// The place.
pub(crate) struct Place<T> {
    lock: Lock<State>,
    /// Counts takes, lends and reads.
    taking: Pace,
    /// Counts puts: in one count with the takes of a loop it might never be a take's turn, which raises.
    putting: Pace,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value goes in on one thread and out on another.
unsafe impl<T: Send> Send for Place<T> {}
// SAFETY: as above, and it is used by one at a time; `share`, which lets several have `&T`, asks for `Sync`.
unsafe impl<T: Send> Sync for Place<T> {}

/// What the lock is around; the value has a field of its own, as it is used without the lock too.
pub(crate) struct State {
    full: bool,
    /// How many read the value, or LENT.
    users: usize,
    readers: List,
    takers: List,
    putters: List,
}

impl State {
    const fn new(full: bool) -> State {
        State { full, users: 0, readers: List::new(), takers: List::new(), putters: List::new() }
    }

    /// Whether a newcomer may take the value.
    #[inline]
    fn takeable(&self) -> bool {
        self.full && self.users == 0 && self.readers.is_empty() && self.takers.is_empty()
    }

    #[inline]
    fn readable(&self) -> bool {
        self.full && self.users != LENT
    }

    /// Whether there may be something to do for those who wait.
    #[inline]
    fn can_step(&self) -> bool {
        if !self.full {
            !self.putters.is_empty()
        } else if self.users == LENT {
            false
        } else {
            !self.readers.is_empty() || (self.users == 0 && !self.takers.is_empty())
        }
    }

    /// Whether a newcomer may put a value.
    #[inline]
    fn puttable(&self) -> bool {
        !self.full && self.putters.is_empty()
    }
}

/// What a taker leaves in its slot.
pub(crate) enum Claim<T> {
    /// It wants the value.
    Take,
    /// It wants to be lent the value.
    Lend,
    /// The value.
    Taken(T),
}

impl<T> Place<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new(value: Option<T>) -> Place<T> {
        let full = value.is_some();
        // `map_or` is not const, and neither is dropping the `Option`.
        let place = match value {
            Some(ref value) => {
                let mut place = MaybeUninit::uninit();
                // SAFETY: a copy of `value`, which is forgotten below.
                unsafe { ptr::copy_nonoverlapping(ptr::from_ref(value), place.as_mut_ptr(), 1) };
                place
            }
            None => MaybeUninit::uninit(),
        };
        std::mem::forget(value);
        Place {
            lock: Lock::new(State::new(full)),
            taking: Pace::new(),
            putting: Pace::new(),
            value: UnsafeCell::new(place),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new(value: Option<T>) -> Place<T> {
        let full = value.is_some();
        let value = value.map_or_else(MaybeUninit::uninit, MaybeUninit::new);
        Place {
            lock: Lock::new(State::new(full)),
            taking: Pace::new(),
            putting: Pace::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// # Safety
    /// The place is empty, and the caller has the lock.
    #[inline]
    unsafe fn move_in(&self, value: T) {
        // SAFETY: under the lock, and nobody uses an empty place.
        unsafe { (*self.value.get()).write(value) };
    }

    /// # Safety
    /// The place is full with no users, and the caller has the lock and marks it empty.
    #[inline]
    unsafe fn move_out(&self) -> T {
        // SAFETY: full, and nobody uses it.
        unsafe { (*self.value.get()).assume_init_read() }
    }

    /// Moves on as far as the state allows, and lets go of the lock.
    #[inline]
    fn pump<'a>(&'a self, mut state: Guard<'a, State>) {
        while state.can_step() {
            let wake = self.step(&mut state);
            let more = state.can_step();
            // Unlocked first: who is woken on another worker may need it at once.
            drop(state);
            drop(wake);
            if !more {
                return;
            }
            state = self.lock.lock();
        }
    }

    /// Gives the next waiter what it waits for, if it still does. Only after `can_step`.
    #[inline]
    fn step(&self, state: &mut State) -> Option<Wake> {
        let State { full, users, readers, takers, putters } = state;
        if !*full {
            let wake = putters.grant(|slot| {
                // SAFETY: a putter's slot is its `Option<T>`, ours now; the place is empty.
                if let Some(value) = unsafe { (*slot.cast::<Option<T>>()).take() } {
                    // SAFETY: as above.
                    unsafe { self.move_in(value) };
                    *full = true;
                }
            });
            return wake;
        }
        let wake = readers.grant(|slot| {
            *users += 1;
            // SAFETY: a reader's slot is null or a `bool`, ours now.
            if let Some(reading) = unsafe { slot.cast::<bool>().as_mut() } {
                *reading = true;
            }
        });
        if wake.is_some() {
            return wake;
        }
        if *users != 0 {
            return None;
        }
        takers.grant(|slot| {
            // SAFETY: a taker's slot is its `Claim<T>`, ours now.
            let claim = unsafe { &mut *slot.cast::<Claim<T>>() };
            if let Claim::Lend = claim {
                *users = LENT;
            } else {
                // SAFETY: full, no users, and marked empty.
                *claim = Claim::Taken(unsafe { self.move_out() });
                *full = false;
            }
        })
    }

    /// Takes the value; `None` if the deadline passed.
    #[inline]
    pub(crate) fn take(&self, what: &'static str, deadline: Option<Instant>) -> Option<T> {
        // Before it, and not with the value in hand while all others wait for that.
        self.taking.step();
        let state = self.lock.lock();
        match self.take_now(state) {
            Ok(value) => Some(value),
            Err(state) => self.wait_to_take(state, what, deadline),
        }
    }

    #[inline]
    fn take_now<'a>(&'a self, mut state: Guard<'a, State>) -> Result<T, Guard<'a, State>> {
        if !state.takeable() {
            return Err(state);
        }
        // SAFETY: full, no users, and marked empty.
        let value = unsafe { self.move_out() };
        state.full = false;
        self.pump(state);
        Ok(value)
    }

    #[inline(never)]
    fn wait_to_take(
        &self,
        state: Guard<'_, State>,
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Option<T> {
        let mut claim = Claim::<T>::Take;
        let slot = (&raw mut claim).cast();
        let end = wait_in(&self.lock, state, |s| &mut s.takers, slot, &self.reason(what), deadline);
        // An interrupted taker has been given nothing.
        if !end.granted() {
            return None;
        }
        match claim {
            Claim::Taken(value) => Some(value),
            Claim::Take | Claim::Lend => unreachable!("a taker is granted the value"),
        }
    }

    /// Takes the value, if it is there for the taking.
    pub(crate) fn try_take(&self) -> Option<T> {
        self.take_now(self.lock.lock()).ok()
    }

    /// Puts a value; gives it back if the deadline passed.
    #[inline]
    pub(crate) fn put(
        &self,
        value: T,
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Result<(), T> {
        let state = self.lock.lock();
        match self.put_now(state, value) {
            Ok(()) => {
                // Never raises: who gives back what he took must not be stopped.
                self.putting.step_quietly();
                Ok(())
            }
            Err((state, value)) => self.wait_to_put(state, value, what, deadline),
        }
    }

    #[inline]
    #[allow(clippy::type_complexity)]
    fn put_now<'a>(
        &'a self,
        mut state: Guard<'a, State>,
        value: T,
    ) -> Result<(), (Guard<'a, State>, T)> {
        if !state.puttable() {
            return Err((state, value));
        }
        // SAFETY: empty.
        unsafe { self.move_in(value) };
        state.full = true;
        self.pump(state);
        Ok(())
    }

    #[inline(never)]
    fn wait_to_put(
        &self,
        state: Guard<'_, State>,
        value: T,
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Result<(), T> {
        let mut value = Some(value);
        let slot = (&raw mut value).cast();
        let reason = self.reason(what);
        // An interrupted putter still has its value, which goes with this frame.
        let _ = wait_in(&self.lock, state, |s| &mut s.putters, slot, &reason, deadline).granted();
        value.map_or(Ok(()), Err)
    }

    /// Puts a value, if there is room.
    pub(crate) fn try_put(&self, value: T) -> Result<(), T> {
        self.put_now(self.lock.lock(), value).map_err(|(_, value)| value)
    }

    /// Lends the value out, alone; `None` if the deadline passed.
    #[inline]
    pub(crate) fn lend(
        &self,
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Option<Lent<'_, T>> {
        self.taking.step();
        let mut state = self.lock.lock();
        if !state.takeable() {
            return self.wait_to_be_lent(state, what, deadline);
        }
        state.users = LENT;
        Some(Lent::new(self))
    }

    #[inline(never)]
    fn wait_to_be_lent(
        &self,
        state: Guard<'_, State>,
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Option<Lent<'_, T>> {
        let mut claim = Claim::<T>::Lend;
        let slot = (&raw mut claim).cast();
        wait_in(&self.lock, state, |s| &mut s.takers, slot, &self.reason(what), deadline)
            .granted()
            .then(|| Lent::new(self))
    }

    /// Lets the caller read the value where it is; `None` if the deadline passed.
    #[inline]
    pub(crate) fn share(
        &self,
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Option<Shared<'_, T>>
    where
        T: Sync,
    {
        self.taking.step();
        let mut state = self.lock.lock();
        if !state.readable() {
            let slot = ptr::null_mut();
            let reason = self.reason(what);
            return wait_in(&self.lock, state, |s| &mut s.readers, slot, &reason, deadline)
                .granted()
                .then(|| Shared::new(self));
        }
        state.users += 1;
        Some(Shared::new(self))
    }

    /// Lets the caller read the value, if it is there and not lent.
    pub(crate) fn try_share(&self) -> Option<Shared<'_, T>>
    where
        T: Sync,
    {
        let mut state = self.lock.lock();
        state.readable().then(|| {
            state.users += 1;
            Shared::new(self)
        })
    }

    /// Whether there is a value, be it lent or not.
    pub(crate) fn is_full(&self) -> bool {
        self.lock.lock().full
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // A guard that was forgotten changes nothing: its borrow is over.
        let full = self.lock.get_mut().full;
        // SAFETY: full.
        full.then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    pub(crate) fn into_inner(mut self) -> Option<T> {
        let full = std::mem::replace(&mut self.lock.get_mut().full, false);
        // SAFETY: full, and marked empty.
        full.then(|| unsafe { self.value.get_mut().assume_init_read() })
    }

    fn reason(&self, what: &'static str) -> Reason<'static> {
        Reason::new(what, self)
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        if let Some(value) = self.get_mut() {
            // SAFETY: full, and nobody looks again.
            unsafe { ptr::drop_in_place(value) };
        }
    }
}

/// The moment after a time; `None` if it never comes.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
