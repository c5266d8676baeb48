//! Where tasks wait for their turn, and how a worker takes them.
//!
//! ```text
//!   woken on a worker ──▶ its deque, from which the others steal      local task, or the only worker: `own`
//!   woken elsewhere ────▶ the runtime's injector ──batch──▶ a deque   local task: mail ──▶ `own`
//! ```
//!
//! A worker runs a fiber and a task in turns, under one credit (rt 4); so a task that wakes itself goes behind
//! all that is ready, and lets fibers, I/O and timers go on. The injector and the mail are looked at in each round.
//!
//! **No worker sleeps while a task is left** (rt 3), by the rule of module `idle`: a task that any worker may
//! take is first put where all can see it, then `notify` is called. Each worker's second look covers all
//! deques and the injector. A batch is for a moment in neither of two queues, where a second look
//! would miss it; so whoever moves one says so again, by `notify` or as a searcher that has found something.
//! What only one worker may take is its own, or in its mail, and whoever puts it there wakes that worker.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::Release};

use crossbeam_deque::{self as deque, Injector, Steal, Stealer};

use super::{Meta, Runnable};
use crate::shared::Shared;
use crate::worker::Worker;

/// The tasks of a runtime that any worker may take.
pub(crate) struct Tasks {
    injector: Injector<Runnable>,
    stealers: Vec<Stealer<Runnable>>,
    turn: AtomicUsize,
}

impl Tasks {
    pub(crate) fn new(stealers: Vec<Stealer<Runnable>>) -> Tasks {
        Tasks { injector: Injector::new(), stealers, turn: AtomicUsize::new(0) }
    }

