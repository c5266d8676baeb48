//! What `libc` is on Unix: C's types and constants, by the names that they have there.
//!
//! Types that Windows reads have its layout (`iovec` is a `WSABUF`, as std's `IoSlice` is). The others (`msghdr`,
//! `statx`) are taken apart before a call, and are as Linux has them. Errors are Windows' own codes, so that
//! `io::Error::from_raw_os_error` says the right thing. Flags that Windows does not have are bits of our own, which
//! are taken out before a call; an option that it does not have has a number that it refuses.

#![allow(non_camel_case_types, missing_docs)]

pub use std::ffi::{c_char, c_int, c_void};

use windows_sys::Win32::Foundation as e;
use windows_sys::Win32::Networking::WinSock as ws;

pub type socklen_t = u32;
pub type sa_family_t = u16;
pub type mode_t = u32;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sockaddr {
    pub sa_family: sa_family_t,
    pub sa_data: [u8; 14],
}

#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct sockaddr_storage {
    pub ss_family: sa_family_t,
    pub ss_data: [u8; 126],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct in_addr {
    pub s_addr: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sockaddr_in {
    pub sin_family: sa_family_t,
    pub sin_port: u16,
    pub sin_addr: in_addr,
    pub sin_zero: [u8; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct in6_addr {
    pub s6_addr: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sockaddr_in6 {
    pub sin6_family: sa_family_t,
    pub sin6_port: u16,
    pub sin6_flowinfo: u32,
    pub sin6_addr: in6_addr,
    pub sin6_scope_id: u32,
}

/// A `WSABUF`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct iovec {
    pub iov_len: u32,
    pub iov_base: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct msghdr {
    pub msg_name: *mut c_void,
    pub msg_namelen: socklen_t,
    pub msg_iov: *mut iovec,
    pub msg_iovlen: usize,
    pub msg_control: *mut c_void,
    pub msg_controllen: usize,
    pub msg_flags: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmsghdr {
    pub msg_hdr: msghdr,
    pub msg_len: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct statx_timestamp {
    pub tv_sec: i64,
    pub tv_nsec: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct statx {
    pub stx_mask: u32,
    pub stx_blksize: u32,
    pub stx_nlink: u32,
    pub stx_mode: u16,
    pub stx_ino: u64,
    pub stx_size: u64,
    pub stx_blocks: u64,
    pub stx_mtime: statx_timestamp,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct linger {
    pub l_onoff: u16,
    pub l_linger: u16,
}

// ---- errors ----
const fn code(code: u32) -> c_int {
    code as c_int
}
/// An overlapped call is under way.
pub const PENDING: c_int = code(e::ERROR_IO_PENDING);
pub const EAGAIN: c_int = ws::WSAEWOULDBLOCK;
pub const EINPROGRESS: c_int = ws::WSAEINPROGRESS;
pub const EALREADY: c_int = ws::WSAEALREADY;
pub const EINTR: c_int = ws::WSAEINTR;
pub const ECANCELED: c_int = code(e::ERROR_OPERATION_ABORTED);
pub const ETIMEDOUT: c_int = ws::WSAETIMEDOUT;
pub const EBUSY: c_int = code(e::ERROR_BUSY);
pub const EBADF: c_int = code(e::ERROR_INVALID_HANDLE);
pub const EINVAL: c_int = code(e::ERROR_INVALID_PARAMETER);
pub const EIO: c_int = code(e::ERROR_IO_DEVICE);
pub const ENOSYS: c_int = code(e::ERROR_CALL_NOT_IMPLEMENTED);
pub const EPERM: c_int = code(e::ERROR_ACCESS_DENIED);
pub const ENOENT: c_int = code(e::ERROR_FILE_NOT_FOUND);
pub const EEXIST: c_int = code(e::ERROR_FILE_EXISTS);
pub const ENOTDIR: c_int = code(e::ERROR_DIRECTORY);
pub const EFBIG: c_int = code(e::ERROR_FILE_TOO_LARGE);
pub const EPIPE: c_int = code(e::ERROR_BROKEN_PIPE);
pub const EXDEV: c_int = code(e::ERROR_NOT_SAME_DEVICE);
pub const EMFILE: c_int = code(e::ERROR_TOO_MANY_OPEN_FILES);
pub const ENOMEM: c_int = code(e::ERROR_NOT_ENOUGH_MEMORY);
pub const ENOBUFS: c_int = ws::WSAENOBUFS;
pub const EMSGSIZE: c_int = ws::WSAEMSGSIZE;
pub const EISCONN: c_int = ws::WSAEISCONN;
pub const ENOTCONN: c_int = ws::WSAENOTCONN;
pub const ENOTSOCK: c_int = ws::WSAENOTSOCK;
pub const EDESTADDRREQ: c_int = ws::WSAEDESTADDRREQ;
pub const EOPNOTSUPP: c_int = ws::WSAEOPNOTSUPP;
pub const ENOPROTOOPT: c_int = ws::WSAENOPROTOOPT;
pub const ESOCKTNOSUPPORT: c_int = ws::WSAESOCKTNOSUPPORT;
pub const EAFNOSUPPORT: c_int = ws::WSAEAFNOSUPPORT;
pub const EADDRINUSE: c_int = ws::WSAEADDRINUSE;
pub const ECONNABORTED: c_int = ws::WSAECONNABORTED;
pub const ECONNREFUSED: c_int = ws::WSAECONNREFUSED;
pub const ECONNRESET: c_int = ws::WSAECONNRESET;
pub const EHOSTUNREACH: c_int = ws::WSAEHOSTUNREACH;
pub const ENETUNREACH: c_int = ws::WSAENETUNREACH;

// ---- sockets ----
pub const AF_UNIX: c_int = ws::AF_UNIX as c_int;
pub const AF_INET: c_int = ws::AF_INET as c_int;
pub const AF_INET6: c_int = ws::AF_INET6 as c_int;
pub const SOCK_STREAM: c_int = ws::SOCK_STREAM;
pub const SOCK_DGRAM: c_int = ws::SOCK_DGRAM;
/// Every socket of ours is non-blocking and not inherited.
pub const SOCK_CLOEXEC: c_int = 0;
pub const SOCK_NONBLOCK: c_int = 0;
pub const MSG_PEEK: c_int = ws::MSG_PEEK;
/// Ours.
pub const MSG_DONTWAIT: c_int = 1 << 28;
/// Ours: what Windows says as an error.
pub const MSG_TRUNC: c_int = 1 << 29;
/// Ours: there is no control data.
pub const MSG_CTRUNC: c_int = 1 << 30;
/// There is no such thing.
pub const MSG_MORE: c_int = 0;
pub const MSG_CMSG_CLOEXEC: c_int = 0;
pub const SOL_SOCKET: c_int = ws::SOL_SOCKET;
/// Ours: Windows gives an address in `TIME_WAIT` away without being asked. Its own `SO_REUSEADDR` lets a program
/// take an address that another one listens on, which nobody who wrote this for Unix can want.
pub const SO_REUSEADDR: c_int = 0x7ba5_0001;
/// Unknown to Windows.
pub const SO_REUSEPORT: c_int = 0x7ba5_0002;
pub const SO_BROADCAST: c_int = ws::SO_BROADCAST;
pub const SO_LINGER: c_int = ws::SO_LINGER;
pub const SO_ERROR: c_int = ws::SO_ERROR;
pub const SO_TYPE: c_int = ws::SO_TYPE;
pub const SO_RCVBUF: c_int = ws::SO_RCVBUF;
pub const SO_SNDBUF: c_int = ws::SO_SNDBUF;
pub const SO_RCVTIMEO: c_int = ws::SO_RCVTIMEO;
pub const SO_SNDTIMEO: c_int = ws::SO_SNDTIMEO;
pub const IPPROTO_IP: c_int = ws::IPPROTO_IP;
pub const IPPROTO_IPV6: c_int = ws::IPPROTO_IPV6;
pub const IPPROTO_TCP: c_int = ws::IPPROTO_TCP;
pub const SOL_UDP: c_int = ws::IPPROTO_UDP;
pub const TCP_NODELAY: c_int = ws::TCP_NODELAY;
/// Unknown to Windows.
pub const TCP_QUICKACK: c_int = 0x7ba5_0003;
/// Unknown to Windows.
pub const UDP_GRO: c_int = 0x7ba5_0004;
pub const IP_TTL: c_int = ws::IP_TTL;
pub const IPV6_V6ONLY: c_int = ws::IPV6_V6ONLY;

// ---- files: bits of our own ----
pub const O_RDONLY: c_int = 0;
pub const O_WRONLY: c_int = 1;
pub const O_RDWR: c_int = 2;
pub const O_ACCMODE: c_int = 3;
pub const O_CREAT: c_int = 0o100;
pub const O_EXCL: c_int = 0o200;
pub const O_TRUNC: c_int = 0o1000;
pub const O_APPEND: c_int = 0o2000;
/// No handle of ours is inherited.
pub const O_CLOEXEC: c_int = 0;
pub const O_NONBLOCK: c_int = 0o4000;
pub const O_DIRECTORY: c_int = 0o20_0000;
pub const AT_FDCWD: c_int = -100;
pub const AT_EMPTY_PATH: c_int = 0x1000;
pub const AT_STATX_DONT_SYNC: c_int = 0x4000;
pub const AT_SYMLINK_NOFOLLOW: c_int = 0x100;
pub const STATX_BASIC_STATS: u32 = 0x7ff;
pub const STATX_TYPE: u32 = 1;
pub const S_IFMT: mode_t = 0o17_0000;
pub const S_IFSOCK: mode_t = 0o14_0000;
pub const S_IFLNK: mode_t = 0o12_0000;
pub const S_IFREG: mode_t = 0o10_0000;
pub const S_IFBLK: mode_t = 0o6_0000;
pub const S_IFDIR: mode_t = 0o4_0000;
pub const S_IFCHR: mode_t = 0o2_0000;
pub const S_IFIFO: mode_t = 0o1_0000;
