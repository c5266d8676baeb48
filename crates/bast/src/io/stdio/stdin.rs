//! Standard input.

use std::fmt;
use std::io::{self, BufRead, Lines, Read};
use std::sync::PoisonError;

use bast_sync::{Mutex, MutexGuard};

use super::input::Input;
use super::unless_closed;
use crate::os::system::stdio;

struct Raw;

impl Read for Raw {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        unless_closed(stdio::read(buf), 0)
    }
}

static STDIN: Mutex<Input<Raw>> = Mutex::new(Input::new(Raw));

/// Same as [`std::io::Stdin`].
///
/// ```no_run
/// for line in bast::io::stdin().lines() {
///     bast::println!("{} bytes", line?.len());
/// }
/// # std::io::Result::Ok(())
/// ```
///
/// # Differences from std
/// * Waiting for input or the lock holds up the fiber and not its worker.
/// * It has a buffer of its own: a program reads either this one or std's.
/// * Locking it twice panics.
///
/// # Cancellation
/// Locking and reading are suspension points. A reader that is cancelled, or whose time is up, has taken nothing: what it
/// had read of a line, or of all, is there for the next. (So the methods that read a line, an exact number of
/// bytes, or all, put that together before they give it out. If they fail, it also stays.)
pub struct Stdin {
    _private: (),
}

/// Same as [`std::io::StdinLock`].
///
/// # Differences from std
/// It belongs to the fiber that got it.
pub struct StdinLock<'a> {
    input: MutexGuard<'a, Input<Raw>>,
}

/// Same as [`std::io::stdin`].
#[must_use]
pub fn stdin() -> Stdin {
    Stdin { _private: () }
}

impl Stdin {
    /// Same as [`std::io::Stdin::lock`].
    ///
    /// # Panics
    /// If the calling fiber or thread has locked it already.
    ///
    /// # Cancellation
    /// A suspension point.
    #[must_use]
    pub fn lock(&self) -> StdinLock<'static> {
        // A reader that unwinds leaves the buffer in order.
        StdinLock { input: STDIN.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Same as [`std::io::Stdin::read_line`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn read_line(&self, buf: &mut String) -> io::Result<usize> {
        self.lock().read_line(buf)
    }

    /// Same as [`std::io::Stdin::lines`].
    #[must_use]
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }
}

impl Read for &Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buf)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        self.lock().read_exact(buf)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        self.lock().read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        self.lock().read_to_string(buf)
    }
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        (&*self).read_exact(buf)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buf)
    }
}

impl Read for StdinLock<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.input.read(buf)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(buf)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        self.input.read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        self.input.read_to_string(buf)
    }
}

impl BufRead for StdinLock<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.input.consume(n);
    }

    fn read_until(&mut self, delimiter: u8, buf: &mut Vec<u8>) -> io::Result<usize> {
        self.input.read_until(delimiter, buf)
    }

    fn read_line(&mut self, buf: &mut String) -> io::Result<usize> {
        self.input.read_line(buf)
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdin").finish_non_exhaustive()
    }
}

impl fmt::Debug for StdinLock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdinLock").finish_non_exhaustive()
    }
}
