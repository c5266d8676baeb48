//! Plain threads that are blocked in bast until somebody wakes them: who, and on what.
//!
//! ```text
//!   thread: enter ──▶ listed ──▶ waits … ──▶ returns
//!   waker:                    leave, before the thread is told
//! ```
//!
//! An entry is taken out by the *waker*, under the lock of the thread's parker, so that the list says at any
//! moment how many threads are blocked and not woken yet: what the report of deadlocks is made of. A thread
//! that waits with a deadline is not listed, as it wakes by itself.
//!
//! The pointer to the holder of what is waited for lies in the waiting frame. It is read under the list's
//! lock while the entry is there, and the frame does not go before.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::collect::Waiting;
use crate::parker::ThreadParker;
use crate::wait::Reason;

struct Entry {
    parker: *const ThreadParker,
    id: u64,
    name: Option<Box<str>>,
    what: &'static str,
    object: usize,
    holder: *const AtomicU64,
}

// SAFETY: `parker` is compared only; `holder` is good while the entry is there (see above).
unsafe impl Send for Entry {}

struct List {
    entries: Vec<Entry>,
    /// Goes up with every change.
    changes: u64,
}

static LIST: Mutex<List> = Mutex::new(List { entries: Vec::new(), changes: 0 });

fn change<R>(f: impl FnOnce(&mut Vec<Entry>) -> R) -> R {
    let mut list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    list.changes += 1;
    f(&mut list.entries)
}

/// The calling thread, whose parker this is, is about to block.
pub(crate) fn enter(parker: &ThreadParker, reason: &Reason<'_>) {
    let entry = Entry {
        parker,
        id: parker.id(),
        name: parker.name().map(Box::from),
        what: reason.what,
        object: reason.object.addr(),
        holder: reason.holder.map_or(std::ptr::null(), std::ptr::from_ref),
    };
    change(|entries| entries.push(entry));
}

/// It has been woken.
pub(crate) fn leave(parker: &ThreadParker) {
    change(|entries| entries.retain(|entry| !std::ptr::eq(entry.parker, parker)));
}

/// How many there are, and a number that changes with every change.
pub(super) fn count() -> (usize, u64) {
    let list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    (list.entries.len(), list.changes)
}

/// A blocked thread.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    pub(super) id: u64,
    pub(super) name: Option<Box<str>>,
    pub(super) wait: Waiting,
}

pub(super) fn list() -> Vec<Blocked> {
    let list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = list.entries.iter().map(|entry| Blocked {
        id: entry.id,
        name: entry.name.clone(),
        wait: Waiting {
            what: entry.what,
            object: entry.object,
            descriptor: None,
            // SAFETY: null, or in the frame of a thread that is blocked (see the head of this file).
            holder: unsafe { entry.holder.as_ref() }.map_or(0, |holder| holder.load(Relaxed)),
        },
    });
    seen.collect()
}
