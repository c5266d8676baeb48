//! macOS and FreeBSD: what they have instead of what Linux has, under the names that `linux` lists.
//!
//! Built with `--cfg bast_kqueue` on Linux, too: there it is tested (see `queue`).

pub mod c;
pub(crate) mod queue;
mod user_event;

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use self::queue::{EV_ADD, EVFILT_PROC, NOTE_EXIT, Queue, change};
pub(crate) use self::user_event::Bell;
use crate::Outcome;

/// Whether a stream is in blocking mode. It is not, from birth: not all of these kernels heed `MSG_DONTWAIT` everywhere.
pub(crate) const STREAMS_BLOCK: bool = false;

/// The signals' counter: what is read and what is written to. A pipe, whose reads give one signal each.
pub(crate) fn counter() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let (reader, writer) = io::pipe()?;
    for end in [std::os::fd::AsRawFd::as_raw_fd(&reader), std::os::fd::AsRawFd::as_raw_fd(&writer)]
    {
        super::set_nonblocking(end, true).into_result()?;
    }
    Ok((reader.into(), Some(writer.into())))
}

/// A descriptor that becomes readable when the child ends, and stays so: a queue whose event nobody takes. `ESRCH` on
/// macOS for a child that is ending or has ended: whoever waits for it then has to ask for its status.
pub(crate) fn end_of(pid: u32) -> io::Result<OwnedFd> {
    let queue = Queue::new()?;
    let [errno] = queue.change([change(pid as i32, EVFILT_PROC, EV_ADD, NOTE_EXIT, 0)]);
    match errno {
        0 => Ok(queue.into()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The kernel's id of the calling thread.
pub(crate) fn this_thread() -> i32 {
    // SAFETY: no memory is involved.
    unsafe {
        #[cfg(target_vendor = "apple")]
        return libc::pthread_mach_thread_np(libc::pthread_self()) as i32;
        #[cfg(target_os = "freebsd")]
        return libc::pthread_getthreadid_np();
        #[cfg(target_os = "linux")]
        return libc::gettid();
    }
}

/// Sends a signal to a thread of this process; false if there is none of this id.
pub(crate) fn signal_thread(thread: i32, signal: i32) -> bool {
    // SAFETY: integers, and a thread that the library has just found.
    unsafe {
        #[cfg(target_vendor = "apple")]
        {
            let thread = libc::pthread_from_mach_thread_np(thread as libc::mach_port_t);
            thread != 0 && libc::pthread_kill(thread, signal) == 0
        }
        #[cfg(target_os = "freebsd")]
        return libc::thr_kill(thread.into(), signal) == 0;
        #[cfg(target_os = "linux")]
        return libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0;
    }
}

/// Takes a signal that is pending for the calling thread, which has it blocked and whose handler does nothing:
/// it is let in, and blocked again.
pub(crate) fn drain_signal(set: &libc::sigset_t) {
    for how in [libc::SIG_UNBLOCK, libc::SIG_BLOCK] {
        // SAFETY: the calling thread's mask; the set is borrowed.
        unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) };
    }
}

/// None of these systems has it.
pub(crate) fn openat2(_dir: i32, _path: &CStr, _flags: i32, _mode: u32, _how: u64) -> Outcome {
    Outcome::from_errno(libc::ENOSYS)
}

/// Nobody tells.
pub(crate) fn cached_pages(_fd: i32, _offset: u64, _len: usize) -> Option<usize> {
    None
}

/// Nobody tells. So an open waits until there is something to read, or a writer has come and gone.
pub(crate) fn has_writer(_fd: i32) -> bool {
    false
}

/// Nothing is spliced here, so no pipe is large enough.
pub(crate) fn enlarge_pipe(_fd: i32, _size: usize) -> usize {
    0
}
