//! The connected socket.
//!
//! Memory ordering: the mode and the timeouts are independent settings that guard no other memory, so
//! Relaxed is enough.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bast_io::{Half, Handle, Kind, SockAddr};
use bast_rt::ops;

use super::addrs::{self, ToSocketAddrs};
use super::{inet, ttl_of};

/// A timeout in nanoseconds; zero is none.
#[derive(Debug, Default)]
struct Timeout(AtomicU64);

impl Timeout {
    #[inline]
    fn get(&self) -> Option<Duration> {
        match self.0.load(Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    fn set(&self, value: Option<Duration>) -> io::Result<()> {
        if value.is_some_and(|value| value.is_zero()) {
            return Err(zero());
        }
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(value.map_or(0, nanos), Relaxed);
        Ok(())
    }
}

fn zero() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout")
}

/// What a stream and its clones have in common.
#[derive(Debug)]
struct Shared {
    handle: Handle,
    nonblocking: AtomicBool,
    read: Timeout,
    write: Timeout,
}

/// What bast keeps about a stream and std keeps in the kernel.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) nonblocking: bool,
    pub(crate) read: Option<Duration>,
    pub(crate) write: Option<Duration>,
}

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
    shared: Arc<Shared>,
}

impl TcpStream {
    /// Around a handle that is in the mode of [`Kind::Stream`].
    pub(crate) fn from_handle(handle: Handle) -> TcpStream {
        TcpStream {
            shared: Arc::new(Shared {
                handle,
                nonblocking: AtomicBool::new(false),
                read: Timeout::default(),
                write: Timeout::default(),
            }),
        }
    }

    #[inline]
    pub(crate) fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            nonblocking: self.shared.nonblocking.load(Relaxed),
            read: self.shared.read.get(),
            write: self.shared.write.get(),
        }
    }

    /// The handle, if there is no clone.
    pub(crate) fn into_handle(self) -> Result<Handle, TcpStream> {
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => Ok(shared.handle),
            Err(shared) => Err(TcpStream { shared }),
        }
    }

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
        let how = match how {
            Shutdown::Read => Half::Read,
            Shutdown::Write => Half::Write,
            Shutdown::Both => Half::Both,
        };
        ops::shutdown(self.handle(), how)
    }

    /// Same as [`std::net::TcpStream::try_clone`].
    ///
    /// # Differences from std
    /// The clone shares the descriptor, which is closed with the last of them. It cannot fail. Timeouts
    /// and the non-blocking mode are shared, as they are in std, where the kernel keeps them per socket.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(TcpStream { shared: Arc::clone(&self.shared) })
    }

    /// Same as [`std::net::TcpStream::set_read_timeout`]. A read that waits longer fails with
    /// `WouldBlock`.
    ///
    /// # Differences from std
    /// Kept in bast, to the nanosecond; the kernel's `SO_RCVTIMEO` is not used. A read that is waiting
    /// already keeps the timeout it has.
    ///
    /// # Errors
    /// `InvalidInput` if it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.shared.read.set(timeout)
    }

    /// Same as [`std::net::TcpStream::set_write_timeout`]. A write that waits longer fails with
    /// `WouldBlock`.
    ///
    /// # Differences from std
    /// As [`set_read_timeout`](TcpStream::set_read_timeout).
    ///
    /// # Errors
    /// `InvalidInput` if it is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.shared.write.set(timeout)
    }

    /// Same as [`std::net::TcpStream::read_timeout`].
    ///
    /// # Differences from std
    /// It is exactly what was set; the kernel rounds.
    ///
    /// # Errors
    /// None.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.shared.read.get())
    }

    /// Same as [`std::net::TcpStream::write_timeout`].
    ///
    /// # Differences from std
    /// It is exactly what was set; the kernel rounds.
    ///
    /// # Errors
    /// None.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.shared.write.get())
    }

    /// Same as [`std::net::TcpStream::peek`].
    ///
    /// # Errors
    /// As reading.
    ///
    /// # Cancellation
    /// A suspension point. Nothing is lost.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.shared.read);
        ops::recv(self.handle(), buf, ops::PEEK | flags, timeout)
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

    /// Same as [`std::net::TcpStream::take_error`].
    ///
    /// # Errors
    /// The kernel's, of asking.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        ops::take_error(self.handle())
    }

    /// Same as [`std::net::TcpStream::set_nonblocking`]: reads and writes then fail with `WouldBlock`
    /// instead of waiting.
    ///
    /// # Differences from std
    /// The mode is kept in bast and shared by all clones; the descriptor's own mode does not change.
    /// A read or write that is waiting already goes on waiting.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.shared.nonblocking.store(nonblocking, Relaxed);
        Ok(())
    }

    /// How an operation is to be done: not to wait at all, or for so long.
    #[inline]
    fn limits(&self, timeout: &Timeout) -> (i32, Option<Duration>) {
        if self.shared.nonblocking.load(Relaxed) {
            (ops::DONT_WAIT, None)
        } else {
            (0, timeout.get())
        }
    }
}

fn open(addr: &SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let handle = ops::socket(ops::family(addr), ops::STREAM, 0, Kind::Stream)?;
    ops::connect(&handle, &SockAddr::from(*addr), timeout)?;
    Ok(TcpStream::from_handle(handle))
}

/// Each read is a suspension point.
impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.shared.read);
        ops::recv(self.handle(), buf, flags, timeout)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.shared.read);
        ops::recv_vectored(self.handle(), bufs, flags, timeout)
    }
}

/// Each write is a suspension point. Nothing is buffered, so `flush` does nothing.
impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.shared.write);
        ops::send(self.handle(), buf, flags, timeout)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.shared.write);
        ops::send_vectored(self.handle(), bufs, flags, timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Each read is a suspension point.
impl Read for TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

/// Each write is a suspension point. Nothing is buffered, so `flush` does nothing.
impl Write for TcpStream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
