//! The C library by the names that Linux has for its types, constants and calls.
//!
//! | Linux | here |
//! |---|---|
//! | `accept4`, `socket` with flags | `accept`, `socket`, then the flags one by one; FreeBSD has them |
//! | `statx` | `fstat`, `fstatat` |
//! | `sendfile` | their own, which tell a part that was sent before an error in another way |
//! | `sendmmsg`, `recvmmsg` | a message at a time, which is what FreeBSD's C library does |
//! | `splice` | `ENOSYS`: whoever copies falls back to reads and writes |
//! | `preadv2` and `RWF_NOWAIT` | `EOPNOTSUPP`: nobody tells what is in memory, so the pool reads |
//! | an option or a flag that speeds something up | an option that no kernel knows; no flag |
//!
//! Sockets are non-blocking from birth ([`STREAMS_BLOCK`](super::super::STREAMS_BLOCK)), and on macOS do not raise SIGPIPE.

// They are C's, whose manual describes them.
#![allow(missing_docs, non_camel_case_types, clippy::missing_safety_doc)]

pub use libc::*;

use std::mem::MaybeUninit;

#[cfg(not(target_os = "linux"))]
pub use libc::{
    lseek as lseek64, open as open64, pread as pread64, preadv as preadv64, pwrite as pwrite64,
    pwritev as pwritev64,
};

pub const AT_EMPTY_PATH: c_int = 1 << 28;
pub const AT_STATX_DONT_SYNC: c_int = 1 << 29;
pub const STATX_TYPE: c_uint = 1;
pub const STATX_BASIC_STATS: c_uint = 0x7ff;
pub const RWF_NOWAIT: c_int = 8;
#[cfg(target_vendor = "apple")]
pub const SOCK_CLOEXEC: c_int = 1 << 28;
#[cfg(target_vendor = "apple")]
pub const SOCK_NONBLOCK: c_int = 1 << 29;
pub const SPLICE_F_NONBLOCK: c_uint = 2;
/// The end of a stream is told with `POLLIN` and `POLLHUP`.
pub const POLLRDHUP: c_short = 0;
pub const MSG_MORE: c_int = 0;
pub const TCP_QUICKACK: c_int = -1;
pub const SOL_UDP: c_int = IPPROTO_UDP;
pub const UDP_GRO: c_int = -1;
pub const UDP_SEGMENT: c_int = -1;
/// Not among their errors; one that stands beside it in every list.
pub const ENONET: c_int = ENETDOWN;
/// macOS has no such flag: see `rights`.
#[cfg(target_vendor = "apple")]
pub const MSG_CMSG_CLOEXEC: c_int = 0;
/// The clock of std's `Instant`, and of the queue's timeouts: their other one goes on while the machine sleeps.
#[cfg(target_vendor = "apple")]
pub const CLOCK_MONOTONIC: clockid_t = CLOCK_UPTIME_RAW;

/// What `statx` tells, as far as it is asked for.
#[derive(Clone, Copy)]
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

#[derive(Clone, Copy)]
pub struct statx_timestamp {
    pub tv_sec: i64,
    pub tv_nsec: u32,
}

/// An entry of a list of messages.
#[derive(Clone, Copy)]
pub struct mmsghdr {
    pub msg_hdr: msghdr,
    pub msg_len: c_uint,
}

/// Where the calling thread's error number is.
#[cfg(not(target_os = "linux"))]
pub unsafe fn __errno_location() -> *mut c_int {
    // SAFETY: always valid for the calling thread.
    unsafe { libc::__error() }
}

fn refuse(errno: c_int) -> isize {
    // SAFETY: the calling thread's own.
    unsafe { *__errno_location() = errno };
    -1
}

/// A new socket, or the error: close-on-exec, non-blocking, and without SIGPIPE.
///
/// # Safety
/// The descriptor is new, and nobody else's.
#[cfg(not(target_os = "freebsd"))]
unsafe fn born(fd: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    let mut on: c_int = 1;
    // SAFETY: numbers, and one int that is read. None of these fails for a socket.
    unsafe {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        ioctl(fd, FIONBIO, &raw mut on);
        #[cfg(target_vendor = "apple")]
        spare_sigpipe(fd);
    }
    fd
}

