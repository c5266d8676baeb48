//! The end of a child process, as something that can be waited for.
//!
//! A process's handle is signalled when it has ended. It is bound to the process and not to the number, and nobody
//! has to reap a child here: when its last handle is closed, it is gone.

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};

use windows_sys::Win32::Foundation::WAIT_FAILED;
use windows_sys::Win32::System::Threading::{INFINITE, TerminateProcess, WaitForSingleObject};

use crate::{Handle, Kind, sys};

/// A handle of our own for the process: [`Op::Poll`](crate::Op::Poll) of it completes when the process has ended.
///
/// # Errors
/// No more handles.
pub fn watch(process: BorrowedHandle<'_>) -> io::Result<Handle> {
    Ok(Handle::from_owned(process.try_clone_to_owned()?.into(), Kind::Pipe))
}

/// Waits, on the calling thread, until the process has ended.
///
/// # Errors
/// The handle may not be used to wait.
pub fn wait(process: BorrowedHandle<'_>) -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { WaitForSingleObject(process.as_raw_handle(), INFINITE) } {
        WAIT_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether the process has ended.
#[must_use]
pub fn has_ended(process: BorrowedHandle<'_>) -> bool {
    sys::is_signalled(sys::raw(process.as_raw_handle()))
}

/// Ends a process at once, with this exit code.
///
/// # Errors
/// `PermissionDenied`: not ours to end, or it has ended already.
pub fn terminate(process: BorrowedHandle<'_>, code: u32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { TerminateProcess(process.as_raw_handle(), code) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::AsHandle;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_ends_once() {
        let mut command = Command::new("cmd");
        command.args(["/c", "pause"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("cmd");
        let handle = watch(child.as_handle()).expect("a handle");
        assert!(!has_ended(child.as_handle()));
        terminate(child.as_handle(), 7).expect("it is ours");
        wait(child.as_handle()).expect("it ends");
        assert!(has_ended(child.as_handle()) && sys::is_signalled(handle.raw()));
        assert_eq!(child.wait().expect("it has ended").code(), Some(7));
    }
}
