//! What an operation lends to the kernel beside its own memory: it lies in the record, on the fiber's stack, so that
//! an operation allocates nothing. (An accept needs a socket and room for addresses, which it allocates.)
//!
//! ```text
//!   Record { op, …, Lent { OVERLAPPED ◀── the kernel, and the packet that it posts
//!                          port, event, wait, posted ◀── the thread that waits for the event (module `wait`)
//!                          poll, flags, accept } }
//! ```
//!
//! A packet names the `OVERLAPPED`; from there to the record is a constant distance.
//!
//! Everything here belongs to the driver's thread but for what stands above: the `OVERLAPPED`, `poll` and `flags` from
//! the call until the packet; `posted`, which the waiting thread sets before it posts.

use std::mem::{offset_of, zeroed};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicBool;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Networking::WinSock::SOCKET;
use windows_sys::Win32::System::IO::OVERLAPPED;

use crate::Record;

/// What `IOCTL_AFD_POLL` reads and writes, for one socket.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) timeout: i64,
    pub(super) count: u32,
    pub(super) exclusive: u32,
    pub(super) socket: HANDLE,
    pub(super) events: u32,
    pub(super) status: i32,
}

/// A connection that is to come.
#[derive(Debug)]
pub(super) struct Accept {
    pub(super) socket: SOCKET,
    /// The two addresses, each with the 16 bytes that the call wants beside it.
    pub(super) addresses: [u64; 2 * Accept::ADDRESS / 8],
}

impl Accept {
    /// Bytes for one address: the longest, `sockaddr_in6`, takes 28.
    pub(super) const ADDRESS: usize = 32 + 16;
}

/// See above.
pub(crate) struct Lent {
    pub(super) overlapped: OVERLAPPED,
    /// The driver's port, where the waiting thread posts.
    pub(super) port: HANDLE,
    /// What is set when an operation on a handle of another port completes.
    pub(super) event: HANDLE,
    /// The registration of the wait for it.
    pub(super) wait: HANDLE,
    /// Whether the waiting thread has posted, or is about to.
    pub(super) posted: AtomicBool,
    /// Whether the kernel did not find it when it was to end.
    pub(super) unheard: bool,
    pub(super) poll: Poll,
    /// The flags of a receive, which the kernel may read and write.
    pub(super) flags: u32,
    pub(super) accept: *mut Accept,
}

impl Lent {
    pub(crate) const fn new() -> Lent {
        Lent {
            // SAFETY: numbers and a null handle.
            overlapped: unsafe { zeroed() },
            port: null_mut(),
            event: null_mut(),
            wait: null_mut(),
            posted: AtomicBool::new(false),
            unheard: false,
            poll: Poll {
                timeout: i64::MAX,
                count: 1,
                exclusive: 0,
                socket: null_mut(),
                events: 0,
                status: 0,
            },
            flags: 0,
            accept: null_mut(),
        }
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("event", &self.event).finish_non_exhaustive()
    }
}

/// Where a record's `OVERLAPPED` is.
///
/// # Safety
/// The record is there.
pub(super) unsafe fn overlapped(record: NonNull<Record>) -> *mut OVERLAPPED {
    // SAFETY: the caller's promise. No reference is made, so that the pointer leads back to the whole record.
    unsafe { &raw mut (*record.as_ptr()).lent.overlapped }
}

/// The record of an `OVERLAPPED`.
///
/// # Safety
/// It came from [`overlapped`].
pub(super) unsafe fn record(overlapped: *mut OVERLAPPED) -> NonNull<Record> {
    const DISTANCE: usize = offset_of!(Record, lent) + offset_of!(Lent, overlapped);
    // SAFETY: the caller's promise.
    unsafe { NonNull::new_unchecked(overlapped.byte_sub(DISTANCE).cast()) }
}
