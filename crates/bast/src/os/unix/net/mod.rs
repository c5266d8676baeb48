//! Same as [`std::os::unix::net`]: sockets between processes of one system, which can also carry
//! descriptors.
//!
//! ```
//! use bast::os::unix::net::UnixStream;
//! use std::io::{Read, Write};
//!
//! # fn main() -> std::io::Result<()> {
//! let (mut a, mut b) = UnixStream::pair()?;
//! bast::spawn(move || a.write_all(b"hello"));
//! let mut text = String::new();
//! b.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! # Ok(()) }
//! ```
//!
//! # Differences from std
//! * `try_clone` shares the descriptor; timeouts and the non-blocking mode are kept in bast.
//! * `send_with_fds` and `recv_with_fds` have no stable counterpart.
//! * The simulator has no sockets of this kind: there these are the system's.

mod datagram;
mod listener;
mod rights;
mod stream;

use std::io;
use std::path::Path;

use bast_io::SockAddr;

pub use datagram::UnixDatagram;
pub use listener::{Incoming, UnixListener};
pub use std::os::unix::net::SocketAddr;
pub use stream::UnixStream;

/// The address of a path, as the kernel takes it.
fn at(path: &Path) -> io::Result<SockAddr> {
    Ok(SockAddr::from_local(&SocketAddr::from_pathname(path)?))
}

/// The local address that the kernel gave.
pub(crate) fn local(addr: &SockAddr) -> io::Result<SocketAddr> {
    addr.to_local()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a local address"))
}
