//! Same as [`std::os::windows`]: sockets and handles, and the door to any overlapped call ([`with_overlapped`]).
//!
//! bast keeps a socket's timeouts and its non-blocking mode itself: its sockets are in non-blocking mode, and no
//! timeout is set in the kernel. A conversion translates.
//!
//! ```text
//!                   std::net::TcpStream, OwnedSocket ──▶ bast::net::TcpStream
//!   SO_RCVTIMEO, SO_SNDTIMEO ──────────────────────────▶ timeouts
//!   the mode (nobody can ask for it) ──────────────────▶ blocking
//!
//!   bast::net::TcpStream ──▶ std::net::TcpStream, OwnedSocket
//!   timeouts ──────────────▶ SO_RCVTIMEO, SO_SNDTIMEO
//!   the mode ──────────────▶ FIONBIO
//! ```
//!
//! Conversions that consume a socket which has clones in bast give a duplicate instead; the clones stay.
//!
//! # Panics
//! Conversions cannot report errors, so they panic where there is no answer: a socket of the simulator
//! is none of Windows', and for a duplicate there may be no memory left.

use std::mem::ManuallyDrop;
use std::os::windows::io::{
    AsHandle, AsRawHandle, AsRawSocket, AsSocket, BorrowedHandle, BorrowedSocket, FromRawHandle,
    FromRawSocket, IntoRawHandle, IntoRawSocket, OwnedHandle, OwnedSocket, RawHandle, RawSocket,
};

use bast_io::{Handle, Kind};

use crate::fs::File;
use crate::net::{TcpListener, TcpStream, UdpSocket};

pub mod fs;
mod overlapped;
pub mod process;
pub(crate) mod stdio;

pub use overlapped::{OVERLAPPED, with_overlapped, with_overlapped_socket};

#[doc(no_inline)]
pub use std::os::windows::{ffi, io};

/// What other libraries own.
pub(crate) type Owned = OwnedHandle;

/// Handles and sockets have 32 significant bits, which bast keeps as a number with a sign.
fn handle_of(handle: &Handle) -> RawHandle {
    assert!(!handle.is_simulated(), "a file of the simulator has no handle");
    handle.as_ref().raw() as isize as RawHandle
}

fn socket_of(handle: &Handle) -> RawSocket {
    assert!(!handle.is_simulated(), "a socket of the simulator is none of Windows'");
    handle.as_ref().raw() as isize as RawSocket
}

fn borrow(handle: &Handle) -> BorrowedSocket<'_> {
    // SAFETY: the handle owns an open socket, and is borrowed for as long.
    unsafe { BorrowedSocket::borrow_raw(socket_of(handle)) }
}

pub(crate) fn borrow_handle(handle: &Handle) -> BorrowedHandle<'_> {
    // SAFETY: as above.
    unsafe { BorrowedHandle::borrow_raw(handle_of(handle)) }
}

fn duplicate(handle: &Handle) -> OwnedSocket {
    borrow(handle).try_clone_to_owned().expect("a duplicate of a shared socket")
}

fn owned(handle: Handle) -> OwnedSocket {
    let socket = socket_of(&handle);
    std::mem::forget(handle);
    // SAFETY: it was the handle's, which is forgotten.
    unsafe { OwnedSocket::from_raw_socket(socket) }
}

fn take_socket(socket: OwnedSocket, kind: Kind) -> Handle {
    // SAFETY: it was owned, and is given up here. 32 bits are significant.
    unsafe { Handle::from_raw(socket.into_raw_socket() as i32, kind) }
}

pub(crate) fn take_handle(handle: OwnedHandle, kind: Kind) -> Handle {
    // SAFETY: as above.
    unsafe { Handle::from_raw(handle.into_raw_handle() as isize as i32, kind) }
}

pub(crate) fn owned_handle(handle: Handle) -> OwnedHandle {
    let raw = handle_of(&handle);
    std::mem::forget(handle);
    // SAFETY: it was the handle's, which is forgotten.
    unsafe { OwnedHandle::from_raw_handle(raw) }
}

/// Shows std the file behind a handle.
pub(crate) fn with_std_file<R>(handle: &Handle, f: impl FnOnce(&std::fs::File) -> R) -> R {
    // SAFETY: it is open, as the handle is borrowed; std's file never closes it.
    f(&ManuallyDrop::new(unsafe { std::fs::File::from_raw_handle(handle_of(handle)) }))
}

