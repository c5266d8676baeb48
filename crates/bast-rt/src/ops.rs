//! Operations as safe functions: one for each thing that a face asks of a handle.
//!
//! [`perform`] is unsafe because an [`Op`] names memory by raw pointer. Here the memory is a borrow, and
//! a borrow lasts until the function returns, which is after the kernel has let go of it (contract rt
//! 5). So these functions are safe, and whoever builds upon them needs no `unsafe`. Everything goes
//! through operations, also what a kernel does at once, so that it works on simulated handles too.
//!
//! Each of them is a suspension point: if the fiber has been cancelled it unwinds with
//! [`Cancelled`](crate::Cancelled), after the operation has ended.
//!
//! A `timeout` gives the error that the socket option `SO_RCVTIMEO` gives: `EAGAIN`
//! ([`WouldBlock`](io::ErrorKind::WouldBlock)). [`connect`] and the polls differ, and say so. `None`
//! waits for ever.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use bast_io::{Half, Handle, HandleRef, Interest, Kind, Op, Outcome, SockAddr, SockOpt};

use crate::{Instant, perform};

const fn opt(level: i32, name: i32) -> SockOpt {
    SockOpt { level, name }
}

/// A byte stream, for [`socket`].
pub const STREAM: i32 = libc::SOCK_STREAM;
/// Datagrams, for [`socket`].
pub const DATAGRAM: i32 = libc::SOCK_DGRAM;
/// A flag of [`recv`]: leave the bytes where they are.
pub const PEEK: i32 = libc::MSG_PEEK;
/// A flag of [`recv`], [`send`] and their vectored forms: fail with `EAGAIN` instead of waiting.
pub const DONT_WAIT: i32 = libc::MSG_DONTWAIT;
/// Option: an address in `TIME_WAIT` may be bound again.
pub const REUSE_ADDR: SockOpt = opt(libc::SOL_SOCKET, libc::SO_REUSEADDR);
/// Option: small segments are sent at once.
pub const NO_DELAY: SockOpt = opt(libc::IPPROTO_TCP, libc::TCP_NODELAY);
/// Option: acknowledgements are sent at once.
pub const QUICK_ACK: SockOpt = opt(libc::IPPROTO_TCP, libc::TCP_QUICKACK);
/// Option: time to live of IPv4 packets.
pub const TTL: SockOpt = opt(libc::IPPROTO_IP, libc::IP_TTL);
/// Option: an IPv6 socket that takes no IPv4.
pub const ONLY_V6: SockOpt = opt(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);

/// The errors of an `accept` that will fail again at once: no descriptors, no memory.
pub const SHORTAGES: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];

/// Linux takes no more pieces than this in one call; the rest is left for the next.
const IOV_MAX: usize = 1024;

/// # Safety
/// As [`perform`].
unsafe fn at_once(op: Op) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    unsafe { perform(op, None) }.into_result()
}

/// Performs `op`; `EAGAIN` if the time was up.
///
/// # Safety
/// As [`perform`].
#[inline]
unsafe fn waiting(op: Op, timeout: Option<Duration>) -> io::Result<usize> {
    match timeout {
        // SAFETY: the caller's promise.
        None => unsafe { perform(op, None) }.into_result(),
        // SAFETY: the caller's promise.
        Some(timeout) => unsafe { limited(op, timeout) },
    }
}

/// # Safety
/// As [`perform`].
unsafe fn limited(op: Op, timeout: Duration) -> io::Result<usize> {
    let start = Instant::now();
    // SAFETY: the caller's promise.
    let outcome = unsafe { perform(op, Some(timeout)) };
    // A connection that has died of silence says ETIMEDOUT as well. It is told apart by the clock.
    if outcome.is_errno(libc::ETIMEDOUT) && start.elapsed() >= timeout {
        return Outcome::from_errno(libc::EAGAIN).into_result();
    }
    outcome.into_result()
}

/// # Safety
/// `op` yields a handle that is in the mode that `kind` says; else as [`perform`].
unsafe fn opened(op: Op, kind: Kind, timeout: Option<Duration>) -> io::Result<Handle> {
    // SAFETY: the caller's promise.
    let raw = unsafe { waiting(op, timeout) }?;
    // SAFETY: io 2: the operation has yielded a new handle, and nobody else has heard of it. It fits:
    // it was an i32.
    Ok(unsafe { Handle::from_raw(raw as i32, kind) })
}

