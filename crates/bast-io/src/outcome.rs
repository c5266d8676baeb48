//! What an operation came to: the number its system call returned, or its error.

use std::io;

use crate::sys::{self, c};

/// The errors that say that the process or the system has run out of something: descriptors, memory.
/// An `accept` that has failed so fails again at once.
pub const SHORTAGES: &[i32] = sys::SHORTAGES;

/// What an `accept` says of the connection that it would have taken, not of the listener: the next is another.
pub const OF_ONE_CONNECTION: &[i32] = sys::OF_ONE_CONNECTION;

/// The result of an operation, in the kernel's own form: a count, a descriptor or zero when it is
/// not negative, else `-errno`. (Windows has codes of its own for errors: `errno` stands for these, too.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Outcome(pub i32);

impl Outcome {
    /// The operation was cancelled before it did anything.
    pub const CANCELLED: Outcome = Outcome(-c::ECANCELED);

    /// The operation was given up because the caller's time had passed. No kernel says this, so it is
    /// told apart from the `ETIMEDOUT` of a connection that has died of silence; as an
    /// [`io::Error`](Outcome::into_result) both are `TimedOut`.
    pub const TIMED_OUT: Outcome = Outcome(i32::MIN);

    /// The operation would have to wait, and is not allowed to.
    pub const WOULD_BLOCK: Outcome = Outcome(-c::EAGAIN);

    /// What a socket says whose own timeout (`SO_RCVTIMEO`) is over: `EAGAIN`, on Windows `WSAETIMEDOUT`.
    pub const OVERDUE: Outcome = Outcome(-sys::OVERDUE);

    /// The error `errno` (positive).
    pub const fn from_errno(errno: i32) -> Outcome {
        Outcome(-errno)
    }

    /// What a libc call that sets `errno` returned.
    pub fn from_libc(returned: isize) -> Outcome {
        if returned < 0 {
            Outcome(-io::Error::last_os_error().raw_os_error().unwrap_or(c::EIO))
        } else {
            Outcome(i32::try_from(returned).unwrap_or(i32::MAX))
        }
    }

    /// Whether this is the error `errno` (positive).
    #[must_use]
    pub const fn is_errno(self, errno: i32) -> bool {
        self.0 == -errno
    }

    /// The count, or the error.
    ///
    /// # Errors
    /// The operation's own.
    pub fn into_result(self) -> io::Result<usize> {
        usize::try_from(self.0).map_err(|_| match self {
            Outcome::TIMED_OUT => io::Error::from_raw_os_error(c::ETIMEDOUT),
            Outcome(negated) => io::Error::from_raw_os_error(-negated),
        })
    }
}
