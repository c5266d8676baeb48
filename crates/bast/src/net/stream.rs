//! The connected socket.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bast_io::{Kind, SockAddr};
use bast_rt::ops;

use super::addrs::{self, ToSocketAddrs};
use super::socket::{Socket, settings, stream_io, zero};
use super::{inet, ttl_of};

/// Same as [`std::net::TcpStream`].
///
/// It can be read and written by two fibers at once, through `&TcpStream` or clones.
///
/// ```
/// use bast::net::{Shutdown, TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, _) = listener.accept()?;
/// client.write_all(b"there and back")?;
/// client.shutdown(Shutdown::Write)?;
/// std::io::copy(&mut &server, &mut &server)?;
/// drop(server);
/// let mut text = String::new();
/// client.read_to_string(&mut text)?;
/// assert_eq!(text, "there and back");
/// # Ok(()) }
/// ```
///
/// # Differences from std
/// * [`try_clone`](TcpStream::try_clone) shares the descriptor, its timeouts and its mode.
/// * Reading and writing are suspension points: if the fiber is cancelled while it waits they unwind
///   with [`Cancelled`](crate::Cancelled). What arrived at the very same moment is returned first, and
///   the next suspension point unwinds.
/// * A write to a connection that the peer has closed never raises SIGPIPE.
pub struct TcpStream {
    shared: Arc<Socket>,
}

settings!(TcpStream, "std::net::TcpStream");
stream_io!(TcpStream);

impl TcpStream {
    /// Same as [`std::net::TcpStream::connect`]: tries each address until one answers.
    ///
    /// # Errors
    /// The last address's error, or what [`ToSocketAddrs`] says.
    ///
    /// # Cancellation
    /// A suspension point. The connection attempt is given up.
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        addrs::first(addr, |addr| open(&addr, None))
    }

    /// Same as [`std::net::TcpStream::connect_timeout`].
    ///
    /// # Errors
    /// `TimedOut` when the time is up, `InvalidInput` if it is zero; else the kernel's.
    ///
    /// # Cancellation
    /// A suspension point. The connection attempt is given up.
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(zero());
        }
        open(addr, Some(timeout))
    }

    /// Same as [`std::net::TcpStream::peer_addr`].
    ///
    /// # Errors
    /// `NotConnected` if the connection is gone; else the kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        inet(&ops::peer_addr(self.handle())?)
    }

    /// Same as [`std::net::TcpStream::local_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(&ops::local_addr(self.handle())?)
    }

    /// Same as [`std::net::TcpStream::shutdown`]. Fibers that wait in a read or write of that half
    /// return.
    ///
    /// # Errors
    /// `NotConnected` if the connection is gone; else the kernel's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.shared.shutdown(how)
    }

    /// Same as [`std::net::TcpStream::peek`].
    ///
    /// # Errors
    /// As reading.
    ///
    /// # Cancellation
    /// A suspension point. Nothing is lost.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.shared.recv(buf, ops::PEEK)
    }

    /// Same as [`std::net::TcpStream::set_nodelay`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        ops::set_flag(self.handle(), ops::NO_DELAY, nodelay)
    }

    /// Same as [`std::net::TcpStream::nodelay`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn nodelay(&self) -> io::Result<bool> {
        ops::flag(self.handle(), ops::NO_DELAY)
    }

    /// Same as [`std::net::TcpStream::set_ttl`].
    ///
    /// # Errors
    /// The kernel's: the TTL is not from 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        ops::set_option(self.handle(), ops::TTL, ttl_of(ttl)?)
    }

    /// Same as [`std::net::TcpStream::ttl`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        ops::option(self.handle(), ops::TTL).map(i32::cast_unsigned)
    }
}

fn open(addr: &SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let handle = ops::socket(ops::family(addr), ops::STREAM, 0, Kind::Stream)?;
    ops::connect(&handle, &SockAddr::from(*addr), timeout)?;
    Ok(TcpStream::from_handle(handle))
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TcpStream");
        if let Ok(addr) = self.local_addr() {
            out.field("addr", &addr);
        }
        if let Ok(peer) = self.peer_addr() {
            out.field("peer", &peer);
        }
        out.field("fd", &self.handle().as_ref().raw()).finish()
    }
}
