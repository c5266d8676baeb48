//! Fibers of one caller, who starts them, waits for them and takes their results: `par_map`, `race` and the
//! like.
//!
//! ```text
//!   caller: next item ─▶ slot { index, JoinHandle } ─▶ fiber: work, then end(slot)
//!             ▲                                                     │
//!             └── collect: join what has ended ◀── finished: [slot, …] ◀┘
//! ```
//!
//! No handle leaves the caller's hands, so the members need no list of their own and no place for their
//! results: both are the handles'. A member that is started, ends and is joined costs one lock more than
//! a plain spawn and join.
//!
//! A member's end may decide: a panic, an error, the first result of a race. The first to decide, under the
//! lock, is the one whose result counts. Then the caller *dismisses* the crew: it cancels every fiber that
//! it has a handle for and joins them all, held off from being cancelled itself. [`run`] does that on every
//! way out, so its members may borrow. The lazy streams dismiss theirs when they are dropped, which a program can
//! prevent (`mem::forget`); so their members borrow nothing. The state that all members share is in a box that is
//! freed after they have been joined, or never.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use bast_rt::wait::{self, Interruption, Parked, Reason, Waiter, drop_quietly};
use bast_rt::{Builder, Cancelled, JoinHandle};

use crate::lock::Lock;

/// As many places are made at once, on an iterator's word that there will be more.
pub(crate) const SOME: usize = 1 << 14;

/// How a crew works.
#[derive(Debug)]
pub(crate) struct Plan<R> {
    /// For those who look.
    pub(crate) name: &'static str,
    /// Most members at a time.
    pub(crate) limit: usize,
    /// Whether the results may wait until all have been started and have ended.
    pub(crate) batch: bool,
    /// Whether this result decides.
    pub(crate) decides: fn(&R) -> bool,
    /// Whether a panic does.
    pub(crate) panics_decide: bool,
}

/// What caller and members share.
struct Shared {
    /// Decided, or given up: who has not begun does not begin. Relaxed: it is advice.
    stopped: AtomicBool,
    state: Lock<State>,
}

struct State {
    /// Slots whose members have ended and have not been collected. Has room for all.
    finished: Vec<u32>,
    decided: Option<usize>,
    /// The caller waits for this many ends, or a decision.
    wanted: Option<(usize, Waiter)>,
}

// SAFETY: the waiter is claimed under the lock, while its owner cannot leave.
unsafe impl Send for State {}

/// Tells of a member's end, whatever ends it.
struct Seat {
    shared: NonNull<Shared>,
    slot: u32,
    decides: bool,
}

// SAFETY: it leads to a lock and an atomic only.
unsafe impl Send for Seat {}

impl Seat {
    fn shared(&self) -> &Shared {
        // SAFETY: a crew joins the fiber that has the seat before it lets go of the box, if it ever does.
        unsafe { self.shared.as_ref() }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.shared().state.lock();
        state.finished.push(self.slot);
        if self.decides && state.decided.is_none() {
            state.decided = Some(self.slot as usize);
            self.shared().stopped.store(true, Relaxed);
        }
        let (ended, decided) = (state.finished.len(), state.decided.is_some());
        let wanted = state.wanted.take_if(|(ends, _)| decided || ended >= *ends);
        // SAFETY: the caller leaves its wait only after it has taken this lock; nothing suspends below.
        let wake = wanted.map(|(_, who)| unsafe { who.claim() });
        drop(state);
        drop(wake);
    }
}

/// A result, `None` if the work was not begun.
type Handle<R> = JoinHandle<Option<R>>;

/// The fibers, in the hands of their caller.
pub(crate) struct Crew<R> {
    plan: Plan<R>,
    /// Boxed, as the seats point to it.
    shared: Box<Shared>,
    slots: Vec<Option<(usize, Handle<R>)>>,
    free: Vec<u32>,
    /// Handles in the slots.
    flying: usize,
    /// How many slots `finished` has room for.
    room: usize,
    /// The buffer that is exchanged for `finished`.
    ended: Vec<u32>,
    /// Without unwinding: the caller was asked to end, and has told the members.
    told: bool,
}

