//! Datagrams between processes: whole, in order, and not lost.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use bast_io::{Handle, Kind, SockAddr};
use bast_rt::ops;

use super::{SocketAddr, at, local};
use crate::net::socket::{Socket, settings};

/// Same as [`std::os::unix::net::UnixDatagram`].
///
/// # Cancellation
/// Receiving and sending are suspension points.
pub struct UnixDatagram {
    shared: Arc<Socket>,
}

settings!(UnixDatagram, "std::os::unix::net::UnixDatagram");

fn new() -> io::Result<UnixDatagram> {
    Ok(UnixDatagram::from_handle(ops::socket(ops::LOCAL, ops::DATAGRAM, 0, Kind::Datagram)?))
}

impl UnixDatagram {
    /// Same as [`std::os::unix::net::UnixDatagram::bind`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        let socket = new()?;
        ops::bind(socket.handle(), &at(path.as_ref())?)?;
        Ok(socket)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::bind_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixDatagram> {
        let socket = new()?;
        ops::bind(socket.handle(), &SockAddr::from_local(addr))?;
        Ok(socket)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::unbound`].
    ///
    /// # Errors
    /// No more descriptors.
    pub fn unbound() -> io::Result<UnixDatagram> {
        new()
    }

    /// Same as [`std::os::unix::net::UnixDatagram::pair`].
    ///
    /// # Errors
    /// No more descriptors.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (a, b) = std::os::unix::net::UnixDatagram::pair()?;
        let adopt = |std: std::os::unix::net::UnixDatagram| {
            Handle::adopt(std.into(), Kind::Datagram).map(UnixDatagram::from_handle)
        };
        Ok((adopt(a)?, adopt(b)?))
    }

    /// Same as [`std::os::unix::net::UnixDatagram::connect`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        ops::connect(self.handle(), &at(path.as_ref())?, None)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::connect_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect_addr(&self, addr: &SocketAddr) -> io::Result<()> {
        ops::connect(self.handle(), &SockAddr::from_local(addr), None)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::local_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local(&ops::local_addr(self.handle())?)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::peer_addr`].
    ///
    /// # Errors
    /// `NotConnected` if it is not connected; else the kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        local(&ops::peer_addr(self.handle())?)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::recv_from`].
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when the time is up.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (n, addr) = self.shared.recv_from(buf, 0)?;
        Ok((n, local(&addr)?))
    }

    /// Same as [`std::os::unix::net::UnixDatagram::recv`].
    ///
    /// # Errors
    /// As [`recv_from`](UnixDatagram::recv_from).
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.shared.recv(buf, 0)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::send_to`].
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when the time is up.
    ///
    /// # Cancellation
    /// A suspension point: it waits until the receiver has room.
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.shared.send_to(buf, &at(path.as_ref())?)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::send_to_addr`].
    ///
    /// # Errors
    /// As [`send_to`](UnixDatagram::send_to).
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn send_to_addr(&self, buf: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        self.shared.send_to(buf, &SockAddr::from_local(addr))
    }

    /// Same as [`std::os::unix::net::UnixDatagram::send`].
    ///
    /// # Errors
    /// As [`send_to`](UnixDatagram::send_to).
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.shared.send(buf)
    }

    /// Same as [`std::os::unix::net::UnixDatagram::shutdown`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.shared.shutdown(how)
    }

    /// As [`UnixStream::send_with_fds`](super::UnixStream::send_with_fds).
    ///
    /// # Errors
    /// As there.
    pub fn send_with_fds(&self, buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.shared.send_with_fds(buf, fds)
    }

    /// As [`UnixStream::recv_with_fds`](super::UnixStream::recv_with_fds).
    ///
    /// # Errors
    /// As there.
    pub fn recv_with_fds(
        &self,
        buf: &mut [u8],
        most: usize,
    ) -> io::Result<(usize, Vec<OwnedFd>, bool)> {
        self.shared.recv_with_fds(buf, most)
    }
}

impl fmt::Debug for UnixDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("UnixDatagram");
        if let Ok(addr) = self.local_addr() {
            out.field("local", &addr);
        }
        if let Ok(peer) = self.peer_addr() {
            out.field("peer", &peer);
        }
        out.field("fd", &self.handle().as_ref().raw()).finish()
    }
}
