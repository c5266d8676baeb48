//! The way in and out of `Mutex`, `RwLock` and `Semaphore`: a number of units, and a queue for them.
//!
//! ```text
//!   Mutex      1 unit; lock takes it                  Gate<1>
//!   RwLock     SHARED units; read 1, write all        Gate<SHARED>
//!   Semaphore  permits, as many as one likes          Gate<0>
//!
//!   put ─▶ does the first in the queue get enough?
//!            it runs on this worker, or the gate is in use, or it has lost LOSSES times: hand-off,
//!                                                              the units are its own before it runs
//!            else: nudge. It is woken and tries; whoever comes meanwhile may take the units first
//! ```
//!
//! **Policy.** First in, first out, with one exception. A hand-off to a fiber of the same worker is cheap: it is
//! the next to run. A hand-off to another worker leaves the units unused until that worker has been woken,
//! and if everybody queues again at once, each unit makes that journey: a convoy. So a free gate
//! is left open while the first in the queue, on another worker, is on its way, and others *barge*. After
//! [`LOSSES`] vain tries it gets a hand-off, so nobody starves. Nobody barges into a gate that is
//! merely not full (readers past a waiting writer; any `Semaphore`).
//!
//! Who finds an exclusive gate held on another worker, with nobody waiting, looks at it for a moment before it
//! parks; if the holder is of its own worker, looking would not help.
//!
//! Who may touch what: all state belongs to the lock, except that `free` and `holder` may be read by anybody, as a
//! hint. Ordering is the lock's: who takes units has locked after whoever put them back.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bast_rt::Instant;
use bast_rt::wait::{Parked, Reason};

use crate::list::{End, List, Node, Ticket};
use crate::lock::{Guard, Lock};
use crate::shim::{self, AtomicUsize};

/// How often the first in the queue may find the gate taken by others.
const LOSSES: u8 = if cfg!(loom) { 1 } else { 3 };
/// How often a newcomer looks before it parks.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 100 };

/// Units and a queue. `ALL` of them free is an open gate that may be barged through; 0: never.
pub(crate) struct Gate<const ALL: usize> {
    state: Lock<State>,
    free: AtomicUsize,
    /// Who has all of the units; 0: nobody, or nobody knows.
    holder: AtomicU64,
}

struct State {
    /// Where units were last taken.
    place: usize,
    waiters: List,
    /// The first of them has been told to try.
    nudged: bool,
    /// How often it has tried in vain.
    losses: u8,
    closed: bool,
}

/// What a waiter wants.
struct Want {
    units: usize,
    id: u64,
    place: usize,
    /// It got nothing: the gate was closed.
    refused: Cell<bool>,
}

/// How taking ended.
#[must_use]
pub(crate) enum Taken {
    Yes,
    Closed,
    /// The units were not given: raise, or say that the time is up.
    No(End),
}

impl Taken {
    /// For gates that are never closed and waits that have no end.
    #[inline]
    pub(crate) fn or_raise(self) {
        if let Taken::No(end) = self {
            end.unless_interrupted();
        }
    }
}

impl<const ALL: usize> Gate<ALL> {
    pub(crate) const fn new(free: usize) -> Self {
        Gate {
            state: Lock::new(State {
                place: 0,
                waiters: List::new(),
                nudged: false,
                losses: 0,
                closed: false,
            }),
            free: AtomicUsize::new(free),
            holder: AtomicU64::new(0),
        }
    }

    /// Units that nobody has.
    pub(crate) fn free(&self) -> usize {
        self.free.load(Relaxed)
    }

    /// Whether the caller has all of the units. (A thread that is about to end has no name of its own: no.)
    pub(crate) fn is_mine(&self) -> bool {
        let id = shim::identity().0;
        id != u64::MAX && self.holder.load(Relaxed) == id
    }

    /// Takes units if there are enough and it is not another's turn. `None`: closed.
    #[inline]
    pub(crate) fn try_take(&self, units: usize) -> Option<bool> {
        let (id, place) = shim::identity();
        let mut state = self.state.lock();
        if ALL == 0 && state.closed {
            return None;
        }
        Some(self.enter(&mut state, units, id, place))
    }

    /// Takes units, waiting for them until the deadline.
    #[inline]
    pub(crate) fn take(&self, units: usize, what: &'static str, end: Option<Instant>) -> Taken {
        let (id, place) = shim::identity();
        let mut state = self.state.lock();
        if ALL == 0 && state.closed {
            return Taken::Closed;
        }
        if self.enter(&mut state, units, id, place) {
            return Taken::Yes;
        }
        self.queue(state, units, (id, place), what, end)
    }

    #[inline]
    fn enter(&self, state: &mut State, units: usize, id: u64, place: usize) -> bool {
        let free = self.free.load(Relaxed);
        if free < units || !(state.waiters.is_empty() || state.nudged) {
            return false;
        }
        self.give(state, free - units, units, id, place);
        true
    }

    #[inline]
    fn give(&self, state: &mut State, left: usize, units: usize, id: u64, place: usize) {
        self.free.store(left, Relaxed);
        if ALL != 0 {
            state.place = place;
            if units == ALL {
                self.holder.store(id, Relaxed);
            }
        }
    }

