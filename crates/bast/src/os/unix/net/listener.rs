//! The listening socket.

use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bast_io::{Handle, Kind, SockAddr};
use bast_rt::ops;

use super::{SocketAddr, UnixStream, at, local};
use crate::net::listener::{Acceptor, BACKLOG};

/// Same as [`std::os::unix::net::UnixListener`].
///
/// # Differences from std
/// As those of [`TcpListener`](crate::net::TcpListener): the backlog, backing off when descriptors run out, shared
/// clones.
pub struct UnixListener {
    shared: Arc<Acceptor>,
}

impl UnixListener {
    /// Around a handle that listens and is in the mode of [`Kind::Listener`].
    pub(crate) fn from_handle(handle: Handle) -> UnixListener {
        UnixListener { shared: Acceptor::new(handle) }
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
    pub(crate) fn into_handle(self) -> Result<(Handle, bool), UnixListener> {
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => Ok((shared.handle, shared.nonblocking.into_inner())),
            Err(shared) => Err(UnixListener { shared }),
        }
    }

    /// Same as [`std::os::unix::net::UnixListener::bind`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::open(&at(path.as_ref())?)
    }

    /// Same as [`std::os::unix::net::UnixListener::bind_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<UnixListener> {
        UnixListener::open(&SockAddr::from_local(addr))
    }

    fn open(addr: &SockAddr) -> io::Result<UnixListener> {
        let handle = ops::socket(ops::LOCAL, ops::STREAM, 0, Kind::Listener)?;
        ops::bind(&handle, addr)?;
        ops::listen(&handle, BACKLOG)?;
        Ok(UnixListener::from_handle(handle))
    }

    /// Same as [`std::os::unix::net::UnixListener::accept`].
    ///
    /// # Differences from std
    /// As [`TcpListener::accept`](crate::net::TcpListener::accept).
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Cancellation
    /// A suspension point. A connection that has just been accepted is closed.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (handle, addr) = self.shared.accept()?;
        Ok((UnixStream::from_handle(handle.into_kind(Kind::Datagram)), local(&addr)?))
    }

    /// Same as [`std::os::unix::net::UnixListener::incoming`].
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Same as [`std::os::unix::net::UnixListener::local_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local(&ops::local_addr(self.handle())?)
    }

    /// Same as [`std::os::unix::net::UnixListener::try_clone`].
    ///
    /// # Differences from std
    /// The clone shares the descriptor, which is closed with the last of them. It cannot fail.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> io::Result<UnixListener> {
        Ok(UnixListener { shared: Arc::clone(&self.shared) })
    }

    /// Same as [`std::os::unix::net::UnixListener::set_nonblocking`].
    ///
    /// # Differences from std
    /// The mode is kept in bast and shared by all clones.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.shared.nonblocking.store(nonblocking, Relaxed);
        Ok(())
    }

    /// Same as [`std::os::unix::net::UnixListener::take_error`].
    ///
    /// # Errors
    /// The kernel's, of asking.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        ops::take_error(self.handle())
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("UnixListener");
        if let Ok(addr) = self.local_addr() {
            out.field("local", &addr);
        }
        out.field("fd", &self.handle().as_ref().raw()).finish()
    }
}

/// Same as [`std::os::unix::net::Incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}
