//! Fibers that have not run: any worker may take them, from whoever has them.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_deque as deque;

use super::Worker;
use crate::fiber::Header;
use crate::shared::Fresh;

/// How long (ns) a worker with clearly more fibers than another leaves that one's new fibers to it. A
/// fiber stays where it starts, so a thief that merely has nothing to run would gather them all.
pub(super) const RESPITE: u64 = 1_000_000;

impl Worker {
    /// Queues a new fiber here, where any worker may take it.
    pub(crate) fn push_fresh(&self, fiber: NonNull<Header>) {
        self.fresh.push(Fresh(fiber));
        if self.shared.posts.len() > 1
            && let Some(other) = self.shared.idle.notify()
        {
            self.shared.posts[other].wake();
        }
    }

    /// Started fibers and new ones that wait here.
    pub(crate) fn load(&self) -> usize {
        self.live.get() + self.fresh.len()
    }

    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty() || self.shared.loads[self.index].mailed.load(Relaxed) > 0
    }

    #[inline]
    pub(super) fn take_fresh(&self) -> Option<NonNull<Header>> {
        let mine = if self.fresh.is_empty() { None } else { self.fresh.pop() };
        let taken = mine.map(|Fresh(fiber)| fiber).or_else(|| {
            if self.shared.loads[self.index].mailed.load(Relaxed) == 0 {
                return None;
            }
            self.stir();
            self.shared.take_mail(self.index)
        });
        if taken.is_some() && self.searching.get() {
            // As in `run`.
            self.stop_searching();
        }
        taken
    }

    /// A new fiber from another worker.
    pub(super) fn steal(&self) -> Option<NonNull<Header>> {
        let shared = &*self.shared;
        let count = shared.posts.len();
        let since = self.respite.replace(0);
        let now = self.driver().now();
        (1..count).map(|step| (self.index + step) % count).find_map(|victim| {
            if !shared.has_fresh(victim) {
                return None;
            }
            let theirs = shared.load_of(victim);
            if self.live.get() > theirs + theirs / 8 + 2 && (since == 0 || now - since < RESPITE) {
                self.respite.set(if since == 0 { now } else { since });
                return None;
            }
            self.stir();
            let taken = shared.take_mail(victim).or_else(|| {
                loop {
                    match shared.stealers[victim].steal_batch_and_pop(&self.fresh) {
                        deque::Steal::Success(Fresh(fiber)) => return Some(fiber),
                        deque::Steal::Empty => return None,
                        deque::Steal::Retry => {}
                    }
                }
            });
            self.post.board.steals.add(taken.is_some().into());
            taken
        })
    }
}
