//! The memory that an operation names: the only place of the simulator that touches it.
//!
//! Everything here relies on contract io 1: from `submit` until the record comes back, what an `Op`
//! points at is valid, and nobody else uses it. What is read is copied out, what is written is
//! copied in, and no reference into lent memory outlives a call.

use std::ffi::CStr;
use std::net::SocketAddr;

use super::world::{Stop, Try};
use crate::sys::c;
use crate::{Op, SockAddr};

/// The pieces of memory that an operation transfers to or from.
///
/// # Safety
/// io 1: `op` is lent.
unsafe fn pieces(op: &Op) -> Vec<(*mut u8, usize)> {
    // (Windows has 32 bits for the length of a piece.)
    #[allow(clippy::unnecessary_cast)]
    let vector = |iov: *const c::iovec, count: usize| {
        // SAFETY: io 1: `iov` names `count` valid entries.
        (0..count)
            .map(|i| unsafe { *iov.add(i) })
            .map(|v| (v.iov_base.cast(), v.iov_len as _))
            .collect()
    };
    match *op {
        Op::Recv { buf, len, .. } | Op::Read { buf, len, .. } => vec![(buf, len)],
        Op::Send { buf, len, .. } | Op::Write { buf, len, .. } => vec![(buf.cast_mut(), len)],
        Op::ReadV { iov, count, .. } | Op::WriteV { iov, count, .. } => vector(iov, count as usize),
        Op::RecvMsg { msg, .. } => {
            // SAFETY: io 1.
            let msg = unsafe { &*msg };
            vector(msg.msg_iov, msg.msg_iovlen as _)
        }
        Op::SendMsg { msg, .. } => {
            // SAFETY: io 1.
            let msg = unsafe { &*msg };
            vector(msg.msg_iov, msg.msg_iovlen as _)
        }
        _ => Vec::new(),
    }
}

/// How many bytes `op` would transfer at most.
///
/// # Safety
/// io 1: `op` is lent.
pub(super) unsafe fn total(op: &Op) -> usize {
    // SAFETY: the caller's promise.
    unsafe { pieces(op) }.iter().map(|&(_, len)| len).sum()
}

/// The first `n` bytes (or all) that `op` sends.
///
/// # Safety
/// io 1: `op` is lent.
pub(super) unsafe fn gather(op: &Op, n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    // SAFETY: the caller's promise.
    for (from, len) in unsafe { pieces(op) } {
        let part = len.min(n - bytes.len());
        if part > 0 {
            // SAFETY: io 1: `len` bytes at `from` are valid to read.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from, part) });
        }
    }
    bytes
}

/// Writes `bytes` to where `op` receives; what has no room is dropped. Returns how much had.
///
/// # Safety
/// io 1: `op` is lent.
pub(super) unsafe fn scatter(op: &Op, mut bytes: &[u8]) -> usize {
    let before = bytes.len();
    // SAFETY: the caller's promise.
    for (to, len) in unsafe { pieces(op) } {
        let (part, rest) = bytes.split_at(len.min(bytes.len()));
        if !part.is_empty() {
            // SAFETY: io 1: `len` bytes at `to` are valid to write, and `part` is our own memory.
            unsafe { to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        }
        bytes = rest;
    }
    before - bytes.len()
}

/// The NUL-terminated path at `path`.
///
/// # Safety
/// io 1: `path` is lent.
pub(super) unsafe fn path(path: *const c::c_char) -> Vec<u8> {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(path) }.to_bytes().to_vec()
}

/// The address at `addr`.
///
/// # Safety
/// io 1: `addr` is lent.
pub(super) unsafe fn address(addr: *const SockAddr) -> Try<SocketAddr> {
    // SAFETY: the caller's promise.
    unsafe { &*addr }.to_std().ok_or(Stop::Errno(c::EAFNOSUPPORT))
}

/// Writes an address to where an operation wants it (null: nowhere).
///
/// # Safety
/// io 1: `to` is lent, or null.
pub(super) unsafe fn put_address(to: *mut SockAddr, addr: SocketAddr) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(SockAddr::from(addr)) };
    }
}

/// Where a `sendmsg` is addressed to, if it says so.
///
/// # Safety
/// io 1: `msg` is lent.
pub(super) unsafe fn destination(msg: *const c::msghdr) -> Try<Option<SocketAddr>> {
    // SAFETY: the caller's promise.
    let msg = unsafe { &*msg };
    let size = msg.msg_namelen as usize;
    if msg.msg_name.is_null() || size == 0 {
        return Ok(None);
    }
    // SAFETY: io 1: `msg_namelen` bytes at `msg_name` are valid.
    let bytes = unsafe { std::slice::from_raw_parts(msg.msg_name.cast::<u8>(), size) };
    let addr = SockAddr::from_bytes(bytes).ok_or(Stop::Errno(c::EINVAL))?;
    addr.to_std().map(Some).ok_or(Stop::Errno(c::EAFNOSUPPORT))
}

/// Fills in what `recvmsg` returns beside the bytes: source, flags, no control data.
///
/// # Safety
/// io 1: `msg` is lent.
pub(super) unsafe fn finish_recvmsg(msg: *mut c::msghdr, from: Option<SocketAddr>, flags: i32) {
    // SAFETY: the caller's promise.
    let msg = unsafe { &mut *msg };
    msg.msg_controllen = 0;
    msg.msg_flags = flags;
    let addr = from.map(SockAddr::from);
    let name = addr.as_ref().map_or(&[][..], SockAddr::as_bytes);
    if !msg.msg_name.is_null() {
        let n = name.len().min(msg.msg_namelen as usize);
        // SAFETY: io 1: `msg_namelen` bytes at `msg_name` are valid to write.
        unsafe { msg.msg_name.cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), n) };
        msg.msg_namelen = name.len() as c::socklen_t;
    }
}