// ---- sockets: made and set up ----

/// The address family of `addr`, for [`socket`].
#[must_use]
pub const fn family(addr: &SocketAddr) -> i32 {
    match addr {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    }
}

/// `socket(2)`, close-on-exec. `kind` is what it will be used as.
///
/// # Errors
/// The kernel's.
pub fn socket(family: i32, ty: i32, protocol: i32, kind: Kind) -> io::Result<Handle> {
    let op = Op::Socket { domain: family, kind: ty | libc::SOCK_CLOEXEC, protocol };
    // SAFETY: no memory; a new socket is in blocking mode, and `listen` sets a listener's.
    unsafe { opened(op, kind, None) }
}

/// `bind(2)`.
///
/// # Errors
/// The kernel's.
pub fn bind(handle: &Handle, addr: &SockAddr) -> io::Result<()> {
    // SAFETY: rt 5: the address is borrowed until the operation is over.
    unsafe { at_once(Op::Bind { handle: handle.as_ref(), addr }) }.map(drop)
}

/// `listen(2)`; also sets the socket non-blocking, as [`Kind::Listener`] asks.
///
/// # Errors
/// The kernel's.
pub fn listen(handle: &Handle, backlog: i32) -> io::Result<()> {
    // SAFETY: no memory.
    unsafe { at_once(Op::Listen { handle: handle.as_ref(), backlog }) }.map(drop)
}

/// `shutdown(2)`.
///
/// # Errors
/// The kernel's.
pub fn shutdown(handle: &Handle, how: Half) -> io::Result<()> {
    // SAFETY: no memory.
    unsafe { at_once(Op::Shutdown { handle: handle.as_ref(), how }) }.map(drop)
}

fn name(handle: &Handle, peer: bool) -> io::Result<SockAddr> {
    let mut addr = SockAddr::zeroed();
    // SAFETY: rt 5: the address outlives the operation.
    unsafe { at_once(Op::GetName { handle: handle.as_ref(), peer, addr: &raw mut addr }) }?;
    Ok(addr)
}

/// `getsockname(2)`.
///
/// # Errors
/// The kernel's.
pub fn local_addr(handle: &Handle) -> io::Result<SockAddr> {
    name(handle, false)
}

/// `getpeername(2)`.
///
/// # Errors
/// The kernel's: `ENOTCONN` if there is no peer.
pub fn peer_addr(handle: &Handle) -> io::Result<SockAddr> {
    name(handle, true)
}

// ---- options ----

/// What an option's value may be.
///
/// # Safety
/// Any bytes are a value, and none are padding: the kernel reads and writes them.
unsafe trait Plain: Copy {}
// SAFETY: an integer.
unsafe impl Plain for i32 {}
// SAFETY: two integers of one size.
unsafe impl Plain for libc::linger {}
// SAFETY: two integers of one size.
unsafe impl Plain for libc::timeval {}

fn set<T: Plain>(handle: &Handle, opt: SockOpt, value: T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    let value = (&raw const value).cast();
    // SAFETY: rt 5: the value outlives the operation and is as long as it says (`Plain`).
    unsafe { at_once(Op::SetOpt { handle: handle.as_ref(), opt, value, len }) }.map(drop)
}

fn get<T: Plain>(handle: &Handle, opt: SockOpt) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as u32;
    let op = Op::GetOpt {
        handle: handle.as_ref(),
        opt,
        value: value.as_mut_ptr().cast(),
        len: &raw mut len,
    };
    // SAFETY: rt 5: both outlive the operation; the value is as long as it says.
    unsafe { at_once(op) }?;
    // SAFETY: zeroes, or what the kernel wrote over them (`Plain`).
    Ok(unsafe { value.assume_init() })
}

/// Sets an option that is a number.
///
/// # Errors
/// The kernel's.
pub fn set_option(handle: &Handle, opt: SockOpt, value: i32) -> io::Result<()> {
    set(handle, opt, value)
}

/// An option that is a number.
///
/// # Errors
/// The kernel's.
pub fn option(handle: &Handle, opt: SockOpt) -> io::Result<i32> {
    get(handle, opt)
}

/// Sets an option that is on or off.
///
/// # Errors
/// The kernel's.
pub fn set_flag(handle: &Handle, opt: SockOpt, on: bool) -> io::Result<()> {
    set(handle, opt, i32::from(on))
}

