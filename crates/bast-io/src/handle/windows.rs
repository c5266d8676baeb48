//! Handles and Windows' own handles and sockets.
//!
//! Sockets of ours are non-blocking, whatever their kind. Whether a file or a pipe is synchronous or overlapped was
//! decided when it was opened; both will do.

use std::io;
use std::os::windows::io::{
    AsRawHandle, AsRawSocket, BorrowedHandle, FromRawHandle, FromRawSocket, IntoRawHandle,
    IntoRawSocket, OwnedHandle, OwnedSocket, RawHandle, RawSocket,
};

use super::{Handle, HandleRef, Kind};
use crate::sys;

/// A socket of somebody else's.
pub type BorrowedSocket<'a> = std::os::windows::io::BorrowedSocket<'a>;

/// What somebody else has made and gives up. Made with `into()` out of std's own types.
#[derive(Debug)]
pub enum Owned {
    /// A file, a pipe, an object that can be waited for.
    Handle(OwnedHandle),
    /// A socket.
    Socket(OwnedSocket),
}

/// Each type with the kind of thing that it is.
macro_rules! owned {
    ($($variant:ident: $($from:ty),+;)+) => {
        $($(impl From<$from> for Owned {
            fn from(own: $from) -> Owned {
                Owned::$variant(own.into())
            }
        })+)+
    };
}

owned! {
    Handle: OwnedHandle, std::fs::File, io::PipeReader, io::PipeWriter, std::process::ChildStdin,
        std::process::ChildStdout, std::process::ChildStderr;
    Socket: OwnedSocket, std::net::TcpStream, std::net::TcpListener, std::net::UdpSocket;
}

impl HandleRef {
    /// A socket that bast does not own and knows nothing about, for
    /// [`Op::Poll`](crate::Op::Poll). The driver keeps no note of it between operations.
    #[must_use]
    pub fn foreign(socket: BorrowedSocket<'_>) -> HandleRef {
        HandleRef { raw: socket.as_raw_socket() as i32, kind: Kind::Foreign, id: 0 }
    }

    /// An object (an event, a process, a timer, …) that bast does not own: [`Op::Poll`](crate::Op::Poll) waits until
    /// it is signalled.
    #[must_use]
    pub fn object(object: BorrowedHandle<'_>) -> HandleRef {
        HandleRef { raw: sys::raw(object.as_raw_handle()), kind: Kind::Pipe, id: 0 }
    }
}

impl Kind {
    /// Whether its readiness is that of an object: it is signalled.
    pub(crate) const fn is_object(self) -> bool {
        matches!(self, Kind::Pipe | Kind::File)
    }
}

impl AsRawHandle for Handle {
    fn as_raw_handle(&self) -> RawHandle {
        sys::handle(self.raw)
    }
}

impl AsRawSocket for Handle {
    fn as_raw_socket(&self) -> RawSocket {
        sys::socket(self.raw) as RawSocket
    }
}

impl From<Handle> for OwnedHandle {
    fn from(handle: Handle) -> OwnedHandle {
        let raw = sys::handle(handle.into_raw());
        // SAFETY: `into_raw` gave up ownership; simulated handles are refused by the face.
        unsafe { OwnedHandle::from_raw_handle(raw) }
    }
}

impl From<Handle> for OwnedSocket {
    /// In blocking mode, as std has them.
    fn from(handle: Handle) -> OwnedSocket {
        let _ = sys::set_nonblocking(handle.raw, false);
        let raw = sys::socket(handle.into_raw()) as RawSocket;
        // SAFETY: as above.
        unsafe { OwnedSocket::from_raw_socket(raw) }
    }
}

impl Handle {
    /// Takes over what somebody else owned; a socket is put into our mode.
    ///
    /// # Errors
    /// What `ioctlsocket(FIONBIO)` says of it.
    pub fn adopt(owned: Owned, kind: Kind) -> io::Result<Handle> {
        match owned {
            Owned::Handle(handle) => {
                // SAFETY: it was owned and is given up here.
                Ok(unsafe { Handle::from_raw(sys::raw(handle.into_raw_handle()), kind) })
            }
            Owned::Socket(socket) => {
                // SAFETY: as above.
                let handle = unsafe { Handle::from_raw(socket.into_raw_socket() as i32, kind) };
                sys::set_nonblocking(handle.raw, true).into_result()?;
                Ok(handle)
            }
        }
    }

    /// Gives the socket up, in blocking mode.
    ///
    /// # Errors
    /// As [`adopt`](Handle::adopt).
    pub fn into_blocking(self) -> io::Result<OwnedSocket> {
        sys::set_nonblocking(self.raw, false).into_result()?;
        Ok(self.into())
    }

    /// As [`adopt`](Handle::adopt), of what is in our mode or lets itself be put into it.
    ///
    /// # Panics
    /// If it is a socket that has no mode.
    #[must_use]
    pub fn from_owned(owned: Owned, kind: Kind) -> Handle {
        Handle::adopt(owned, kind).expect("a socket has a mode")
    }
}
