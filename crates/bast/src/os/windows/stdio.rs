//! The standard streams. A console takes and gives UTF-16, which std knows how to do; everything else takes bytes, past
//! std's buffers and locks, as on Unix.
//!
//! A call waits in a thread of the pool, and is interrupted there when its fiber is cancelled.

use std::io::{self, Read, Write};
use std::os::windows::io::{AsHandle, BorrowedHandle};

use bast_io::foreign;
use bast_rt::{ops, run_blocking_interruptible, wait};

use crate::io::IsTerminal;

/// A stream that is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Stdout,
    Stderr,
}

fn with_handle<R>(which: Which, f: impl FnOnce(BorrowedHandle<'_>) -> R) -> R {
    match which {
        Which::Stdout => f(io::stdout().as_handle()),
        Which::Stderr => f(io::stderr().as_handle()),
    }
}

/// Reads what there is, and waits if that is nothing.
pub(crate) fn read(buf: &mut [u8]) -> io::Result<usize> {
    let stdin = io::stdin();
    if !IsTerminal::is_terminal(&stdin) {
        return ops::read_foreign(stdin.as_handle(), buf);
    }
    loop {
        wait::check();
        match run_blocking_interruptible(|| stdin.lock().read(buf)) {
            Err(error) if bast_io::is_interruption(&error) => {}
            result => return result,
        }
    }
}

/// Writes what there is room for, and waits if there is none.
pub(crate) fn write(which: Which, bytes: &[u8]) -> io::Result<usize> {
    with_handle(which, |handle| {
        if !IsTerminal::is_terminal(&handle) {
            return ops::write_foreign(handle, bytes);
        }
        loop {
            wait::check();
            match run_blocking_interruptible(|| to_console(which, bytes)) {
                Err(error) if bast_io::is_interruption(&error) => {}
                result => return result,
            }
        }
    })
}

/// Writes all, as far as it can be written, while the process ends.
pub(crate) fn write_rest(which: Which, mut bytes: &[u8]) {
    with_handle(which, |handle| {
        if !IsTerminal::is_terminal(&handle) {
            return foreign::write_all(handle, bytes);
        }
        while let Ok(n @ 1..) = to_console(which, bytes) {
            bytes = &bytes[n..];
        }
    });
}

fn to_console(which: Which, bytes: &[u8]) -> io::Result<usize> {
    match which {
        Which::Stderr => io::stderr().write(bytes),
        Which::Stdout => {
            let mut stdout = io::stdout();
            let n = stdout.write(bytes)?;
            stdout.flush().map(|()| n)
        }
    }
}

impl<T: AsHandle> IsTerminal for T {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&self.as_handle())
    }
}
