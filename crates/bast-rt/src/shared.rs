//! What the workers of one runtime share: where they are reached, and the fibers that have not run.
//!
//! A fiber that has not run lies either in its creator's deque (`fresh`, pushed by the owner, stolen by
//! anyone) or in a worker's mail (pushed by anyone, taken by anyone). Any worker may start it, so a
//! worker that is busy for long strands nothing.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use bast_coro::{PoolConfig, StackError};
use bast_io::{DriverKind, Pool};
use crossbeam_deque::{self as deque, Injector, Steal, Stealer};

use crate::bound::Bound;
use crate::ending::Ending;
use crate::fiber::{self, Header};
use crate::flight;
use crate::idle::Idle;
use crate::post::Post;
use crate::task::{Runnable, Tasks};
use crate::worker::Worker;

/// A fiber that has not run.
pub(crate) struct Fresh(pub(crate) NonNull<Header>);

// SAFETY: only fibers whose closure is Send are made `Fresh` (`spawn`), and a fiber that has not run
// belongs to whoever takes it from its queue.
unsafe impl Send for Fresh {}

/// What others know of a worker's load.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Load {
    /// Started fibers. Written by the worker.
    pub(crate) live: AtomicUsize,
    /// New fibers in the worker's mail.
    pub(crate) mailed: AtomicUsize,
}

/// A worker's queues that others take from.
pub(crate) struct Queues {
    pub(crate) fresh: deque::Worker<Fresh>,
    pub(crate) tasks: deque::Worker<Runnable>,
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues { fresh: deque::Worker::new_fifo(), tasks: deque::Worker::new_fifo() }
    }
}

/// What a worker is made of, to make another.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) driver: DriverKind,
    pub(crate) stacks: PoolConfig,
}

/// A runtime, as its workers see it.
pub(crate) struct Shared {
    /// Its number in this process, for people.
    pub(crate) number: u64,
    pub(crate) pool: Arc<Pool>,
    pub(crate) recipe: Recipe,
    /// The runtime to which this bound thread belongs, if it is one (module `bound`).
    pub(crate) home: Option<Arc<Shared>>,
    /// The bound threads that belong to this runtime.
    pub(crate) bound: Bound,
    pub(crate) posts: Vec<&'static Post>,
    pub(crate) loads: Vec<Load>,
    pub(crate) stealers: Vec<Stealer<Fresh>>,
    mail: Vec<Injector<Fresh>>,
    pub(crate) tasks: Tasks,
    pub(crate) idle: Idle,
    pub(crate) stopping: AtomicBool,
    pub(crate) ending: Ending,
    /// Where placement from outside begins to look; how many have been placed so.
    turn: AtomicUsize,
    /// Set while stacks cannot be had: why, for `Builder::spawn`.
    exhausted: AtomicBool,
    why: Mutex<String>,
}

impl Shared {
    pub(crate) fn new(queues: &[Queues], pool: Arc<Pool>, recipe: Recipe) -> Shared {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Shared::with_number(NUMBER.fetch_add(1, Relaxed), queues, pool, recipe)
    }

    /// For a bound thread.
    pub(crate) fn bound_to(home: &Arc<Shared>, queues: &Queues) -> Shared {
        let (pool, recipe) = (Arc::clone(&home.pool), home.recipe.clone());
        let mut shared = Shared::with_number(home.number, slice::from_ref(queues), pool, recipe);
        shared.home = Some(Arc::clone(home));
        // Not the figures of who had it before.
        shared.posts[0].board.open(0);
        shared.posts[0].board.close();
        shared
    }

    fn with_number(number: u64, queues: &[Queues], pool: Arc<Pool>, recipe: Recipe) -> Shared {
        let workers = queues.len();
        Shared {
            number,
            pool,
            recipe,
            home: None,
            bound: Bound::default(),
            posts: (0..workers).map(|_| Post::claim()).collect(),
            loads: (0..workers).map(|_| Load::default()).collect(),
            stealers: queues.iter().map(|queues| queues.fresh.stealer()).collect(),
            tasks: Tasks::new(queues.iter().map(|queues| queues.tasks.stealer()).collect()),
            mail: (0..workers).map(|_| Injector::new()).collect(),
            idle: Idle::new(),
            stopping: AtomicBool::new(false),
            ending: Ending::new(),
            turn: AtomicUsize::new(0),
            exhausted: AtomicBool::new(false),
            why: Mutex::new(String::new()),
        }
    }

    /// The runtime: itself, or the one that a bound thread belongs to.
    pub(crate) fn runtime(self: &Arc<Shared>) -> &Arc<Shared> {
        self.home.as_ref().unwrap_or(self)
    }

