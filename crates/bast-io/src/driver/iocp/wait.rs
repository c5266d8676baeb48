//! Waiting for an object: a thread of Windows' own waits and posts what the kernel would have posted.
//!
//! ```text
//!   register ─▶ waiting thread: signalled ─▶ on_signal: posted = true; post(OVERLAPPED) ─▶ the driver's port
//!       ╰─▶ unregister: ends the registration, and waits for an `on_signal` that runs
//! ```
//!
//! It serves what has no packet of its own: an object that is polled for (an event, a process), and an operation on a
//! handle whose packets go to another driver's port (see `table`), which sets an event.
//!
//! **Exactly one packet, or none.** A registration fires at most once. After `unregister` nobody is inside
//! `on_signal`, and nobody will be: then `posted` says for good whether a packet comes. The driver unregisters when it
//! has the packet, or to cancel a wait; either way before the record goes back, and so the port and the record
//! outlive the waiting thread's use of them.
//!
//! Memory ordering: `posted` is stored before the end of the callback, which `UnregisterWaitEx` waits for, and loaded
//! after it; Release and Acquire say the same where that is taken on trust. What the kernel has written to the record
//! travels with the event, and then with the packet.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering;

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::IO::PostQueuedCompletionStatus;
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEINWAITTHREAD,
    WT_EXECUTEONLYONCE,
};

use super::lent;
use crate::{Outcome, Record, sys};

/// The key of the packets that are posted here.
pub(super) const SIGNALLED: usize = 1;

unsafe extern "system" fn on_signal(record: *mut c_void, _: bool) {
    // SAFETY: the record is lent until the driver has unregistered this, which waits for its end.
    unsafe {
        let record: NonNull<Record> = NonNull::new_unchecked(record.cast());
        let port = (*record.as_ptr()).lent.port;
        let overlapped = lent::overlapped(record);
        (*record.as_ptr()).lent.posted.store(true, Ordering::Release);
        // It fails only for want of the kernel's memory, and must not be lost.
        while PostQueuedCompletionStatus(port, 0, SIGNALLED, overlapped) == 0 {
            std::thread::yield_now();
        }
    }
}

/// Has a packet posted to `lent.port` when `object` is signalled.
///
/// # Safety
/// io 1: the record is lent, and `unregister` comes before it goes back.
pub(super) unsafe fn register(record: NonNull<Record>, object: HANDLE) -> Result<(), Outcome> {
    let mut wait = null_mut();
    let flags = WT_EXECUTEONLYONCE | WT_EXECUTEINWAITTHREAD;
    let context = record.as_ptr().cast_const().cast();
    // SAFETY: the caller's promise.
    unsafe {
        *(*record.as_ptr()).lent.posted.get_mut() = false;
        let (new, call) = (&raw mut wait, Some(on_signal as _));
        if RegisterWaitForSingleObject(new, object, call, context, INFINITE, flags) == 0 {
            return Err(sys::last_error());
        }
        (*record.as_ptr()).lent.wait = wait;
    }
    Ok(())
}

/// Ends the registration. Whether its packet has come or will.
///
/// # Safety
/// The record is lent, and registered.
pub(super) unsafe fn unregister(record: NonNull<Record>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let wait = std::mem::replace(&mut (*record.as_ptr()).lent.wait, null_mut());
        UnregisterWaitEx(wait, INVALID_HANDLE_VALUE);
        (*record.as_ptr()).lent.posted.load(Ordering::Acquire)
    }
}
