//! The end of a child process, as something that can be waited for.
//!
//! A pidfd becomes readable when its process ends, and stays so. It is bound to the process and not to the
//! number, and needs no SIGCHLD handler, which a library cannot share with the rest of its program.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A descriptor for the child `pid`, which the caller has not waited for yet: so the number still is the
/// child's.
///
/// # Errors
/// `ENOSYS` before Linux 5.3; no more descriptors.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: two integers. The kernel sets close-on-exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else's. It fits: descriptors are ints.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
