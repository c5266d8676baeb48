//! The flights of a worker (module `flight`): what is polled for, from its beginning here to its end.
//!
//! ```text
//!   launch ──▶ driver or wheel ──▶ land: LANDED, the waker noted ──▶ wake_landed
//!                    ▲ recall (let go of, or the worker ends)
//! ```
//!
//! A waker is somebody's code: it may drop another future, whose record has completed as well and is next in the
//! list of those that have. So first all of them land, and only then the wakers are called.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::Waker;

use bast_io::Outcome;

use super::Worker;
use crate::flight::{self, Flight, Phase, State, Way};
use crate::interrupt;

/// How far polls may go into debt: the credit that is left when one begins may be none.
const DEBT: i32 = 8;

/// What a worker knows of its flights.
pub(super) struct Flights {
    first: Cell<*const Flight>,
    /// Whom to wake.
    landed: Cell<Vec<Waker>>,
}

impl Flights {
    pub(super) fn new() -> Flights {
        Flights { first: Cell::new(ptr::null()), landed: Cell::new(Vec::new()) }
    }
}

impl Worker {
    /// Whether whoever polls may try for more before others get a turn (rt 4).
    pub(crate) fn may_go_on(&self) -> bool {
        self.spend(super::INLINE);
        self.credit.get() > -DEBT
    }

    /// Begins it here. `Some` if that was all.
    pub(crate) fn launch(&self, flight: &Arc<Flight>, state: &mut State) -> Option<Outcome> {
        let kept = flight::retain(flight);
        match flight.way.get() {
            Way::Op(record) => {
                // SAFETY: io 1: the record stays in the flight, which is kept until it lands; what the
                // operation names is kept by the flight, too.
                if let Some(outcome) = unsafe { self.submit(record) } {
                    state.phase = Phase::Idle;
                    // SAFETY: the reference just taken.
                    drop(unsafe { flight::claim(kept) });
                    return Some(outcome);
                }
            }
            // SAFETY: as above; it is linked nowhere.
            Way::Timer(timer) => unsafe { self.arm(timer) },
            Way::None => unreachable!("nothing to begin"),
        }
        state.phase = Phase::Flying;
        state.home = Some(self.post);
        let first = self.flights.first.replace(kept.as_ptr());
        flight.next.set(first);
        flight.prev.set(ptr::null());
        // SAFETY: flights on the list fly, and so are there.
        if let Some(first) = unsafe { first.as_ref() } {
            first.prev.set(kept.as_ptr());
        }
        None
    }

    /// Takes it off the list; its reference is the caller's.
    fn take_off(&self, flight: NonNull<Flight>) -> Arc<Flight> {
        // SAFETY: the reference that `launch` took.
        let flight = unsafe { flight::claim(flight) };
        let (next, prev) = (flight.next.get(), flight.prev.get());
        // SAFETY: its neighbours fly.
        unsafe {
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => self.flights.first.set(next),
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
        }
        flight
    }

    /// It has ended.
    pub(super) fn land(&self, flight: NonNull<Flight>, outcome: Outcome) {
        let flight = self.take_off(flight);
        let waker = {
            let mut state = flight.lock();
            state.phase = Phase::Landed(outcome);
            state.waker.take()
        };
        if let Some(waker) = waker {
            let mut landed = self.flights.landed.take();
            landed.push(waker);
            self.flights.landed.set(landed);
        }
    }

    /// Wakes those whose flights have landed.
    pub(super) fn wake_landed(&self) {
        let mut landed = self.flights.landed.take();
        for waker in landed.drain(..) {
            interrupt::quietly(|| waker.wake());
        }
        self.flights.landed.set(landed);
    }

    /// Has it end. The caller has the lock, and a reference.
    pub(crate) fn recall(&self, flight: &Arc<Flight>, state: &mut State) {
        match flight.way.get() {
            // SAFETY: FLYING: submitted here, and not back.
            Way::Op(record) => unsafe { self.driver().cancel(record) },
            Way::Timer(timer) => {
                // SAFETY: FLYING: linked here.
                unsafe { self.wheel().remove(timer) };
                state.phase = Phase::Landed(Outcome::CANCELLED);
                drop(self.take_off(NonNull::from(&**flight)));
            }
            Way::None => {}
        }
    }

    /// Begins and cancels what other threads have sent here for that.
    pub(super) fn drain_flights(&self) {
        if self.post.flights.is_empty() {
            return;
        }
        self.stir();
        for flight in self.post.flights.drain() {
            // SAFETY: the inbox's reference.
            let flight = unsafe { flight::claim(flight) };
            let mut state = flight.lock();
            state.posted = false;
            match state.phase {
                Phase::Posted if state.abandoned => state.phase = Phase::Idle,
                Phase::Posted => {
                    if let Some(outcome) = self.launch(&flight, &mut state) {
                        state.phase = Phase::Landed(outcome);
                        let waker = state.waker.take();
                        drop(state);
                        interrupt::quietly(|| waker.into_iter().for_each(Waker::wake));
                    }
                }
                Phase::Flying => self.recall(&flight, &mut state),
                Phase::Idle | Phase::Landed(_) => {}
            }
        }
    }

    /// Whether nothing flies; if something does, it is recalled, and whoever waits for it is woken.
    pub(super) fn ground(&self) -> bool {
        let mut next = self.flights.first.get();
        // SAFETY: flights on the list are there.
        while let Some(flight) = unsafe { next.as_ref() } {
            next = flight.next.get();
            match flight.way.get() {
                // SAFETY: FLYING: submitted here, and not back.
                Way::Op(record) => unsafe { self.driver().cancel(record) },
                Way::Timer(timer) => {
                    // SAFETY: FLYING: linked here.
                    unsafe { self.wheel().remove(timer) };
                    self.land(NonNull::from(flight), Outcome::CANCELLED);
                }
                Way::None => {}
            }
        }
        self.wake_landed();
        self.flights.first.get().is_null()
    }
}