/// Runs each job in a fiber of its own and gives the results to `each`, with the jobs' numbers, as they come.
/// Returns after all have ended. If one decides, `each` is not called any more, and that one's result is
/// returned. Unwinds with what `jobs` or `each` unwinds with, or if the caller is to.
pub(crate) fn run<J, R>(
    plan: Plan<R>,
    jobs: impl Iterator<Item = J>,
    each: impl FnMut(usize, thread::Result<R>),
) -> Option<thread::Result<R>>
where
    J: FnOnce() -> R + Send,
    R: Send,
{
    wait::begin(plan.name);
    let mut crew = Crew::new(plan);
    let driven = catch_unwind(AssertUnwindSafe(|| crew.drive(jobs, each)));
    let decided = crew.dismiss();
    match decided {
        // A panic comes before everything that happened later.
        Some(Err(payload)) if !payload.is::<Cancelled>() => wait::resume_unwind(payload),
        _ => {}
    }
    match driven {
        Err(payload) => wait::resume_unwind(payload),
        Ok(Err(interruption)) => {
            // What has become due meanwhile may unwind further.
            wait::check();
            interruption.raise()
        }
        Ok(Ok(())) => decided,
    }
}

impl<R> Crew<R> {
    pub(crate) fn new(plan: Plan<R>) -> Crew<R> {
        let state = State { finished: Vec::new(), decided: None, wanted: None };
        let shared = Shared { stopped: AtomicBool::new(false), state: Lock::new(state) };
        Crew {
            plan,
            shared: Box::new(shared),
            slots: Vec::new(),
            free: Vec::new(),
            flying: 0,
            room: 0,
            ended: Vec::new(),
            told: false,
        }
    }

    /// How many members have been started and not been collected.
    pub(crate) fn flying(&self) -> usize {
        self.flying
    }

    fn drive<J>(
        &mut self,
        mut jobs: impl Iterator<Item = J>,
        mut each: impl FnMut(usize, thread::Result<R>),
    ) -> Result<(), Interruption>
    where
        J: FnOnce() -> R + Send,
        R: Send,
    {
        // Slots are numbered by 32 bits.
        let limit = self.plan.limit.min(u32::MAX as usize);
        self.slots.reserve(limit.min(jobs.size_hint().0).min(SOME));
        let mut exhausted = false;
        let mut index = 0;
        loop {
            while !exhausted && self.flying < limit {
                if self.shared.stopped.load(Relaxed) {
                    return Ok(());
                }
                match jobs.next() {
                    // SAFETY: `run`, who calls this, dismisses the crew on every way out.
                    Some(job) => unsafe { self.start(index, job) },
                    None => exhausted = true,
                }
                index += 1;
            }
            if self.flying == 0 {
                return Ok(());
            }
            let all = exhausted && self.plan.batch;
            self.wait(if all { self.flying } else { 1 })?;
            if !self.collect(all, &mut each) {
                return Ok(());
            }
        }
    }

