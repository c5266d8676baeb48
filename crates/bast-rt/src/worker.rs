//! One worker: a thread, its driver, its timers, its stacks and its fibers.
//!
//! ```text
//!            inbox (wakes from other threads)      driver (completions)     wheel (timers)
//!                     │                                 │                       │
//!                     └──────────────┬──────────────────┴───────────────────────┘
//!   fresh, mail ──start──▶  ready ───▼─▶ resume ──▶ parks / yields / ends
//!   (never run, any worker           FIFO
//!    may take them)
//! ```
//!
//! The loop runs fibers until it has spent its [`CREDIT`], then looks at the driver and the timers, so
//! that neither fibers that keep yielding nor operations that complete at once starve anything (rt 4).
//! With nothing to run it looks for fibers that have not run yet on the other workers, and then sleeps
//! in its driver (module `idle` has the argument why no work is left behind, `bast_io::Waker` the one
//! why no wake is lost).
//!
//! A `Worker` is used by its own thread only, and its fields are taken by short borrows that never
//! span a switch: fibers call into the same worker while `resume` is on the loop's stack.

mod flights;
mod fresh;
mod linger;
mod lives;

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, compiler_fence};
use std::time::Duration;

use bast_coro::StackPool;
use bast_io::{Done, Driver, Outcome, Record, Wait, prefetch};
use crossbeam_deque as deque;

use crate::fiber::{self, Header, State};
use crate::flight;
use crate::hook;
use crate::idle::Left;
use crate::inspect::Calm;
use crate::post::Post;
use crate::records::Records;
use crate::remote;
use crate::ring::Ring;
use crate::shared::{Fresh, Queues, Shared};
use crate::task::LocalTasks;
use crate::unwinding::Unwinding;
use crate::wheel::{Timer, Wheel};
use flights::Flights;
use linger::Linger;

/// What may be spent between two looks at the timers and the driver: a resume costs 1 (from 5 ns on),
/// an operation that completes at once [`INLINE`] (a system call).
const CREDIT: i32 = 64;
const INLINE: i32 = 2;
/// New fibers that may start in each round even if the credit is spent.
const STARTS: i32 = 16;
/// How far ahead in the ready queue stacks are prefetched.
const AHEAD: usize = 6;
/// The coarse clock's units: 16.8 ms, so that 32 bits last for two years.
pub(crate) const COARSE: u32 = 24;
/// How many cache lines of its innermost frames.
const FRAME_LINES: usize = 2;

