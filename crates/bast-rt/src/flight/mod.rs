//! Waits that no fiber stands for: an operation's record, or a timer, in the heap, for futures that are polled.
//!
//! ```text
//!           begin, on a worker                    completed, or the time has come
//!   IDLE ───────────────────────▶ FLYING (home) ───────────────────────────────▶ LANDED (outcome)
//!    │                              ▲       │ let go of: home cancels it, and it       │ taken by the
//!    └─elsewhere─▶ POSTED (home) ───┘       │ lands all the same, for nobody           │ next poll
//!                  home takes the post      ▼                                          ▼
//!                                        its memory goes with the last reference      IDLE
//! ```
//!
//! A flight belongs to the worker that began it, its *home*: only home's driver and wheel know it, and only
//! home cancels it. Whoever polls may be anywhere. So each flight has a lock, which is held for moments and never
//! while somebody else's code runs (a waker's clone, wake or drop), and an inbox link, by which other threads send it
//! home: to be begun (a plain thread has no driver), or to be cancelled.
//!
//! Who may touch what:
//! * `state`, `aim`, `way`: whoever has the lock. In FLYING the record or timer in `aim` is the driver's or the wheel's
//!   (contract io 1), and so home's alone; in all other phases nobody else knows it.
//! * `next`, `prev`: home, while FLYING; they are its list of flights.
//! * `link`: the inbox, while `posted`.
//!
//! References: its user's, one while FLYING, one while `posted`. What the operation names (a socket, an address)
//! is kept by `keep` and goes with the flight, so a descriptor is closed only after its operations have ended (io 6):
//! to drop a stream cancels first, and closes when that is through.
//!
//! When its worker ends, what still flies is cancelled and lands there (rt 6): whoever polls again begins it anew
//! on a worker that lives. FLYING so always means that home is alive; a post to it, made under the lock, is
//! drained by it, or by its runtime's end.

mod sleep;
mod watch;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bast_io::{Op, Outcome, Record};

use crate::inbox::Node;
use crate::post::Post;
use crate::runtime::default_runtime;
use crate::tls;
use crate::wheel::Timer;

pub use sleep::{Sleep, elapse};
pub use watch::Watch;

/// What keeps an operation's memory and descriptor.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// What is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// An operation.
    Done(Op),
    /// A reading (ns) of the clock.
    Time(u64),
}

/// The record of it.
enum Aim {
    None,
    Op(Record),
    Timer(Timer),
}

/// Where that is.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    None,
    Op(NonNull<Record>),
    Timer(NonNull<Timer>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Posted,
    Flying,
    Landed(Outcome),
}

pub(crate) struct State {
    pub(crate) phase: Phase,
    /// Whose it is in POSTED and FLYING.
    pub(crate) home: Option<&'static Post>,
    /// In home's inbox.
    pub(crate) posted: bool,
    /// Nobody will ask what came of it.
    pub(crate) abandoned: bool,
    pub(crate) waker: Option<Waker>,
}

/// A wait in the heap.
pub(crate) struct Flight {
    state: Mutex<State>,
    aim: UnsafeCell<Aim>,
    pub(crate) way: Cell<Way>,
    pub(crate) next: Cell<*const Flight>,
    pub(crate) prev: Cell<*const Flight>,
    link: UnsafeCell<*mut Flight>,
    _keep: Option<Keep>,
}

// SAFETY: the head of this file says who touches what, and when: each field is one thread's at a time.
unsafe impl Send for Flight {}
// SAFETY: as above.
unsafe impl Sync for Flight {}

// SAFETY: `posted` sees to it that it is on one inbox at most, which has a reference.
unsafe impl Node for Flight {
    fn link(node: NonNull<Flight>) -> *mut *mut Flight {
        // SAFETY: the node is alive; a cell's address may be taken through a shared pointer.
        unsafe { node.as_ref() }.link.get()
    }
}

