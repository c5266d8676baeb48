//! Children that were dropped before they had ended: somebody has to ask for their status, or they stay
//! as zombies.
//!
//! A fiber of its own waits for each. If its runtime ends first, the child goes to a list that is looked
//! through whenever a child is started or dropped.

use std::sync::{Mutex, PoisonError};

use super::child::Process;

static LEFT: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// Puts a process on the list when it is dropped too early.
struct Watched(Option<Process>);

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(mut process) = self.0.take()
            && !process.has_ended()
        {
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        }
    }
}

/// Waits for a process in the background.
pub(super) fn reap(process: Process) {
    sweep();
    let mut watched = Watched(Some(process));
    drop(bast_rt::spawn(move || {
        if let Some(process) = &mut watched.0 {
            // An error means that there is nothing to wait for.
            let _ = process.wait();
        }
    }));
}

/// Reaps what has ended of those on the list.
pub(super) fn sweep() {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|process| !process.has_ended());
}
