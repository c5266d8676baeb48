//! Reading and writing descriptors whose mode is not ours to set (`bast_io::foreign`).
//!
//! ```text
//!   try ──Done──▶ result
//!    ▲ ╰─NotReady, MayBlock─▶ poll ──ready, was NotReady──╮
//!    ╰────────────────────────────────────────────────────╯
//!                              ╰──ready, was MayBlock; or it cannot be polled──▶ the pool
//! ```
//!
//! What is polled for first can be given up without having read anything, and the call on the pool is
//! short; if it has to wait all the same, as somebody else was faster, it is interrupted.

use std::io;

use bast_io::Interest;
use bast_io::foreign::{self, Borrowed, Tried};

use super::socket::ready;
use crate::{run_blocking_interruptible, wait};

/// Reads from a descriptor in whatever mode it is, and leaves it in that.
///
/// # Errors
/// The kernel's, but never `EINTR` or `EAGAIN`.
pub fn read_foreign(fd: Borrowed<'_>, buf: &mut [u8]) -> io::Result<usize> {
    let attempt = |buf: &mut &mut [u8]| foreign::try_read(fd, buf);
    transfer(fd, Interest::Readable, buf, attempt, |buf| foreign::read(fd, buf))
}

/// Writes to a descriptor in whatever mode it is, and leaves it in that. May write less than all.
///
/// # Errors
/// As [`read_foreign`].
pub fn write_foreign(fd: Borrowed<'_>, buf: &[u8]) -> io::Result<usize> {
    let attempt = |buf: &mut &[u8]| foreign::try_write(fd, buf);
    transfer(fd, Interest::Writable, buf, attempt, |buf| foreign::write(fd, buf))
}

fn transfer<B: Send>(
    fd: Borrowed<'_>,
    interest: Interest,
    mut buf: B,
    attempt: impl Fn(&mut B) -> Tried,
    block: impl Fn(&mut B) -> io::Result<usize> + Sync,
) -> io::Result<usize> {
    loop {
        wait::check();
        let tried = attempt(&mut buf);
        if let Tried::Done(result) = tried {
            wait::spend();
            return result;
        }
        match foreign::pollable(fd).map(|fd| ready(fd, interest, None)).transpose() {
            Ok(Some(())) if matches!(tried, Tried::NotReady) => continue,
            Ok(_) => {}
            // It cannot be waited for: a file, or the simulator, to which it does not belong.
            Err(error) if error.raw_os_error().is_some() => {}
            // Where nothing unwinds, this is how a request arrives.
            Err(error) => return Err(error),
        }
        match run_blocking_interruptible(|| block(&mut buf)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
