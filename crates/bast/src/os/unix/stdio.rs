//! The descriptors of the standard streams. They are std's: looked at each time, never owned, closed or set
//! non-blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use bast_io::foreign;
use bast_rt::ops;

use crate::io::IsTerminal;

/// A stream that is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    Stdout,
    Stderr,
}

fn with_fd<R>(which: Which, f: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
    match which {
        Which::Stdout => f(io::stdout().as_fd()),
        Which::Stderr => f(io::stderr().as_fd()),
    }
}

/// Reads what there is, and waits if that is nothing.
pub(crate) fn read(buf: &mut [u8]) -> io::Result<usize> {
    ops::read_foreign(io::stdin().as_fd(), buf)
}

/// Writes what there is room for, and waits if there is none.
pub(crate) fn write(which: Which, bytes: &[u8]) -> io::Result<usize> {
    with_fd(which, |fd| ops::write_foreign(fd, bytes))
}

/// Writes all, as far as it can be written, while the process ends.
pub(crate) fn write_rest(which: Which, bytes: &[u8]) {
    with_fd(which, |fd| foreign::write_all(fd, bytes));
}

impl<T: AsFd> IsTerminal for T {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&self.as_fd())
    }
}
