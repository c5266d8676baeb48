//! Standard output.

use std::cell::RefCell;
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
        unless_closed(stdio::write(Which::Stdout, bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static STDOUT: ReentrantLock<RefCell<Output<Raw>>> =
    ReentrantLock::new(RefCell::new(Output::new(Raw, true)));

/// Same as [`std::io::Stdout`].
///
/// ```
/// use std::io::Write;
///
/// let mut out = bast::io::stdout().lock();
/// writeln!(out, "several lines,")?;
/// writeln!(out, "with nobody's between them")?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Differences from std
/// * Waiting for a terminal, a pipe or the lock holds up the fiber and not its worker.
/// * It has a buffer of its own: what is printed by std's macros goes past it, and may overtake a line that has only
///   been begun. `cargo test` does not capture it.
/// * What is still in the buffer when the program ends is written if it ends by returning from `main` or by
///   [`process::exit`](std::process::exit), and nobody holds the lock then. (Same as in std.)
///
/// # Cancellation
/// Locking, writing and flushing are suspension points. A line of up to 64 KiB is written whole or not at all:
/// what remains of it, and of lines behind it, is written by the next who writes or flushes, or at the end of the program.
pub struct Stdout {
    _private: (),
}

/// Same as [`std::io::StdoutLock`].
///
/// # Differences from std
/// It belongs to the fiber that got it, which may lock again.
pub struct StdoutLock<'a> {
    output: ReentrantLockGuard<'a, RefCell<Output<Raw>>>,
}

/// Same as [`std::io::stdout`].
#[must_use]
pub fn stdout() -> Stdout {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| foreign::at_exit(write_the_rest));
    Stdout { _private: () }
}

/// The process ends, so nobody is held up by it. Who holds the lock now is in the middle of writing.
extern "C" fn write_the_rest() {
    let Some(output) = STDOUT.try_lock() else { return };
    let Ok(mut output) = output.try_borrow_mut() else { return };
    stdio::write_rest(Which::Stdout, &output.take_rest());
}

impl Stdout {
    /// Same as [`std::io::Stdout::lock`].
    ///
    /// # Cancellation
    /// A suspension point.
    #[must_use]
    pub fn lock(&self) -> StdoutLock<'static> {
        StdoutLock { output: STDOUT.lock() }
    }
}

/// Gives the child the same stream. What is in the buffer here stays here, as with std.
impl From<Stdout> for Stdio {
    fn from(_: Stdout) -> Stdio {
        io::stdout().into()
    }
}

impl Write for StdoutLock<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.borrow_mut().flush()
    }
}

output_stream!(Stdout, StdoutLock);