    /// Tells all workers to cancel what there is, and to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Release);
        self.wake_all();
        self.bound.stop();
    }

    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Acquire)
    }

    /// Queues a new fiber where it should run.
    ///
    /// A fiber stays on the worker that starts it, so this is where load is spread: the creator keeps
    /// the fiber (it is cheap there, and any idle worker can still take it) unless it has clearly more
    /// fibers than the least loaded worker. Connections that are accepted one by one by one fiber
    /// come to lie on all workers that way, however quickly their acceptor starts them.
    pub(crate) fn place(&self, fiber: NonNull<Header>, creator: Option<&Worker>) {
        match creator {
            Some(worker) => {
                if self.posts.len() == 1 {
                    // Nobody could take it: spare it the concurrent queue.
                    // SAFETY: just made.
                    fiber::settle_unshared(unsafe { fiber.as_ref() }, worker.post);
                    return worker.enqueue(fiber);
                } else {
                    let (other, load) = self.least_loaded(worker.index + 1);
                    if worker.load() > load + load / 8 + 2 {
                        return self.post_fresh(fiber, other);
                    }
                }
                worker.push_fresh(fiber);
            }
            None => {
                let (target, _) = self.least_loaded(self.turn.fetch_add(1, Relaxed));
                self.post_fresh(fiber, target);
            }
        }
    }

    fn least_loaded(&self, first: usize) -> (usize, usize) {
        let count = self.posts.len();
        // A few suffice: the best of a small sample is nearly as good as the best of all.
        (first..first + count.min(4))
            .map(|at| at % count)
            .map(|at| (at, self.load_of(at)))
            .min_by_key(|&(_, load)| load)
            .expect("a runtime has workers")
    }

    /// A worker's started fibers, and those in its mail.
    pub(crate) fn load_of(&self, worker: usize) -> usize {
        let load = &self.loads[worker];
        load.live.load(Relaxed) + load.mailed.load(Relaxed)
    }

    /// Some worker's post, another one each time.
    pub(crate) fn any_post(&self) -> &'static Post {
        self.posts[self.tasks.turn() % self.posts.len()]
    }

    /// Notes a fiber spawned from outside that is not [`place`](Shared::place)d.
    pub(crate) fn count_outside(&self) {
        self.turn.fetch_add(1, Relaxed);
    }

    /// Fibers that were spawned by no worker of this runtime.
    pub(crate) fn spawned_outside(&self) -> u64 {
        self.turn.load(Relaxed) as u64
    }

    /// Fibers that have been started, on all workers.
    pub(crate) fn live(&self) -> usize {
        self.loads.iter().map(|load| load.live.load(Relaxed)).sum()
    }

    /// How many fibers that have not run lie at a worker.
    pub(crate) fn fresh_of(&self, worker: usize) -> usize {
        self.stealers[worker].len() + self.mail[worker].len()
    }

    fn post_fresh(&self, fiber: NonNull<Header>, target: usize) {
        self.loads[target].mailed.fetch_add(1, Relaxed);
        self.mail[target].push(Fresh(fiber));
        // If the target is busy with something long, somebody idle should take it. Ask before the target
        // is woken: if it is chosen itself, it must be woken after that, or it sleeps as a searcher.
        let other = if self.posts.len() > 1 { self.idle.notify() } else { None };
        self.posts[target].wake();
        if let Some(other) = other
            && other != target
        {
            self.posts[other].wake();
        }
    }

    /// A new fiber from a worker's mail.
    #[inline]
    pub(crate) fn take_mail(&self, worker: usize) -> Option<NonNull<Header>> {
        if self.loads[worker].mailed.load(Relaxed) == 0 {
            return None;
        }
        loop {
            match self.mail[worker].steal() {
                Steal::Success(Fresh(fiber)) => {
                    self.loads[worker].mailed.fetch_sub(1, Relaxed);
                    return Some(fiber);
                }
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    /// Whether any worker has a fiber that has not run.
    pub(crate) fn any_fresh(&self) -> bool {
        (0..self.posts.len()).any(|worker| self.has_fresh(worker))
    }

    /// Whether there is anything that any worker may take.
    pub(crate) fn any_work(&self) -> bool {
        self.any_fresh() || self.tasks.any()
    }

    /// Whether no bound thread is left, and nothing lies in any queue. In this order: what that thread has sent is seen.
    pub(crate) fn is_swept(&self) -> bool {
        self.bound.is_empty() && !self.any_work() && self.posts.iter().all(|post| post.is_swept())
    }

    /// Whether this worker has.
    pub(crate) fn has_fresh(&self, worker: usize) -> bool {
        !self.stealers[worker].is_empty() || !self.mail[worker].is_empty()
    }

    /// A worker got no stack for a fiber.
    #[cold]
    pub(crate) fn no_stack(&self, error: &StackError) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
        if !self.exhausted.swap(true, Relaxed) {
            eprintln!("bast: a fiber could not be started: {error}");
        }
    }

    /// A stack was had again.
    #[inline]
    pub(crate) fn stack_back(&self) {
        if self.exhausted.load(Relaxed) {
            self.exhausted.store(false, Relaxed);
        }
    }

    /// Why no fiber can be started at present.
    pub(crate) fn exhausted(&self) -> Option<String> {
        self.exhausted
            .load(Relaxed)
            .then(|| self.why.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(crate) fn wake_all(&self) {
        for post in &self.posts {
            post.wake();
        }
    }
}

impl Drop for Shared {
    /// All worker threads have ended. What was posted or queued too late for them is let go.
    fn drop(&mut self) {
        for worker in 0..self.posts.len() {
            while let Some(fiber) = self.take_mail(worker) {
                // SAFETY: taken from its queue.
                unsafe { fiber::discard(fiber) };
            }
            loop {
                match self.stealers[worker].steal() {
                    // SAFETY: as above.
                    Steal::Success(Fresh(fiber)) => unsafe { fiber::discard(fiber) },
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        }
        self.tasks.let_go();
        for post in &self.posts {
            for fiber in post.inbox.drain() {
                // SAFETY: the post's reference; the worker is gone, so this thread stands for it.
                unsafe { fiber::discard_posted(fiber) };
            }
            for flight in post.flights.drain() {
                // SAFETY: the post's reference.
                drop(unsafe { flight::claim(flight) });
            }
            post.retire();
        }
    }
}