/// As std has it. `sendfile` has no flag for it. What a listener accepts has it from the listener.
///
/// # Safety
/// The descriptor is a socket. (A socket that is closed already refuses, and then nothing is written to it either.)
#[cfg(not(target_os = "linux"))]
unsafe fn spare_sigpipe(fd: c_int) {
    let on: c_int = 1;
    // SAFETY: one int that is read.
    unsafe {
        setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, (&raw const on).cast(), size_of::<c_int>() as _)
    };
}

pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let kind = kind & !(SOCK_CLOEXEC | SOCK_NONBLOCK);
    // SAFETY: integers.
    unsafe {
        #[cfg(target_os = "freebsd")]
        {
            let fd =
                libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol);
            if fd >= 0 {
                spare_sigpipe(fd);
            }
            fd
        }
        #[cfg(not(target_os = "freebsd"))]
        born(libc::socket(domain, kind, protocol))
    }
}

pub unsafe fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, _flags: c_int) -> c_int {
    // SAFETY: as the caller promises of both pointers.
    unsafe {
        #[cfg(target_os = "freebsd")]
        return libc::accept4(fd, addr, len, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        #[cfg(not(target_os = "freebsd"))]
        {
            let fd = born(accept(fd, addr, len));
            // macOS gives a connection that has been reset meanwhile no address, where others say so.
            if cfg!(target_vendor = "apple") && fd >= 0 && !len.is_null() && *len == 0 {
                close(fd);
                return refuse(ECONNABORTED) as c_int;
            }
            fd
        }
    }
}

/// In milliseconds, rounded up; longer than can be counted ends early.
#[cfg(not(target_os = "freebsd"))]
pub unsafe fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    _mask: *const sigset_t,
) -> c_int {
    // SAFETY: as the caller promises of both pointers.
    unsafe {
        let ms = time.as_ref().map_or(-1, |t| {
            let ms =
                t.tv_sec.saturating_mul(1000).saturating_add((t.tv_nsec + 999_999) / 1_000_000);
            c_int::try_from(ms).unwrap_or(c_int::MAX)
        });
        poll(fds, count, ms)
    }
}

pub unsafe fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    _mask: c_uint,
    out: *mut statx,
) -> c_int {
    let mut stat = MaybeUninit::<stat>::uninit();
    // SAFETY: as the caller promises of both pointers; what a call that succeeds has filled is read.
    unsafe {
        let result = if flags & AT_EMPTY_PATH != 0 && *path == 0 {
            fstat(dir, stat.as_mut_ptr())
        } else {
            fstatat(dir, path, stat.as_mut_ptr(), flags & AT_SYMLINK_NOFOLLOW)
        };
        if result == 0 {
            let stat = stat.assume_init();
            out.write(statx {
                stx_mask: STATX_BASIC_STATS,
                stx_blksize: stat.st_blksize as _,
                stx_nlink: stat.st_nlink as _,
                stx_mode: stat.st_mode as _,
                stx_ino: stat.st_ino as _,
                stx_size: stat.st_size as _,
                stx_blocks: stat.st_blocks as _,
                stx_mtime: statx_timestamp {
                    tv_sec: stat.st_mtime as _,
                    tv_nsec: stat.st_mtime_nsec as _,
                },
            });
        }
        result
    }
}

pub unsafe fn splice(
    _from: c_int,
    _from_offset: *mut i64,
    _to: c_int,
    _to_offset: *mut i64,
    _len: usize,
    _flags: c_uint,
) -> isize {
    refuse(ENOSYS)
}

