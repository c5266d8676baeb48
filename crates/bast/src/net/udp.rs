//! Datagrams.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bast_io::batch::{RecvBatch, Transmit};
use bast_io::{Kind, SockAddr};
use bast_rt::ops;

use super::addrs::{self, ToSocketAddrs};
use super::socket::{Socket, settings};
use super::{inet, per_worker, ttl_of};
use crate::os::system::with_std_udp;

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

    /// A socket for each worker, all at one address (`SO_REUSEPORT`; of port 0 all have the same port). The kernel
    /// spreads datagrams over them by a hash of the two addresses: those of one peer come to one socket. All of them must be
    /// served, and each by a fiber on its own [worker](crate::Builder::worker).
    ///
    /// # Errors
    /// As [`bind`](UdpSocket::bind): also `AddrInUse` if somebody is there already, even if they would share it.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn bind_per_worker<A: ToSocketAddrs>(addr: A) -> io::Result<Vec<UdpSocket>> {
        addrs::first(addr, |addr| {
            let bound = per_worker::bind(addr, ops::DATAGRAM, Kind::Datagram)?;
            let all = bound.into_iter().map(UdpSocket::from_handle).collect();
            per_worker::shared(all, UdpSocket::try_clone)
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
    /// The kernel's; `WouldBlock` (Windows: `TimedOut`) when the time is up.
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
    /// The kernel's; `WouldBlock` (Windows: `TimedOut`) when the time is up.
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

    /// Waits for a datagram, and takes all that are there and fit into `batch`, with one system call. Returns how many
    /// those are; `batch` then has them, and no longer what it had.
    ///
    /// ```
    /// use bast::net::{RecvBatch, Transmit, UdpSocket};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let (a, b) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    /// a.connect(b.local_addr()?)?;
    /// a.send_many(&[Transmit::new(b"ping"), Transmit::new(b"ping")])?;
    /// let mut batch = RecvBatch::new(32, 1500);
    /// let mut count = 0;
    /// while count < 2 {
    ///     count += b.recv_many(&mut batch)?;
    ///     for datagram in &batch {
    ///         assert_eq!((datagram.contents, datagram.source), (&b"ping"[..], a.local_addr()?));
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` (Windows: `TimedOut`) when the time is up.
    ///
    /// # Cancellation
    /// A suspension point. No datagram is lost by it.
    pub fn recv_many(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.shared.recv_many(batch)
    }

    /// Sends all of `transmits` in order, with as few system calls as the kernel allows, and waits for room meanwhile.
    /// Returns how many datagrams were sent, which is less than all (the sum of
    /// [`Transmit::datagrams`]) if an error or the write timeout stopped it after the first: the rest may be
    /// tried again, and gives the error if that is still there.
    ///
    /// What is [`segmented`](Transmit::segmented) the kernel or the network card cuts into datagrams where it can
    /// (`UDP_SEGMENT`), which takes far less time; where it cannot, the same datagrams are sent one by one.
    ///
    /// # Errors
    /// The kernel's, of the first datagram; `WouldBlock` (Windows: `TimedOut`) when the time is up and none was sent;
    /// `InvalidInput` if a `segment_size` is 0.
    ///
    /// # Cancellation
    /// A suspension point. How many had been sent is then not known.
    pub fn send_many(&self, transmits: &[Transmit<'_>]) -> io::Result<usize> {
        self.shared.send_many(transmits)
    }

    /// Whether the kernel may join datagrams that came one after the other from one sender (`UDP_GRO`), which makes
    /// [`recv_many`](UdpSocket::recv_many) cheaper. That takes them apart again, if each message of its batch
    /// has room for 65,535 bytes; with less, what does not fit is lost. The other functions do not: do not use them
    /// then.
    ///
    /// Where the kernel cannot do it this does nothing, and datagrams come as they were sent.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        if self.handle().is_simulated() {
            return Ok(());
        }
        match ops::set_flag(self.handle(), ops::JOIN_DATAGRAMS, on) {
            Err(error) if ops::is_unknown_option(&error) => Ok(()),
            result => result,
        }
    }

    /// Whether the kernel joins datagrams; see [`set_gro`](UdpSocket::set_gro).
    ///
    /// # Errors
    /// The kernel's.
    pub fn gro(&self) -> io::Result<bool> {
        if self.handle().is_simulated() {
            return Ok(false);
        }
        match ops::flag(self.handle(), ops::JOIN_DATAGRAMS) {
            Err(error) if ops::is_unknown_option(&error) => Ok(false),
            result => result,
        }
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