/// A worker.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    pub(crate) post: &'static Post,
    current: Cell<*const Header>,
    ready: UnsafeCell<Ring<NonNull<Header>>>,
    fresh: deque::Worker<Fresh>,
    /// Tasks that are to be polled.
    pub(crate) tasks: LocalTasks,
    driver: UnsafeCell<Driver>,
    wheel: UnsafeCell<Wheel>,
    stacks: UnsafeCell<StackPool>,
    /// The list of started fibers, and its length.
    fibers: Cell<*const Header>,
    live: Cell<usize>,
    pub(crate) credit: Cell<i32>,
    /// The clock as it was at the last look, in units of 2^[`COARSE`] ns.
    pub(crate) coarse: Cell<u32>,
    /// Whether this worker counts as a searcher in `idle`.
    pub(crate) searching: Cell<bool>,
    linger: Linger,
    flights: Flights,
    pub(crate) unwinding: Unwinding,
    /// The name of the switch hook that runs.
    pub(crate) hook: Cell<Option<&'static str>>,
    stopping: Cell<bool>,
    /// Since when this worker has left new fibers to a less loaded one; 0 if it has not.
    respite: Cell<u64>,
    /// Whether this worker counts in `Shared::ending`.
    counted: Cell<bool>,
    next_id: Cell<u64>,
    ids_end: Cell<u64>,
    id_blocks: Cell<u64>,
    pub(crate) records: Records,
    /// How it looks for a deadlock while it sleeps (module `inspect::quiet`).
    pub(crate) calm: Calm,
    /// Started and ended fibers when the figures of the stacks were published.
    stacks_at: Cell<u64>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        queues: Queues,
        driver: Driver,
        stacks: StackPool,
    ) -> Worker {
        Worker {
            post: shared.posts[index],
            shared,
            index,
            current: Cell::new(ptr::null()),
            ready: UnsafeCell::new(Ring::new()),
            fresh: queues.fresh,
            tasks: LocalTasks::new(queues.tasks),
            wheel: UnsafeCell::new(Wheel::new(driver.now())),
            coarse: Cell::new((driver.now() >> COARSE) as u32),
            driver: UnsafeCell::new(driver),
            stacks: UnsafeCell::new(stacks),
            fibers: Cell::new(ptr::null()),
            live: Cell::new(0),
            credit: Cell::new(CREDIT),
            searching: Cell::new(false),
            linger: Linger::new(),
            flights: Flights::new(),
            unwinding: Unwinding::default(),
            hook: Cell::new(None),
            stopping: Cell::new(false),
            respite: Cell::new(0),
            counted: Cell::new(false),
            next_id: Cell::new(0),
            ids_end: Cell::new(0),
            id_blocks: Cell::new(0),
            records: Records::new(),
            calm: Calm::new(),
            stacks_at: Cell::new(0),
        }
    }

    // SAFETY (for the four accessors below): a worker is used by one thread, and no caller keeps the
    // reference across a switch, a callback or another call of the same accessor.

    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn ready(&self) -> &mut Ring<NonNull<Header>> {
        // SAFETY: see above.
        unsafe { &mut *self.ready.get() }
    }

    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn driver(&self) -> &mut Driver {
        // SAFETY: see above.
        unsafe { &mut *self.driver.get() }
    }

    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn wheel(&self) -> &mut Wheel {
        // SAFETY: see above.
        unsafe { &mut *self.wheel.get() }
    }

    #[inline]
    #[allow(clippy::mut_from_ref)]
    fn stacks(&self) -> &mut StackPool {
        // SAFETY: see above.
        unsafe { &mut *self.stacks.get() }
    }

    /// The fiber that runs, if the loop itself does not.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<NonNull<Header>> {
        NonNull::new(self.current.get().cast_mut())
    }

    /// A fresh fiber id.
    pub(crate) fn next_id(&self) -> u64 {
        let mut id = self.next_id.get();
        if id == self.ids_end.get() {
            let block = crate::runtime::id_block();
            id = block.start;
            self.ids_end.set(block.end);
            self.id_blocks.set(self.id_blocks.get() + block.end - block.start);
        }
        self.next_id.set(id + 1);
        id
    }

    /// The worker's life: until the runtime stops and every fiber here has ended (rt 6).
    pub(crate) fn run(&self) {
        loop {
            self.drain_inbox();
            self.drain_flights();
            if self.searching.get() && !self.ready().is_empty() {
                // What runs now may run for long, and while somebody searches nobody is woken.
                self.stop_searching();
            }
            self.fetch_tasks();
            // A fiber and a task in turns, so that neither kind waits for all of the other.
            loop {
                let fiber = self.next_fiber();
                if let Some(fiber) = fiber {
                    self.tell_of_tasks();
                    self.resume(fiber);
                }
                if !self.poll_task() && fiber.is_none() {
                    break;
                }
            }
            if self.credit.get() > 0 && self.is_busy() {
                continue;
            }
            self.credit.set(CREDIT);
            if self.unwinding.take_over() {
                self.for_each_fiber(|fiber, header| {
                    if header.requests.attention.get() {
                        self.wake(fiber);
                    }
                });
            }
            self.publish();
            if self.post.board.asked.load(Relaxed) {
                self.answer();
            }
            if self.shared.is_stopping() && self.stop_round() {
                return;
            }
            if self.shared.home.is_some() && self.is_spent() {
                return;
            }
            if self.is_busy() {
                if self.searching.get() {
                    self.stop_searching();
                }
                self.poll(Wait::No);
            } else {
                self.idle();
            }
        }
    }

    fn is_busy(&self) -> bool {
        !self.ready().is_empty() || self.has_fresh() || self.has_tasks()
    }

    #[inline]
    pub(crate) fn spend(&self, cost: i32) {
        self.credit.set(self.credit.get() - cost);
    }

    /// Nothing to run here: search, then sleep.
    fn idle(&self) {
        let shared = &*self.shared;
        if shared.posts.len() == 1 {
            self.sleep(self.settle(self.patience()));
            return;
        }
        if !self.searching.get() && self.linger() {
            return;
        }
        let counted = self.counted.get();
        if self.searching.get() || shared.idle.start_search(shared.posts.len()) {
            self.searching.set(true);
            if let Some(fiber) = self.steal() {
                self.stop_searching();
                self.enqueue(fiber);
                return;
            }
            if self.steal_tasks() {
                self.stop_searching();
                return;
            }
        }
        if counted && !self.counted.get() {
            // It was about to take something that another one took. It has to count again before it sleeps.
            return;
        }
        shared.idle.enter(self.index, self.searching.replace(false));
        // The second look, after which it is safe to sleep.
        let wait = match (shared.any_fresh(), self.patience()) {
            _ if shared.tasks.any() => Wait::No,
            (false, patience) => patience,
            (true, Wait::Forever) if self.respite.get() != 0 => {
                Wait::AtMost(Duration::from_nanos(fresh::RESPITE))
            }
            (true, Wait::AtMost(patience)) if self.respite.get() != 0 => {
                Wait::AtMost(patience.min(Duration::from_nanos(fresh::RESPITE)))
            }
            (true, _) => Wait::No,
        };
        self.sleep(self.settle(wait));
        self.searching.set(shared.idle.leave(self.index) == Left::AsSearcher);
    }

    /// Found work. The last searcher to do so passes the search on.
    pub(crate) fn stop_searching(&self) {
        self.searching.set(false);
        if self.shared.idle.found()
            && let Some(other) = self.shared.idle.notify()
        {
            self.shared.posts[other].wake();
        }
    }

    /// How long the worker may sleep.
    fn patience(&self) -> Wait {
        match self.wheel().next() {
            None => Wait::Forever,
            Some(at) => Wait::AtMost(Duration::from_nanos(at.saturating_sub(self.driver().now()))),
        }
    }

    fn sleep(&self, wait: Wait) {
        let asleep = &self.post.board.asleep;
        asleep.store(true, Relaxed);
        self.poll(wait);
        asleep.store(false, Relaxed);
    }

    fn poll(&self, wait: Wait) {
        self.post.board.polls.add(1);
        let mut done = Done::new();
        if let Err(error) = self.driver().poll(wait, &mut done) {
            // Nothing on this worker could ever complete again: there is no way to go on.
            eprintln!("bast: the {} driver of a worker failed: {error}", self.driver().name());
            std::process::abort();
        }
        while let Some(record) = done.pop() {
            // SAFETY: io 2: completed, and its owner is parked until it is woken here.
            let (tag, outcome) = unsafe { (record.as_ref().tag(), record.as_ref().outcome()) };
            if let Some(flight) = flight::of_tag(tag) {
                self.land(flight, outcome);
            } else if let Some(fiber) = NonNull::new(tag.cast::<Header>()) {
                // SAFETY: the fiber waits in `perform`, so it is alive.
                unsafe { fiber.as_ref() }.blocked_on.set(None);
                self.wake(fiber);
            }
        }
        // After that sleep, and before any fiber runs: whoever wakes finds each timeout over that is.
        self.expire_timers();
        self.wake_landed();
    }

    #[inline]
    fn drain_inbox(&self) {
        if self.post.inbox.is_empty() {
            return;
        }
        self.stir();
        let mut wakes = 0;
        for fiber in self.post.inbox.drain() {
            wakes += 1;
            // SAFETY: the post holds a reference, given up below.
            let bits = unsafe { fiber.as_ref() }.remote.take();
            self.apply(fiber, bits);
            // SAFETY: the post's reference.
            unsafe { fiber::release(fiber) };
        }
        self.post.board.remote_wakes.add(wakes);
    }

    fn expire_timers(&self) {
        let now = self.driver().now();
        self.coarse.set((now >> COARSE) as u32);
        if self.wheel().is_empty() {
            return;
        }
        let mut fired = 0;
        self.wheel().expire(now, |timer| {
            fired += 1;
            // SAFETY: a linked timer is on the stack of the fiber that it wakes, or in its flight.
            let (owner, interrupts) = unsafe { (timer.as_ref().owner, timer.as_ref().interrupts) };
            if let Some(flight) = flight::of_tag(owner) {
                self.land(flight, Outcome(0));
            } else if let Some(fiber) = NonNull::new(owner.cast::<Header>().cast_mut()) {
                if interrupts {
                    // SAFETY: as above.
                    unsafe { fiber.as_ref() }.requests.attention.set(true);
                }
                self.wake(fiber);
            }
        });
        self.post.board.timers.add(fired);
    }

    #[inline(always)]
    fn next_fiber(&self) -> Option<NonNull<Header>> {
        let credit = self.credit.get();
        self.credit.set(credit - 1);
        if credit > 0
            && let Some(fiber) = self.next_ready()
        {
            return Some(fiber);
        }
        if credit > -STARTS {
            return self.take_fresh();
        }
        None
    }

    #[inline(always)]
    fn next_ready(&self) -> Option<NonNull<Header>> {
        let ready = self.ready();
        if let Some(ahead) = ready.peek(AHEAD) {
            prefetch(ahead.as_ptr());
            if let Some(soon) = ready.peek(AHEAD / 2) {
                // SAFETY: a queued fiber is alive, and its context is ours.
                if unsafe { soon.as_ref() }.started.get() {
                    // SAFETY: as above; started.
                    let context = unsafe { (*soon.as_ref().context.get()).assume_init_ref() };
                    let frames = context.stack_pointer_hint();
                    for line in 0..FRAME_LINES {
                        prefetch(frames.wrapping_add(64 * line));
                    }
                }
            }
        }
        ready.pop()
    }

    /// Runs a fiber until it parks, yields or ends.
    #[inline(always)]
    fn resume(&self, fiber: NonNull<Header>) {
        // SAFETY: the runtime's reference is given up in `finish`, after the last use.
        let header = unsafe { fiber.as_ref() };
        if !header.started.get() && !self.start(fiber) {
            return;
        }
        // First: a sample that sees it go up does not walk the stack (module `inspect::sample`).
        self.post.board.resumes.add(1);
        header.state.set(State::Running);
        self.current.set(fiber.as_ptr());
        // SAFETY: coro 2: started on this thread; nobody else touches the context meanwhile.
        let ended = unsafe { (*header.context.get()).assume_init_ref() }.resume();
        self.current.set(ptr::null());
        // For a signal's handler: from here on the record may go.
        compiler_fence(SeqCst);
        if ended {
            self.end(fiber);
        }
    }

    // ---- what fibers call -----------------------------------------------------------------------

    /// Applies signals to a fiber of this worker.
    #[inline]
    pub(crate) fn apply(&self, fiber: NonNull<Header>, bits: u8) {
        // SAFETY: the caller has a reference.
        let header = unsafe { fiber.as_ref() };
        self.note(header, bits);
        match header.state.get() {
            // Sent here by its creator (`Builder::worker`).
            State::New => self.enqueue(fiber),
            _ => self.wake(fiber),
        }
    }

    fn note(&self, header: &Header, bits: u8) {
        if bits & remote::UNPARK != 0 {
            header.token.set(true);
        }
        if bits & remote::POLL != 0 {
            header.notified.set(true);
        }
        if bits & remote::CANCEL != 0 {
            header.requests.cancel.set(true);
        }
        if bits & (remote::CANCEL | remote::LOOK) != 0 {
            header.requests.attention.set(true);
        }
    }

    /// Makes a parked fiber ready. Anything else needs nothing: a fiber that is ready will look at
    /// its condition when it runs, and one that runs is on this very thread.
    #[inline(always)]
    pub(crate) fn wake(&self, fiber: NonNull<Header>) {
        // SAFETY: the caller knows the fiber to be alive.
        if unsafe { fiber.as_ref() }.state.get() == State::Parked {
            self.enqueue(fiber);
        }
    }

    /// Puts a fiber at the end of the ready queue.
    #[inline(always)]
    pub(crate) fn enqueue(&self, fiber: NonNull<Header>) {
        // SAFETY: the caller knows the fiber to be alive.
        unsafe { fiber.as_ref() }.state.set(State::Ready);
        self.ready().push(fiber);
    }

    /// Parks the current fiber until somebody wakes it. It may return without reason: the caller
    /// looks at its condition and parks again.
    #[inline(always)]
    pub(crate) fn park(&self, header: &Header) {
        header.state.set(State::Parked);
        header.since.set(self.coarse.get());
        self.switch_out(header);
    }

    /// Goes to the end of the ready queue.
    #[inline(always)]
    pub(crate) fn yield_now(&self, header: &Header) {
        self.enqueue(NonNull::from(header));
        self.switch_out(header);
    }

    #[inline(always)]
    fn switch_out(&self, header: &Header) {
        if hook::any() {
            hook::around(&hook::Change { worker: self, header, switch: Some(Worker::switch) });
        } else {
            self.switch(header);
        }
    }

    #[inline(always)]
    fn switch(&self, header: &Header) {
        if self.is_unwinding(header) {
            self.switch_unwinding(header);
        } else {
            // SAFETY: set before any code of the fiber ran; it lives on the fiber's stack.
            unsafe { &*header.suspender.get() }.suspend();
        }
    }

    /// The neighbours are not to notice that this fiber unwinds.
    #[cold]
    fn switch_unwinding(&self, header: &Header) {
        let panics = self.unwinding.suspend(header);
        // SAFETY: as in `switch`.
        unsafe { &*header.suspender.get() }.suspend();
        self.unwinding.resume(header, panics);
    }

    /// An operation has completed without a wait: after many of these others get a turn (rt 4).
    #[inline]
    pub(crate) fn spend_inline(&self, header: &Header) {
        self.spend(INLINE);
        if self.credit.get() <= 0 {
            self.give_way(header);
        }
    }

    /// The same for what takes no system call.
    #[inline]
    pub(crate) fn spend_one(&self, header: &Header) {
        self.spend(1);
        if self.credit.get() <= 0 {
            self.give_way(header);
        }
    }

    /// Nobody has asked for this suspension, so that a hook may well come here.
    #[cold]
    fn give_way(&self, header: &Header) {
        if self.hook.get().is_none() {
            self.yield_now(header);
        }
    }

    /// Starts an operation.
    ///
    /// # Safety
    /// As [`Driver::submit`].
    #[inline]
    pub(crate) unsafe fn submit(&self, record: NonNull<Record>) -> Option<Outcome> {
        let board = &self.post.board;
        board.submitted.add(1);
        // SAFETY: the caller's promise.
        let outcome = unsafe { self.driver().submit(record) };
        if outcome.is_some() {
            board.inline.add(1);
        }
        outcome
    }

    /// Arms a timer.
    ///
    /// # Safety
    /// As [`Wheel::insert`].
    pub(crate) unsafe fn arm(&self, timer: NonNull<Timer>) {
        // SAFETY: the caller's promise.
        unsafe { self.wheel().insert(timer) };
    }
}
