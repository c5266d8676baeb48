//! `Combiner`: many hand in blocks of bytes; one of them at a time, the leader, passes on its own and those of all who
//! wait. So a block is never mixed with another, and many small ones cost one call.
//!
//! ```text
//!   write ─▶ nobody leads? ─▶ lead ──▶ batch: │ written │ mine │ another's │ … │ ─▶ Sink::write ─▶ tell their owners
//!     ╰─ somebody does: wait ───▲ taken in, copied ▲                                              ╰─▶ who waits leads
//!
//!   waiting ─ copied into a batch ─▶ taken ─ written, or not ─▶ told
//!      ╰─ cancelled: never written      ╰─ cancelled: written all the same, whole
//! ```
//!
//! **Policy**: first in, first out. A leader passes on one batch and hands the lead to the first who waits. Where the
//! last batch had several blocks, or was another's, a leader first lets those run who can: they hand in theirs.
//!
//! A leader may unwind while a block is half passed on (it was cancelled): the batch stays as it is, and whoever leads
//! next goes on with it. A sink that fails in the middle of a block is *torn*, unless it can take the part back: nothing
//! more is passed on.
//!
//! Who may touch what: the sink and the batch belong to the leader, which is who has set `leading` or was told to lead.
//! Lists, slots and the flags belong to the lock. A block is borrowed from its owner's frame and read under the lock
//! only, while its node is linked. Ordering is the lock's: a leader locks before and after.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bast_rt::wait::{self, Interruption, Parked, Reason};
use bast_rt::{mask, yield_now};

use crate::list::{List, Node, Ticket};
use crate::lock::{Guard, Lock};
use crate::shim::{self, Wake};

/// Blocks up to this length are copied into a batch; others are passed on as they are, by their owners.
const SMALL: usize = 1 << 12;
/// How many waiters are attended to in one turn of the lock.
const TURN: usize = 16;

/// Where the blocks go.
pub trait Sink {
    /// What can go wrong.
    type Error;

    /// Passes on some of `bytes`, at least one, and says how many.
    ///
    /// # Errors
    /// None of them has been passed on.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Self::Error>;

    /// Takes the last `count` bytes back, if it can. A cancellation is not delivered in here. A panic means: no.
    fn undo(&mut self, _count: usize) -> bool {
        false
    }

    /// Whether `write` has passed on nothing when it unwinds. If not, it is not interrupted, and a panic tears.
    fn is_clean(&self) -> bool;
}

/// Why a block was not passed on.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// What the sink said of it.
    Sink(E),
    /// An earlier block was passed on in part.
    Torn,
}

/// Passes blocks of bytes on to one sink, each in one piece.
pub struct Combiner<S: Sink> {
    state: Lock<State>,
    work: UnsafeCell<Work<S>>,
    /// The leader's `wait::id`; 0: nobody leads. A caller finds its own here only if it has put it here: so Relaxed.
    leader: AtomicU64,
    /// A batch that has as much is full.
    limit: usize,
}

struct State {
    leading: bool,
    torn: bool,
    /// Their slots are `Slot<S::Error>`.
    waiting: List,
    /// Those whose blocks are in the batch, in its order.
    taken: List,
}

/// The leader's.
struct Work<S> {
    sink: S,
    batch: Vec<u8>,
    /// How much of the batch has been passed on.
    done: usize,
    /// Where the first block begins that has not been settled.
    start: usize,
    /// Numbers and ends of those that have not been settled.
    blocks: VecDeque<(u64, usize)>,
    next: u64,
    /// Whether the last batch had several blocks, and who led.
    several: bool,
    last: u64,
}

/// What a waiter wants, and gets.
struct Slot<E> {
    block: *const [u8],
    /// Not to be copied into a batch.
    alone: bool,
    number: Cell<Option<u64>>,
    told: Cell<Option<Told<E>>>,
}

type End<E> = Result<(), Failure<E>>;

enum Told<E> {
    End(End<E>),
    Lead,
}

// SAFETY: it owns the sink; slots carry errors to other threads.
unsafe impl<S: Sink + Send> Send for Combiner<S> where S::Error: Send {}
// SAFETY: the sink is used by one leader at a time, slots under the lock; else as above.
unsafe impl<S: Sink + Send> Sync for Combiner<S> where S::Error: Send {}

