//! Descriptors: conversions as in [`std::os::fd`], and waiting for any descriptor.
//!
//! bast keeps a socket's timeouts and its non-blocking mode itself: its streams are in blocking mode (on macOS and
//! FreeBSD in non-blocking mode), its listeners in non-blocking mode, and no timeout is set in the kernel. A conversion
//! translates.
//!
//! ```text
//!                    std::net::TcpStream, OwnedFd, RawFd ──▶ bast::net::TcpStream
//!   SO_RCVTIMEO, SO_SNDTIMEO ─────────────────────────────▶ timeouts
//!   O_NONBLOCK ── as bast's own (nobody can ask std for it) ▶ blocking
//!
//!   bast::net::TcpStream ──▶ std::net::TcpStream, OwnedFd, RawFd
//!   timeouts ──────────────▶ SO_RCVTIMEO, SO_SNDTIMEO
//!   the mode ──────────────▶ O_NONBLOCK
//! ```
//!
//! Conversions that consume a socket which has clones in bast give a duplicate of its descriptor
//! instead; the clones stay. A duplicate shares `O_NONBLOCK` with them, so the duplicate of a listener
//! stays in non-blocking mode, and on macOS and FreeBSD that of any socket: the clones' workers must not block.
//!
//! # Panics
//! Conversions cannot report errors, so they panic where there is no answer: a socket of the simulator
//! has no descriptor, and for a duplicate there may be none left.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use bast_io::{Handle, Interest, Kind};
use bast_rt::ops;

use crate::fs::File;
use crate::net::{TcpListener, TcpStream, UdpSocket};

pub mod fs;
pub mod net;
pub mod process;
pub(crate) mod stdio;

/// Same as [`std::os::unix::io`].
pub mod io {
    // What this module's neighbours need of the other `io`.
    pub(super) use std::io::{Error, Result};
    pub use std::os::unix::io::*;
}

use net::{UnixDatagram, UnixListener, UnixStream};

/// Waits until `fd` can be read without blocking: there is data, or its end, or an error.
///
/// For descriptors that other libraries own. The descriptor may be in either mode, and stays in it. Several
/// fibers may wait for one, in both directions; all are woken, so each tries its call and waits again if there is
/// nothing left for it. For a limit of time put a [`timeout`](crate::timeout()) around it. A regular file is always
/// ready.
///
/// The descriptor is borrowed, so that it cannot be closed meanwhile. If a foreign library does so all the same,
/// memory is safe and nothing else is disturbed, but the wait may go on until it is cancelled or its time is up:
/// kernels do not announce it.
///
/// ```
/// use std::io::{Read, Write};
///
/// # fn main() -> std::io::Result<()> {
/// let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair()?;
/// bast::spawn(move || theirs.write_all(b"!"));
/// bast::os::unix::wait_readable(&ours)?;
/// let mut buf = [0];
/// ours.read_exact(&mut buf)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// `EBADF` if it is no open descriptor; else the kernel's.
///
/// # Cancellation
/// A suspension point.
pub fn wait_readable<F: AsFd>(fd: F) -> io::Result<()> {
    ops::poll_fd(fd.as_fd(), Interest::Readable, None)
}

/// Waits until `fd` can be written without blocking: there is room, or an error.
///
/// # Errors
/// As [`wait_readable`].
///
/// # Cancellation
/// A suspension point.
pub fn wait_writable<F: AsFd>(fd: F) -> io::Result<()> {
    ops::poll_fd(fd.as_fd(), Interest::Writable, None)
}

/// Shows std the file behind a handle.
pub(crate) fn with_std_file<R>(handle: &Handle, f: impl FnOnce(&std::fs::File) -> R) -> R {
    let fd = borrow(handle).as_raw_fd();
    // SAFETY: the descriptor is open, as the handle is borrowed; std's file never closes it.
    f(&ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(fd) }))
}

