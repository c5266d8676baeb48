//! What sockets are made of and set to: types, per-call flags and options, by neutral names.
//!
//! An option's value is a [`Value`]: a number, a [`Linger`] or a [`Time`], each in the kernel's own
//! form, so that [`Op::SetOpt`](crate::Op::SetOpt) and [`Op::GetOpt`](crate::Op::GetOpt) can point at
//! it. The forms are made and read here and nowhere else.

use std::time::Duration;

use crate::op::SockOpt;
use crate::sys::c;

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
/// Option: an address in `TIME_WAIT` may be bound again.
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
// SAFETY: two integers of one size.
unsafe impl Value for Time {}

/// How long a close waits for what has not been sent.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Linger(c::linger);

impl Linger {
    /// `None` does not wait, zero resets the connection. Whole seconds: the rest is cut off.
    #[must_use]
    pub fn new(value: Option<Duration>) -> Linger {
        let seconds = value.map_or(0, |d| i32::try_from(d.as_secs()).unwrap_or(i32::MAX));
        Linger(c::linger { l_onoff: i32::from(value.is_some()), l_linger: seconds })
    }

    /// What [`new`](Linger::new) was given, in whole seconds.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        let seconds = Duration::from_secs(u64::try_from(self.0.l_linger).unwrap_or(0));
        (self.0.l_onoff != 0).then_some(seconds)
    }
}

/// A length of time, in microseconds. Zero is "never" to the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Time(c::timeval);

impl Time {
    /// `None` is zero. What is shorter than a microsecond becomes one.
    #[must_use]
    pub fn new(value: Option<Duration>) -> Time {
        let mut time = c::timeval { tv_sec: 0, tv_usec: 0 };
        if let Some(value) = value {
            time.tv_sec = c::time_t::try_from(value.as_secs()).unwrap_or(c::time_t::MAX);
            time.tv_usec = value.subsec_micros() as _;
            if (time.tv_sec, time.tv_usec) == (0, 0) {
                time.tv_usec = 1;
            }
        }
        Time(time)
    }

    /// The time; `None` if it is zero.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        let seconds = Duration::from_secs(u64::try_from(self.0.tv_sec).unwrap_or(0));
        let value = seconds + Duration::from_micros(u64::try_from(self.0.tv_usec).unwrap_or(0));
        (!value.is_zero()).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_there_and_back() {
        let there_and_back = |d| Time::new(d).get();
        assert_eq!(there_and_back(None), None);
        // Zero means "never", so nothing that was asked for may become zero.
        let micro = Some(Duration::from_micros(1));
        assert_eq!(there_and_back(Some(Duration::ZERO)), micro);
        assert_eq!(there_and_back(Some(Duration::from_nanos(999))), micro);
        let odd = Some(Duration::new(3, 7_000));
        assert_eq!(there_and_back(odd), odd);
        assert!(there_and_back(Some(Duration::MAX)) > Some(Duration::from_secs(1 << 40)));
    }

    #[test]
    fn lingering_there_and_back() {
        let there_and_back = |d| Linger::new(d).get();
        assert_eq!(there_and_back(None), None);
        assert_eq!(there_and_back(Some(Duration::ZERO)), Some(Duration::ZERO));
        assert_eq!(there_and_back(Some(Duration::new(5, 999))), Some(Duration::from_secs(5)));
        let longest = Duration::from_secs(i32::MAX as u64);
        assert_eq!(there_and_back(Some(Duration::MAX)), Some(longest));
    }
}
