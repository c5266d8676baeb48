//! Opening pipes that have a name waits for nobody on Windows.

use std::io;

use crate::{Handle, Op, Outcome, Stat, sys};

/// Whether an open with these flags may have to wait for a peer.
#[must_use]
pub const fn may_wait(_flags: i32) -> bool {
    false
}

/// Whether an open failed with this because nobody reads.
#[must_use]
pub const fn is_alone(_error: &io::Error) -> bool {
    false
}

impl Stat {
    /// Whether it is a pipe with a name that an open may have to wait for.
    #[must_use]
    pub const fn is_fifo(self) -> bool {
        false
    }
}

/// Whether `handle`, opened with `flags`, reads from a pipe that nobody has opened to write.
#[must_use]
pub const fn awaits_writer(_handle: &Handle, _flags: i32) -> bool {
    false
}

/// [`Op::Open`] on a thread of the pool.
///
/// # Safety
/// `path` is one.
pub(crate) unsafe fn open(path: *const sys::c::c_char, flags: i32, mode: u32) -> Outcome {
    // SAFETY: the path lives.
    unsafe { sys::call(&Op::Open { path, flags, mode }, sys::Mode::Block) }
}