/// Shows std the socket behind a handle.
pub(crate) fn with_std_udp<R>(handle: &Handle, f: impl FnOnce(&std::net::UdpSocket) -> R) -> R {
    let fd = borrow(handle).as_raw_fd();
    // SAFETY: as above.
    f(&ManuallyDrop::new(unsafe { std::net::UdpSocket::from_raw_fd(fd) }))
}

fn borrow(handle: &Handle) -> BorrowedFd<'_> {
    assert!(!handle.is_simulated(), "a socket of the simulator has no descriptor");
    // SAFETY: the handle owns an open descriptor, and is borrowed for as long.
    unsafe { BorrowedFd::borrow_raw(handle.as_raw_fd()) }
}

fn duplicate(handle: &Handle) -> OwnedFd {
    borrow(handle).try_clone_to_owned().expect("a descriptor for the duplicate of a shared socket")
}

fn owned(handle: Handle) -> OwnedFd {
    assert!(!handle.is_simulated(), "a socket of the simulator has no descriptor");
    OwnedFd::from(handle)
}

/// Sockets that send and receive: with their timeouts and their mode.
macro_rules! sockets {
    ($($t:ident: $std:ty, $kind:ident;)*) => {$(
        impl From<$std> for $t {
            /// Takes over a socket of std with its timeouts, in blocking mode.
            fn from(std: $std) -> $t {
                // They fail only for what is no socket, and then so will whatever is done with it.
                let read = std.read_timeout().ok().flatten();
                let write = std.write_timeout().ok().flatten();
                let handle = Handle::from_owned(std.into(), Kind::$kind);
                let _ = handle.settle();
                let socket = $t::from_handle(handle);
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
                let (fd, nonblocking) = match socket.into_handle() {
                    Ok(handle) => (owned(handle), settings.nonblocking),
                    Err(socket) => (
                        duplicate(socket.handle()),
                        settings.nonblocking || !Handle::may_block(),
                    ),
                };
                let std = <$std>::from(fd);
                // They fail only for what is no socket of this kind, and never was one.
                let _ = std.set_nonblocking(nonblocking);
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
    UnixStream: std::os::unix::net::UnixStream, Datagram;
    UnixDatagram: std::os::unix::net::UnixDatagram, Datagram;
}

/// Listeners: with their mode.
macro_rules! listeners {
    ($($t:ident: $std:ty;)*) => {$(
        impl From<$std> for $t {
            /// Takes over a listener of std, in blocking mode as seen from bast.
            fn from(std: $std) -> $t {
                // It fails only for what is no descriptor of the right kind, and then so will `accept`.
                let _ = std.set_nonblocking(true);
                $t::from_handle(Handle::from_owned(std.into(), Kind::Listener))
            }
        }

        impl From<$t> for $std {
            /// Gives the listener to std, in the mode it was set to. (See the [module](self) about
            /// clones.)
            fn from(listener: $t) -> $std {
                match listener.into_handle() {
                    Ok((handle, nonblocking)) => {
                        let std = <$std>::from(owned(handle));
                        let _ = std.set_nonblocking(nonblocking);
                        std
                    }
                    Err(listener) => duplicate(listener.handle()).into(),
                }
            }
        }
    )*};
}

listeners! {
    TcpListener: std::net::TcpListener;
    UnixListener: std::os::unix::net::UnixListener;
}

/// The conversions that lead over std's type.
macro_rules! descriptors {
    ($($t:ident: $std:ty;)*) => {$(
        impl AsFd for $t {
            fn as_fd(&self) -> BorrowedFd<'_> {
                borrow(self.handle())
            }
        }

        impl AsRawFd for $t {
            fn as_raw_fd(&self) -> RawFd {
                self.handle().as_raw_fd()
            }
        }

        impl From<OwnedFd> for $t {
            fn from(fd: OwnedFd) -> $t {
                <$std>::from(fd).into()
            }
        }

        impl From<$t> for OwnedFd {
            fn from(socket: $t) -> OwnedFd {
                <$std>::from(socket).into()
            }
        }

        impl FromRawFd for $t {
            unsafe fn from_raw_fd(fd: RawFd) -> $t {
                // SAFETY: the caller's promise: the descriptor is open and nobody else owns it.
                unsafe { OwnedFd::from_raw_fd(fd) }.into()
            }
        }

        impl IntoRawFd for $t {
            fn into_raw_fd(self) -> RawFd {
                OwnedFd::from(self).into_raw_fd()
            }
        }
    )*};
}

/// What other libraries own.
pub(crate) type Owned = OwnedFd;

/// A second handle for the same open file.
pub(crate) fn duplicate_handle(handle: &Handle) -> io::Result<Handle> {
    let fd = borrow(handle).try_clone_to_owned()?;
    Ok(Handle::from_owned(fd, handle.as_ref().kind()))
}

/// Takes over the end of a pipe.
pub(crate) fn adopt_pipe(fd: OwnedFd) -> io::Result<Handle> {
    Handle::adopt(fd, Kind::Pipe)
}

/// Gives the end of a pipe to a child, in blocking mode.
pub(crate) fn pipe_for_child(handle: Handle) -> std::process::Stdio {
    handle.into_blocking().expect("a pipe has a mode").into()
}

/// Ends of pipes: in non-blocking mode here, in blocking mode outside.
macro_rules! pipe_ends {
    ($($t:path),*) => {$(
        impl AsFd for $t {
            fn as_fd(&self) -> BorrowedFd<'_> {
                borrow(self.handle())
            }
        }

        impl AsRawFd for $t {
            fn as_raw_fd(&self) -> RawFd {
                self.handle().as_raw_fd()
            }
        }

        impl TryFrom<OwnedFd> for $t {
            type Error = io::Error;

            fn try_from(fd: OwnedFd) -> io::Result<$t> {
                <$t>::adopt(fd)
            }
        }

        impl TryFrom<$t> for OwnedFd {
            type Error = io::Error;

            fn try_from(end: $t) -> io::Result<OwnedFd> {
                end.into_handle().into_blocking()
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

impl From<std::fs::File> for File {
    fn from(std: std::fs::File) -> File {
        File::from_handle(Handle::from_owned(std.into(), Kind::File))
    }
}

impl From<File> for std::process::Stdio {
    fn from(file: File) -> std::process::Stdio {
        std::fs::File::from(file).into()
    }
}

/// The standard streams: std's descriptors.
macro_rules! standard_streams {
    ($($t:ident, $lock:ident, $std:ident;)*) => {$(
        impl AsFd for crate::io::$t {
            fn as_fd(&self) -> BorrowedFd<'_> {
                // SAFETY: as std does: it is taken to be open as long as the program runs.
                unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
            }
        }

        impl AsRawFd for crate::io::$t {
            fn as_raw_fd(&self) -> RawFd {
                std::io::$std().as_raw_fd()
            }
        }

        impl AsFd for crate::io::$lock<'_> {
            fn as_fd(&self) -> BorrowedFd<'_> {
                // SAFETY: as above.
                unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
            }
        }

        impl AsRawFd for crate::io::$lock<'_> {
            fn as_raw_fd(&self) -> RawFd {
                std::io::$std().as_raw_fd()
            }
        }
    )*};
}

standard_streams! {
    Stdin, StdinLock, stdin;
    Stdout, StdoutLock, stdout;
    Stderr, StderrLock, stderr;
}

impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        owned(file.into_handle()).into()
    }
}

descriptors! {
    TcpStream: std::net::TcpStream;
    TcpListener: std::net::TcpListener;
    UdpSocket: std::net::UdpSocket;
    UnixStream: std::os::unix::net::UnixStream;
    UnixListener: std::os::unix::net::UnixListener;
    UnixDatagram: std::os::unix::net::UnixDatagram;
    File: std::fs::File;
}
