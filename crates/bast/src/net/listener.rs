//! The listening socket.
//!
//! Memory ordering: the mode and the back-off are independent settings that guard no other memory, so
//! Relaxed is enough.

use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bast_io::{Handle, Kind, SockAddr};
use bast_rt::ops;

use super::addrs::{self, ToSocketAddrs};
use super::{TcpStream, inet, per_worker, ttl_of};

/// How many connections may wait to be accepted. The kernel lowers it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// The first and the longest wait, in milliseconds, after descriptors have run out.
const BACK_OFF: (u64, u64) = (1, 100);

/// What a listener and its clones have in common.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) handle: Handle,
    pub(crate) nonblocking: AtomicBool,
    /// How long the next accept waits if there are no descriptors, in milliseconds; 0 while all is
    /// well.
    back_off: AtomicU64,
}

impl Acceptor {
    pub(crate) fn new(handle: Handle) -> Arc<Acceptor> {
        let (nonblocking, back_off) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Acceptor { handle, nonblocking, back_off })
    }

    pub(crate) fn accept(&self) -> io::Result<(Handle, SockAddr)> {
        let nonblocking = self.nonblocking.load(Relaxed);
        let accepted = ops::accept(&self.handle, nonblocking.then_some(Duration::ZERO));
        match &accepted {
            Ok(_) if self.back_off.load(Relaxed) != 0 => self.back_off.store(0, Relaxed),
            Err(error) if !nonblocking && ops::is_shortage(error) => {
                bast_rt::sleep(self.back_off())
            }
            _ => {}
        }
        accepted
    }

    /// Takes a connection that is there. If there are no descriptors, also says how long to wait.
    pub(crate) fn try_accept(&self) -> Result<(Handle, SockAddr), (io::Error, Option<Duration>)> {
        match ops::try_accept(&self.handle) {
            Ok(accepted) => {
                if self.back_off.load(Relaxed) != 0 {
                    self.back_off.store(0, Relaxed);
                }
                Ok(accepted)
            }
            Err(error) if ops::is_shortage(&error) => Err((error, Some(self.back_off()))),
            Err(error) => Err((error, None)),
        }
    }

    /// How long to wait before it is tried again.
    #[cold]
    fn back_off(&self) -> Duration {
        let (first, longest) = BACK_OFF;
        let now = self.back_off.load(Relaxed).clamp(first, longest);
        self.back_off.store(now * 2, Relaxed);
        Duration::from_millis(now)
    }
}

/// Same as [`std::net::TcpListener`].
///
/// ```no_run
/// use bast::net::TcpListener;
/// use std::io::{Read, Write};
///
/// # fn main() -> std::io::Result<()> {
/// for stream in TcpListener::bind("127.0.0.1:8080")?.incoming() {
///     let mut stream = stream?;
///     bast::spawn(move || {
///         let mut buf = [0; 1024];
///         while let Ok(n @ 1..) = stream.read(&mut buf) {
///             if stream.write_all(&buf[..n]).is_err() {
///                 break;
///             }
///         }
///     });
/// }
/// # Ok(()) }
/// ```
///
/// # Differences from std
/// * The backlog is 4096 (std: 128), or less if `net.core.somaxconn` is.
/// * [`accept`](TcpListener::accept) backs off when descriptors run out.
/// * [`try_clone`](TcpListener::try_clone) shares the descriptor.
///
/// Any number of fibers may accept on one listener at the same time.
pub struct TcpListener {
    shared: Arc<Acceptor>,
}

impl TcpListener {
    /// Around a handle that listens and is in the mode of [`Kind::Listener`].
    pub(crate) fn from_handle(handle: Handle) -> TcpListener {
        TcpListener { shared: Acceptor::new(handle) }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    pub(crate) fn acceptor(&self) -> &Acceptor {
        &self.shared
    }

    /// The listener, also when this is gone.
    pub(crate) fn keep(&self) -> bast_rt::Keep {
        Arc::<Acceptor>::clone(&self.shared)
    }

    /// The handle, if there is no clone, and the user's mode.
    pub(crate) fn into_handle(self) -> Result<(Handle, bool), TcpListener> {
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => Ok((shared.handle, shared.nonblocking.into_inner())),
            Err(shared) => Err(TcpListener { shared }),
        }
    }