/// Shows std the socket behind a handle.
pub(crate) fn with_std_udp<R>(handle: &Handle, f: impl FnOnce(&std::net::UdpSocket) -> R) -> R {
    // SAFETY: as above.
    f(&ManuallyDrop::new(unsafe { std::net::UdpSocket::from_raw_socket(socket_of(handle)) }))
}

/// A second handle for the same open file.
pub(crate) fn duplicate_handle(handle: &Handle) -> std::io::Result<Handle> {
    let duplicate = borrow_handle(handle).try_clone_to_owned()?;
    Ok(take_handle(duplicate, handle.as_ref().kind()))
}

/// Sockets that send and receive: with their timeouts and their mode.
macro_rules! sockets {
    ($($t:ident: $std:ty, $kind:ident;)*) => {$(
        impl From<$std> for $t {
            /// Takes over a socket of std with its timeouts, in blocking mode as seen from bast.
            fn from(std: $std) -> $t {
                // They fail only for what is no socket, and then so will whatever is done with it.
                let read = std.read_timeout().ok().flatten();
                let write = std.write_timeout().ok().flatten();
                let _ = std.set_nonblocking(true);
                let socket = $t::from_handle(take_socket(std.into(), Kind::$kind));
                let _ = socket.set_read_timeout(read);
                let _ = socket.set_write_timeout(write);
                socket
            }
        }

        impl From<$t> for $std {
            /// Gives the socket to std, with its timeouts and its mode. (See the [module](self) about
            /// clones.)
            fn from(socket: $t) -> $std {
                let settings = socket.settings();
                let owned = match socket.into_handle() {
                    Ok(handle) => owned(handle),
                    Err(socket) => duplicate(socket.handle()),
                };
                let std = <$std>::from(owned);
                // They fail only for what is no socket of this kind, and never was one.
                let _ = std.set_nonblocking(settings.nonblocking);
                let _ = std.set_read_timeout(settings.read);
                let _ = std.set_write_timeout(settings.write);
                std
            }
        }
    )*};
}

sockets! {
    TcpStream: std::net::TcpStream, Stream;
    UdpSocket: std::net::UdpSocket, Datagram;
}

impl From<std::net::TcpListener> for TcpListener {
    /// Takes over a listener of std, in blocking mode as seen from bast.
    fn from(std: std::net::TcpListener) -> TcpListener {
        // It fails only for what is no listener, and then so will `accept`.
        let _ = std.set_nonblocking(true);
        TcpListener::from_handle(take_socket(std.into(), Kind::Listener))
    }
}

impl From<TcpListener> for std::net::TcpListener {
    /// Gives the listener to std, in the mode it was set to. (See the [module](self) about clones.)
    fn from(listener: TcpListener) -> std::net::TcpListener {
        match listener.into_handle() {
            Ok((handle, nonblocking)) => {
                let std = std::net::TcpListener::from(owned(handle));
                let _ = std.set_nonblocking(nonblocking);
                std
            }
            Err(listener) => duplicate(listener.handle()).into(),
        }
    }
}

/// The conversions that lead over std's type.
macro_rules! descriptors {
    ($($t:ident: $std:ty;)*) => {$(
        impl AsSocket for $t {
            fn as_socket(&self) -> BorrowedSocket<'_> {
                borrow(self.handle())
            }
        }

        impl AsRawSocket for $t {
            fn as_raw_socket(&self) -> RawSocket {
                socket_of(self.handle())
            }
        }

        impl From<OwnedSocket> for $t {
            fn from(socket: OwnedSocket) -> $t {
                <$std>::from(socket).into()
            }
        }

        impl From<$t> for OwnedSocket {
            fn from(socket: $t) -> OwnedSocket {
                <$std>::from(socket).into()
            }
        }

        impl FromRawSocket for $t {
            unsafe fn from_raw_socket(socket: RawSocket) -> $t {
                // SAFETY: the caller's promise: it is open and nobody else owns it.
                unsafe { OwnedSocket::from_raw_socket(socket) }.into()
            }
        }

        impl IntoRawSocket for $t {
            fn into_raw_socket(self) -> RawSocket {
                OwnedSocket::from(self).into_raw_socket()
            }
        }
    )*};
}