impl<S: Sink> Combiner<S> {
    /// Blocks are put together up to about `limit` bytes; 0: each is passed on by itself.
    pub const fn new(sink: S, limit: usize) -> Combiner<S> {
        let work = Work {
            sink,
            batch: Vec::new(),
            done: 0,
            start: 0,
            blocks: VecDeque::new(),
            next: 0,
            several: false,
            last: 0,
        };
        let (waiting, taken) = (List::new(), List::new());
        let state = State { leading: false, torn: false, waiting, taken };
        Combiner {
            state: Lock::new(state),
            work: UnsafeCell::new(work),
            leader: AtomicU64::new(0),
            limit,
        }
    }

    /// Passes on a block, and waits until that is done.
    ///
    /// # Errors
    /// That of the sink about this very block; or an earlier block was torn.
    ///
    /// # Panics
    /// With the panic of the sink. Within [`with`](Combiner::with), or by the sink itself: it would wait for itself.
    ///
    /// # Cancellation
    /// A suspension point if it has to wait, or the sink is one. The block is passed on whole, perhaps later,
    /// or not at all.
    pub fn write(&self, block: &[u8]) -> Result<(), Failure<S::Error>> {
        let alone = self.limit == 0 || block.len() > SMALL;
        let slot = Slot { block, alone, number: Cell::new(None), told: Cell::new(None) };
        match self.enter(&slot) {
            Told::End(end) => end,
            Told::Lead => self.lead(slot.number.get()).write(block, alone),
        }
    }

    /// Calls `f` with the sink when all that was begun has been passed on.
    ///
    /// # Errors
    /// A block was torn.
    ///
    /// # Panics
    /// With the panic of `f` or of the sink; as [`write`](Combiner::write).
    ///
    /// # Cancellation
    /// As [`write`](Combiner::write).
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> Result<R, Failure<S::Error>> {
        let slot = Slot { block: &[], alone: true, number: Cell::new(None), told: Cell::new(None) };
        if let Told::End(end) = self.enter(&slot) {
            end?;
        }
        let mut leader = self.lead(None);
        leader.write_batch();
        if leader.is_torn() { Err(Failure::Torn) } else { Ok(f(&mut leader.work.sink)) }
    }

    /// As `limit` of [`new`](Combiner::new).
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The sink.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.work.get_mut().sink
    }

    /// The sink. What a cancelled leader has left half done stays so.
    pub fn into_inner(self) -> S {
        self.work.into_inner().sink
    }

    /// For who has become the leader. `mine`: its block's number, if that is in the batch.
    fn lead(&self, mine: Option<u64>) -> Leader<'_, S> {
        self.leader.store(wait::id(), Relaxed);
        // SAFETY: there is one leader at a time.
        Leader { combiner: self, work: unsafe { &mut *self.work.get() }, mine, end: None }
    }

    /// Becomes the leader, or waits to be told.
    fn enter(&self, slot: &Slot<S::Error>) -> Told<S::Error> {
        let mut state = self.state.lock();
        if state.torn {
            return Told::End(Err(Failure::Torn));
        }
        if !std::mem::replace(&mut state.leading, true) {
            return Told::Lead;
        }
        let me = wait::id();
        // `u64::MAX` stands for any thread that is about to end.
        if self.leader.load(Relaxed) == me && me != u64::MAX {
            drop(state);
            panic!("a Combiner was used within its own `with` or sink: it would wait for itself");
        }
        if let Err(interruption) = self.queue(state, slot) {
            interruption.raise();
        }
        slot.told.take().expect("who is let go is told why")
    }

    /// Waits until something is told.
    fn queue(
        &self,
        mut state: Guard<'_, State>,
        slot: &Slot<S::Error>,
    ) -> Result<(), Interruption> {
        let reason = Reason::new("Combiner::write", self);
        shim::wait(&reason, None, |wait| {
            let ticket = Ticket::new(wait.waiter(), false);
            let node = Node::new(&ticket, 0, std::ptr::from_ref(slot).cast_mut().cast());
            // SAFETY: below it is left only with the ticket done or the node removed.
            unsafe { state.waiting.push(&node) };
            drop(state);
            while ticket.done().is_none() {
                let Parked::Interrupted(interruption) = wait.park() else { continue };
                let mut state = self.state.lock();
                let taken = slot.number.get().is_some();
                let list = if taken { &mut state.taken } else { &mut state.waiting };
                // SAFETY: it was pushed to `waiting`, and moved to `taken` when it got its number.
                if unsafe { list.remove(&node) } {
                    return Err(interruption);
                }
            }
            Ok(())
        })
    }
}

