//! Which of bast's types can be polled. The traits are sealed: how it is done is bast's own affair.

use std::io;
use std::net::SocketAddr;

#[cfg(unix)]
use bast_io::Kind;
use bast_io::{Handle, SockAddr};
use bast_rt::Keep;

use crate::net::listener::Acceptor;
use crate::net::{TcpListener, TcpStream, UdpSocket, inet};
#[cfg(unix)]
use crate::os::unix::net::{
    SocketAddr as LocalAddr, UnixDatagram, UnixListener, UnixStream, local,
};

/// What [`Async`](super::Async) may wrap.
pub trait Source: sealed::Source {}

/// What can be read.
pub trait Reads: Source {}

/// What can be written.
pub trait Writes: Source + sealed::Writes {}

/// What accepts connections.
pub trait Accepts: Source + sealed::Accepts<Stream = Self::Connection, Addr = Self::Peer> {
    /// A connection.
    type Connection: Source;
    /// Whose it is.
    type Peer;
}

/// What sends and receives datagrams.
pub trait Datagrams: Source + sealed::Datagrams<Addr = Self::Peer> {
    /// Whom they come from, and go to.
    type Peer;
}

pub(super) mod sealed {
    use super::{Acceptor, Handle, Keep, SockAddr, io};

    pub trait Source {
        /// What is polled.
        fn handle(&self) -> &Handle;
        /// What has the handle.
        fn keep(&self) -> Keep;
    }

    pub trait Writes {
        /// Whether the end of writing is said apart from closing.
        const SHUTS_DOWN: bool;
    }

    #[allow(private_interfaces)]
    pub trait Accepts {
        type Stream;
        type Addr;
        fn acceptor(&self) -> &Acceptor;
        fn accepted(handle: Handle, addr: &SockAddr) -> io::Result<(Self::Stream, Self::Addr)>;
    }

    pub trait Datagrams {
        type Addr;
        fn from_whom(addr: &SockAddr) -> io::Result<Self::Addr>;
        fn to_whom(addr: &Self::Addr) -> SockAddr;
    }
}

macro_rules! sources {
    ($($name:ty),*) => {$(
        impl sealed::Source for $name {
            fn handle(&self) -> &Handle {
                self.handle()
            }

            fn keep(&self) -> Keep {
                self.keep()
            }
        }

        impl Source for $name {}
    )*};
}

sources!(TcpStream, TcpListener, UdpSocket);
#[cfg(unix)]
sources!(UnixStream, UnixListener, UnixDatagram);

macro_rules! streams {
    ($($name:ty),*) => {$(
        impl sealed::Writes for $name {
            const SHUTS_DOWN: bool = true;
        }

        impl Reads for $name {}
        impl Writes for $name {}
    )*};
}

streams!(TcpStream);
#[cfg(unix)]
streams!(UnixStream);

#[allow(private_interfaces)]
impl sealed::Accepts for TcpListener {
    type Stream = TcpStream;
    type Addr = SocketAddr;

    fn acceptor(&self) -> &Acceptor {
        self.acceptor()
    }

    fn accepted(handle: Handle, addr: &SockAddr) -> io::Result<(TcpStream, SocketAddr)> {
        Ok((TcpStream::from_handle(handle), inet(addr)?))
    }
}

impl Accepts for TcpListener {
    type Connection = TcpStream;
    type Peer = SocketAddr;
}

#[cfg(unix)]
#[allow(private_interfaces)]
impl sealed::Accepts for UnixListener {
    type Stream = UnixStream;
    type Addr = LocalAddr;

    fn acceptor(&self) -> &Acceptor {
        self.acceptor()
    }

    fn accepted(handle: Handle, addr: &SockAddr) -> io::Result<(UnixStream, LocalAddr)> {
        Ok((UnixStream::from_handle(handle.into_kind(Kind::Datagram)), local(addr)?))
    }
}

#[cfg(unix)]
impl Accepts for UnixListener {
    type Connection = UnixStream;
    type Peer = LocalAddr;
}

impl sealed::Datagrams for UdpSocket {
    type Addr = SocketAddr;

    fn from_whom(addr: &SockAddr) -> io::Result<SocketAddr> {
        inet(addr)
    }

    fn to_whom(addr: &SocketAddr) -> SockAddr {
        SockAddr::from(*addr)
    }
}

impl Datagrams for UdpSocket {
    type Peer = SocketAddr;
}

#[cfg(unix)]
impl sealed::Datagrams for UnixDatagram {
    type Addr = LocalAddr;

    fn from_whom(addr: &SockAddr) -> io::Result<LocalAddr> {
        local(addr)
    }

    fn to_whom(addr: &LocalAddr) -> SockAddr {
        SockAddr::from_local(addr)
    }
}

#[cfg(unix)]
impl Datagrams for UnixDatagram {
    type Peer = LocalAddr;
}
