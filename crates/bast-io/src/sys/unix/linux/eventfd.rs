//! An eventfd: what ends a driver's wait from another thread.
//!
//! Drivers that watch it edge-triggered never read it: each write is a new edge, and 2^64 writes do not happen. Only
//! [`Bell::wait`], which is level-triggered, reads it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The eventfd.
#[derive(Debug)]
pub(crate) struct Bell {
    fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        super::counter().map(|(fd, _)| Bell { fd })
    }

    /// The descriptor that becomes readable when a sleeper has been woken.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn ring(&self) {
        let one = 1u64;
        // SAFETY: the buffer is eight bytes. The write cannot fail in a way that matters: EAGAIN
        // means that the counter is at its maximum, and then the descriptor is readable anyway.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let fd = self.fd.as_raw_fd();
        crate::sys::wait_fd(fd, libc::POLLIN, timeout);
        let mut count = 0u64;
        // SAFETY: the buffer is eight bytes; the descriptor is non-blocking.
        unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
    }
}
