//! Same as [`std::net`]: TCP and UDP, for fibers. A call that has to wait suspends the fiber; from a plain
//! thread it blocks the thread, as in std.
//!
//! ```
//! use bast::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! # fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let addr = listener.local_addr()?;
//! let server = bast::spawn(move || -> std::io::Result<()> {
//!     let (mut stream, _) = listener.accept()?;
//!     stream.write_all(b"hello")
//! });
//! let mut text = String::new();
//! TcpStream::connect(addr)?.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! server.join().unwrap()
//! # }
//! ```
//!
//! # Differences from std
//! * Names of hosts are looked up on the blocking pool ([`ToSocketAddrs`]).
//! * [`try_clone`](TcpStream::try_clone) shares the descriptor instead of duplicating it.
//! * Timeouts and the non-blocking mode are kept in bast, not in the kernel. They are carried over when
//!   a socket is converted from or to std's type.
//! * Beyond std: [`UdpSocket::recv_many`] and [`send_many`](UdpSocket::send_many), [`lookup_host`], and listeners
//!   [for each worker](TcpListener::bind_per_worker).
//! * [`TcpListener::accept`] waits a little before it reports that descriptors have run out.

mod addrs;
pub(crate) mod listener;
mod per_worker;
pub(crate) mod socket;
mod stream;
mod udp;

pub use addrs::{ToSocketAddrs, lookup_host};
#[doc(inline)]
pub use bast_io::batch::{Datagram, Datagrams, RecvBatch, Transmit};
pub use listener::{Incoming, TcpListener};
pub use per_worker::serve_per_worker;
pub use stream::TcpStream;
pub use udp::UdpSocket;

#[doc(no_inline)]
pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};

use std::io;

use bast_io::SockAddr;

/// The Internet address that the kernel gave.
pub(crate) fn inet(addr: &SockAddr) -> io::Result<SocketAddr> {
    addr.to_std()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not an Internet address"))
}

/// A time to live as the kernel wants it.
fn ttl_of(ttl: u32) -> io::Result<i32> {
    i32::try_from(ttl).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a valid TTL"))
}
