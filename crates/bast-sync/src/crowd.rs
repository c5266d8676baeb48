//! Waiters that are let go all at once: `Condvar`, `Barrier`, `Once`, `Notify`, `WaitGroup`.
//!
//! ```text
//!   numbers   4   5   6   7 │ 8 ─▶ next     release lets go of all below what `next` is when it begins
//! ```
//!
//! Waiters are numbered. Waking many takes several turns of the lock, so that it is not held for long; who comes
//! in between has a higher number and stays, and two who wake each other do not go on for ever.

use bast_rt::Instant;
use bast_rt::wait::Reason;

use crate::list::{End, List, grant_all, wait_in_with};
use crate::lock::{Guard, Lock};
use crate::shim::Wake;

/// Waiters, as a part of the state under a lock.
pub(crate) struct Crowd {
    list: List,
    next: u64,
}

impl Crowd {
    pub(crate) const fn new() -> Crowd {
        Crowd { list: List::new(), next: 0 }
    }

    /// Lets go of the first. The `Wake` is dropped after unlocking.
    pub(crate) fn release_one(&mut self) -> Option<Wake> {
        self.list.grant(|_| {})
    }

    /// As `list::wait_in`; `then` is done when the waiter is in the list and the lock has been let go.
    pub(crate) fn wait<S>(
        lock: &Lock<S>,
        mut guard: Guard<'_, S>,
        pick: impl Fn(&mut S) -> &mut Crowd,
        then: impl FnOnce(),
        reason: &Reason<'_>,
        deadline: Option<Instant>,
    ) -> End {
        let crowd = pick(&mut guard);
        let mut number = crowd.next;
        crowd.next += 1;
        let slot = (&raw mut number).cast();
        wait_in_with(
            lock,
            guard,
            |state| &mut pick(state).list,
            slot,
            (then, |_: &mut S| ()),
            reason,
            deadline,
        )
    }

    /// Lets go of everybody who waits now.
    pub(crate) fn release<S>(lock: &Lock<S>, pick: impl Fn(&mut S) -> &mut Crowd) {
        let next = {
            let mut guard = lock.lock();
            let crowd = pick(&mut guard);
            if crowd.list.is_empty() {
                return;
            }
            crowd.now()
        };
        Crowd::release_until(lock, pick, next);
    }

    /// Divides those who wait now from those who come later, for [`release_until`](Crowd::release_until).
    pub(crate) fn now(&self) -> u64 {
        self.next
    }

    /// Lets go of everybody who waited when `now` said `next`.
    pub(crate) fn release_until<S>(lock: &Lock<S>, pick: impl Fn(&mut S) -> &mut Crowd, next: u64) {
        // SAFETY: the slots of this list are numbers that stay as long as their nodes (`wait`).
        let is_due = |slot: *mut ()| unsafe { *slot.cast::<u64>() } < next;
        grant_all(lock, |state| &mut pick(state).list, is_due);
    }
}
