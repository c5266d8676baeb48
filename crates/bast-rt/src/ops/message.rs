//! Messages: datagrams with an address, and bytes that descriptors travel with.

use std::io::{self, IoSlice, IoSliceMut};
#[cfg(unix)]
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use bast_io::msg::{Message, Took};
use bast_io::{Handle, Op, SockAddr};
#[cfg(unix)]
use bast_io::{opt::CLOSE_ON_EXEC, rights::Rights};

use super::waiting;

fn receive(
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

fn send(
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
/// The kernel's; `EAGAIN` when the time is up.
pub fn recv_from(
    handle: &Handle,
    buf: &mut [u8],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<(usize, SockAddr)> {
    let mut addr = SockAddr::zeroed();
    let mut bufs = [IoSliceMut::new(buf)];
    let msg = Message::into_bufs(&mut bufs).from(&mut addr);
    let (n, took) = receive(handle, msg, flags, timeout)?;
    addr.set_len(took.addr);
    Ok((n, addr))
}

/// `sendto(2)`.
///
/// # Errors
/// The kernel's; `EAGAIN` when the time is up.
pub fn send_to(
    handle: &Handle,
    buf: &[u8],
    addr: &SockAddr,
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    send(handle, &Message::of(&[IoSlice::new(buf)]).to(addr), flags, timeout)
}

/// Sends bytes, and descriptors along with the first of them. At most
/// [`MOST`](bast_io::rights::MOST) descriptors.
///
/// # Errors
/// The kernel's; `EAGAIN` when the time is up; `InvalidInput` for too many descriptors, or descriptors
/// without bytes.
#[cfg(unix)]
pub fn send_with_fds(
    handle: &Handle,
    buf: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    if buf.is_empty() || fds.len() > bast_io::rights::MOST {
        let what = "descriptors travel with bytes, at least one, and at most 253 at a time";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut rights = Rights::sending(fds);
    send(handle, &Message::of(&[IoSlice::new(buf)]).with(&mut rights), flags, timeout)
}

/// Receives bytes, and up to `most` descriptors that come along. The flag says whether there were more,
/// which are closed then.
///
/// # Errors
/// The kernel's; `EAGAIN` when the time is up.
#[cfg(unix)]
pub fn recv_with_fds(
    handle: &Handle,
    buf: &mut [u8],
    most: usize,
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<(usize, Vec<OwnedFd>, bool)> {
    let mut rights = Rights::receiving(most);
    let mut bufs = [IoSliceMut::new(buf)];
    let msg = Message::into_bufs(&mut bufs).with(&mut rights);
    let (n, took) = receive(handle, msg, flags | CLOSE_ON_EXEC, timeout)?;
    // SAFETY: the kernel has filled as much, just now.
    let fds = unsafe { rights.take(took.control) };
    Ok((n, fds, took.control_cut))
}
