//! Messages: bytes with an address, or with whatever else a system lets travel along.

use std::io::{self, IoSlice, IoSliceMut};
use std::time::Duration;

use bast_io::msg::{Message, Took};
use bast_io::{Handle, Op, SockAddr};

use super::waiting;

/// `recvmsg(2)`: how many bytes, and what else there was.
///
/// # Errors
/// The kernel's; [`Outcome::OVERDUE`](bast_io::Outcome::OVERDUE) when the time is up.
pub fn recv_msg(
    handle: &Handle,
    mut msg: Message<'_>,
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<(usize, Took)> {
    let op = Op::RecvMsg { handle: handle.as_ref(), msg: msg.as_mut_ptr(), flags };
    // SAFETY: rt 5: the header outlives the operation, and borrows all that it names.
    let n = unsafe { waiting(op, timeout) }?;
    Ok((n, msg.took()))
}

/// `sendmsg(2)`.
///
/// # Errors
/// As [`recv_msg`].
pub fn send_msg(
    handle: &Handle,
    msg: &Message<'_>,
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let op = Op::SendMsg { handle: handle.as_ref(), msg: msg.as_ptr(), flags };
    // SAFETY: rt 5: as above.
    unsafe { waiting(op, timeout) }
}

/// `recvfrom(2)`.
///
/// # Errors
/// The kernel's; `OVERDUE` when the time is up.
pub fn recv_from(
    handle: &Handle,
    buf: &mut [u8],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<(usize, SockAddr)> {
    let mut addr = SockAddr::zeroed();
    let mut bufs = [IoSliceMut::new(buf)];
    let msg = Message::into_bufs(&mut bufs).from(&mut addr);
    let (n, took) = recv_msg(handle, msg, flags, timeout)?;
    addr.set_len(took.addr);
    Ok((n, addr))
}

/// `sendto(2)`.
///
/// # Errors
/// The kernel's; `OVERDUE` when the time is up.
pub fn send_to(
    handle: &Handle,
    buf: &[u8],
    addr: &SockAddr,
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    send_msg(handle, &Message::of(&[IoSlice::new(buf)]).to(addr), flags, timeout)
}
