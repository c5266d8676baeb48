//! Opening pipes that have a name. `open(2)` waits there until the other end is opened, too.
//!
//! ```text
//!   to read:   opened without a wait ──▶ a writer? ──yes──▶ done
//!                                         ▲     └─no─▶ wait for data, or a while ─┐
//!                                         └───────────────────────────────────────┘
//!   to write:  ENXIO, nobody reads ──▶ wait a while ──▶ open again
//! ```
//!
//! On a driver [`Op::Open`](crate::Op::Open) never waits for a peer: to read it completes at once, to write with
//! `ENXIO`; and whoever asked looks again after a while. io_uring does it that way by itself: it tries to open
//! with `O_NONBLOCK` first. The pool's threads, and io_uring's, are not to wait: if there are as many such opens
//! as there are threads, then whoever would open the other end, or write there what they wait for, gets
//! none. For the same reason file locks are tried again and again. Nothing announces a writer that writes nothing, so
//! the price is a delay of up to the time between two looks; data announces itself.
//!
//! A plain thread that opens a pipe waits in the kernel.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

use crate::op::Interest;
use crate::sys::{self, c};
use crate::{Handle, Outcome, Stat};

/// Whether an open with these flags may have to wait for a peer. (With both accesses, it is its own.)
#[must_use]
pub const fn may_wait(flags: i32) -> bool {
    flags & (c::O_NONBLOCK | c::O_PATH) == 0 && flags & c::O_ACCMODE != c::O_RDWR
}

/// Whether an open failed with this because nobody reads. (Or as there is no such device, or for a socket.)
#[must_use]
pub fn is_alone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(c::ENXIO)
}

impl Stat {
    /// Whether it is a pipe with a name.
    #[must_use]
    pub const fn is_fifo(self) -> bool {
        self.mode & c::S_IFMT == c::S_IFIFO
    }
}

/// Whether `handle`, opened with `flags`, reads from a pipe that nobody has opened to write.
#[must_use]
pub fn awaits_writer(handle: &Handle, flags: i32) -> bool {
    if handle.is_simulated() || flags & c::O_ACCMODE != c::O_RDONLY {
        return false;
    }
    let fd = handle.as_raw_fd();
    let is_fifo = Stat::now(fd, c"", Stat::KNOWN).is_some_and(Stat::is_fifo);
    // One that has come and gone is announced as well.
    is_fifo && sys::poll_now(fd, Interest::Readable).is_errno(c::EAGAIN) && !sys::has_writer(fd)
}

/// [`Op::Open`](crate::Op::Open) on a thread of the pool.
///
/// # Safety
/// `path` is one.
pub(crate) unsafe fn open(path: *const c::c_char, flags: i32, mode: u32) -> Outcome {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let is_fifo = may_wait(flags) && Stat::now(c::AT_FDCWD, path, 0).is_some_and(Stat::is_fifo);
    let more = if is_fifo { c::O_NONBLOCK } else { 0 };
    let op = crate::Op::Open { path: path.as_ptr(), flags: flags | more, mode };
    // SAFETY: the path lives.
    let outcome = unsafe { sys::call(&op, sys::Mode::Block) };
    if is_fifo && outcome.0 >= 0 {
        let _ = sys::set_nonblocking(outcome.0, false);
    }
    outcome
}
