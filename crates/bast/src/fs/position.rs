//! Where a file is read and written next, in the order that std's callers know.
//!
//! The kernel has one position for each open file, which all duplicates of a descriptor share. `read(2)` and
//! `write(2)` use it under a lock, so that two of them never get the same bytes, nor write over each other. io_uring has no such
//! lock; and it leaves the position where it was when a write was cut short by an error (so that the rest overwrites what
//! has been acknowledged), and after direct I/O. So here the position is only asked and set, and what is transferred has an
//! offset:
//!
//! ```text
//!   turn.lock() ─▶ at = lseek(CUR) ─▶ transfer at `at`: n bytes ─▶ lseek(at + n) ─▶ unlock
//!                                          └─ cancelled, failed: the position has not moved
//! ```
//!
//! Clones have the same `turn`. Descriptors that were duplicated elsewhere do not: with them it is as if there were no lock.
//! What has no position, a FIFO say, is not locked: its reader may wait for a writer.

use std::io::{self, Seek, SeekFrom};
use std::sync::PoisonError;

use bast_io::{Handle, stat};
use bast_sync::{Mutex, MutexGuard, OnceLock};

use crate::os::system::with_std_file;

#[derive(Debug, Default)]
pub(super) struct Position {
    turn: Mutex<()>,
    kind: OnceLock<stat::Position>,
}

impl Position {
    /// Waits until nobody else uses the position, if there is one.
    pub(super) fn turn(&self, handle: &Handle) -> Option<MutexGuard<'_, ()>> {
        match self.kind(handle) {
            stat::Position::None => None,
            // Poison only says that somebody was cancelled who had the turn.
            _ => Some(self.turn.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn kind(&self, handle: &Handle) -> stat::Position {
        match handle.is_simulated() {
            // The simulator does one thing at a time.
            true => stat::Position::None,
            false => *self.kind.get_or_init(|| stat::Position::of(handle)),
        }
    }

    /// Transfers at the position, and moves it. `transfer` gets the offset, or `None` if the kernel can be left
    /// alone with that.
    pub(super) fn advance(
        &self,
        handle: &Handle,
        writes: bool,
        transfer: impl FnOnce(Option<u64>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let _turn = self.turn(handle);
        match self.kind(handle) {
            stat::Position::None => return transfer(None),
            // The end is found by the kernel, at every try.
            stat::Position::Appends if writes => return transfer(None),
            _ => {}
        }
        let seek = |to| with_std_file(handle, |mut file| file.seek(to));
        let at = seek(SeekFrom::Current(0))?;
        let moved = transfer(Some(at))?;
        if moved > 0 {
            seek(SeekFrom::Start(at + moved as u64))?;
        }
        Ok(moved)
    }
}
