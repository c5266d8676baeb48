//! Looking at threads from outside: counting them. What a thread is doing cannot be asked of it here, as Windows has
//! no signal that would make it answer: a report then says which fiber it is that runs, and not where.

use std::io;
use std::mem::{size_of, zeroed};

use windows_sys::Win32::Foundation::{CloseHandle, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcessId, GetCurrentThreadId};

/// Called on an interrupted thread with the address that it was at (0: unknown). True if there was
/// something to do: then nobody else hears of the signal.
pub type Hook = fn(usize) -> bool;

/// The kernel's id of the calling thread.
#[must_use]
pub fn this_thread() -> i32 {
    // SAFETY: no memory is involved.
    unsafe { GetCurrentThreadId() as i32 }
}

/// Would make `hook` what [`interrupt`] runs.
///
/// # Errors
/// `Unsupported`, always.
pub fn install(_: Hook) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a thread was interrupted: never.
#[must_use]
pub const fn interrupt(_: i32) -> bool {
    false
}

/// How many threads this process has.
///
/// # Errors
/// The kernel's.
pub fn threads() -> io::Result<usize> {
    // SAFETY: no memory is involved but the entry, which says how long it is; the snapshot is ours.
    unsafe {
        let process = GetCurrentProcessId();
        let snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
        if snapshot == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        let mut entry: THREADENTRY32 = zeroed();
        entry.dwSize = size_of::<THREADENTRY32>() as u32;
        let (mut count, mut more) = (0, Thread32First(snapshot, &raw mut entry));
        while more != 0 {
            count += usize::from(entry.th32OwnerProcessID == process);
            more = Thread32Next(snapshot, &raw mut entry);
        }
        CloseHandle(snapshot);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        let (say, hear) = std::sync::mpsc::channel::<()>();
        let before = threads().expect("a snapshot");
        let waits = std::thread::spawn(move || hear.recv());
        // Other tests' threads come and go; this one and the one that waits are here.
        assert!(before >= 1 && threads().expect("a snapshot") >= 2);
        drop(say);
        assert!(waits.join().expect("no panic").is_err());
    }
}