impl<S> Work<S> {
    /// Adds a block to the batch.
    fn add(&mut self, block: &[u8]) -> u64 {
        self.batch.extend_from_slice(block);
        self.next += 1;
        self.blocks.push_back((self.next, self.batch.len()));
        self.next
    }

    /// Takes a block out of the batch, unless it has been begun.
    fn remove(&mut self, number: u64) {
        let Some(at) = self.blocks.iter().position(|block| block.0 == number) else { return };
        let start = at.checked_sub(1).map_or(self.start, |before| self.blocks[before].1);
        if start < self.done {
            return;
        }
        let end = self.blocks[at].1;
        self.batch.drain(start..end);
        self.blocks.remove(at);
        self.blocks.iter_mut().skip(at).for_each(|block| block.1 -= end - start);
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.blocks.clear();
        (self.done, self.start) = (0, 0);
    }
}

/// The right to use the sink. Dropping it passes that on.
struct Leader<'a, S: Sink> {
    combiner: &'a Combiner<S>,
    work: &'a mut Work<S>,
    /// The leader's own block in the batch, and how it went with that.
    mine: Option<u64>,
    end: Option<End<S::Error>>,
}

impl<S: Sink> Leader<'_, S> {
    fn is_torn(&self) -> bool {
        self.combiner.state.lock().torn
    }

    /// Has the sink take back the beginning of a block. False if that has torn it.
    fn take_back(&mut self, part: usize) -> bool {
        if part == 0 {
            return true;
        }
        let tear = Tear(&self.combiner.state);
        let taken_back = mask(|| self.work.sink.undo(part));
        if taken_back {
            std::mem::forget(tear);
        }
        taken_back
    }

    fn write(mut self, block: &[u8], alone: bool) -> End<S::Error> {
        let me = wait::id();
        let company = self.work.several || ![0, me].contains(&self.work.last);
        if company && self.combiner.limit > 0 {
            yield_now();
        }
        if !alone {
            if self.mine.is_none() {
                self.mine = Some(self.work.add(block));
            }
            self.take_in();
        }
        self.work.several = self.work.blocks.len() > 1;
        self.work.last = me;
        self.write_batch();
        wait::spend();
        match self.end.take() {
            Some(end) => end,
            None if self.is_torn() => Err(Failure::Torn),
            None => Alone { leader: &mut self, block, done: 0 }.write(),
        }
    }

    /// Takes the blocks of those who wait into the batch.
    fn take_in(&mut self) {
        loop {
            let mut state = self.combiner.state.lock();
            let State { waiting, taken, .. } = &mut *state;
            for _ in 0..TURN {
                if self.work.batch.len() >= self.combiner.limit {
                    return;
                }
                let moved = waiting.move_first(taken, |slot| {
                    // SAFETY: the slots of this list are of this type, and there as long as their nodes are linked;
                    // so are their blocks.
                    let (slot, block) = unsafe {
                        let slot = &*slot.cast::<Slot<S::Error>>();
                        (slot, &*slot.block)
                    };
                    if !slot.alone {
                        slot.number.set(Some(self.work.add(block)));
                    }
                    !slot.alone
                });
                if !moved {
                    return;
                }
            }
        }
    }

    /// Passes the batch on.
    fn write_batch(&mut self) {
        // Empty blocks are passed on without a call.
        self.settle();
        while self.work.done < self.work.batch.len() {
            let Work { sink, batch, done, .. } = &mut *self.work;
            match call(sink, &self.combiner.state, &batch[*done..]) {
                Ok(n) => *done += n,
                Err(error) => self.fail(error),
            }
            self.settle();
        }
        self.work.clear();
    }

    /// The first block that is not settled is not passed on.
    fn fail(&mut self, error: S::Error) {
        let Some((number, end)) = self.work.blocks.pop_front() else { return };
        let part = self.work.done - self.work.start;
        (self.work.done, self.work.start) = (end, end);
        if !self.take_back(part) {
            self.work.done = self.work.batch.len();
        }
        let state = self.combiner.state.lock();
        let (wake, state) = self.tell(state, number, Err(Failure::Sink(error)));
        drop(state);
        drop(wake);
    }

    /// Tells the owners of what has been passed on, or never will be.
    fn settle(&mut self) {
        while self.work.blocks.front().is_some_and(|block| block.1 <= self.work.done) {
            let mut wakes = [const { None::<Wake> }; TURN];
            let mut state = self.combiner.state.lock();
            let torn = state.torn;
            for wake in &mut wakes {
                match self.work.blocks.front() {
                    Some(&(number, end)) if end <= self.work.done => {
                        self.work.blocks.pop_front();
                        self.work.start = end;
                        let end = if torn { Err(Failure::Torn) } else { Ok(()) };
                        (*wake, state) = self.tell(state, number, end);
                    }
                    _ => break,
                }
            }
        }
    }

    /// Tells the owner of a block how it went, if it has not given up.
    fn tell<'g>(
        &mut self,
        mut state: Guard<'g, State>,
        number: u64,
        end: End<S::Error>,
    ) -> (Option<Wake>, Guard<'g, State>) {
        if self.mine == Some(number) {
            self.end = Some(end);
            return (None, state);
        }
        // SAFETY: as in `take_in`.
        let concerns =
            |slot: *mut ()| unsafe { &*slot.cast::<Slot<S::Error>>() }.number.get() == Some(number);
        let wake = state.taken.grant_if(concerns, |slot| tell(slot, Told::End(end)));
        (wake, state)
    }
}

