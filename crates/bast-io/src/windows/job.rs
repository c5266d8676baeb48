//! Children on Windows: jobs, which hold a child and all that it starts, and how a child is ended.
//!
//! ```text
//!   Job::new ─▶ assign, while the child is suspended ─▶ resume ─▶ … ─▶ terminate: all of them
//! ```
//!
//! The end of a process is heard of by its handle, which [`Op::Poll`](crate::Op::Poll) waits for. No zombies: a process
//! that has ended is forgotten with the last handle.

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS, RtlNtStatusToDosError};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, TerminateJobObject,
};
pub use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED};

/// The exit code of what is killed: std's `Child::kill` gives the same.
pub const KILLED: u32 = 1;

#[link(name = "ntdll")]
unsafe extern "system" {
    /// Lets all threads of a process go on. (Windows' own way is by their handles, which std has closed by then.)
    safe fn NtResumeProcess(process: HANDLE) -> NTSTATUS;
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A job of its own.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// An empty one. When it is dropped its processes go on.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> io::Result<Job> {
        // SAFETY: null pointers: the default security, no name. The new handle is nobody else's.
        unsafe {
            let job = CreateJobObjectW(ptr::null(), ptr::null());
            if job.is_null() {
                return Err(io::Error::last_os_error());
            }
            Ok(Job(OwnedHandle::from_raw_handle(job)))
        }
    }

    /// Puts a process into it, and whatever that starts from now on.
    ///
    /// # Errors
    /// `ERROR_ACCESS_DENIED`: it is in a job already that holds no others (before Windows 8).
    pub fn assign(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        // SAFETY: two open handles.
        done(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process.as_raw_handle()) })
    }

    /// Ends all of its processes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: an open handle.
        done(unsafe { TerminateJobObject(self.0.as_raw_handle(), KILLED) })
    }
}

/// Lets a process go on that was started suspended.
///
/// # Errors
/// The kernel's.
pub fn resume(process: BorrowedHandle<'_>) -> io::Result<()> {
    match NtResumeProcess(process.as_raw_handle()) {
        // SAFETY: a number.
        status @ ..0 => Err(io::Error::from_raw_os_error(unsafe {
            RtlNtStatusToDosError(status).cast_signed()
        })),
        _ => Ok(()),
    }
}

/// Presses Ctrl-Break for a process that was started with `CREATE_NEW_PROCESS_GROUP`, and for its group.
///
/// # Errors
/// It has another console than this process, or there is none.
pub fn ask_to_end(id: u32) -> io::Result<()> {
    // SAFETY: two numbers.
    done(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, id) })
}
