//! Handles, which no call asks not to wait.
//!
//! Windows cannot be asked of these what may be had without a wait. So a thread that may block asks; it can be
//! interrupted (`CancelSynchronousIo`). A console takes and gives UTF-16: std sees to that.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle};

use super::Tried;
use crate::HandleRef;

/// What is read and written.
pub type Borrowed<'a> = BorrowedHandle<'a>;

/// What is to be polled before a thread is given the call; `None`: nothing.
#[must_use]
pub const fn pollable(_: Borrowed<'_>) -> Option<HandleRef> {
    None
}

/// Reads what is there.
#[must_use]
pub const fn try_read(_: Borrowed<'_>, _: &mut [u8]) -> Tried {
    Tried::MayBlock
}

/// Writes what there is room for.
#[must_use]
pub const fn try_write(_: Borrowed<'_>, _: &[u8]) -> Tried {
    Tried::MayBlock
}

fn file(handle: Borrowed<'_>) -> ManuallyDrop<File> {
    // SAFETY: it is open while it is borrowed, and is never closed through this.
    ManuallyDrop::new(unsafe { File::from_raw_handle(handle.as_raw_handle()) })
}

/// As on Unix: who was interrupted hears so.
fn interrupted(result: io::Result<usize>) -> io::Result<usize> {
    result.map_err(|error| match crate::is_interruption(&error) {
        true => io::ErrorKind::Interrupted.into(),
        false => error,
    })
}

/// Reads, and waits as long as it takes.
///
/// # Errors
/// The kernel's; [`Interrupted`](io::ErrorKind::Interrupted) when it was.
pub fn read(handle: Borrowed<'_>, buf: &mut [u8]) -> io::Result<usize> {
    interrupted(file(handle).read(buf))
}

/// Writes, and waits as long as it takes. May write less than all.
///
/// # Errors
/// As [`read`].
pub fn write(handle: Borrowed<'_>, buf: &[u8]) -> io::Result<usize> {
    interrupted(file(handle).write(buf))
}

/// Writes all, as far as it can be written, on the calling thread.
pub fn write_all(handle: Borrowed<'_>, bytes: &[u8]) {
    let _ = file(handle).write_all(bytes);
}

/// Has `f` called when the process ends in the ordinary way: `main` returns, or somebody calls `exit`.
pub fn at_exit(f: extern "C" fn()) {
    unsafe extern "C" {
        fn atexit(f: extern "C" fn()) -> i32;
    }
    // SAFETY: C's own; a function that lives as long as the program. It fails only for want of memory, and then `f`
    // is not called.
    let _ = unsafe { atexit(f) };
}