/// What was sent counts, as it does on Linux, though the call may have ended with an error then.
#[cfg(not(target_os = "linux"))]
pub unsafe fn sendfile64(to: c_int, file: c_int, at: *mut i64, len: usize) -> isize {
    if len == 0 {
        // That would mean "all of it".
        return 0;
    }
    // SAFETY: the caller's promise of `at`; the count is a local.
    let (result, sent) = unsafe {
        #[cfg(target_vendor = "apple")]
        {
            let mut sent = len as off_t;
            let result = sendfile(file, to, *at, &raw mut sent, std::ptr::null_mut(), 0);
            // Another error may have come before it was counted; then there is still what was asked for.
            let counted = result == 0 || matches!(*__errno_location(), EAGAIN | EINTR);
            (result, if counted { sent } else { 0 })
        }
        #[cfg(target_os = "freebsd")]
        {
            let mut sent: off_t = 0;
            let result = sendfile(file, to, *at, len, std::ptr::null_mut(), &raw mut sent, 0);
            (result, sent)
        }
    };
    if result == 0 || sent > 0 {
        return sent as isize;
    }
    // SAFETY: the calling thread's own. What it means is: not between these two.
    match unsafe { *__errno_location() } {
        ENOTSUP | ENOTSOCK => refuse(EINVAL),
        _ => -1,
    }
}

pub unsafe fn preadv64v2(
    _fd: c_int,
    _iov: *const iovec,
    _count: c_int,
    _at: i64,
    _flags: c_int,
) -> isize {
    refuse(EOPNOTSUPP)
}

pub unsafe fn pwritev64v2(
    _fd: c_int,
    _iov: *const iovec,
    _count: c_int,
    _at: i64,
    _flags: c_int,
) -> isize {
    refuse(EOPNOTSUPP)
}

pub unsafe fn sendmmsg(fd: c_int, list: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: as the caller promises of the list.
    unsafe { each(list, count, |message| sendmsg(fd, message, flags)) }
}

pub unsafe fn recvmmsg(
    fd: c_int,
    list: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    _time: *mut timespec,
) -> c_int {
    // SAFETY: as the caller promises of the list.
    unsafe { each(list, count, |message| recvmsg(fd, message, flags)) }
}

/// The error of the first counts; a later one ends the list.
///
/// # Safety
/// The list is as long as it says.
unsafe fn each(
    list: *mut mmsghdr,
    count: c_uint,
    mut call: impl FnMut(*mut msghdr) -> isize,
) -> c_int {
    for at in 0..count {
        // SAFETY: the caller's promise.
        let entry = unsafe { &mut *list.add(at as usize) };
        match call(&raw mut entry.msg_hdr) {
            n if n >= 0 => entry.msg_len = n as c_uint,
            _ if at > 0 => return at as c_int,
            _ => return -1,
        }
    }
    count as c_int
}

/// To the disk itself, as std does it: `fsync` stops at the disk's own memory.
#[cfg(target_vendor = "apple")]
pub unsafe fn fsync(fd: c_int) -> c_int {
    // SAFETY: integers.
    unsafe { fcntl(fd, F_FULLFSYNC) }
}

#[cfg(target_vendor = "apple")]
pub unsafe fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: integers.
    unsafe { fsync(fd) }
}

pub const RESOLVE_BENEATH: u64 = 8;
pub const RESOLVE_NO_MAGICLINKS: u64 = 2;
pub const RESOLVE_CACHED: u64 = 32;
/// Looked at only; where there is no such flag a directory has to be readable.
#[cfg(target_vendor = "apple")]
pub const O_PATH: c_int = 0;

#[cfg(not(target_os = "linux"))]
mod narrow {
    //! Numbers of 16 bits there, of 32 here and in [`Stat`](crate::Stat).
    pub type mode_t = u32;
    pub const S_IFMT: u32 = libc::S_IFMT as u32;
    pub const S_IFREG: u32 = libc::S_IFREG as u32;
    pub const S_IFDIR: u32 = libc::S_IFDIR as u32;
    pub const S_IFBLK: u32 = libc::S_IFBLK as u32;
    pub const S_IFIFO: u32 = libc::S_IFIFO as u32;
    pub const S_IFSOCK: u32 = libc::S_IFSOCK as u32;
}
#[cfg(not(target_os = "linux"))]
pub use self::narrow::{S_IFBLK, S_IFDIR, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK, mode_t};
