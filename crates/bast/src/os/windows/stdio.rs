//! The handles of the standard streams, in std's hands: it knows that a console is written in UTF-16.
//!
//! A call waits in a thread of the pool, and is interrupted there when its fiber is cancelled.

use std::io::{self, IsTerminal as _, Read, Write};
use std::mem::ManuallyDrop;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle};

use bast_rt::run_blocking_interruptible;

use crate::io::IsTerminal;

/// A stream that is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Stdout,
    Stderr,
}

/// Reads what there is, and waits if that is nothing.
pub(crate) fn read(buf: &mut [u8]) -> io::Result<usize> {
    run_blocking_interruptible(|| {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return stdin.lock().read(buf);
        }
        // Without std's buffer and lock, as on Unix.
        with_file(stdin.as_handle(), |mut file| file.read(buf))
    })
}

/// Writes what there is room for, and waits if there is none.
pub(crate) fn write(which: Which, bytes: &[u8]) -> io::Result<usize> {
    run_blocking_interruptible(|| write_now(which, bytes))
}

/// Writes all, as far as it can be written, while the process ends.
pub(crate) fn write_rest(which: Which, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write_now(which, bytes) {
            Ok(n @ 1..) => bytes = &bytes[n..],
            _ => return,
        }
    }
}

fn write_now(which: Which, bytes: &[u8]) -> io::Result<usize> {
    match which {
        Which::Stderr => io::stderr().write(bytes),
        Which::Stdout => {
            let mut stdout = io::stdout();
            if stdout.is_terminal() {
                let n = stdout.write(bytes)?;
                return stdout.flush().map(|()| n);
            }
            with_file(stdout.as_handle(), |mut file| file.write(bytes))
        }
    }
}

fn with_file<R>(handle: BorrowedHandle<'_>, f: impl FnOnce(&std::fs::File) -> R) -> R {
    // SAFETY: it is borrowed, and std's file never closes it. (A program without the stream has a null handle, of
    // which every call says that it is none.)
    f(&ManuallyDrop::new(unsafe { std::fs::File::from_raw_handle(handle.as_raw_handle()) }))
}

impl<T: AsHandle> IsTerminal for T {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&self.as_handle())
    }
}
