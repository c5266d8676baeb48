//! Standard error.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::Once;

use bast_io::foreign;
use bast_sync::{ReentrantLock, ReentrantLockGuard};

use super::output::Output;
use super::{output_stream, unless_closed};
use crate::os::system::stdio::{self, Which};

struct Raw;

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(stdio::write(Which::Stderr, bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static STDERR: ReentrantLock<RefCell<Output<Raw>>> =
    ReentrantLock::new(RefCell::new(Output::new(Raw, false)));

/// Same as [`std::io::Stderr`].
///
/// # Differences from std
/// * Waiting for a terminal, a pipe or the lock holds up the fiber and not its worker.
/// * A formatted message is put together first and then written in one piece, as far as the kernel takes it.
///
/// # Cancellation
/// As [`Stdout`](super::Stdout)'s, for each write of up to 64 KiB.
pub struct Stderr {
    _private: (),
}

/// Same as [`std::io::StderrLock`].
///
/// # Differences from std
/// It belongs to the fiber that got it, which may lock again.
pub struct StderrLock<'a> {
    output: ReentrantLockGuard<'a, RefCell<Output<Raw>>>,
}

/// Same as [`std::io::stderr`].
#[must_use]
pub fn stderr() -> Stderr {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| foreign::at_exit(write_the_rest));
    Stderr { _private: () }
}

/// What writers have left that were cancelled.
extern "C" fn write_the_rest() {
    let Some(output) = STDERR.try_lock() else { return };
    let Ok(mut output) = output.try_borrow_mut() else { return };
    stdio::write_rest(Which::Stderr, &output.take_rest());
}

impl Stderr {
    /// Same as [`std::io::Stderr::lock`].
    ///
    /// # Cancellation
    /// A suspension point.
    #[must_use]
    pub fn lock(&self) -> StderrLock<'static> {
        StderrLock { output: STDERR.lock() }
    }
}

/// Gives the child the same stream. What is in the buffer here stays here, as with std.
impl From<Stderr> for Stdio {
    fn from(_: Stderr) -> Stdio {
        io::stderr().into()
    }
}

impl Write for StderrLock<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.borrow_mut().write(bytes)
    }

    fn write_fmt(&mut self, args: fmt::Arguments<'_>) -> io::Result<()> {
        match args.as_str() {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.write_all(args.to_string().as_bytes()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.borrow_mut().flush()
    }
}

output_stream!(Stderr, StderrLock);
