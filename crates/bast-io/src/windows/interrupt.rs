//! Interrupting a call that blocks on a thread of the pool: `CancelSynchronousIo`, asked for again and again.
//!
//! ```text
//!   pool thread                                   whoever cancels (its lock is the pool's)
//!   ───────────                                   ──────────────────────────────────────
//!   lock: the call is listed as running here
//!   call ◀──────── ERROR_OPERATION_ABORTED ────── lock: listed? interrupt(thread)
//!   lock: off the list
//!   the record goes back
//! ```
//!
//! **A request may come too early**, before the system call has begun: then it is lost. So it is to be repeated until
//! the call has returned.
//!
//! **No request hits a later call of the same thread.** It is made under the lock and for threads whose call is on
//! the list; it marks the calls that the thread is in at that moment and leaves nothing behind. A thread takes its
//! call off the list under the same lock before it goes on.

use std::io;

use windows_sys::Win32::Foundation::CloseHandle;
use windows_sys::Win32::System::IO::CancelSynchronousIo;
use windows_sys::Win32::System::Threading::{GetCurrentThreadId, OpenThread, THREAD_TERMINATE};

use crate::sys::c;

/// Whether a call says that it has been interrupted and has done nothing.
#[must_use]
pub fn is_interruption(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted || error.raw_os_error() == Some(c::ECANCELED)
}

/// A thread that can be interrupted while it is known to live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread(u32);

/// The calling thread.
pub(crate) fn this_thread() -> Thread {
    // SAFETY: no memory is involved.
    Thread(unsafe { GetCurrentThreadId() })
}

/// Nothing is to be let in.
pub(crate) const fn admit() {}

/// Nothing is left of a request.
pub(crate) const fn drain() {}

/// Makes the system call that the thread is in, if it is one that can be cancelled, fail with
/// `ERROR_OPERATION_ABORTED`.
///
/// # Safety
/// The thread lives.
pub(crate) unsafe fn interrupt(thread: Thread) {
    // SAFETY: the caller's promise: the number is that thread's. (The right has an odd name; it is the one needed.)
    unsafe {
        let handle = OpenThread(THREAD_TERMINATE, 0, thread.0);
        if !handle.is_null() {
            CancelSynchronousIo(handle);
            CloseHandle(handle);
        }
    }
}