/// An option that is on or off.
///
/// # Errors
/// The kernel's.
pub fn flag(handle: &Handle, opt: SockOpt) -> io::Result<bool> {
    get::<i32>(handle, opt).map(|value| value != 0)
}

/// Sets an option that is a time, in microseconds; `None` is zero, which is "never" to the kernel. A
/// time that is shorter than a microsecond becomes one.
///
/// # Errors
/// The kernel's.
pub fn set_time(handle: &Handle, opt: SockOpt, value: Option<Duration>) -> io::Result<()> {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    if let Some(value) = value {
        time.tv_sec = libc::time_t::try_from(value.as_secs()).unwrap_or(libc::time_t::MAX);
        time.tv_usec = value.subsec_micros().into();
        if (time.tv_sec, time.tv_usec) == (0, 0) {
            time.tv_usec = 1;
        }
    }
    set(handle, opt, time)
}

/// An option that is a time; `None` is zero.
///
/// # Errors
/// The kernel's.
pub fn time(handle: &Handle, opt: SockOpt) -> io::Result<Option<Duration>> {
    let time = get::<libc::timeval>(handle, opt)?;
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    let value = seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0));
    Ok((!value.is_zero()).then_some(value))
}

/// Sets how long a close waits for what has not been sent; `None` does not wait, zero resets the
/// connection. Whole seconds: the rest is cut off.
///
/// # Errors
/// The kernel's.
pub fn set_linger(handle: &Handle, value: Option<Duration>) -> io::Result<()> {
    let seconds = value.map_or(0, |d| i32::try_from(d.as_secs()).unwrap_or(i32::MAX));
    let value = libc::linger { l_onoff: i32::from(value.is_some()), l_linger: seconds };
    set(handle, opt(libc::SOL_SOCKET, libc::SO_LINGER), value)
}

/// What [`set_linger`] sets.
///
/// # Errors
/// The kernel's.
pub fn linger(handle: &Handle) -> io::Result<Option<Duration>> {
    let value = get::<libc::linger>(handle, opt(libc::SOL_SOCKET, libc::SO_LINGER))?;
    let seconds = Duration::from_secs(u64::try_from(value.l_linger).unwrap_or(0));
    Ok((value.l_onoff != 0).then_some(seconds))
}

/// The error that is pending on a socket. It is then no longer pending.
///
/// # Errors
/// The kernel's, of asking.
pub fn take_error(handle: &Handle) -> io::Result<Option<io::Error>> {
    let errno = get::<i32>(handle, opt(libc::SOL_SOCKET, libc::SO_ERROR))?;
    Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
}

// ---- sockets: what waits ----

/// Takes a connection, and says who it is from.
///
/// # Errors
/// The kernel's; `EAGAIN` when the time is up.
pub fn accept(handle: &Handle, timeout: Option<Duration>) -> io::Result<(Handle, SockAddr)> {
    let mut addr = SockAddr::zeroed();
    let op = Op::Accept { handle: handle.as_ref(), addr: &raw mut addr };
    // SAFETY: rt 5: the address outlives the operation; an accepted socket is in blocking mode.
    let stream = unsafe { opened(op, Kind::Stream, timeout) }?;
    Ok((stream, addr))
}

/// Connects a socket.
///
/// # Errors
/// The kernel's; `ETIMEDOUT` when the time is up. The socket is of no further use then.
pub fn connect(handle: &Handle, addr: &SockAddr, timeout: Option<Duration>) -> io::Result<()> {
    let op = Op::Connect { handle: handle.as_ref(), addr };
    // SAFETY: rt 5: the address is borrowed until the operation is over.
    unsafe { perform(op, timeout) }.into_result().map(drop)
}

/// `recv(2)`. Zero is the end of the stream (or an empty buffer).
///
/// # Errors
/// The kernel's; `EAGAIN` when the time is up.
#[inline]
pub fn recv(
    handle: &Handle,
    buf: &mut [u8],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let op = Op::Recv { handle: handle.as_ref(), buf: buf.as_mut_ptr(), len: buf.len(), flags };
    // SAFETY: rt 5: the buffer is borrowed until the operation is over.
    unsafe { waiting(op, timeout) }
}

/// `send(2)`. Never raises SIGPIPE. May send less than all.
///
/// # Errors
/// The kernel's; `EAGAIN` when the time is up.
#[inline]
pub fn send(
    handle: &Handle,
    buf: &[u8],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let op = Op::Send { handle: handle.as_ref(), buf: buf.as_ptr(), len: buf.len(), flags };
    // SAFETY: rt 5: the buffer is borrowed until the operation is over.
    unsafe { waiting(op, timeout) }
}

