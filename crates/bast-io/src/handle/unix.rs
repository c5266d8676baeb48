//! Handles and Unix' own descriptors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use super::{Handle, HandleRef, Kind};
use crate::sys;

/// A socket (here: any descriptor) of somebody else's.
pub type BorrowedSocket<'a> = BorrowedFd<'a>;

/// What somebody else has made and gives up.
pub type Owned = OwnedFd;

impl HandleRef {
    /// A descriptor that bast does not own and knows nothing about, for
    /// [`Op::Poll`](crate::Op::Poll). The driver keeps no note of it between operations.
    #[must_use]
    pub fn foreign(fd: BorrowedFd<'_>) -> HandleRef {
        HandleRef { raw: fd.as_raw_fd(), kind: Kind::Foreign, id: 0 }
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.raw
    }
}

impl From<Handle> for OwnedFd {
    fn from(handle: Handle) -> OwnedFd {
        // SAFETY: `into_raw` gave up ownership; simulated handles are refused by the face.
        unsafe { OwnedFd::from_raw_fd(handle.into_raw()) }
    }
}

impl Handle {
    /// Takes over an owned descriptor, and puts it into the mode that `kind` says.
    ///
    /// # Errors
    /// What `ioctl(FIONBIO)` says of the descriptor.
    pub fn adopt(fd: Owned, kind: Kind) -> io::Result<Handle> {
        let nonblocking = !sys::STREAMS_BLOCK || matches!(kind, Kind::Pipe | Kind::Listener);
        if kind != Kind::File {
            sys::set_nonblocking(fd.as_raw_fd(), nonblocking).into_result()?;
        }
        Ok(Handle::from_owned(fd, kind))
    }

    /// Gives the descriptor up, in blocking mode.
    ///
    /// # Errors
    /// As [`adopt`](Handle::adopt).
    pub fn into_blocking(self) -> io::Result<OwnedFd> {
        sys::set_nonblocking(self.raw, false).into_result()?;
        Ok(self.into())
    }

    /// Takes over an owned descriptor, which must be in the mode that `kind` says.
    #[must_use]
    pub fn from_owned(fd: Owned, kind: Kind) -> Handle {
        // SAFETY: `fd` was owned and is given up here.
        unsafe { Handle::from_raw(fd.into_raw_fd(), kind) }
    }
}
