//! The end of a child process, as something that can be waited for.
//!
//! A pidfd (elsewhere a queue with such an event) becomes readable when its process ends, and stays so. It is bound to the process and not to the
//! number, and needs no SIGCHLD handler, which a library cannot share with the rest of its program. Where there is none
//! (an older kernel, a sandbox, no descriptor left) a thread can wait.
//!
//! None of these reaps the child: until somebody does, its number is its own, and that of its group.

use std::io;
use std::os::fd::OwnedFd;

use crate::sys::{self, c};

/// A descriptor for the child `pid`, which the caller has not waited for yet: so the number still is the
/// child's.
///
/// # Errors
/// `ENOSYS` before Linux 5.3; `ESRCH` on macOS if it has ended, or is about to; no more descriptors.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    sys::end_of(pid)
}

/// Waits, on the calling thread, until the child has ended.
///
/// # Errors
/// `EINTR` when a signal comes; `ECHILD` if it is no child of ours, or has been waited for.
pub fn wait(pid: u32) -> io::Result<()> {
    has_ended_with(pid, 0).map(drop)
}

/// Whether the child has ended.
///
/// # Errors
/// `ECHILD` if it is no child of ours, or has been waited for.
pub fn has_ended(pid: u32) -> io::Result<bool> {
    has_ended_with(pid, c::WNOHANG)
}

fn has_ended_with(pid: u32, flags: i32) -> io::Result<bool> {
    // SAFETY: integers, for which zero is a value.
    let mut info: c::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is written during the call.
    let result = unsafe {
        c::waitid(c::P_PID, pid as c::id_t, &raw mut info, c::WEXITED | c::WNOWAIT | flags)
    };
    match result {
        // SAFETY: a field of what `waitid` has filled in, or left zero.
        0 => Ok(unsafe { info.si_pid() } != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The signal that asks a process to end.
pub const SIGTERM: i32 = c::SIGTERM;

/// The signal that ends a process.
pub const SIGKILL: i32 = c::SIGKILL;

/// Sends a signal to a child that has not been waited for, or to the group of processes that it leads.
///
/// # Errors
/// `EINVAL`: no such signal; `EPERM`: not to that process; `ESRCH`: no such group.
pub fn send_signal(pid: u32, group: bool, signal: i32) -> io::Result<()> {
    let pid = pid as c::pid_t;
    // SAFETY: integers.
    match unsafe { c::kill(if group { -pid } else { pid }, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_who_is_not_there() {
        // No process has this number. As on macOS one that has ended is not found, the error is what tells.
        assert_eq!(pidfd(i32::MAX as u32).unwrap_err().raw_os_error(), Some(c::ESRCH));
        assert_eq!(wait(i32::MAX as u32).unwrap_err().raw_os_error(), Some(c::ECHILD));
    }
}