    /// Starts a member.
    ///
    /// # Safety
    /// The crew is dismissed before what `job` and its result borrow goes; or it may be forgotten, if they borrow
    /// nothing.
    unsafe fn start<J>(&mut self, index: usize, job: J)
    where
        J: FnOnce() -> R + Send,
        R: Send,
    {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            if self.slots.len() > self.room {
                self.make_room();
            }
            (self.slots.len() - 1) as u32
        });
        let shared = NonNull::from(&*self.shared);
        let mut seat = Seat { shared, slot, decides: self.plan.panics_decide };
        let decides = self.plan.decides;
        let body = move || {
            // The seat as a whole, so that it goes whatever becomes of the closure.
            let seat = &mut seat;
            if seat.shared().stopped.load(Relaxed) {
                seat.decides = false;
                return None;
            }
            let result = job();
            seat.decides = decides(&result);
            Some(result)
        };
        // SAFETY: what it borrows outlives the fiber and its result (the caller's promise). The shared state does:
        // only the crew's drop frees it.
        let spawned = unsafe { Builder::new().spawn_unchecked(body) };
        let fiber = spawned.expect("failed to spawn a fiber");
        if self.told {
            fiber.cancel();
        }
        self.slots[slot as usize] = Some((index, fiber));
        self.flying += 1;
    }

    /// As `start`, of a member that borrows nothing: then the crew may as well be forgotten.
    pub(crate) fn start_owned<J>(&mut self, index: usize, job: J)
    where
        J: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: nothing is borrowed.
        unsafe { self.start(index, job) }
    }

    /// `Seat` must not have to allocate, as it runs while the lock is held.
    #[cold]
    fn make_room(&mut self) {
        self.room = (2 * self.slots.len()).max(64);
        let mut larger = Vec::with_capacity(self.room);
        let mut state = self.shared.state.lock();
        larger.append(&mut state.finished);
        std::mem::swap(&mut larger, &mut state.finished);
        drop(state);
    }

    /// Waits for so many ends, or a decision.
    pub(crate) fn wait(&mut self, ends: usize) -> Result<(), Interruption> {
        let reason = Reason::new(self.plan.name, &*self.shared);
        wait::wait(&reason, None, |wait| {
            loop {
                let mut state = self.shared.state.lock();
                if state.decided.is_some() || state.finished.len() >= ends {
                    state.wanted = None;
                    return Ok(());
                }
                state.wanted = Some((ends, wait.waiter()));
                drop(state);
                if let Parked::Interrupted(interruption) = wait.park() {
                    self.shared.state.lock().wanted = None;
                    return Err(interruption);
                }
                if cfg!(not(panic = "unwind")) && !self.told && wait::is_due() {
                    self.told = true;
                    self.slots.iter().flatten().for_each(|(_, fiber)| fiber.cancel());
                }
            }
        })
    }

    /// Gives what has ended to `each`; `all`: everybody has, and nobody will be started. False if there has been
    /// a decision.
    pub(crate) fn collect(
        &mut self,
        all: bool,
        each: &mut impl FnMut(usize, thread::Result<R>),
    ) -> bool {
        if !all {
            self.ended.reserve(self.slots.len());
        }
        let mut state = self.shared.state.lock();
        if state.decided.is_some() {
            return false;
        }
        std::mem::swap(&mut state.finished, &mut self.ended);
        self.room = state.finished.capacity();
        drop(state);
        if all {
            for slot in 0..self.slots.len() {
                self.give(slot, each);
            }
            return true;
        }
        for place in 0..self.ended.len() {
            let slot = self.ended[place];
            self.free.push(slot);
            self.give(slot as usize, each);
        }
        self.ended.clear();
        true
    }

    fn give(&mut self, slot: usize, each: &mut impl FnMut(usize, thread::Result<R>)) {
        let Some((index, fiber)) = self.slots[slot].take() else { return };
        self.flying -= 1;
        match join(fiber) {
            Ok(Some(result)) => each(index, Ok(result)),
            // Nobody was dismissed yet.
            Ok(None) => {}
            Err(payload) => each(index, Err(payload)),
        }
    }

    /// Ends everybody, and returns the result that has decided. Nobody is to be started afterwards.
    pub(crate) fn dismiss(&mut self) -> Option<thread::Result<R>> {
        if self.flying == 0 {
            return None;
        }
        self.flying = 0;
        self.shared.stopped.store(true, Relaxed);
        self.slots.iter().flatten().for_each(|(_, fiber)| fiber.cancel());
        let mut results: Vec<_> =
            self.slots.drain(..).map(|slot| slot.map(|(_, fiber)| join(fiber))).collect();
        let decided = self.shared.state.lock().decided;
        let decided = decided.and_then(|slot| results[slot].take());
        for result in results {
            drop_quietly(result);
        }
        match decided? {
            Ok(result) => result.map(Ok),
            Err(payload) => Some(Err(payload)),
        }
    }
}

impl<R> Drop for Crew<R> {
    fn drop(&mut self) {
        drop_quietly(self.dismiss());
    }
}

/// Joins a member, which must not be left to itself.
fn join<R>(fiber: JoinHandle<R>) -> Result<R, Box<dyn Any + Send>> {
    if fiber.is_finished() { fiber.join() } else { wait::hold(|| fiber.join()) }
}
