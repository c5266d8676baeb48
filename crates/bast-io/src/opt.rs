//! What sockets are made of and set to: types, per-call flags and options, by neutral names.
//!
//! An option's value is a [`Value`]: a number, a [`Linger`] or a [`Time`], each in the kernel's own
//! form, so that [`Op::SetOpt`](crate::Op::SetOpt) and [`Op::GetOpt`](crate::Op::GetOpt) can point at
//! it. The forms are made and read here and nowhere else.

#[cfg_attr(windows, path = "windows/time.rs")]
mod time;

use std::time::Duration;

pub use self::time::Time;

use crate::op::SockOpt;
use crate::sys::{self, c};

const fn opt(level: i32, name: i32) -> SockOpt {
    SockOpt { level, name }
}

/// A socket of this type is a byte stream.
pub const STREAM: i32 = c::SOCK_STREAM;
/// A socket of this type sends and receives datagrams.
pub const DATAGRAM: i32 = c::SOCK_DGRAM;
/// A protocol family: sockets of this system, by path.
pub const LOCAL: i32 = c::AF_UNIX;
/// Flag of a receive: descriptors that come along are close-on-exec.
pub const CLOSE_ON_EXEC: i32 = c::MSG_CMSG_CLOEXEC;
/// Flag of a receive: leave the bytes where they are.
pub const PEEK: i32 = c::MSG_PEEK;
/// Flag of a receive or a send: fail with `EAGAIN` instead of waiting.
pub const DONT_WAIT: i32 = c::MSG_DONTWAIT;
/// Flag of a send on a stream: more follows soon, so a segment that is not full may wait for it.
pub const MORE: i32 = c::MSG_MORE;
/// Option: an address in `TIME_WAIT` may be bound again. (On Windows it may without.)
pub const REUSE_ADDR: SockOpt = opt(c::SOL_SOCKET, c::SO_REUSEADDR);
/// Option: small segments are sent at once.
pub const NO_DELAY: SockOpt = opt(c::IPPROTO_TCP, c::TCP_NODELAY);
/// Option: acknowledgements are sent at once.
pub const QUICK_ACK: SockOpt = opt(c::IPPROTO_TCP, c::TCP_QUICKACK);
/// Option: time to live of IPv4 packets.
pub const TTL: SockOpt = opt(c::IPPROTO_IP, c::IP_TTL);
/// Option: an IPv6 socket that takes no IPv4.
pub const ONLY_V6: SockOpt = opt(c::IPPROTO_IPV6, c::IPV6_V6ONLY);
/// Option: several sockets may be bound to one address; the kernel spreads what arrives over them.
pub const REUSE_PORT: SockOpt = opt(c::SOL_SOCKET, c::SO_REUSEPORT);
/// Option: the kernel may join datagrams that came one after the other, for those who can take them apart.
pub const JOIN_DATAGRAMS: SockOpt = opt(c::SOL_UDP, c::UDP_GRO);
/// Option: datagrams may be sent to broadcast addresses.
pub const BROADCAST: SockOpt = opt(c::SOL_SOCKET, c::SO_BROADCAST);
/// Option: how long a close waits, a [`Linger`].
pub const LINGER: SockOpt = opt(c::SOL_SOCKET, c::SO_LINGER);
/// Option: the error that is pending. Asking takes it.
pub const ERROR: SockOpt = opt(c::SOL_SOCKET, c::SO_ERROR);

/// The error of an option that this kernel does not have.
pub const UNKNOWN: i32 = c::ENOPROTOOPT;

/// What an option's value may be.
///
/// # Safety
/// Any bytes are a value, zeroes among them, and none are padding: the kernel reads and writes them.
pub unsafe trait Value: Copy {}

// SAFETY: an integer.
unsafe impl Value for i32 {}
// SAFETY: two integers of one size.
unsafe impl Value for Linger {}
// SAFETY: integers without padding between them.
unsafe impl Value for Time {}

/// How long a close waits for what has not been sent.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Linger(c::linger);

impl Linger {
    /// `None` does not wait, zero resets the connection. Whole seconds: the rest is cut off.
    #[must_use]
    pub fn new(value: Option<Duration>) -> Linger {
        let seconds = value.map_or(0, |d| d.as_secs().min(sys::LINGER_MOST));
        Linger(c::linger { l_onoff: value.is_some().into(), l_linger: seconds as _ })
    }

    /// What [`new`](Linger::new) was given, in whole seconds.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        let seconds = Duration::from_secs(self.0.l_linger as u64);
        (self.0.l_onoff != 0).then_some(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lingering_there_and_back() {
        let there_and_back = |d| Linger::new(d).get();
        assert_eq!(there_and_back(None), None);
        assert_eq!(there_and_back(Some(Duration::ZERO)), Some(Duration::ZERO));
        assert_eq!(there_and_back(Some(Duration::new(5, 999))), Some(Duration::from_secs(5)));
        let longest = Duration::from_secs(sys::LINGER_MOST);
        assert_eq!(there_and_back(Some(Duration::MAX)), Some(longest));
    }

    #[test]
    fn times_there_and_back() {
        let there_and_back = |d| Time::new(d).get();
        assert_eq!(there_and_back(None), None);
        // Zero means "never", so nothing that was asked for may become zero.
        let least = Some(Time::UNIT);
        assert_eq!(there_and_back(Some(Duration::ZERO)), least);
        assert_eq!(there_and_back(Some(Time::UNIT - Duration::from_nanos(1))), least);
        let odd = Some(Duration::from_secs(3) + 7 * Time::UNIT);
        assert_eq!(there_and_back(odd), odd);
        assert!(there_and_back(Some(Duration::MAX)) > Some(Duration::from_secs(1 << 20)));
    }
}
