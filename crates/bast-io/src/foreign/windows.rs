//! Handles, which no call asks not to wait.
//!
//! Windows cannot be asked of these what may be had without a wait. So a thread that may block asks; it can be
//! interrupted (`CancelSynchronousIo`). A console takes and gives UTF-16: std sees to that.
//!
//! A console says when something is typed. Until then no line is asked for: a console whose reader has been
//! interrupted may give that reader the next line all the same (Wine's does).

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

use windows_sys::Win32::System::Console::{ENABLE_LINE_INPUT, GetConsoleMode, WriteConsoleW};

use super::Tried;
use crate::HandleRef;

/// What is read and written.
pub type Borrowed<'a> = BorrowedHandle<'a>;

/// What is to be polled before a thread is given the call; `None`: nothing.
#[must_use]
pub fn pollable(handle: Borrowed<'_>) -> Option<HandleRef> {
    let mut mode = 0;
    // SAFETY: an open handle, and room for the answer.
    let is_console = unsafe { GetConsoleMode(handle.as_raw_handle(), &raw mut mode) } != 0;
    (is_console && mode & ENABLE_LINE_INPUT != 0).then(|| HandleRef::object(handle))
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

/// Writes all, as far as it can be written, on the calling thread; text, if it is a console. Takes no lock that a thread
/// could have taken to its grave.
pub fn write_all(handle: Borrowed<'_>, bytes: &[u8]) {
    let mut mode = 0;
    // SAFETY: an open handle, and room for the answer.
    if unsafe { GetConsoleMode(handle.as_raw_handle(), &raw mut mode) } == 0 {
        let _ = file(handle).write_all(bytes);
        return;
    }
    let text: Vec<u16> = String::from_utf8_lossy(bytes).encode_utf16().collect();
    // SAFETY: as many units.
    let _ = unsafe {
        WriteConsoleW(handle.as_raw_handle(), text.as_ptr(), text.len() as u32, null_mut(), null())
    };
}

/// Has `f` called when the process ends in the ordinary way: `main` returns, or somebody calls `exit`. It may be called
/// twice.
///
/// Rust's `exit` goes past C's, to Windows, whose loader then calls what it finds in a list of the program. (Wine's does
/// not.) By then the other threads are no more, wherever they were.
pub fn at_exit(f: extern "C" fn()) {
    unsafe extern "C" {
        fn atexit(f: extern "C" fn()) -> i32;
    }
    AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).push(f);
    // SAFETY: C's own; a function that lives as long as the program. It fails only for want of memory, and then `f`
    // is not called.
    let _ = unsafe { atexit(f) };
}

static AT_EXIT: Mutex<Vec<extern "C" fn()>> = Mutex::new(Vec::new());

/// Where the loader finds what to call when threads and the process begin and end.
#[used]
#[unsafe(link_section = ".CRT$XLB")]
static CALLBACK: unsafe extern "system" fn(*mut c_void, u32, *mut c_void) = on_change;

const DLL_PROCESS_DETACH: u32 = 0;

unsafe extern "system" fn on_change(_: *mut c_void, reason: u32, _: *mut c_void) {
    if reason == DLL_PROCESS_DETACH
        && let Ok(all) = AT_EXIT.try_lock()
    {
        all.iter().for_each(|f| f());
    }
}
