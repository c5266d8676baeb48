//! Reading and writing what is not ours to set: standard input and output, which other processes share.
//!
//! ```text
//!   try_read, try_write ──▶ Done       transferred, or an error
//!                       ├─▶ NotReady   a pipe or socket: wait until it is ready, and try again
//!                       └─▶ MayBlock   a terminal, or a file that needs its disk: `read`, `write`, on the pool
//! ```
//!
//! What can be asked without a wait differs. On Windows: nothing.

#[cfg_attr(windows, path = "foreign/windows.rs")]
#[cfg_attr(unix, path = "foreign/unix.rs")]
mod own;

use std::io;

use crate::sys::c;

pub use self::own::*;

/// What came of asking without waiting.
#[derive(Debug)]
pub enum Tried {
    /// It is done, or has failed.
    Done(io::Result<usize>),
    /// The handle says when it is ready.
    NotReady,
    /// It cannot be asked without the risk of a wait.
    MayBlock,
}

/// Whether the error says that the handle is not open, or not for this.
#[must_use]
pub fn is_closed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(c::EBADF)
}
