//! Operations on sockets: how they are made, and what waits for a peer. Options are in `options`.

use std::io::{self, IoSlice, IoSliceMut};
use std::time::Duration;

use bast_io::handle::BorrowedSocket;
use bast_io::msg::Message;
use bast_io::{Half, Handle, HandleRef, Interest, Kind, Op, SockAddr};

use super::{at_once, opened, result, waiting};
use crate::perform;

// ---- made and set up ----

/// `socket(2)`, close-on-exec. `kind` is what it will be used as.
///
/// # Errors
/// The kernel's.
pub fn socket(family: i32, ty: i32, protocol: i32, kind: Kind) -> io::Result<Handle> {
    let op = Op::Socket { domain: family, kind: ty, protocol };
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

// ---- what waits ----

/// Takes a connection, and says who it is from.
///
/// # Errors
/// The kernel's; `OVERDUE` when the time is up.
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
    result(unsafe { perform(op, timeout) }).map(drop)
}

/// `recv(2)`. Zero is the end of the stream (or an empty buffer).
///
/// # Errors
/// The kernel's; `OVERDUE` when the time is up.
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
/// The kernel's; `OVERDUE` when the time is up.
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
    let mut msg = Message::into_bufs(bufs);
    let op = Op::RecvMsg { handle: handle.as_ref(), msg: msg.as_mut_ptr(), flags };
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
    let msg = Message::of(bufs);
    let op = Op::SendMsg { handle: handle.as_ref(), msg: msg.as_ptr(), flags };
    // SAFETY: rt 5: the header outlives the operation, the buffers are borrowed until it is over.
    unsafe { waiting(op, timeout) }
}

pub(super) fn ready(
    handle: HandleRef,
    interest: Interest,
    timeout: Option<Duration>,
) -> io::Result<()> {
    // SAFETY: no memory.
    result(unsafe { perform(Op::Poll { handle, interest }, timeout) }).map(drop)
}

/// Waits until `handle` is ready, or has an error to report.
///
/// # Errors
/// The kernel's; `ETIMEDOUT` when the time is up.
pub fn poll(handle: &Handle, interest: Interest, timeout: Option<Duration>) -> io::Result<()> {
    ready(handle.as_ref(), interest, timeout)
}

/// [`poll`] for a descriptor (on Windows: a socket) that is not bast's.
///
/// # Errors
/// As [`poll`]; `EBADF` if it is no open descriptor.
pub fn poll_fd(
    fd: BorrowedSocket<'_>,
    interest: Interest,
    timeout: Option<Duration>,
) -> io::Result<()> {
    ready(HandleRef::foreign(fd), interest, timeout)
}
