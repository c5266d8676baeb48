//! Asking every worker what its fibers do, and waiting for the answers: not for ever, as one that is held by
//! a fiber cannot answer.
//!
//! ```text
//!   slot of a worker:  Open ──take──▶ Busy ──answer──▶ Done
//!                       ├──the worker has ended─────▶ Gone
//!                       └──no answer in time────────▶ Late     then `take` fails
//! ```

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::board::Board;
use super::collect::Answer;
use crate::shared::Shared;

/// How long a worker may take to come to its desk. A round of its loop is far shorter, unless a fiber holds
/// it, or the system does not run it.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How long it may take to answer then.
const LENGTH: Duration = Duration::from_secs(60);

/// One question to all workers.
pub(super) struct Request {
    slots: Mutex<Vec<(*const Board, Slot)>>,
    changed: Condvar,
}

// SAFETY: boards are never freed, and are used from any thread; the pointers are only compared.
unsafe impl Send for Request {}
// SAFETY: as above; the slots are under a mutex.
unsafe impl Sync for Request {}

pub(super) enum Slot {
    Open,
    Busy,
    Done(Answer),
    Gone,
    Late,
}

impl Request {
    fn lock(&self) -> MutexGuard<'_, Vec<(*const Board, Slot)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, board: &Board, slot: Slot) -> bool {
        let mut slots = self.lock();
        let Some((_, place)) = slots.iter_mut().find(|(b, _)| std::ptr::eq(*b, board)) else {
            return false;
        };
        let wanted = !matches!(place, Slot::Late);
        if wanted {
            *place = slot;
        }
        drop(slots);
        self.changed.notify_all();
        wanted
    }

    /// A worker has come to its desk; false if nobody waits for its answer any more.
    pub(super) fn take(&self, board: &Board) -> bool {
        self.put(board, Slot::Busy)
    }

    pub(super) fn answer(&self, board: &Board, answer: Answer) {
        self.put(board, Slot::Done(answer));
    }

    /// The worker has ended.
    pub(super) fn refuse(&self, board: &Board) {
        self.put(board, Slot::Gone);
    }
}

/// Asks the workers of these runtimes, and waits so long for each to come. To be called on a plain thread. One list of
/// answers for each runtime.
pub(super) fn ask(runtimes: &[Arc<Shared>], patience: Duration) -> Vec<Vec<Slot>> {
    let posts = || runtimes.iter().flat_map(|runtime| &runtime.posts);
    let slots = posts().map(|post| (&raw const post.board, Slot::Open)).collect();
    let request = Arc::new(Request { slots: Mutex::new(slots), changed: Condvar::new() });
    for post in posts() {
        if post.board.ask(Arc::clone(&request)) {
            post.wake();
        } else {
            request.refuse(&post.board);
        }
    }
    let start = Instant::now();
    let mut slots = request.lock();
    loop {
        let open = slots.iter().any(|(_, slot)| matches!(slot, Slot::Open));
        let busy = slots.iter().any(|(_, slot)| matches!(slot, Slot::Busy));
        let limit = match (open, busy) {
            (true, _) => patience,
            (false, true) => LENGTH,
            (false, false) => break,
        };
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            let late = |slot: &Slot| matches!(slot, Slot::Open) || limit == LENGTH;
            for (_, slot) in slots.iter_mut().filter(|(_, slot)| late(slot)) {
                if !matches!(slot, Slot::Done(_) | Slot::Gone) {
                    *slot = Slot::Late;
                }
            }
            continue;
        }
        slots = request.changed.wait_timeout(slots, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    let mut all = std::mem::take(&mut *slots).into_iter();
    runtimes
        .iter()
        .map(|runtime| all.by_ref().take(runtime.posts.len()).map(|(_, slot)| slot).collect())
        .collect()
}
