//! Addresses and names of hosts. Only a name has to be looked up, and a look-up blocks its thread
//! (there is no other way to ask what the system's resolver knows), so it is done on the blocking pool.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{iter, option, slice, vec};

/// Same as [`std::net::ToSocketAddrs`].
///
/// # Differences from std
/// A name is looked up on the blocking pool while the fiber waits; no worker is blocked. Addresses,
/// also as text, are converted at once.
///
/// ```
/// use bast::net::ToSocketAddrs;
///
/// let addrs: Vec<_> = ("127.0.0.1", 80).to_socket_addrs().unwrap().collect();
/// assert_eq!(addrs, ["127.0.0.1:80".parse().unwrap()]);
/// assert!("localhost:80".to_socket_addrs().unwrap().all(|addr| addr.ip().is_loopback()));
/// assert!("no port".to_socket_addrs().is_err());
/// ```
pub trait ToSocketAddrs {
    /// What [`to_socket_addrs`](ToSocketAddrs::to_socket_addrs) returns.
    type Iter: Iterator<Item = SocketAddr>;

    /// The addresses, in the order in which they are to be tried.
    ///
    /// # Errors
    /// `InvalidInput` if there is no port or it is no number; the resolver's error if there is no such
    /// host.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

/// What is an address already.
macro_rules! at_once {
    ($($t:ty),*) => {$(
        impl ToSocketAddrs for $t {
            type Iter = option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                std::net::ToSocketAddrs::to_socket_addrs(self)
            }
        }
    )*};
}

at_once!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let &(host, port) = self;
        match host.parse::<IpAddr>() {
            Ok(ip) => Ok(vec![SocketAddr::new(ip, port)].into_iter()),
            Err(_) => {
                bast_rt::run_blocking(|| std::net::ToSocketAddrs::to_socket_addrs(&(host, port)))
            }
        }
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (&*self.0, self.1).to_socket_addrs()
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        if let Ok(addr) = self.parse::<SocketAddr>() {
            return Ok(vec![addr].into_iter());
        }
        let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidInput, what);
        let (host, port) = self.rsplit_once(':').ok_or(invalid("invalid socket address"))?;
        let port = port.parse::<u16>().map_err(|_| invalid("invalid port value"))?;
        (host, port).to_socket_addrs()
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = iter::Cloned<slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    fn to_socket_addrs(&self) -> io::Result<T::Iter> {
        (**self).to_socket_addrs()
    }
}

/// The first success of `f` with one of the addresses, else the last error.
pub(super) fn first<T>(
    addrs: impl ToSocketAddrs,
    mut f: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for addr in addrs.to_socket_addrs()? {
        match f(addr) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
    }))
}