/// To be called under the lock, with a slot of one of its lists.
fn tell<E>(slot: *mut (), what: Told<E>) {
    // SAFETY: as in `take_in`.
    unsafe { &*slot.cast::<Slot<E>>() }.told.set(Some(what));
}

/// Tears when it is dropped.
struct Tear<'a>(&'a Lock<State>);

impl Drop for Tear<'_> {
    fn drop(&mut self) {
        self.0.lock().torn = true;
    }
}

/// Calls the sink once.
fn call<S: Sink>(sink: &mut S, state: &Lock<State>, bytes: &[u8]) -> Result<usize, S::Error> {
    if sink.is_clean() {
        return sink.write(bytes);
    }
    // Before the call, when it is known how much has been passed on.
    wait::check();
    let tear = Tear(state);
    let result = mask(|| sink.write(bytes));
    std::mem::forget(tear);
    result
}

/// A block that its owner passes on itself. What is left of it when that unwinds becomes a batch.
struct Alone<'l, 'a, S: Sink> {
    leader: &'l mut Leader<'a, S>,
    block: &'l [u8],
    done: usize,
}

impl<S: Sink> Alone<'_, '_, S> {
    fn write(mut self) -> End<S::Error> {
        while self.done < self.block.len() {
            let state = &self.leader.combiner.state;
            match call(&mut self.leader.work.sink, state, &self.block[self.done..]) {
                Ok(n) => self.done += n,
                Err(error) => {
                    let part = std::mem::take(&mut self.done);
                    self.leader.take_back(part);
                    return Err(Failure::Sink(error));
                }
            }
        }
        Ok(())
    }
}

impl<S: Sink> Drop for Alone<'_, '_, S> {
    fn drop(&mut self) {
        if self.done > 0 && self.done < self.block.len() {
            self.leader.work.add(self.block);
            self.leader.work.done = self.done;
        }
    }
}

impl<S: Sink> Drop for Leader<'_, S> {
    fn drop(&mut self) {
        self.combiner.leader.store(0, Relaxed);
        if let Some(mine) = self.mine {
            // It is still there only if this unwinds.
            self.work.remove(mine);
        }
        loop {
            let mut state = self.combiner.state.lock();
            let State { leading, torn, waiting, taken } = &mut *state;
            if *torn {
                self.work.clear();
            }
            let told = |slot| {
                let what = if *torn { Told::End(Err(Failure::Torn)) } else { Told::Lead };
                tell::<S::Error>(slot, what);
            };
            let wake = if taken.is_empty() { waiting.grant(told) } else { taken.grant(told) };
            *leading = wake.is_some();
            let more = *torn && wake.is_some();
            drop(state);
            drop(wake);
            if !more {
                return;
            }
        }
    }
}

impl<S: Sink> fmt::Debug for Combiner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let torn = self.state.lock().torn;
        f.debug_struct("Combiner").field("torn", &torn).finish_non_exhaustive()
    }
}
