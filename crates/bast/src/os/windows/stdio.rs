//! The standard streams. A console takes and gives UTF-16, which std knows how to do; everything else takes bytes, past
//! std's buffers and locks, as on Unix.
//!
//! A call waits in a thread of the pool, and is interrupted there when its fiber is cancelled. A console is asked for a
//! line when somebody types, or when the last one has not come to its end:
//!
//! ```text
//!   poll ──typed──▶ std's read, on the pool ──"…\n"──▶ poll
//!                        ▲      ╰── a part of a line ─╮
//!                        ╰────────────────────────────╯
//! ```
//!
//! Memory ordering: `LINE_BEGUN` guards no other memory, and only one at a time reads: Relaxed.

use std::io::{self, Read, Write};
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bast_io::{Interest, Op, foreign};
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
        if !LINE_BEGUN.load(Relaxed) {
            wait_for_keys(stdin.as_handle())?;
        }
        match run_blocking_interruptible(|| stdin.lock().read(buf)) {
            Err(error) if bast_io::is_interruption(&error) => {}
            Ok(n) => {
                LINE_BEGUN.store(!buf[..n].is_empty() && !buf[..n].ends_with(b"\n"), Relaxed);
                return Ok(n);
            }
            Err(error) => {
                // Wine gives an error of its own to who is interrupted.
                wait::check();
                return Err(error);
            }
        }
    }
}

/// Whether more of a line is there already, in the console or in std: nobody has to type for it.
static LINE_BEGUN: AtomicBool = AtomicBool::new(false);

fn wait_for_keys(console: BorrowedHandle<'_>) -> io::Result<()> {
    let Some(handle) = foreign::pollable(console) else { return Ok(()) };
    // SAFETY: no memory.
    match unsafe { ops::at_once(Op::Poll { handle, interest: Interest::Readable }) } {
        // The simulator does not know it.
        Err(error) if error.raw_os_error().is_some() => Ok(()),
        result => result.map(drop),
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
pub(crate) fn write_rest(which: Which, bytes: &[u8]) {
    with_handle(which, |handle| foreign::write_all(handle, bytes));
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
