//! Pipes within this process, whose both ends are overlapped: named ones, as Windows' nameless are synchronous.

use std::io;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_PIPE_BUSY, GENERIC_WRITE, GetLastError, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, OPEN_EXISTING,
    PIPE_ACCESS_INBOUND,
};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE, PIPE_WAIT,
};

use crate::{Handle, Kind, sys};

/// Bytes that there is room for.
const SIZE: u32 = 64 << 10;

/// The end to read from and the end to write to.
///
/// # Errors
/// No more handles.
pub fn pair() -> io::Result<(Handle, Handle)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let (process, n) = (std::process::id(), NEXT.fetch_add(1, Relaxed)); // it only has to differ
        let name: Vec<u16> = format!("\\\\.\\pipe\\bast-{process}-{n}\0").encode_utf16().collect();
        let access = PIPE_ACCESS_INBOUND | FILE_FLAG_FIRST_PIPE_INSTANCE | FILE_FLAG_OVERLAPPED;
        let mode = PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS;
        // SAFETY: the name ends with a zero and outlives the calls; handles that were just made are nobody else's.
        unsafe {
            let reader = CreateNamedPipeW(name.as_ptr(), access, mode, 1, SIZE, SIZE, 0, null());
            if reader == INVALID_HANDLE_VALUE {
                match GetLastError() {
                    // Somebody else has one of this name.
                    ERROR_ACCESS_DENIED | ERROR_PIPE_BUSY => continue,
                    _ => return Err(io::Error::last_os_error()),
                }
            }
            let reader = Handle::from_raw(sys::raw(reader), Kind::Pipe);
            let flags = FILE_FLAG_OVERLAPPED;
            let writer = CreateFileW(
                name.as_ptr(),
                GENERIC_WRITE,
                0,
                null(),
                OPEN_EXISTING,
                flags,
                null_mut(),
            );
            if writer == INVALID_HANDLE_VALUE {
                return Err(io::Error::last_os_error());
            }
            return Ok((reader, Handle::from_raw(sys::raw(writer), Kind::Pipe)));
        }
    }
}
