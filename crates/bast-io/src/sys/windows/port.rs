//! A completion port, and what ends a wait on it: a posted packet.
//!
//! It is the driver's own port, so that one wait is for completions and for wakes. Where there is no driver on a
//! kernel (the simulator, a driver that only waits for the pool) nothing else is ever posted to it.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null_mut;
use std::time::Duration;

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::IO::{
    CreateIoCompletionPort, GetQueuedCompletionStatus, OVERLAPPED, PostQueuedCompletionStatus,
};

use super::milliseconds;

/// The key of a packet that only wakes.
pub(crate) const WAKE: usize = usize::MAX;

/// A port.
#[derive(Debug)]
pub(crate) struct Bell {
    port: OwnedHandle,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        // SAFETY: no memory is involved; a handle that was just made is nobody else's. One thread takes from it.
        unsafe {
            let port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 1);
            if port.is_null() {
                return Err(io::Error::last_os_error());
            }
            Ok(Bell { port: OwnedHandle::from_raw_handle(port) })
        }
    }

    /// The port itself.
    pub(crate) fn port(&self) -> HANDLE {
        self.port.as_raw_handle()
    }

    pub(crate) fn ring(&self) {
        self.post(WAKE, null_mut());
    }

    /// Posts a packet. It fails only for want of the kernel's memory, and must not be lost: then it is tried again.
    pub(crate) fn post(&self, key: usize, overlapped: *mut OVERLAPPED) {
        // SAFETY: the port is open; Windows does not follow the pointer, it hands it on.
        while unsafe { PostQueuedCompletionStatus(self.port(), 0, key, overlapped) } == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes one packet, which must be a wake.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let (mut bytes, mut key, mut overlapped) = (0, 0, null_mut());
        let wait = milliseconds(timeout);
        // SAFETY: pointers to locals.
        unsafe {
            GetQueuedCompletionStatus(
                self.port(),
                &raw mut bytes,
                &raw mut key,
                &raw mut overlapped,
                wait,
            );
        }
        debug_assert!(overlapped.is_null(), "nothing is in flight");
    }
}