    /// Same as [`std::net::TcpListener::bind`]: tries each address until one can be had.
    ///
    /// # Errors
    /// The last address's error, or what [`ToSocketAddrs`] says.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        addrs::first(addr, |addr| {
            let handle = ops::socket(ops::family(&addr), ops::STREAM, 0, Kind::Listener)?;
            // A server that is started again would else wait for its old connections to be forgotten.
            ops::set_flag(&handle, ops::REUSE_ADDR, true)?;
            ops::bind(&handle, &SockAddr::from(addr))?;
            ops::listen(&handle, BACKLOG)?;
            Ok(TcpListener::from_handle(handle))
        })
    }

    /// A listener for each worker, all at one address (`SO_REUSEPORT`; of port 0 all have the same port). The kernel
    /// spreads connections over them by a hash, so a connection can be accepted and served on one worker without a
    /// hand-over: [`serve_per_worker`](super::serve_per_worker) does that. (Where there is no such option, on Windows,
    /// all of them are the same listener.)
    ///
    /// All of them must be served. The kernel does not look whether a listener's worker is busy: every connection
    /// waits for its own listener. When one is closed, the connections that it has not accepted are reset, and so a
    /// server that ends first accepts what is there.
    ///
    /// # Errors
    /// As [`bind`](TcpListener::bind): also `AddrInUse` if somebody listens there already, even if they would share
    /// it. (Other programs of the same user can share the address of these afterwards, by the same option.)
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn bind_per_worker<A: ToSocketAddrs>(addr: A) -> io::Result<Vec<TcpListener>> {
        addrs::first(addr, |addr| {
            let bound = per_worker::bind(addr, ops::STREAM, Kind::Listener)?;
            bound.iter().try_for_each(|handle| ops::listen(handle, BACKLOG))?;
            let all = bound.into_iter().map(TcpListener::from_handle).collect();
            per_worker::shared(all, TcpListener::try_clone)
        })
    }

    /// Same as [`std::net::TcpListener::local_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(&ops::local_addr(self.handle())?)
    }

    /// Same as [`std::net::TcpListener::try_clone`].
    ///
    /// # Differences from std
    /// The clone shares the descriptor, which is closed with the last of them. It cannot fail.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        Ok(TcpListener { shared: Arc::clone(&self.shared) })
    }

    /// Same as [`std::net::TcpListener::accept`].
    ///
    /// # Differences from std
    /// When there are no more descriptors (or no memory for them) the error is reported only after a
    /// wait: 1 ms at first, doubled each time it happens again, up to 100 ms. So a loop that ignores
    /// errors does not spin, and goes on when descriptors are free again. A listener in non-blocking
    /// mode does not wait.
    ///
    /// # Errors
    /// The kernel's. `ConnectionAborted`: the peer has changed its mind, go on.
    ///
    /// # Cancellation
    /// A suspension point. A connection that has just been accepted is closed.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (handle, addr) = self.shared.accept()?;
        Ok((TcpStream::from_handle(handle), inet(&addr)?))
    }

    /// Same as [`std::net::TcpListener::incoming`].
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Same as [`std::net::TcpListener::set_ttl`].
    ///
    /// # Errors
    /// The kernel's: the TTL is not from 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        ops::set_option(self.handle(), ops::TTL, ttl_of(ttl)?)
    }

    /// Same as [`std::net::TcpListener::ttl`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        ops::option(self.handle(), ops::TTL).map(i32::cast_unsigned)
    }

    /// Same as `std::net::TcpListener::set_only_v6`.
    ///
    /// # Errors
    /// The kernel's. A bound socket cannot be changed any more, and every listener is bound.
    #[deprecated(note = "this option can only be set before the socket is bound")]
    pub fn set_only_v6(&self, only_v6: bool) -> io::Result<()> {
        ops::set_flag(self.handle(), ops::ONLY_V6, only_v6)
    }

    /// Same as `std::net::TcpListener::only_v6`.
    ///
    /// # Errors
    /// The kernel's: not an IPv6 socket.
    #[deprecated(note = "this option can only be set before the socket is bound")]
    pub fn only_v6(&self) -> io::Result<bool> {
        ops::flag(self.handle(), ops::ONLY_V6)
    }

    /// Same as [`std::net::TcpListener::take_error`].
    ///
    /// # Errors
    /// The kernel's, of asking.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        ops::take_error(self.handle())
    }

    /// Same as [`std::net::TcpListener::set_nonblocking`]: [`accept`](TcpListener::accept) then fails
    /// with `WouldBlock` instead of waiting.
    ///
    /// # Differences from std
    /// The mode is kept in bast and shared by all clones; the descriptor's own mode does not change.
    /// An accept that is waiting already goes on waiting.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.shared.nonblocking.store(nonblocking, Relaxed);
        Ok(())
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TcpListener");
        if let Ok(addr) = self.local_addr() {
            out.field("addr", &addr);
        }
        out.field("fd", &self.handle().as_ref().raw()).finish()
    }
}

/// Same as [`std::net::Incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}