descriptors! {
    TcpStream: std::net::TcpStream;
    TcpListener: std::net::TcpListener;
    UdpSocket: std::net::UdpSocket;
}

impl AsHandle for File {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        borrow_handle(self.handle())
    }
}

impl AsRawHandle for File {
    fn as_raw_handle(&self) -> RawHandle {
        handle_of(self.handle())
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        owned_handle(file.into_handle()).into()
    }
}

impl From<OwnedHandle> for File {
    fn from(handle: OwnedHandle) -> File {
        std::fs::File::from(handle).into()
    }
}

impl From<File> for OwnedHandle {
    fn from(file: File) -> OwnedHandle {
        owned_handle(file.into_handle())
    }
}

impl FromRawHandle for File {
    unsafe fn from_raw_handle(handle: RawHandle) -> File {
        // SAFETY: the caller's promise: it is open and nobody else owns it.
        unsafe { OwnedHandle::from_raw_handle(handle) }.into()
    }
}

impl IntoRawHandle for File {
    fn into_raw_handle(self) -> RawHandle {
        OwnedHandle::from(self).into_raw_handle()
    }
}

impl From<std::fs::File> for File {
    fn from(std: std::fs::File) -> File {
        File::from_handle(take_handle(std.into(), Kind::File))
    }
}

impl From<File> for std::process::Stdio {
    fn from(file: File) -> std::process::Stdio {
        std::fs::File::from(file).into()
    }
}

/// Ends of pipes.
macro_rules! pipe_ends {
    ($($t:path),*) => {$(
        impl AsHandle for $t {
            fn as_handle(&self) -> BorrowedHandle<'_> {
                borrow_handle(self.handle())
            }
        }

        impl AsRawHandle for $t {
            fn as_raw_handle(&self) -> RawHandle {
                handle_of(self.handle())
            }
        }

        impl TryFrom<OwnedHandle> for $t {
            type Error = std::io::Error;

            fn try_from(handle: OwnedHandle) -> std::io::Result<$t> {
                <$t>::adopt(handle)
            }
        }

        impl TryFrom<$t> for OwnedHandle {
            type Error = std::io::Error;

            fn try_from(end: $t) -> std::io::Result<OwnedHandle> {
                Ok(owned_handle(end.into_handle()))
            }
        }
    )*};
}

pipe_ends!(
    crate::io::PipeReader,
    crate::io::PipeWriter,
    crate::process::ChildStdin,
    crate::process::ChildStdout,
    crate::process::ChildStderr
);

/// Takes over the end of a pipe.
#[allow(clippy::unnecessary_wraps)] // as on Unix
pub(crate) fn adopt_pipe(end: OwnedHandle) -> std::io::Result<Handle> {
    Ok(take_handle(end, Kind::Pipe))
}

/// Gives the end of a pipe to a child.
pub(crate) fn pipe_for_child(handle: Handle) -> std::process::Stdio {
    owned_handle(handle).into()
}

/// The standard streams: std's handles.
macro_rules! standard_streams {
    ($($t:ident, $lock:ident, $std:ident;)*) => {$(
        impl AsHandle for crate::io::$t {
            fn as_handle(&self) -> BorrowedHandle<'_> {
                // SAFETY: as std does: it is taken to be open as long as the program runs.
                unsafe { BorrowedHandle::borrow_raw(self.as_raw_handle()) }
            }
        }

        impl AsRawHandle for crate::io::$t {
            fn as_raw_handle(&self) -> RawHandle {
                std::io::$std().as_raw_handle()
            }
        }

        impl AsHandle for crate::io::$lock<'_> {
            fn as_handle(&self) -> BorrowedHandle<'_> {
                // SAFETY: as above.
                unsafe { BorrowedHandle::borrow_raw(self.as_raw_handle()) }
            }
        }

        impl AsRawHandle for crate::io::$lock<'_> {
            fn as_raw_handle(&self) -> RawHandle {
                std::io::$std().as_raw_handle()
            }
        }
    )*};
}

standard_streams! {
    Stdin, StdinLock, stdin;
    Stdout, StdoutLock, stdout;
    Stderr, StderrLock, stderr;
}
