//! The tasks that were spawned on one worker, wherever they are polled now: to end them with the runtime, and to
//! show them.
//!
//! An entry is there from before the task is first scheduled until its future is gone, and has a waker of
//! it, that is, a reference. So a task whose wakers have all been dropped stays, pending, until it is
//! cancelled or its runtime ends. Posts are never freed, so the registry is there for whoever comes late.

use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crossbeam_deque::{Injector, Steal};
use slab::Slab;

use super::Runnable;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Registry {
    list: Mutex<Slab<Entry>>,
    /// Its length.
    live: AtomicUsize,
    /// Local tasks of this worker that were woken elsewhere. Taken by the worker only.
    mail: Injector<Runnable>,
}

struct Entry {
    waker: Waker,
    #[allow(dead_code)]
    site: &'static Location<'static>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Slab<Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, task: &Runnable, site: &'static Location<'static>) {
        let waker = task.waker();
        let mut list = self.lock();
        // Relaxed: the key goes wherever the task goes.
        task.metadata().key.store(list.insert(Entry { waker, site }), Relaxed);
        self.live.store(list.len(), Release);
    }

    /// The future is gone; true if it was the last one.
    pub(super) fn leave(&self, key: usize) -> bool {
        let mut list = self.lock();
        let entry = list.try_remove(key);
        let last = list.is_empty();
        self.live.store(list.len(), Release);
        drop(list);
        drop(entry);
        last
    }

    /// How many there are.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Acquire)
    }

    /// Whether there is none. Acquire: what the last one did is seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.live() == 0
    }

    /// Has a task polled. If it has ended meanwhile, and another one has its key, that one is woken for nothing.
    pub(super) fn wake(&self, key: usize) {
        let waker = self.lock().get(key).map(|entry| entry.waker.clone());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Has all of them polled.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = self.lock().iter().map(|(_, entry)| entry.waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Posts a local task; the caller wakes the worker.
    pub(super) fn post(&self, task: Runnable) {
        self.mail.push(task);
    }

    pub(crate) fn has_mail(&self) -> bool {
        !self.mail.is_empty()
    }

    /// Takes what has been posted so far. Only the worker calls this.
    pub(super) fn mail(&self) -> impl Iterator<Item = Runnable> {
        let mut left = self.mail.len();
        std::iter::from_fn(move || {
            while left > 0 {
                match self.mail.steal() {
                    Steal::Success(task) => {
                        left -= 1;
                        return Some(task);
                    }
                    Steal::Empty => left = 0,
                    Steal::Retry => {}
                }
            }
            None
        })
    }
}