impl Flight {
    pub(crate) fn new(keep: Option<Keep>) -> Arc<Flight> {
        Arc::new(Flight {
            state: Mutex::new(State {
                phase: Phase::Idle,
                home: None,
                posted: false,
                abandoned: false,
                waker: None,
            }),
            aim: UnsafeCell::new(Aim::None),
            way: Cell::new(Way::None),
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            link: UnsafeCell::new(ptr::null_mut()),
            _keep: keep,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come of it: `None` if nothing is under way. If something is, `waker` hears of its end.
    pub(crate) fn look(&self, waker: &Waker) -> Option<Poll<Outcome>> {
        let mut fresh = None;
        loop {
            let mut state = self.lock();
            match state.phase {
                Phase::Idle => return None,
                Phase::Landed(outcome) => {
                    state.phase = Phase::Idle;
                    return Some(Poll::Ready(outcome));
                }
                Phase::Posted | Phase::Flying => {}
            }
            if state.waker.as_ref().is_some_and(|before| before.will_wake(waker)) {
                return Some(Poll::Pending);
            }
            if fresh.is_some() {
                let before = mem::replace(&mut state.waker, fresh.take());
                drop(state);
                drop(before);
                return Some(Poll::Pending);
            }
            drop(state);
            fresh = Some(waker.clone());
        }
    }

    /// Begins to wait, unless somebody has; the outcome, if it is there at once.
    pub(crate) fn begin(self: &Arc<Flight>, goal: Goal, waker: &Waker) -> Poll<Outcome> {
        let fresh = waker.clone();
        let mut state = self.lock();
        match state.phase {
            Phase::Idle => {}
            // Somebody who shares it was faster.
            Phase::Posted | Phase::Flying => {
                let before = state.waker.replace(fresh);
                drop(state);
                drop(before);
                return Poll::Pending;
            }
            Phase::Landed(outcome) => {
                state.phase = Phase::Idle;
                return Poll::Ready(outcome);
            }
        }
        let tag = tag(self);
        let aim = match goal {
            Goal::Done(op) => Aim::Op(Record::new(op, tag)),
            Goal::Time(at) => Aim::Timer(Timer::new(at, tag)),
        };
        // SAFETY: not FLYING, and we have the lock.
        let aim = unsafe {
            *self.aim.get() = aim;
            &mut *self.aim.get()
        };
        self.way.set(match aim {
            Aim::None => Way::None,
            Aim::Op(record) => Way::Op(NonNull::from(record)),
            Aim::Timer(timer) => Way::Timer(NonNull::from(timer)),
        });
        if let Some(worker) = tls::worker() {
            if let Some(outcome) = worker.launch(self, &mut state) {
                return Poll::Ready(outcome);
            }
        } else {
            let posts = &default_runtime().shared().posts;
            let home = posts[(tls::turn() >> 32) as usize % posts.len()];
            state.phase = Phase::Posted;
            self.post(&mut state, home);
        }
        let before = state.waker.replace(fresh);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Nobody will ask any more: what is under way is cancelled.
    pub(crate) fn abandon(self: &Arc<Flight>) {
        let mut state = self.lock();
        state.abandoned = true;
        let waker = state.waker.take();
        if state.phase == Phase::Flying
            && let Some(home) = state.home
        {
            match tls::worker() {
                Some(worker) if ptr::eq(worker.post, home) => worker.recall(self, &mut state),
                _ if !state.posted => self.post(&mut state, home),
                _ => {}
            }
        }
        drop(state);
        drop(waker);
    }

    /// Sends it home.
    fn post(self: &Arc<Flight>, state: &mut State, home: &'static Post) {
        state.home = Some(home);
        state.posted = true;
        // SAFETY: it is on no inbox, as `posted` was false, and the reference is given up by the drain.
        unsafe { home.post_flight(retain(self)) };
    }
}

/// One more reference, to be given up by [`claim`].
pub(crate) fn retain(flight: &Arc<Flight>) -> NonNull<Flight> {
    match NonNull::new(Arc::into_raw(Arc::clone(flight)).cast_mut()) {
        Some(flight) => flight,
        None => unreachable!("an Arc is somewhere"),
    }
}

/// # Safety
/// The reference is the caller's, from [`retain`].
pub(crate) unsafe fn claim(flight: NonNull<Flight>) -> Arc<Flight> {
    // SAFETY: the caller's promise.
    unsafe { Arc::from_raw(flight.as_ptr()) }
}

/// A flight as the mark of a record or a timer: told from a fiber by its lowest bit.
fn tag(flight: &Arc<Flight>) -> *mut () {
    Arc::as_ptr(flight).cast_mut().cast::<()>().wrapping_byte_add(1)
}

/// The flight that a mark is, if it is none of a fiber.
#[inline]
pub(crate) fn of_tag(tag: *const ()) -> Option<NonNull<Flight>> {
    if tag.addr() & 1 == 0 {
        return None;
    }
    NonNull::new(tag.wrapping_byte_sub(1).cast_mut().cast())
}
