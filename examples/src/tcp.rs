//! How to end a connection with a reset.

use std::time::Duration;

use bast::net::TcpStream;
use socket2::SockRef;

/// The peer will see a reset instead of an end. Best effort: a socket that is gone needs none.
pub fn reset_on_close(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
