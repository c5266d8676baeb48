//! `Barrier`: so many meet, and go on together.
//!
//! **Policy**: the last to come is the leader and goes on at once; the others are released in the order in which they
//! came. Who is interrupted while it waits is counted off, and the barrier waits for another in its place.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use bast_rt::wait::{Reason, begin};

use crate::crowd::Crowd;
use crate::list::End;
use crate::lock::Lock;

/// Same as [`std::sync::Barrier`].
///
/// ```
/// use bast_sync::Barrier;
///
/// let barrier = Barrier::new(3);
/// let leaders = bast_rt::scope(|s| {
///     let meeting: Vec<_> = (0..3).map(|_| s.spawn(|| barrier.wait().is_leader())).collect();
///     meeting.into_iter().filter_map(|m| m.join().ok()).filter(|leads| *leads).count()
/// });
/// assert_eq!(leaders, 1);
/// ```
pub struct Barrier {
    state: Lock<State>,
    size: usize,
}

struct State {
    count: usize,
    generation: u64,
    waiters: Crowd,
}

impl UnwindSafe for Barrier {}
impl RefUnwindSafe for Barrier {}

/// Same as [`std::sync::BarrierWaitResult`].
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Same as [`std::sync::BarrierWaitResult::is_leader`].
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Same as [`std::sync::Barrier::new`].
    #[must_use]
    pub const fn new(size: usize) -> Barrier {
        let state = State { count: 0, generation: 0, waiters: Crowd::new() };
        Barrier { state: Lock::new(state), size }
    }

    /// For the models (see `shim`).
    #[cfg(all(test, loom))]
    pub(crate) fn touch(&self) {
        drop(self.state.lock());
    }

    /// Same as [`std::sync::Barrier::wait`].
    ///
    /// # Cancellation
    /// Unwinds if it has to wait; then it does not count.
    pub fn wait(&self) -> BarrierWaitResult {
        let mut state = self.state.lock();
        if state.count + 1 >= self.size {
            state.count = 0;
            state.generation += 1;
            // Now: who comes after this unlocking is of the next round.
            let now = state.waiters.now();
            drop(state);
            Crowd::release_until(&self.state, |state| &mut state.waiters, now);
            return BarrierWaitResult(true);
        }
        // A task is refused here, before it counts.
        begin("Barrier::wait");
        state.count += 1;
        let generation = state.generation;
        let reason = Reason::new("Barrier::wait", self);
        let end = Crowd::wait(&self.state, state, |state| &mut state.waiters, || (), &reason, None);
        if let End::Interrupted(interruption) = end {
            let mut state = self.state.lock();
            // If the others have met it was counted with them, and goes on.
            if state.generation == generation {
                state.count -= 1;
                drop(state);
                interruption.raise();
            }
        }
        BarrierWaitResult(false)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}
