//! Operations that are tried once and never wait: `WouldBlock` says that they would have to. For code that is polled;
//! what it does then is in module `flight`.
//!
//! Unlike the other operations these are no suspension points: nothing raises, and it does not matter who calls.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

use bast_io::msg::{Message, pieces, pieces_mut};
use bast_io::{Half, Handle, Interest, Kind, Op, SockAddr, blocking};

use crate::tls;

/// # Safety
/// The pointers in `op` are valid for what it does, for the time of the call.
unsafe fn attempt(op: &Op) -> io::Result<usize> {
    let outcome = match tls::worker() {
        // SAFETY: the caller's promise.
        Some(worker) => unsafe { worker.driver().attempt(op) },
        // SAFETY: as above.
        None => unsafe { blocking::once(op) },
    };
    outcome.into_result()
}

/// [`read`](super::read), or `recv`, of what is there.
///
/// # Errors
/// The kernel's; `WouldBlock` if nothing is there.
pub fn try_read(handle: &Handle, buf: &mut [u8]) -> io::Result<usize> {
    let (buf, len) = (buf.as_mut_ptr(), buf.len());
    // SAFETY: the buffer is borrowed for the call.
    unsafe { attempt(&Op::Read { handle: handle.as_ref(), buf, len, offset: None }) }
}

/// [`try_read`] into memory that need not be initialized: so many bytes of it are then.
///
/// # Errors
/// As [`try_read`].
pub fn try_read_uninit(handle: &Handle, buf: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (start, len) = (buf.as_mut_ptr().cast(), buf.len());
    // SAFETY: the buffer is borrowed for the call, which only writes to it.
    unsafe { attempt(&Op::Read { handle: handle.as_ref(), buf: start, len, offset: None }) }
}

/// [`try_read`] into several buffers.
///
/// # Errors
/// As [`try_read`].
pub fn try_read_vectored(handle: &Handle, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let (iov, count) = pieces_mut(bufs);
    // SAFETY: the list and its buffers are borrowed for the call.
    unsafe { attempt(&Op::ReadV { handle: handle.as_ref(), iov, count, offset: None }) }
}

/// [`write`](super::write), or `send`, of what there is room for.
///
/// # Errors
/// The kernel's; `WouldBlock` if there is no room.
pub fn try_write(handle: &Handle, buf: &[u8]) -> io::Result<usize> {
    let (buf, len) = (buf.as_ptr(), buf.len());
    // SAFETY: the buffer is borrowed for the call.
    unsafe { attempt(&Op::Write { handle: handle.as_ref(), buf, len, offset: None }) }
}

/// [`try_write`] from several buffers.
///
/// # Errors
/// As [`try_write`].
pub fn try_write_vectored(handle: &Handle, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let (iov, count) = pieces(bufs);
    // SAFETY: the list and its buffers are borrowed for the call.
    unsafe { attempt(&Op::WriteV { handle: handle.as_ref(), iov, count, offset: None }) }
}

/// [`recv_from`](super::recv_from), of a datagram that is there.
///
/// # Errors
/// The kernel's; `WouldBlock` if none is there.
pub fn try_recv_from(handle: &Handle, buf: &mut [u8]) -> io::Result<(usize, SockAddr)> {
    let mut addr = SockAddr::zeroed();
    let mut bufs = [IoSliceMut::new(buf)];
    let mut msg = Message::into_bufs(&mut bufs).from(&mut addr);
    let op = Op::RecvMsg { handle: handle.as_ref(), msg: msg.as_mut_ptr(), flags: 0 };
    // SAFETY: the header borrows all that it names.
    let n = unsafe { attempt(&op) }?;
    let took = msg.took();
    addr.set_len(took.addr);
    Ok((n, addr))
}

/// [`send_to`](super::send_to), if there is room.
///
/// # Errors
/// The kernel's; `WouldBlock` if there is no room.
pub fn try_send_to(handle: &Handle, buf: &[u8], addr: &SockAddr) -> io::Result<usize> {
    let bufs = [IoSlice::new(buf)];
    let msg = Message::of(&bufs).to(addr);
    let op = Op::SendMsg { handle: handle.as_ref(), msg: msg.as_ptr(), flags: 0 };
    // SAFETY: the header borrows all that it names.
    unsafe { attempt(&op) }
}

/// [`accept`](super::accept), of a connection that is there.
///
/// # Errors
/// The kernel's; `WouldBlock` if none is there.
pub fn try_accept(handle: &Handle) -> io::Result<(Handle, SockAddr)> {
    let mut addr = SockAddr::zeroed();
    let op = Op::Accept { handle: handle.as_ref(), addr: &raw mut addr };
    // SAFETY: the address outlives the call.
    let raw = unsafe { attempt(&op) }?;
    // SAFETY: io 2: a new handle, in blocking mode, of which nobody else has heard. It fits: it was an i32.
    Ok((unsafe { Handle::from_raw(raw as i32, Kind::Stream) }, addr))
}

/// Whether the handle is ready, or has an error to report.
///
/// # Errors
/// `WouldBlock` if it is not; the kernel's.
pub fn try_poll(handle: &Handle, interest: Interest) -> io::Result<()> {
    // SAFETY: no memory.
    unsafe { attempt(&Op::Poll { handle: handle.as_ref(), interest }) }.map(drop)
}

/// [`shutdown`](super::shutdown), which never waits.
///
/// # Errors
/// The kernel's.
pub fn try_shutdown(handle: &Handle, how: Half) -> io::Result<()> {
    // SAFETY: no memory.
    unsafe { attempt(&Op::Shutdown { handle: handle.as_ref(), how }) }.map(drop)
}
