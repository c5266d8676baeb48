//! Pipes that a splice between two descriptors leads through, when neither is a pipe itself.
//!
//! ```text
//!   take ◀── kept ◀── put back, if it is empty ──┐
//!     └─▶ pipe2, F_SETPIPE_SZ ──▶ in use ────────┴─▶ dropped: closed, with what was left in it
//! ```
//!
//! A few empty ones are kept for the whole process, under a lock that is held for a push or a pop. (A list for each
//! worker would save nothing that can be measured: a pipe is taken for a bulk transfer, not for a message.)
//!
//! Each costs two descriptors. The kernel lets a user have 16,384 pages in pipes (`pipe-user-pages-soft`);
//! beyond that a pipe stays smaller, and far beyond that it has two pages: [`Conduit::take`] says that there
//! is none then.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use crate::sys::{self, c};
use crate::{Handle, Kind};

/// Bytes that a pipe is made for.
const SIZE: usize = 512 << 10;
/// Bytes without which splicing is not worth its calls.
const LEAST: usize = 64 << 10;
/// How many are kept.
const KEPT: usize = 16;

/// What the kernel answers when it cannot move bytes between two descriptors by itself. (`EBADF` is about a file's mode.)
pub const REFUSALS: &[i32] =
    &[c::EINVAL, c::ENOSYS, c::EPERM, c::EXDEV, c::EOPNOTSUPP, c::EOVERFLOW, c::EBADF];

static POOL: Mutex<Vec<Conduit>> = Mutex::new(Vec::new());

/// Both ends of a pipe that nobody else has.
#[derive(Debug)]
pub struct Conduit {
    /// What comes out.
    pub reader: Handle,
    /// What goes in.
    pub writer: Handle,
    size: usize,
}

impl Conduit {
    /// An empty pipe.
    ///
    /// # Errors
    /// No more descriptors, or no memory for pipes.
    pub fn take() -> io::Result<Conduit> {
        let kept = POOL.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(Conduit::new, Ok)
    }

    fn new() -> io::Result<Conduit> {
        let (reader, writer) = io::pipe()?;
        let size = sys::enlarge_pipe(writer.as_raw_fd(), SIZE);
        if size < LEAST {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let reader = Handle::adopt(reader.into(), Kind::Pipe)?;
        let writer = Handle::adopt(writer.into(), Kind::Pipe)?;
        Ok(Conduit { reader, writer, size })
    }

    /// Bytes that it has room for, if they come in whole pages.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Gives it back, empty.
    pub fn put_back(self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < KEPT {
            pool.push(self);
        } else {
            drop(pool);
            drop(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_put_back_is_taken_again() {
        if cfg!(any(not(target_os = "linux"), bast_kqueue)) {
            assert!(Conduit::take().is_err(), "nothing is spliced here");
            return;
        }
        let one = Conduit::take().expect("a pipe");
        assert!(one.size() >= LEAST);
        one.put_back();
        let most: Vec<Conduit> = (0..KEPT + 4).map(|_| Conduit::take().expect("a pipe")).collect();
        most.into_iter().for_each(Conduit::put_back);
        assert!(POOL.lock().expect("the pool").len() <= KEPT);
    }
}
