//! The connected socket.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use bast_io::{Handle, Kind, SockAddr};
use bast_rt::ops;

use super::{SocketAddr, at, local};
use crate::net::socket::{Socket, settings, stream_io};

/// Same as [`std::os::unix::net::UnixStream`].
///
/// # Cancellation
/// Reading, writing and connecting are suspension points.
pub struct UnixStream {
    shared: Arc<Socket>,
}

settings!(UnixStream, "std::os::unix::net::UnixStream");
stream_io!(UnixStream);

impl UnixStream {
    /// Same as [`std::os::unix::net::UnixStream::connect`].
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Cancellation
    /// A suspension point: a listener's backlog may be full.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::open(&at(path.as_ref())?)
    }

    /// Same as [`std::os::unix::net::UnixStream::connect_addr`].
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn connect_addr(addr: &SocketAddr) -> io::Result<UnixStream> {
        UnixStream::open(&SockAddr::from_local(addr))
    }

    fn open(addr: &SockAddr) -> io::Result<UnixStream> {
        let handle = ops::socket(ops::LOCAL, ops::STREAM, 0, Kind::Datagram)?;
        ops::connect(&handle, addr, None)?;
        Ok(UnixStream::from_handle(handle))
    }

    /// Same as [`std::os::unix::net::UnixStream::pair`].
    ///
    /// # Errors
    /// No more descriptors.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (a, b) = std::os::unix::net::UnixStream::pair()?;
        let adopt = |std: std::os::unix::net::UnixStream| {
            Handle::adopt(std.into(), Kind::Datagram).map(UnixStream::from_handle)
        };
        Ok((adopt(a)?, adopt(b)?))
    }

    /// Same as [`std::os::unix::net::UnixStream::local_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local(&ops::local_addr(self.handle())?)
    }

    /// Same as [`std::os::unix::net::UnixStream::peer_addr`].
    ///
    /// # Errors
    /// `NotConnected` if the connection is gone; else the kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        local(&ops::peer_addr(self.handle())?)
    }

    /// Same as [`std::os::unix::net::UnixStream::shutdown`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.shared.shutdown(how)
    }

    /// Sends bytes, and descriptors along with the first of them, which the receiver gets duplicates of.
    /// Returns how many bytes were sent; if any were, the descriptors were too.
    ///
    /// # Errors
    /// `InvalidInput` without bytes, or for more than 253 descriptors; else the kernel's.
    ///
    /// # Cancellation
    /// A suspension point.
    ///
    /// ```
    /// use bast::os::unix::net::UnixStream;
    /// use std::io::Read;
    /// use std::os::fd::AsFd;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let (a, b) = UnixStream::pair()?;
    /// let zero = std::fs::File::open("/dev/zero")?;
    /// a.send_with_fds(b"here it is", &[zero.as_fd()])?;
    /// let (n, mut fds, _) = b.recv_with_fds(&mut [0; 32], 4)?;
    /// let mut file = std::fs::File::from(fds.pop().unwrap());
    /// file.read_exact(&mut [0; 100])?;
    /// # assert_eq!(n, 10);
    /// # Ok(()) }
    /// ```
    pub fn send_with_fds(&self, buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.shared.send_with_fds(buf, fds)
    }

    /// Receives bytes, and up to `most` descriptors that came with them. The flag says that there were more;
    /// those have been closed.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when the time is up.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn recv_with_fds(
        &self,
        buf: &mut [u8],
        most: usize,
    ) -> io::Result<(usize, Vec<OwnedFd>, bool)> {
        self.shared.recv_with_fds(buf, most)
    }
}

impl fmt::Debug for UnixStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("UnixStream");
        if let Ok(addr) = self.local_addr() {
            out.field("addr", &addr);
        }
        if let Ok(peer) = self.peer_addr() {
            out.field("peer", &peer);
        }
        out.field("fd", &self.handle().as_ref().raw()).finish()
    }
}
