//! Addresses and names of hosts. Only a name has to be looked up, and a look-up blocks its thread
//! (there is no other way to ask what the system's resolver knows), so it is done on the blocking pool.
//!
//! ```text
//!   fiber ──turn──▶ pool: getaddrinfo ──answer──▶ fiber
//!     ╰─ cancelled, time is up: goes on at once     ╰─▶ nobody: dropped, the turn is given back
//! ```
//!
//! Nothing interrupts the resolver, which may take half a minute to give up. So a look-up is left behind where its
//! fiber must go on, and only so many can be under way: the others wait for their turn, which a timeout ends as well.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::{iter, option, slice, vec};

use bast_sync::{LazyLock, Semaphore};

/// How many look-ups may be under way, those that nobody waits for any more among them: few of the pool's threads.
const LOOK_UPS: usize = 32;

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
    /// `InvalidInput` if there is no port or it is no number; the resolver's error, with the host's name, if there is no
    /// such host.
    ///
    /// # Cancellation
    /// A suspension point where a name is looked up: the fiber goes on at once, and the answer is thrown away.
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
            Err(_) => look_up(host, port),
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

/// Asks the system's resolver.
fn look_up(host: &str, port: u16) -> io::Result<vec::IntoIter<SocketAddr>> {
    static TURNS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOK_UPS)));
    let turn = Arc::clone(&TURNS).acquire_owned();
    let name = host.to_owned();
    let found = bast_rt::run_abandonable(move || {
        // Given back when the resolver has answered, whoever still listens.
        let _turn = turn;
        std::net::ToSocketAddrs::to_socket_addrs(&(&*name, port))
    });
    found.map_err(|e| io::Error::new(e.kind(), format!("cannot look up the host {host:?}: {e}")))
}

/// The addresses of a host, in the order in which they are to be tried: `"example.org:80"` or `("example.org", 80)`.
/// (What [`ToSocketAddrs`] does, as a function. The name is that of std's unstable one, and tokio's.)
///
/// The resolver can be slow; [`timeout`](crate::timeout()) around this, or around a
/// [`connect`](super::TcpStream::connect) by name, returns when its time is up.
///
/// ```
/// use std::time::Duration;
///
/// # fn main() -> std::io::Result<()> {
/// let mut addrs = bast::timeout(Duration::from_secs(5), || bast::net::lookup_host("localhost:80"))??;
/// assert!(addrs.all(|addr| addr.ip().is_loopback() && addr.port() == 80));
/// # Ok(()) }
/// ```
///
/// At most 32 look-ups are under way in a process at a time; more wait for their turn. One whose fiber did not wait for
/// it counts until the resolver gives up.
///
/// # Errors
/// As [`ToSocketAddrs::to_socket_addrs`].
///
/// # Cancellation
/// A suspension point if a name is looked up.
pub fn lookup_host<A: ToSocketAddrs>(host: A) -> io::Result<A::Iter> {
    host.to_socket_addrs()
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
