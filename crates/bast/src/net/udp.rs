//! Datagrams.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bast_io::{Kind, SockAddr};
use bast_rt::ops;

use super::addrs::{self, ToSocketAddrs};
use super::socket::{Socket, settings};
use super::{inet, ttl_of};
use crate::os::unix::with_std_udp;

/// Same as [`std::net::UdpSocket`].
///
/// ```
/// use bast::net::UdpSocket;
///
/// # fn main() -> std::io::Result<()> {
/// let (a, b) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// a.send_to(b"ping", b.local_addr()?)?;
/// let mut buf = [0; 16];
/// let (n, from) = b.recv_from(&mut buf)?;
/// assert_eq!((&buf[..n], from), (&b"ping"[..], a.local_addr()?));
/// # Ok(()) }
/// ```
///
/// # Differences from std
/// * Receiving and sending are suspension points.
/// * [`try_clone`](UdpSocket::try_clone) shares the descriptor, its timeouts and its mode.
/// * On the simulator there is no multicast.
pub struct UdpSocket {
    shared: Arc<Socket>,
}

settings!(UdpSocket, "std::net::UdpSocket");

/// Settings that the kernel has and bast does not look at.
macro_rules! as_std {
    ($($name:ident($($arg:ident: $t:ty),*) -> $result:ty;)*) => {$(
        #[doc = concat!("Same as [`std::net::UdpSocket::", stringify!($name), "`].")]
        ///
        /// # Errors
        /// The kernel's.
        ///
        /// # Panics
        /// On a socket of the simulator.
        pub fn $name(&self $(, $arg: $t)*) -> io::Result<$result> {
            with_std_udp(self.handle(), |std| std.$name($($arg),*))
        }
    )*};
}

impl UdpSocket {
    /// Same as [`std::net::UdpSocket::bind`]: tries each address until one can be had.
    ///
    /// # Errors
    /// The last address's error, or what [`ToSocketAddrs`] says.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        addrs::first(addr, |addr| {
            let handle = ops::socket(ops::family(&addr), ops::DATAGRAM, 0, Kind::Datagram)?;
            ops::bind(&handle, &SockAddr::from(addr))?;
            Ok(UdpSocket::from_handle(handle))
        })
    }

    /// Same as [`std::net::UdpSocket::connect`]: tries each address until one is taken.
    ///
    /// # Errors
    /// The last address's error, or what [`ToSocketAddrs`] says.
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        addrs::first(addr, |addr| ops::connect(self.handle(), &SockAddr::from(addr), None))
    }

    /// Same as [`std::net::UdpSocket::local_addr`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(&ops::local_addr(self.handle())?)
    }

    /// Same as [`std::net::UdpSocket::peer_addr`].
    ///
    /// # Errors
    /// `NotConnected` if it is not connected; else the kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        inet(&ops::peer_addr(self.handle())?)
    }

    /// Same as [`std::net::UdpSocket::recv_from`].
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when the time is up.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (n, addr) = self.shared.recv_from(buf, 0)?;
        Ok((n, inet(&addr)?))
    }

    /// Same as [`std::net::UdpSocket::peek_from`].
    ///
    /// # Errors
    /// As [`recv_from`](UdpSocket::recv_from).
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (n, addr) = self.shared.recv_from(buf, ops::PEEK)?;
        Ok((n, inet(&addr)?))
    }

    /// Same as [`std::net::UdpSocket::send_to`]. The first address counts.
    ///
    /// # Errors
    /// The kernel's, or what [`ToSocketAddrs`] says.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        match addr.to_socket_addrs()?.next() {
            Some(addr) => self.shared.send_to(buf, &SockAddr::from(addr)),
            None => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to"))
            }
        }
    }

    /// Same as [`std::net::UdpSocket::recv`].
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when the time is up.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.shared.recv(buf, 0)
    }

    /// Same as [`std::net::UdpSocket::peek`].
    ///
    /// # Errors
    /// As [`recv`](UdpSocket::recv).
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.shared.recv(buf, ops::PEEK)
    }

    /// Same as [`std::net::UdpSocket::send`].
    ///
    /// # Errors
    /// The kernel's: `DestinationAddressRequired` if it is not connected.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.shared.send(buf)
    }

    /// Same as [`std::net::UdpSocket::set_broadcast`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        ops::set_flag(self.handle(), ops::BROADCAST, broadcast)
    }

    /// Same as [`std::net::UdpSocket::broadcast`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn broadcast(&self) -> io::Result<bool> {
        ops::flag(self.handle(), ops::BROADCAST)
    }

    /// Same as [`std::net::UdpSocket::set_ttl`].
    ///
    /// # Errors
    /// The kernel's: the TTL is not from 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        ops::set_option(self.handle(), ops::TTL, ttl_of(ttl)?)
    }

    /// Same as [`std::net::UdpSocket::ttl`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        ops::option(self.handle(), ops::TTL).map(i32::cast_unsigned)
    }

    as_std! {
        join_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        leave_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
        leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
        set_multicast_loop_v4(on: bool) -> ();
        multicast_loop_v4() -> bool;
        set_multicast_loop_v6(on: bool) -> ();
        multicast_loop_v6() -> bool;
        set_multicast_ttl_v4(ttl: u32) -> ();
        multicast_ttl_v4() -> u32;
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("UdpSocket");
        if let Ok(addr) = self.local_addr() {
            out.field("addr", &addr);
        }
        out.field("fd", &self.handle().as_ref().raw()).finish()
    }
}