    pub(crate) fn any(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    pub(crate) fn turn(&self) -> usize {
        self.turn.fetch_add(1, Relaxed)
    }

    /// The runtime has ended: what came too late for it is cancelled here.
    pub(crate) fn let_go(&self) {
        let queues = std::iter::once(None).chain(self.stealers.iter().map(Some));
        for queue in queues {
            loop {
                match queue.map_or_else(|| self.injector.steal(), Stealer::steal) {
                    Steal::Success(task) => cancel(task),
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        }
    }
}

fn cancel(task: Runnable) {
    task.metadata().cancelled.store(true, Release);
    task.run();
}

/// A worker's own tasks. Used by its own thread only.
pub(crate) struct LocalTasks {
    deque: deque::Worker<Runnable>,
    /// Nobody else may have these.
    own: UnsafeCell<VecDeque<Runnable>>,
    /// Whether to look into the two: false if they are empty.
    any: Cell<bool>,
    /// Which of the two is next.
    turn: Cell<bool>,
    /// The task that is polled.
    polled: Cell<*const ()>,
}

impl LocalTasks {
    pub(crate) fn new(deque: deque::Worker<Runnable>) -> LocalTasks {
        LocalTasks {
            deque,
            own: UnsafeCell::new(VecDeque::new()),
            any: Cell::new(false),
            turn: Cell::new(false),
            polled: Cell::new(ptr::null()),
        }
    }

    #[allow(clippy::mut_from_ref)]
    fn own(&self) -> &mut VecDeque<Runnable> {
        // SAFETY: used by one thread, and no caller keeps it across a call of anything but its own methods.
        unsafe { &mut *self.own.get() }
    }

    #[inline]
    pub(crate) fn is_polling(&self) -> bool {
        !self.polled.get().is_null()
    }

    /// The task that is polled now, as its wakers have it.
    #[inline]
    pub(super) fn polled(&self) -> *const () {
        self.polled.get()
    }

    #[inline]
    fn next(&self) -> Option<Runnable> {
        let turn = !self.turn.get();
        self.turn.set(turn);
        let task = if turn {
            self.own().pop_front().or_else(|| self.deque.pop())
        } else {
            self.deque.pop().or_else(|| self.own().pop_front())
        };
        self.any.set(task.is_some());
        task
    }
}

impl Worker {
    /// Queues a task that only this worker may poll.
    #[inline]
    pub(super) fn push_local(&self, task: Runnable) {
        self.tasks.any.set(true);
        self.tasks.own().push_back(task);
    }

    /// Queues a task that any worker may poll.
    #[inline]
    pub(super) fn push_task(&self, task: Runnable, _by_itself: bool) {
        if self.shared.posts.len() == 1 {
            // Nobody could take it: spare it the concurrent queue.
            return self.push_local(task);
        }
        self.tasks.any.set(true);
        self.tasks.deque.push(task);
        self.announce_task();
    }

    /// Has a sleeping worker look for tasks.
    fn announce_task(&self) {
        if let Some(other) = self.shared.idle.notify() {
            self.shared.posts[other].wake();
        }
    }

    /// Takes what has come from other threads.
    #[inline]
    pub(crate) fn fetch_tasks(&self) {
        if self.post.tasks.has_mail() {
            self.stir();
            self.post.tasks.mail().for_each(|task| self.push_local(task));
        }
        if !self.shared.tasks.injector.is_empty() {
            self.fetch_injected();
        }
    }

    #[cold]
    fn fetch_injected(&self) {
        self.stir();
        let injector = &self.shared.tasks.injector;
        let _ = injector.steal_batch(&self.tasks.deque);
        if !self.tasks.deque.is_empty() {
            self.tasks.any.set(true);
            self.announce_task();
        }
    }

    /// Takes tasks from the other workers; true if there are some.
    pub(crate) fn steal_tasks(&self) -> bool {
        let shared = &*self.shared;
        let count = shared.posts.len();
        for victim in (1..count).map(|step| (self.index + step) % count) {
            let stealer = &shared.tasks.stealers[victim];
            if stealer.is_empty() {
                continue;
            }
            self.stir();
            while stealer.steal_batch(&self.tasks.deque).is_retry() {}
            if !self.tasks.deque.is_empty() {
                self.post.board.steals.add(1);
                self.tasks.any.set(true);
                return true;
            }
        }
        !shared.tasks.injector.is_empty()
    }

    /// Whether there is a task that this worker could poll, other workers' aside.
    pub(crate) fn has_tasks(&self) -> bool {
        (self.tasks.any.get() && (!self.tasks.own().is_empty() || !self.tasks.deque.is_empty()))
            || self.post.tasks.has_mail()
            || !self.shared.tasks.injector.is_empty()
    }

    /// Polls a task, if there is one and the credit is not spent.
    #[inline(always)]
    pub(crate) fn poll_task(&self) -> bool {
        if !self.tasks.any.get() || self.credit.get() <= 0 {
            return false;
        }
        let Some(task) = self.tasks.next() else { return false };
        self.poll_this(task);
        true
    }

    fn poll_this(&self, task: Runnable) {
        self.spend(1);
        if self.searching.get() {
            // As in `run`.
            self.stop_searching();
        }
        if self.shared.is_stopping() {
            task.metadata().cancelled.store(true, Release);
        }
        let raw = task.into_raw();
        self.tasks.polled.set(raw.as_ptr());
        // SAFETY: it is from `into_raw`, just now.
        unsafe { from_raw(raw) }.run();
        self.tasks.polled.set(ptr::null());
    }
}

/// # Safety
/// `raw` is from `Runnable::into_raw`, and used once.
unsafe fn from_raw(raw: NonNull<()>) -> Runnable {
    // SAFETY: the caller's promise.
    unsafe { async_task::Runnable::<Meta>::from_raw(raw) }
}

/// Queues a task from a thread that is not its worker's.
#[cold]
pub(super) fn send(task: Runnable) {
    let (post, local) = (task.metadata().post, task.metadata().local);
    if local {
        // Its worker does not end before it has, and the post stays for ever.
        post.tasks.post(task);
        return post.wake();
    }
    match post.shared() {
        Some(shared) => inject(&shared, task),
        // Only what was spawned when the last worker had ended: there is nobody to poll it.
        None => cancel(task),
    }
}

fn inject(shared: &Shared, task: Runnable) {
    shared.tasks.injector.push(task);
    if let [only] = shared.posts[..] {
        only.wake();
    } else if let Some(other) = shared.idle.notify() {
        shared.posts[other].wake();
    }
}
