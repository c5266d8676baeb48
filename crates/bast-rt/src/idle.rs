//! Which workers sleep, and when one of them is woken to look for work: Go's rule.
//!
//! Work that any worker may take (fibers that have not run) can lie in any worker's queue. Waking a
//! worker for each piece is a storm; waking none strands it. The rule (proc.go, "Worker thread
//! parking/unparking"):
//!
//! * After adding work, wake one sleeper, but only if nobody is searching already.
//! * A searcher that finds work, if it was the last searcher, wakes the next one.
//! * A searcher that finds nothing becomes idle and **then looks once more** before it sleeps.
//!
//! ```text
//!   BUSY ──no work──▶ SEARCHING ──nothing──▶ IDLE (listed) ──looks once more──▶ sleeps
//!     ▲                 │   ▲                  │
//!     └────found────────┘   └── notify() takes it off the list ◀──┘
//! ```
//!
//! The argument is a store-buffer one. The producer makes work visible, fences (SeqCst), then reads
//! `word`. The sleeper writes `word` (searcher → idle), fences (SeqCst), then looks at the queues. One
//! of the two sees the other: either the producer finds an idle worker and no searcher and wakes it,
//! or the sleeper's second look finds the work. A producer that saw a *searcher* wakes nobody; that
//! searcher has not done its second look yet, so it will find the work, or its own write of `word`
//! comes before the producer's read, which is the first case.
//!
//! The list is under a mutex: a worker goes idle or leaves it around a system call that costs a
//! hundred times as much.

use crate::shim::{AtomicUsize, Mutex, fence};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// One searcher, in the upper half of the word; idle workers are counted in the lower.
const SEARCHER: usize = 1 << 32;

/// The idle workers of one runtime.
pub(crate) struct Idle {
    /// searchers << 32 | idle
    word: AtomicUsize,
    list: Mutex<Vec<usize>>,
}

/// How a worker came off the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// By itself: something of its own has come up.
    Alone,
    /// `notify` chose it: it counts as a searcher and must look for work.
    AsSearcher,
}

impl Idle {
    pub(crate) fn new() -> Idle {
        Idle { word: AtomicUsize::new(0), list: Mutex::new(Vec::new()) }
    }

    /// To be called after work that anybody may take has been queued. Returns the worker to wake.
    #[inline]
    pub(crate) fn notify(&self) -> Option<usize> {
        fence(SeqCst);
        let word = self.word.load(Relaxed);
        if word >= SEARCHER || word == 0 {
            return None;
        }
        self.notify_slow()
    }

    #[cold]
    fn notify_slow(&self) -> Option<usize> {
        let mut list = self.list.lock().expect("no panic under this lock");
        if self.word.load(Relaxed) >= SEARCHER {
            return None;
        }
        let worker = list.pop()?;
        self.word.fetch_add(SEARCHER - 1, SeqCst);
        Some(worker)
    }

    /// A busy worker starts to search; false if half of the others search already (then it goes
    /// straight to sleep, with its second look).
    pub(crate) fn start_search(&self, workers: usize) -> bool {
        let searching = self.word.load(Relaxed) / SEARCHER;
        if 2 * searching >= workers {
            return false;
        }
        self.word.fetch_add(SEARCHER, SeqCst);
        true
    }

    /// A searcher found work. Returns true if it was the last one: then it calls `notify`.
    pub(crate) fn found(&self) -> bool {
        self.word.fetch_sub(SEARCHER, SeqCst) / SEARCHER == 1
    }

    /// The worker goes on the list. It must look at all queues once more before it sleeps.
    pub(crate) fn enter(&self, worker: usize, searching: bool) {
        let mut list = self.list.lock().expect("no panic under this lock");
        list.push(worker);
        if searching {
            self.word.fetch_sub(SEARCHER - 1, SeqCst);
        } else {
            self.word.fetch_add(1, SeqCst);
        }
        drop(list);
        fence(SeqCst);
    }

    /// The worker leaves the list, or learns that `notify` took it off.
    pub(crate) fn leave(&self, worker: usize) -> Left {
        let mut list = self.list.lock().expect("no panic under this lock");
        match list.iter().position(|&w| w == worker) {
            Some(at) => {
                list.swap_remove(at);
                self.word.fetch_sub(1, SeqCst);
                Left::Alone
            }
            None => Left::AsSearcher,
        }
    }
}
