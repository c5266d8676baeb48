//! What only Linux has. The other systems' twins are in `bsd`; both give the same names.
//!
//! | name | here | there |
//! |---|---|---|
//! | `c` | the C library | the same, with what it lacks beside Linux' |
//! | `Bell` | an eventfd | a user event of a queue |
//! | `counter` | an eventfd | a pipe |
//! | `end_of` | a pidfd | a queue with a process event |
//! | `this_thread`, `signal_thread` | `gettid`, `tgkill` | their own |
//! | `drain_signal` | `sigtimedwait` | blocked and let in again |
//! | `openat2`, `cached_pages`, `has_writer`, `enlarge_pipe` | system calls | "not here" |

#[cfg(target_env = "musl")]
#[path = "musl.rs"]
pub mod c;
#[cfg(not(loom))]
mod eventfd;
#[cfg(all(target_env = "musl", target_arch = "x86_64"))]
pub(crate) mod restore;

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

#[cfg(not(target_env = "musl"))]
pub use libc as c;

#[cfg(not(loom))]
pub(crate) use self::eventfd::Bell;
use super::{close, retry};
use crate::Outcome;

/// Whether a stream is in blocking mode, so that a handshake has to change that for its time.
pub(crate) const STREAMS_BLOCK: bool = true;

/// The signals' counter: what is read and what is written to. Both are one descriptor here, and reading gives all at once.
pub(crate) fn counter() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    // SAFETY: no memory is involved; a descriptor that was just made is nobody else's.
    unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fd), None))
    }
}

/// A descriptor that becomes readable when the child ends. `ENOSYS` before Linux 5.3.
pub(crate) fn end_of(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: two integers. The kernel sets close-on-exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else's. It fits: descriptors are ints.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The kernel's id of the calling thread.
pub(crate) fn this_thread() -> i32 {
    // SAFETY: no memory is involved.
    unsafe { libc::gettid() }
}

/// Sends a signal to a thread of this process; false if there is none of this id.
pub(crate) fn signal_thread(thread: i32, signal: i32) -> bool {
    // SAFETY: integers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}

/// Takes a signal that is pending for the calling thread, which has it blocked.
pub(crate) fn drain_signal(set: &libc::sigset_t) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a set and a time that are borrowed; a null pointer where nothing is wanted.
    while unsafe { libc::sigtimedwait(set, ptr::null_mut(), &raw const now) } > 0 {}
}

/// `openat2(2)`.
pub(crate) fn openat2(dir: i32, path: &CStr, flags: i32, mode: u32, resolve: u64) -> Outcome {
    let creates = flags & (libc::O_CREAT | libc::O_TMPFILE) != 0;
    // SAFETY: integers throughout.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from((flags | libc::O_CLOEXEC).cast_unsigned());
    how.mode = if creates { u64::from(mode) } else { 0 };
    how.resolve = resolve;
    // SAFETY: path and `how` outlive the call, and the size is that of `how`.
    retry(|| unsafe {
        let size = size_of_val(&how);
        libc::syscall(libc::SYS_openat2, dir, path.as_ptr(), &raw const how, size) as isize
    })
}

/// How many pages of a range of a file are in the cache; `None` if the kernel does not tell.
pub(crate) fn cached_pages(fd: i32, offset: u64, len: usize) -> Option<usize> {
    const CACHESTAT: libc::c_long = 451; // on every architecture
    let range = [offset, len as u64];
    let mut counts = [0u64; 5]; // cached, dirty, under writeback, evicted, recently evicted
    // SAFETY: the kernel reads two and writes five u64.
    let result = unsafe {
        libc::syscall(CACHESTAT, fd, range.as_ptr(), counts.as_mut_ptr(), 0 as libc::c_uint)
    };
    (result == 0).then_some(counts[0] as usize)
}

/// Gives a pipe room for `size` bytes, if it can be had: how many there is room for.
pub(crate) fn enlarge_pipe(fd: i32, size: usize) -> usize {
    // SAFETY: numbers. (Refused: it keeps the size it has.)
    let size = unsafe {
        libc::fcntl(fd, libc::F_SETPIPE_SZ, size as libc::c_int);
        libc::fcntl(fd, libc::F_GETPIPE_SZ)
    };
    usize::try_from(size).unwrap_or(0)
}

/// Where an open file stands; negative for what has no position.
pub(crate) fn position(fd: i32) -> i64 {
    // SAFETY: no memory is involved.
    unsafe { libc::lseek64(fd, 0, libc::SEEK_CUR) }
}

/// Moves an open file by `n`, if it still stands at `place`.
pub(crate) fn catch_up(fd: i32, place: i64, n: i64) {
    if place >= 0 && position(fd) == place {
        // SAFETY: no memory is involved. It fails only for what has no position.
        unsafe { libc::lseek64(fd, place + n, libc::SEEK_SET) };
    }
}

/// Whether somebody may yet write to an empty pipe. Asked by `tee`, which takes nothing out: it says `EAGAIN` then, else 0.
pub(crate) fn has_writer(fd: i32) -> bool {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are ours then.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
            return false;
        }
        let seen = Outcome::from_libc(libc::tee(fd, ends[1], 1, libc::SPLICE_F_NONBLOCK));
        let _ = ends.map(close);
        seen.0 > 0 || seen.is_errno(libc::EAGAIN)
    }
}
