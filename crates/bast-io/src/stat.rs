//! What is behind a handle or a path: its type and its length, and whether it has a position.
//!
//! ```text
//!   Stat::of(handle, &mut answer) ──▶ Op::Statx ──▶ performed ──▶ answer.get() ──▶ Stat
//! ```

mod position;

use std::ffi::CStr;
use std::fmt;
use std::mem::MaybeUninit;

use crate::sys::c;
#[cfg(unix)]
use crate::sys::{self, Mode};
use crate::{HandleRef, Op};

pub use self::position::Position;

/// What an operation made by [`Stat::of`] or [`Stat::of_path`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The length in bytes.
    pub len: u64,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Seconds since 1970 of the last change of its contents, and the nanoseconds.
    pub modified: (i64, u32),
    /// Which file it is on its device.
    pub inode: u64,
}

/// Room for the kernel's answer.
pub struct Answer(c::statx);

impl Answer {
    /// Room that has not been filled: a length of zero, of no type.
    #[must_use]
    pub const fn new() -> Answer {
        // SAFETY: integers throughout.
        Answer(unsafe { MaybeUninit::zeroed().assume_init() })
    }

    /// What the operation has written there, once it has succeeded.
    #[must_use]
    pub fn get(&self) -> Stat {
        let modified = (self.0.stx_mtime.tv_sec, self.0.stx_mtime.tv_nsec);
        let (len, mode) = (self.0.stx_size, self.0.stx_mode.into());
        Stat { len, mode, modified, inode: self.0.stx_ino }
    }
}

impl Default for Answer {
    fn default() -> Answer {
        Answer::new()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answer").field(&self.get()).finish()
    }
}

impl Stat {
    const fn is(self, kind: c::mode_t) -> bool {
        self.mode & c::S_IFMT == kind
    }

    /// Whether it is a regular file.
    #[must_use]
    pub const fn is_file(self) -> bool {
        self.is(c::S_IFREG)
    }

    /// Whether it is a directory.
    #[must_use]
    pub const fn is_dir(self) -> bool {
        self.is(c::S_IFDIR)
    }

    /// Asks what `handle` is. The answer is lent with the operation.
    #[must_use]
    pub const fn of(handle: HandleRef, answer: &mut Answer) -> Op {
        Stat::ask(handle.raw, c"", c::AT_EMPTY_PATH, answer)
    }

    /// Asks what is known of `handle` here: on a network file system that may be an older length. Every
    /// driver answers on the spot.
    #[must_use]
    pub const fn known_of(handle: HandleRef, answer: &mut Answer) -> Op {
        Stat::ask(handle.raw, c"", Stat::KNOWN, answer)
    }

    /// Of an open file, and without asking a server.
    pub(crate) const KNOWN: i32 = c::AT_EMPTY_PATH | c::AT_STATX_DONT_SYNC;

    /// Asks what is at `path`; follows symbolic links. The path and the answer are lent with the
    /// operation.
    #[must_use]
    pub const fn of_path(path: &CStr, answer: &mut Answer) -> Op {
        Stat::ask(c::AT_FDCWD, path, 0, answer)
    }

    /// What is there, asked on the calling thread.
    #[cfg(unix)]
    pub(crate) fn now(dir: i32, path: &CStr, flags: i32) -> Option<Stat> {
        let mut answer = Answer::new();
        let op = Stat::ask(dir, path, flags, &mut answer);
        // SAFETY: path and answer outlive the call.
        let outcome = unsafe { sys::call(&op, Mode::Block) };
        (outcome.0 >= 0).then(|| answer.get())
    }

    const fn ask(dir: i32, path: &CStr, flags: i32, answer: &mut Answer) -> Op {
        let out = &raw mut answer.0;
        Op::Statx { dir, path: path.as_ptr(), flags, mask: c::STATX_BASIC_STATS, out }
    }
}
