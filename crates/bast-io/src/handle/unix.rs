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
        let handle = Handle::from_owned(fd, kind);
        handle.settle()?;
        Ok(handle)
    }

    /// Puts the descriptor into the mode that its kind asks for.
    ///
    /// # Errors
    /// As [`adopt`](Handle::adopt).
    pub fn settle(&self) -> io::Result<()> {
        let nonblocking = !sys::STREAMS_BLOCK || matches!(self.kind, Kind::Pipe | Kind::Listener);
        match self.kind {
            Kind::File => Ok(()),
            _ => sys::set_nonblocking(self.raw, nonblocking).into_result().map(drop),
        }
    }

    /// Whether a stream or datagram socket may be in blocking mode while it is used here: if not, a call could wait on
    /// the thread that makes it.
    #[must_use]
    pub const fn may_block() -> bool {
        sys::STREAMS_BLOCK
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_taken_over_gets_our_mode() {
        for (kind, nonblocking) in [
            (Kind::Datagram, !Handle::may_block()),
            (Kind::Stream, !Handle::may_block()),
            (Kind::Listener, true),
            (Kind::Pipe, true),
        ] {
            for before in [false, true] {
                let (socket, _peer) = UnixStream::pair().expect("a pair");
                socket.set_nonblocking(before).expect("a socket");
                let handle = Handle::adopt(socket.into(), kind).expect("a mode");
                // SAFETY: no memory is involved.
                let flags = unsafe { libc::fcntl(handle.raw, libc::F_GETFL) };
                assert_eq!(flags & libc::O_NONBLOCK != 0, nonblocking, "{kind:?}");
            }
        }
    }
}
