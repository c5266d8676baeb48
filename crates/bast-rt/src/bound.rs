//! Bound fibers: an OS thread of one's own, for libraries that need a fixed thread.
//!
//! ```text
//!   runtime ─ Shared ◀───────────── home ─────────────┐
//!     │  workers 0 … n                                │
//!     └─ bound ─▶ [ Shared with one worker, one fiber ┴ on a thread of its own, … ]
//!
//!   Builder::bound().spawn:  thread ─▶ driver ─▶ "begun" ─▶ the fiber is posted ─▶ runs ─▶ the thread ends
//! ```
//!
//! **A worker, not a thread that blocks.** A bound fiber could be a plain thread, as all of bast works from
//! those. But nobody can cancel a plain thread, its reads know no timeout around them, it has no place in a
//! dump, and each call would need to ask which of the two it is in. So it is a fiber like all others, on a
//! worker that has the thread, a driver (io 4), timers and an inbox for itself. That costs a ring or an epoll
//! descriptor and some 100 µs, as much as starting a thread does. In return nothing in this crate but its
//! birth, its end and what people see of it knows that there are such fibers, and all that is argued about
//! workers holds: it stays on its thread (rt 1), and what it waits for wakes it through its inbox (rt 2).
//!
//! **A runtime of its own, as the scheduler sees it.** The worker has a `Shared` with itself alone in it, so
//! nobody steals from it and it steals from nobody; `home` leads to the runtime that it belongs to, where
//! what it spawns is placed. Fibers that it starts with `spawn_local` live on its thread; the thread ends
//! when the last of them has.
//!
//! **The end of the runtime** (rt 6). Who stops it marks it as stopping and then marks those on the list, under
//! the list's lock; who enters the list looks at the mark under the same lock. So each bound worker is told,
//! by one or the other. The workers go on until the list is empty (`count`, Acquire; Release by the one who
//! leaves): a bound fiber that unwinds may still send them a fiber and wait for it.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire};
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bast_io::{Config, DriverKind};

use crate::cancel;
use crate::inspect;
use crate::runtime;
use crate::shared::{Queues, Shared};
use crate::wait::{self, Reason};

/// The stack of a bound fiber unless told otherwise: a thread's, as foreign code expects one.
pub(crate) const STACK: usize = 2 << 20;

/// One fiber does not need many.
const ENTRIES: u32 = 32;

/// The bound threads of a runtime.
#[derive(Default)]
pub(crate) struct Bound {
    list: Mutex<Vec<Arc<Shared>>>,
    count: AtomicUsize,
    names: AtomicUsize,
    /// What those that have ended had counted.
    spawned: AtomicU64,
    ended: AtomicU64,
}

impl Bound {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no bound thread is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Acquire) == 0
    }

    pub(crate) fn list(&self) -> Vec<Arc<Shared>> {
        self.lock().clone()
    }

    /// Fibers that were spawned on threads that have ended, and that ended there.
    pub(crate) fn past(&self) -> (u64, u64) {
        (self.spawned.load(Relaxed), self.ended.load(Relaxed))
    }

    /// Tells all to end. The runtime has been marked as stopping.
    pub(crate) fn stop(&self) {
        for bound in &*self.lock() {
            bound.stop();
        }
    }
}

/// A bound thread's place on the list of its runtime, from before it is started until it has ended.
struct Entry {
    bound: Arc<Shared>,
    home: Arc<Shared>,
}

impl Entry {
    fn new(bound: &Arc<Shared>, home: &Arc<Shared>) -> Entry {
        let mut list = home.bound.lock();
        list.push(Arc::clone(bound));
        home.bound.count.fetch_add(1, Relaxed);
        bound.stopping.store(home.is_stopping(), Release);
        drop(list);
        Entry { bound: Arc::clone(bound), home: Arc::clone(home) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let (home, board) = (&self.home, &self.bound.posts[0].board);
        let mut list = home.bound.lock();
        list.retain(|other| !Arc::ptr_eq(other, &self.bound));
        home.bound.spawned.fetch_add(board.spawned.get(), Relaxed);
        home.bound.ended.fetch_add(board.ended.get(), Relaxed);
        drop(list);
        home.bound.count.fetch_sub(1, AcqRel);
        if home.is_stopping() {
            home.wake_all();
        }
    }
}

/// A thread that waits for its fiber. Without one it ends when this is dropped.
pub(crate) struct Berth {
    bound: Arc<Shared>,
    taken: bool,
}

impl Berth {
    pub(crate) fn post(&self) -> &'static crate::post::Post {
        self.bound.posts[0]
    }

    /// The fiber has been posted.
    pub(crate) fn taken(mut self) {
        self.taken = true;
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        if !self.taken {
            self.bound.stop();
        }
    }
}

/// Starts a thread with a worker for one fiber. The caller waits until it has a driver.
///
/// # Errors
/// No thread or no driver is to be had.
pub(crate) fn open(home: &Arc<Shared>, name: Option<&str>) -> io::Result<Berth> {
    static STARTS: Reason<'_> = Reason::plain("Builder::spawn");
    if home.recipe.driver == DriverKind::Sim {
        let message = "the simulator runs on one thread: a bound fiber cannot have another";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let queues = Queues::new();
    let bound = Arc::new(Shared::bound_to(home, &queues));
    let entry = Entry::new(&bound, home);
    inspect::register(&bound);
    let config = Config {
        kind: home.recipe.driver,
        pool: Arc::clone(&home.pool),
        entries: ENTRIES,
        seed: 0,
    };
    let (answer, caller) = (Arc::new(Mutex::new(None)), wait::me());
    let begun = Arc::clone(&answer);
    let body = move || {
        let stacks = entry.home.recipe.stacks.clone();
        runtime::work(&entry.bound, 0, queues, &config, stacks, |made| {
            *begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.map(drop));
            caller.wake();
        });
        drop(entry);
    };
    let number = home.bound.names.fetch_add(1, Relaxed);
    // A thread's name has no zero in it.
    let name = name.filter(|name| !name.contains('\0'));
    let name = name.map_or_else(|| format!("bast-bound-{number}"), str::to_owned);
    thread::Builder::new().name(name).spawn(body).map_err(|error| {
        let message = format!(
            "no thread can be started for a bound fiber: {error}; look at the limits of processes \
             (ulimit -u, pids.max) and of memory"
        );
        io::Error::new(error.kind(), message)
    })?;
    let answer = || answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Masked: it takes as long as starting a thread does.
    let made = cancel::mask(|| {
        wait::wait(&STARTS, None, |wait| {
            loop {
                if let Some(made) = answer() {
                    return made;
                }
                let _ = wait.park();
            }
        })
    });
    made.map(|()| Berth { bound, taken: false })
}
