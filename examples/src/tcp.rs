//! What only TCP knows: how long a connection has been silent, and how to end one with a reset.

use std::os::fd::AsRawFd;
use std::time::Duration;

use bast::net::TcpStream;

/// For how long no data has been received, and none sent. Data that waits until the peer has room is not sent. Zero if
/// the kernel does not say.
pub fn silence(stream: &TcpStream) -> Duration {
    // SAFETY: integers throughout.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, out) = (libc::IPPROTO_TCP, (&raw mut info).cast());
    // SAFETY: the kernel writes at most `len` bytes to `info`; the descriptor is open.
    let failed =
        unsafe { libc::getsockopt(stream.as_raw_fd(), level, libc::TCP_INFO, out, &raw mut len) };
    if failed != 0 {
        return Duration::ZERO;
    }
    let ms = info.tcpi_last_data_recv.min(info.tcpi_last_data_sent);
    Duration::from_millis(ms.into())
}

/// The peer will see a reset instead of an end. Best effort: a socket that is gone needs none.
pub fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    let (level, value) = (libc::SOL_SOCKET, (&raw const linger).cast());
    // SAFETY: the kernel reads `len` bytes of `linger`; the descriptor is open.
    unsafe { libc::setsockopt(stream.as_raw_fd(), level, libc::SO_LINGER, value, len) };
}