    #[cold]
    fn queue<'a>(
        &'a self,
        mut state: Guard<'a, State>,
        units: usize,
        (id, place): (u64, usize),
        what: &'static str,
        deadline: Option<Instant>,
    ) -> Taken {
        // `u64::MAX` stands for any thread that is about to end.
        if self.holder.load(Relaxed) == id && id != u64::MAX {
            drop(state);
            panic!("{what}: the caller holds this lock already");
        }
        if ALL != 0 && state.place != place && state.waiters.is_empty() {
            drop(state);
            self.look(units);
            state = self.state.lock();
            if self.enter(&mut state, units, id, place) {
                return Taken::Yes;
            }
        }
        let reason = Reason::new(what, self).held_by(&self.holder);
        shim::wait(&reason, deadline, |wait| {
            let want = Want { units, id, place, refused: Cell::new(false) };
            let ticket = Ticket::new(wait.waiter(), false);
            let node = Node::new(&ticket, 0, (&raw const want).cast_mut().cast());
            // SAFETY: below it is left only with the ticket done or the node removed.
            unsafe { state.waiters.push(&node) };
            drop(state);
            loop {
                let end = match wait.park() {
                    _ if ticket.done().is_some() => {
                        return if want.refused.get() { Taken::Closed } else { Taken::Yes };
                    }
                    Parked::Look => {
                        if ALL != 0 && self.race(&node, &want) {
                            return Taken::Yes;
                        }
                        continue;
                    }
                    Parked::TimedOut => End::TimedOut,
                    Parked::Interrupted(interruption) => End::Interrupted(interruption),
                };
                if self.leave(&node) {
                    return Taken::No(end);
                }
                // Granted: the ticket was done before the lock was let go.
                return if want.refused.get() { Taken::Closed } else { Taken::Yes };
            }
        })
    }

    /// Looks for a moment whether there are enough units.
    fn look(&self, units: usize) {
        for _ in 0..LOOKS {
            if self.free.load(Relaxed) >= units {
                return;
            }
            shim::spin_loop();
        }
    }

    /// The waiter was woken; if it was a nudge, does it get its units?
    fn race(&self, node: &Node, want: &Want) -> bool {
        let mut state = self.state.lock();
        if !(node.is_linked() && state.nudged && state.is_first(node)) {
            return false;
        }
        let free = self.free.load(Relaxed);
        if free < want.units {
            state.nudged = false;
            state.losses += 1;
            return false;
        }
        // SAFETY: it is in this list.
        unsafe { state.waiters.remove(node) };
        state.next_turn();
        self.give(&mut state, free - want.units, want.units, want.id, want.place);
        self.advance(state);
        true
    }

    /// Takes a waiter that gives up out of the queue; false if it has got its units.
    fn leave(&self, node: &Node) -> bool {
        let mut state = self.state.lock();
        if state.is_first(node) {
            state.next_turn();
        }
        // SAFETY: pushed to this list.
        let left = unsafe { state.waiters.remove(node) };
        if left {
            // A nudge that it had received goes to the next; and the next may want less.
            self.advance(state);
        }
        left
    }

    /// Puts units back.
    #[inline]
    pub(crate) fn put(&self, units: usize) {
        let state = self.state.lock();
        if ALL != 0 && units == ALL {
            self.holder.store(0, Relaxed);
        }
        self.free.store(self.free.load(Relaxed) + units, Relaxed);
        if !state.waiters.is_empty() {
            self.advance(state);
        }
    }

    /// Of all units, which the caller has, keeps one.
    pub(crate) fn keep_one(&self) {
        let state = self.state.lock();
        self.holder.store(0, Relaxed);
        self.free.store(ALL - 1, Relaxed);
        self.advance(state);
    }

    /// Gives units to those whose turn it is.
    #[cold]
    fn advance<'a>(&'a self, mut state: Guard<'a, State>) {
        // Guards do not move: whoever puts back all units has taken them here. With many readers, or one who gives
        // up, it is a guess, and decides no more than who is handed to and who is nudged.
        let here = state.place;
        loop {
            // SAFETY: the slot of a linked node is its waiter's `Want`, which is there as long as the node.
            let Some(want) = state.waiters.first().map(|n| unsafe { &*n.slot().cast::<Want>() })
            else {
                return;
            };
            let (units, id, place) = (want.units, want.id, want.place);
            let free = self.free.load(Relaxed);
            if free < units {
                return;
            }
            if ALL != 0 && free == ALL && place != here && state.losses < LOSSES {
                if !state.nudged {
                    state.nudged = true;
                    let wake = state.waiters.nudge();
                    drop(state);
                    drop(wake);
                }
                return;
            }
            state.next_turn();
            self.give(&mut state, free - units, units, id, place);
            let wake = state.waiters.grant(|_| {});
            let over = free == units || state.waiters.is_empty();
            drop(state);
            drop(wake);
            if over {
                return;
            }
            state = self.state.lock();
        }
    }

    /// Lets nobody in any more, and refuses those who wait.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        loop {
            let mut state = self.state.lock();
            // SAFETY: as in `advance`; the waiter reads it after its ticket is done.
            let wake =
                state.waiters.grant(|slot| unsafe { &*slot.cast::<Want>() }.refused.set(true));
            drop(state);
            if wake.is_none() {
                return;
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Takes free units away for good.
    pub(crate) fn remove_free(&self, units: usize) -> usize {
        let _state = self.state.lock();
        let free = self.free.load(Relaxed);
        let gone = free.min(units);
        self.free.store(free - gone, Relaxed);
        gone
    }
}

impl State {
    fn is_first(&self, node: &Node) -> bool {
        self.waiters.first().is_some_and(|first| std::ptr::eq(first, node))
    }

    /// The first waiter is about to change.
    fn next_turn(&mut self) {
        self.nudged = false;
        self.losses = 0;
    }
}
