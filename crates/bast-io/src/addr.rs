//! Socket addresses in the kernel's form.
//!
//! A [`SockAddr`] has room for every address family and keeps the address's length beside it, so that
//! one pointer in an [`Op`](crate::Op) serves both directions. It converts to and from
//! `std::net::SocketAddr`; other families pass through as bytes.

#[cfg(unix)]
mod local;

use std::fmt;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::sys::c;

/// An address and its length, for the kernel to read or to fill.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SockAddr {
    storage: c::sockaddr_storage,
    len: c::socklen_t,
}

impl SockAddr {
    /// The bytes that any address may take.
    pub const CAPACITY: c::socklen_t = size_of::<c::sockaddr_storage>() as c::socklen_t;

    /// An empty one, for the kernel to fill.
    #[must_use]
    pub const fn zeroed() -> SockAddr {
        // SAFETY: `sockaddr_storage` is plain bytes; zeroes are family AF_UNSPEC.
        let storage = unsafe { MaybeUninit::zeroed().assume_init() };
        SockAddr { storage, len: SockAddr::CAPACITY }
    }

    /// The address whose kernel form is `bytes` (an `AF_UNIX` path, a netlink address, …). `None` if
    /// it is longer than any address can be.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<SockAddr> {
        let mut addr = SockAddr::zeroed();
        if bytes.len() > size_of::<c::sockaddr_storage>() {
            return None;
        }
        // SAFETY: the storage is at least as long as `bytes` and they do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (&raw mut addr.storage).cast(),
                bytes.len(),
            );
        }
        addr.len = bytes.len() as c::socklen_t;
        Some(addr)
    }

    /// The address in its kernel form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let len = self.len.min(SockAddr::CAPACITY) as usize;
        // SAFETY: the storage is initialised in full (zeroes or more) and `len` lies within it.
        unsafe { std::slice::from_raw_parts((&raw const self.storage).cast(), len) }
    }

    /// `AF_INET`, `AF_INET6`, `AF_UNIX`, …
    #[must_use]
    pub const fn family(&self) -> i32 {
        self.storage.ss_family as i32
    }

    /// The Internet address, if it is one.
    #[must_use]
    pub fn to_std(&self) -> Option<SocketAddr> {
        match self.family() {
            c::AF_INET if self.len as usize >= size_of::<c::sockaddr_in>() => {
                // SAFETY: the family and the length say so; the storage is aligned for all families.
                let v4 = unsafe { &*(&raw const self.storage).cast::<c::sockaddr_in>() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            c::AF_INET6 if self.len as usize >= size_of::<c::sockaddr_in6>() => {
                // SAFETY: as above.
                let v6 = unsafe { &*(&raw const self.storage).cast::<c::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    /// For `bind`, `connect`, `sendto`.
    #[must_use]
    pub const fn as_ptr(&self) -> *const c::sockaddr {
        (&raw const self.storage).cast()
    }

    /// Shortens it to what the kernel has filled.
    pub fn set_len(&mut self, len: c::socklen_t) {
        self.len = len.min(SockAddr::CAPACITY);
    }

    /// How long the address is.
    #[must_use]
    pub const fn len(&self) -> c::socklen_t {
        self.len
    }

    /// Whether there is no address.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes room and gives the two pointers that `accept`, `getsockname` and `recvfrom` fill.
    ///
    /// # Safety
    /// `addr` is valid for writes, or null (then both results are null).
    pub(crate) unsafe fn out(addr: *mut SockAddr) -> (*mut c::sockaddr, *mut c::socklen_t) {
        if addr.is_null() {
            return (std::ptr::null_mut(), std::ptr::null_mut());
        }
        // SAFETY: the caller's promise. No reference is made: the kernel writes there later.
        unsafe {
            (*addr).len = SockAddr::CAPACITY;
            (addr.byte_add(offset_of!(SockAddr, storage)).cast(), &raw mut (*addr).len)
        }
    }
}

/// The address family of `addr`, for [`Op::Socket`](crate::Op::Socket).
#[must_use]
pub const fn family(addr: &SocketAddr) -> i32 {
    match addr {
        SocketAddr::V4(_) => c::AF_INET,
        SocketAddr::V6(_) => c::AF_INET6,
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(std: SocketAddr) -> SockAddr {
        let mut addr = SockAddr::zeroed();
        match std {
            SocketAddr::V4(std) => {
                // SAFETY: the storage is zeroed, aligned and large enough for every family.
                let v4 = unsafe { &mut *(&raw mut addr.storage).cast::<c::sockaddr_in>() };
                v4.sin_family = c::AF_INET as c::sa_family_t;
                v4.sin_port = std.port().to_be();
                v4.sin_addr.s_addr = u32::from_ne_bytes(std.ip().octets());
                addr.len = size_of::<c::sockaddr_in>() as c::socklen_t;
            }
            SocketAddr::V6(std) => {
                // SAFETY: as above.
                let v6 = unsafe { &mut *(&raw mut addr.storage).cast::<c::sockaddr_in6>() };
                v6.sin6_family = c::AF_INET6 as c::sa_family_t;
                v6.sin6_port = std.port().to_be();
                v6.sin6_flowinfo = std.flowinfo();
                v6.sin6_addr.s6_addr = std.ip().octets();
                v6.sin6_scope_id = std.scope_id();
                addr.len = size_of::<c::sockaddr_in6>() as c::socklen_t;
            }
        }
        addr
    }
}

impl fmt::Debug for SockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_std() {
            Some(std) => write!(f, "SockAddr({std})"),
            None => write!(f, "SockAddr(family {}, {} bytes)", self.family(), self.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["127.0.0.1:80", "1.2.3.4:65535", "[::1]:443", "[fe80::1%7]:9"] {
            let std: SocketAddr = text.parse().expect("literal");
            let addr = SockAddr::from(std);
            assert_eq!(addr.to_std(), Some(std));
            assert_eq!(SockAddr::from_bytes(addr.as_bytes()).and_then(|a| a.to_std()), Some(std));
        }
    }

    #[test]
    fn other_families_are_bytes() {
        assert_eq!(SockAddr::zeroed().to_std(), None);
        let mut unix = vec![0u8; 10];
        unix[..2].copy_from_slice(&(c::AF_UNIX as u16).to_ne_bytes());
        let addr = SockAddr::from_bytes(&unix).expect("short");
        assert_eq!((addr.family(), addr.as_bytes()), (c::AF_UNIX, &unix[..]));
        assert!(addr.to_std().is_none());
        assert!(SockAddr::from_bytes(&[0; 129]).is_none());
        // An address cut short by the kernel is not taken for a whole one.
        let whole = SockAddr::from("1.2.3.4:5".parse::<SocketAddr>().expect("literal"));
        assert!(SockAddr::from_bytes(&whole.as_bytes()[..8]).expect("short").to_std().is_none());
    }
}
