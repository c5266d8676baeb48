//! An overlapped call that somebody else starts (Windows): the door for what bast has no operation for.
//!
//! ```text
//!   fiber ─▶ driver: OVERLAPPED in the record ─▶ start(OVERLAPPED) ─▶ pending ─▶ … ─▶ its packet ─▶ fiber goes on
//!                                                    │ cancelled: CancelIoEx ──────────▲
//!                                                    ╰─ in here the thread is no worker
//! ```
//!
//! `start` runs in the middle of the driver's work. What it calls of bast must not come back to the driver, nor
//! suspend the fiber: so for this time the thread is a plain one, which blocks.

use std::ffi::c_void;
use std::io;

use bast_io::{HandleRef, Op};

use super::waiting;
use crate::tls;
use crate::worker::Worker;

/// The worker is back when this goes.
struct Aside(*const Worker);

impl Drop for Aside {
    fn drop(&mut self) {
        tls::set_worker(self.0);
    }
}

type Start<'a> = &'a mut dyn FnMut(*mut c_void) -> i32;

/// A panic cannot leave it: it may have come after the call was started, which nobody would wait for.
unsafe extern "C" fn run(data: *mut (), overlapped: *mut c_void) -> i32 {
    let worker = tls::worker().map_or(std::ptr::null(), std::ptr::from_ref);
    let _aside = Aside(worker);
    tls::set_worker(std::ptr::null());
    // SAFETY: `overlapped` below has put it there, and waits.
    unsafe { (*data.cast::<Start<'_>>())(overlapped) }
}

/// Has `start` start an overlapped call on `handle` with the `OVERLAPPED` that it is given, and waits for its end:
/// the bytes moved. `start` returns 0 or the code of the call's error, `ERROR_IO_PENDING` among them, and leaves
/// `hEvent` as it is.
///
/// # Errors
/// The call's.
pub fn overlapped(handle: HandleRef, mut start: Start<'_>) -> io::Result<usize> {
    let op = Op::Overlapped { handle, start: run, data: (&raw mut start).cast() };
    // SAFETY: rt 5: `start` is there until the operation is over. Whoever gives the pointer to the kernel has
    // promised that the call is the one it is waited for.
    unsafe { waiting(op, None) }
}