fn message() -> libc::msghdr {
    // SAFETY: null pointers and zero lengths: no name, no pieces, no control data.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// [`recv`] into several buffers, one after the other.
///
/// # Errors
/// As [`recv`].
pub fn recv_vectored(
    handle: &Handle,
    bufs: &mut [IoSliceMut<'_>],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let mut msg = message();
    // std: an `IoSliceMut` has the layout of an iovec.
    msg.msg_iov = bufs.as_mut_ptr().cast();
    msg.msg_iovlen = bufs.len().min(IOV_MAX) as _;
    let op = Op::RecvMsg { handle: handle.as_ref(), msg: &raw mut msg, flags };
    // SAFETY: rt 5: the header outlives the operation, the buffers are borrowed until it is over.
    unsafe { waiting(op, timeout) }
}

/// [`send`] from several buffers, one after the other.
///
/// # Errors
/// As [`send`].
pub fn send_vectored(
    handle: &Handle,
    bufs: &[IoSlice<'_>],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let mut msg = message();
    // std: an `IoSlice` has the layout of an iovec. It is only read.
    msg.msg_iov = bufs.as_ptr().cast_mut().cast();
    msg.msg_iovlen = bufs.len().min(IOV_MAX) as _;
    let op = Op::SendMsg { handle: handle.as_ref(), msg: &raw const msg, flags };
    // SAFETY: rt 5: the header outlives the operation, the buffers are borrowed until it is over.
    unsafe { waiting(op, timeout) }
}

fn ready(handle: HandleRef, interest: Interest, timeout: Option<Duration>) -> io::Result<()> {
    // SAFETY: no memory.
    unsafe { perform(Op::Poll { handle, interest }, timeout) }.into_result().map(drop)
}

/// Waits until `handle` is ready, or has an error to report.
///
/// # Errors
/// The kernel's; `ETIMEDOUT` when the time is up.
pub fn poll(handle: &Handle, interest: Interest, timeout: Option<Duration>) -> io::Result<()> {
    ready(handle.as_ref(), interest, timeout)
}

/// [`poll`] for a descriptor that is not bast's.
///
/// # Errors
/// As [`poll`]; `EPERM` if descriptors of this kind cannot be waited for.
pub fn poll_fd(
    fd: BorrowedFd<'_>,
    interest: Interest,
    timeout: Option<Duration>,
) -> io::Result<()> {
    ready(HandleRef::foreign(fd), interest, timeout)
}

// ---- files and pipes ----

/// What [`stat`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The length in bytes.
    pub len: u64,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
}

impl Stat {
    const fn is(self, kind: libc::mode_t) -> bool {
        self.mode & libc::S_IFMT == kind
    }

    /// Whether it is a regular file.
    #[must_use]
    pub const fn is_file(self) -> bool {
        self.is(libc::S_IFREG)
    }

    /// Whether it is a directory.
    #[must_use]
    pub const fn is_dir(self) -> bool {
        self.is(libc::S_IFDIR)
    }
}

/// `open(2)` with the flags of the same; close-on-exec. `kind` says what is behind the path:
/// [`Kind::File`], or [`Kind::Pipe`] together with `O_NONBLOCK`.
///
/// # Errors
/// The kernel's.
pub fn open(path: &CStr, flags: i32, mode: u32, kind: Kind) -> io::Result<Handle> {
    let flags = if kind == Kind::Pipe { flags | libc::O_NONBLOCK } else { flags };
    let op = Op::Open { path: path.as_ptr(), flags: flags | libc::O_CLOEXEC, mode };
    // SAFETY: rt 5: the path is borrowed until the operation is over.
    unsafe { opened(op, kind, None) }
}

/// Closes a handle, and says whether that went well, unlike a drop.
///
/// # Errors
/// The kernel's. The handle is closed all the same.
pub fn close(handle: Handle) -> io::Result<()> {
    let fd = handle.into_raw();
    // SAFETY: no memory; the handle was ours.
    unsafe { at_once(Op::Close { fd }) }.map(drop)
}

/// Reads at `offset`, or with `None` at the handle's own position. Zero is the end of the file.
///
/// # Errors
/// The kernel's.
pub fn read(handle: &Handle, buf: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
    let op = Op::Read { handle: handle.as_ref(), buf: buf.as_mut_ptr(), len: buf.len(), offset };
    // SAFETY: rt 5: the buffer is borrowed until the operation is over.
    unsafe { waiting(op, None) }
}

/// Writes at `offset`, or with `None` at the handle's own position. May write less than all.
///
/// # Errors
/// The kernel's.
pub fn write(handle: &Handle, buf: &[u8], offset: Option<u64>) -> io::Result<usize> {
    let op = Op::Write { handle: handle.as_ref(), buf: buf.as_ptr(), len: buf.len(), offset };
    // SAFETY: rt 5: the buffer is borrowed until the operation is over.
    unsafe { waiting(op, None) }
}

/// [`read`] into several buffers, one after the other.
///
/// # Errors
/// As [`read`].
pub fn read_vectored(
    handle: &Handle,
    bufs: &mut [IoSliceMut<'_>],
    offset: Option<u64>,
) -> io::Result<usize> {
    let count = bufs.len().min(IOV_MAX) as u32;
    let iov = bufs.as_mut_ptr().cast_const().cast();
    // SAFETY: rt 5: the buffers and their list are borrowed until the operation is over.
    unsafe { waiting(Op::ReadV { handle: handle.as_ref(), iov, count, offset }, None) }
}

/// [`write()`] from several buffers, one after the other.
///
/// # Errors
/// As [`write()`].
pub fn write_vectored(
    handle: &Handle,
    bufs: &[IoSlice<'_>],
    offset: Option<u64>,
) -> io::Result<usize> {
    let count = bufs.len().min(IOV_MAX) as u32;
    let iov = bufs.as_ptr().cast();
    // SAFETY: rt 5: the buffers and their list are borrowed until the operation is over.
    unsafe { waiting(Op::WriteV { handle: handle.as_ref(), iov, count, offset }, None) }
}

/// `fsync(2)`, or `fdatasync(2)`.
///
/// # Errors
/// The kernel's.
pub fn fsync(handle: &Handle, data_only: bool) -> io::Result<()> {
    // SAFETY: no memory.
    unsafe { waiting(Op::Fsync { handle: handle.as_ref(), data_only }, None) }.map(drop)
}

fn statx(dir: i32, path: &CStr, flags: i32) -> io::Result<Stat> {
    let mut out = MaybeUninit::<libc::statx>::zeroed();
    let op = Op::Statx {
        dir,
        path: path.as_ptr(),
        flags,
        mask: libc::STATX_BASIC_STATS,
        out: out.as_mut_ptr(),
    };
    // SAFETY: rt 5: path and result outlive the operation.
    unsafe { waiting(op, None) }?;
    // SAFETY: integers throughout: zeroes, or what the kernel wrote over them.
    let out = unsafe { out.assume_init() };
    Ok(Stat { len: out.stx_size, mode: out.stx_mode.into() })
}

/// What a handle is, and how long.
///
/// # Errors
/// The kernel's.
pub fn stat(handle: &Handle) -> io::Result<Stat> {
    statx(handle.as_ref().raw(), c"", libc::AT_EMPTY_PATH)
}

/// What is at a path, and how long. Follows symbolic links.
///
/// # Errors
/// The kernel's.
pub fn stat_path(path: &CStr) -> io::Result<Stat> {
    statx(libc::AT_FDCWD, path, 0)
}

/// Moves up to `len` bytes between two handles of which one is a pipe. Zero is the end of `from`.
///
/// # Errors
/// The kernel's.
pub fn splice(
    from: &Handle,
    from_offset: Option<u64>,
    to: &Handle,
    to_offset: Option<u64>,
    len: u32,
) -> io::Result<usize> {
    let (from, to) = (from.as_ref(), to.as_ref());
    // SAFETY: no memory.
    unsafe { waiting(Op::Splice { from, from_offset, to, to_offset, len }, None) }
}

/// Sends up to `len` bytes of a file, from `offset`, to a socket. Zero is the end of the file.
///
/// # Errors
/// The kernel's; `EAGAIN` when the time is up.
pub fn sendfile(
    to: &Handle,
    file: &Handle,
    offset: u64,
    len: usize,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let op = Op::SendFile { to: to.as_ref(), file: file.as_ref(), offset, len };
    // SAFETY: no memory.
    unsafe { waiting(op, timeout) }
}
