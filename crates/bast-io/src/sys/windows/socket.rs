//! Sockets, asked without waiting.
//!
//! `select` is what waits for one: `WSAPoll` does not tell of a handshake that has failed (before Windows 10 2004),
//! and as only one socket is asked for, the length of the set does not matter.

use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};
use windows_sys::Win32::Networking::WinSock as ws;

use super::{MAX_RW, c, end_is_zero, handle, last_error, socket};
use crate::op::{Half, SockOpt};
use crate::{HandleRef, Op, Outcome, SockAddr};

/// Bytes of a file that a plain thread sends at a time.
const CHUNK: usize = 64 << 10;

/// Winsock wants to be told that it is used. It is never told otherwise.
pub(crate) fn start_winsock() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // SAFETY: room for the answer. If it fails, so does every call after it, and says why.
        unsafe { ws::WSAStartup(0x202, &mut std::mem::zeroed()) };
    });
}

/// 0 or a count; else the calling thread's last error.
fn outcome(returned: i32) -> Outcome {
    if returned == ws::SOCKET_ERROR {
        // SAFETY: no memory is involved.
        return Outcome::from_errno(unsafe { ws::WSAGetLastError() });
    }
    Outcome(returned)
}

/// Sets a socket's mode.
pub(crate) fn set_nonblocking(fd: i32, on: bool) -> Outcome {
    let mut on = u32::from(on);
    // SAFETY: FIONBIO reads one integer.
    outcome(unsafe { ws::ioctlsocket(socket(fd), ws::FIONBIO, &raw mut on) })
}

/// A new socket in our mode, or why not.
fn ours(new: ws::SOCKET) -> Outcome {
    if new == ws::INVALID_SOCKET {
        return last_error();
    }
    let fd = new as i32;
    // SAFETY: no memory is involved. (That children do not inherit it is asked for at the start where it can be.)
    unsafe { SetHandleInformation(handle(fd), HANDLE_FLAG_INHERIT, 0) };
    match set_nonblocking(fd, true) {
        Outcome(0) => Outcome(fd),
        error => {
            let _ = super::close(fd);
            error
        }
    }
}

/// Waits until a socket is ready for one of `events` (1: to read, 2: to write), or has failed; `None` waits for
/// ever. The events, 0 if the time was up, negative if it is none. A pipe is looked at again and again.
pub(crate) fn wait_fd(fd: i32, events: i16, timeout: Option<Duration>) -> i16 {
    let mut one = ws::FD_SET { fd_count: 1, fd_array: [0; 64] };
    one.fd_array[0] = socket(fd);
    let (mut read, mut write, mut error) = (one, one, one);
    let time = timeout.map(|t| ws::TIMEVAL {
        tv_sec: i32::try_from(t.as_secs()).unwrap_or(i32::MAX),
        tv_usec: t.subsec_nanos().div_ceil(1000) as i32,
    });
    let reads = if events & 1 != 0 { &raw mut read } else { null_mut() };
    let writes = if events & 2 != 0 { &raw mut write } else { null_mut() };
    let time = time.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: pointers to locals, or null where that is allowed.
    match unsafe { ws::select(0, reads, writes, &raw mut error, time) } {
        0 => 0,
        1.. => events,
        // SAFETY: no memory is involved.
        _ if unsafe { ws::WSAGetLastError() } == ws::WSAENOTSOCK => wait_pipe(fd, events, timeout),
        _ => -1,
    }
}

/// Nothing announces what comes to a pipe whose handle waits in its calls.
fn wait_pipe(fd: i32, events: i16, timeout: Option<Duration>) -> i16 {
    let end = timeout.and_then(|t| Instant::now().checked_add(t));
    loop {
        if events & 2 != 0 || super::has_data(fd) {
            return events; // What is no pipe, or has lost its writer, is asked itself.
        }
        if timeout.is_some() && end.is_none_or(|end| Instant::now() >= end) {
            return 0;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Shuts a half down. Who receives goes on waiting.
pub(crate) fn shutdown(handle: HandleRef, how: Half) -> Outcome {
    let how = match how {
        Half::Read => ws::SD_RECEIVE,
        Half::Write => ws::SD_SEND,
        Half::Both => ws::SD_BOTH,
    };
    // SAFETY: no memory is involved.
    outcome(unsafe { ws::shutdown(socket(handle.raw), how) })
}

/// Does a socket's operation once.
///
/// # Safety
/// Contract io 1 for the time of the call.
pub(super) unsafe fn call(op: &Op) -> Outcome {
    // SAFETY: for the whole match: io 1.
    unsafe {
        match *op {
            Op::Socket { domain, kind, protocol } => {
                start_winsock();
                let flags = ws::WSA_FLAG_OVERLAPPED | ws::WSA_FLAG_NO_HANDLE_INHERIT;
                ours(ws::WSASocketW(domain, kind, protocol, null(), 0, flags))
            }
            Op::Bind { handle, addr } => {
                let addr = &*addr;
                outcome(ws::bind(socket(handle.raw), addr.as_ptr().cast(), addr.len() as i32))
            }
            Op::Listen { handle, backlog } => outcome(ws::listen(socket(handle.raw), backlog)),
            Op::Shutdown { handle, how } => crate::driver::iocp::half::shut(handle, how),
            Op::GetName { handle, peer, addr } => {
                let (to, len) = SockAddr::out(addr);
                let (to, len) = (to.cast(), len.cast());
                if peer {
                    outcome(ws::getpeername(socket(handle.raw), to, len))
                } else {
                    outcome(ws::getsockname(socket(handle.raw), to, len))
                }
            }
            Op::SetOpt { opt: SockOpt { name: c::SO_REUSEADDR, .. }, .. } => Outcome(0),
            // (Of a level that it does not know, Wine says WSAEINVAL.)
            Op::SetOpt { opt: SockOpt { name: c::UDP_GRO, .. }, .. }
            | Op::GetOpt { opt: SockOpt { name: c::UDP_GRO, .. }, .. } => {
                Outcome::from_errno(c::ENOPROTOOPT)
            }
            Op::SetOpt { handle, opt, value, len } => {
                outcome(ws::setsockopt(socket(handle.raw), opt.level, opt.name, value, len as i32))
            }
            Op::GetOpt { opt: SockOpt { name: c::SO_REUSEADDR, .. }, value, .. } => {
                value.cast::<i32>().write_unaligned(0);
                Outcome(0)
            }
            Op::GetOpt { handle, opt, value, len } => {
                let (room, socket) = (*len, socket(handle.raw));
                let done = ws::getsockopt(socket, opt.level, opt.name, value, len.cast());
                if done == 0 && (*len, room) == (1, 4) {
                    // A truth value, which Windows says in one byte.
                    value.cast::<i32>().write_unaligned(i32::from(*value));
                    *len = room;
                }
                outcome(done)
            }
            Op::Accept { handle, addr } => {
                let (to, len) = SockAddr::out(addr);
                ours(ws::accept(socket(handle.raw), to.cast(), len.cast()))
            }
            Op::Connect { handle, addr } => connect(handle.raw, &*addr),
            Op::Recv { handle, buf, len, flags } => {
                let len = i32::try_from(len.min(MAX_RW)).unwrap_or(i32::MAX);
                let flags = flags & !(c::MSG_DONTWAIT | c::MSG_TRUNC);
                received(outcome(ws::recv(socket(handle.raw), buf, len, flags)), len as usize)
            }
            Op::Send { handle, buf, len, flags } => {
                let len = i32::try_from(len.min(MAX_RW)).unwrap_or(i32::MAX);
                sent(outcome(ws::send(socket(handle.raw), buf, len, flags & !c::MSG_DONTWAIT)))
            }
            Op::RecvMsg { handle, msg, flags } => receive(handle.raw, msg, flags),
            Op::SendMsg { handle, msg, flags } => send(handle.raw, &*msg, flags),
            _ => unreachable!("no operation of a socket's own"),
        }
    }
}

/// The first call begins the handshake, those after it ask how it is.
fn connect(fd: i32, addr: &SockAddr) -> Outcome {
    // A handshake that has failed is told here; `connect` would begin another.
    let failed = error_of(fd);
    if failed != 0 {
        return Outcome::from_errno(failed);
    }
    // SAFETY: the address is there.
    match outcome(unsafe { ws::connect(socket(fd), addr.as_ptr().cast(), addr.len() as i32) }) {
        o if o.is_errno(c::EAGAIN) => Outcome::from_errno(c::EINPROGRESS),
        // An old name for "it is under way".
        o if o.is_errno(ws::WSAEINVAL) && is_connecting(fd) => Outcome::from_errno(c::EALREADY),
        o if o.is_errno(c::EISCONN) => Outcome(0),
        o => o,
    }
}

fn is_connecting(fd: i32) -> bool {
    let mut seconds = 0u32;
    let mut len = size_of::<u32>() as i32;
    let (socket, level) = (socket(fd), ws::SOL_SOCKET);
    // SAFETY: room for a number.
    let known = unsafe {
        let value = (&raw mut seconds).cast();
        ws::getsockopt(socket, level, ws::SO_CONNECT_TIME, value, &raw mut len)
    };
    known == 0 && seconds == u32::MAX
}

/// The error that is pending; asking takes it.
fn error_of(fd: i32) -> i32 {
    let (mut error, mut len) = (0i32, size_of::<i32>() as i32);
    let (socket, level) = (socket(fd), ws::SOL_SOCKET);
    // SAFETY: room for a number.
    unsafe {
        let value = (&raw mut error).cast();
        ws::getsockopt(socket, level, ws::SO_ERROR, value, &raw mut len);
    }
    error
}

/// What a receive says, in Unix' way: a cut datagram is its beginning, a half that was shut down is at its end.
pub(crate) fn received(outcome: Outcome, room: usize) -> Outcome {
    match outcome {
        o if o.is_errno(ws::WSAEMSGSIZE) => Outcome(i32::try_from(room).unwrap_or(i32::MAX)),
        o if o.is_errno(ws::WSAESHUTDOWN) => Outcome(0),
        o => end_is_zero(o),
    }
}

/// What a send says, in Unix' way: a half that was shut down is a broken pipe.
pub(crate) fn sent(outcome: Outcome) -> Outcome {
    if outcome.is_errno(ws::WSAESHUTDOWN) { Outcome::from_errno(c::EPIPE) } else { outcome }
}

/// How many bytes a list of pieces has.
///
/// # Safety
/// The list is there.
pub(crate) unsafe fn total(iov: *const c::iovec, count: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (0..count).map(|i| (*iov.add(i)).iov_len as usize).sum() }
}

/// # Safety
/// io 1 for the message.
unsafe fn receive(fd: i32, msg: *mut c::msghdr, flags: i32) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        let header = &mut *msg;
        let (list, count) = (header.msg_iov.cast(), header.msg_iovlen as u32);
        let mut n = 0u32;
        let mut flags = (flags & !(c::MSG_DONTWAIT | c::MSG_TRUNC)) as u32;
        let length = if header.msg_name.is_null() {
            null_mut()
        } else {
            (&raw mut header.msg_namelen).cast()
        };
        let returned = ws::WSARecvFrom(
            socket(fd),
            list,
            count,
            &raw mut n,
            &raw mut flags,
            header.msg_name.cast(),
            length,
            null_mut(),
            None,
        );
        let outcome = if returned == 0 { Outcome(n as i32) } else { outcome(returned) };
        let cut = outcome.is_errno(ws::WSAEMSGSIZE);
        header.msg_flags = if cut { c::MSG_TRUNC } else { 0 };
        header.msg_controllen = 0;
        received(outcome, total(header.msg_iov, header.msg_iovlen))
    }
}

/// # Safety
/// io 1 for the message.
unsafe fn send(fd: i32, header: &c::msghdr, flags: i32) -> Outcome {
    let (list, count) = (header.msg_iov.cast(), header.msg_iovlen as u32);
    let mut n = 0u32;
    let flags = (flags & !c::MSG_DONTWAIT) as u32;
    let (name, length) = if header.msg_name.is_null() {
        (null::<ws::SOCKADDR>(), 0)
    } else {
        (header.msg_name.cast_const().cast(), header.msg_namelen as i32)
    };
    // SAFETY: the caller's promise.
    let returned = unsafe {
        let (s, n) = (socket(fd), &raw mut n);
        if name.is_null() {
            ws::WSASend(s, list, count, n, flags, null_mut(), None)
        } else {
            ws::WSASendTo(s, list, count, n, flags, name, length, null_mut(), None)
        }
    };
    sent(if returned == 0 { Outcome(n as i32) } else { outcome(returned) })
}

/// Sends a piece of a file, by way of a buffer. (A driver has `TransmitFile`.)
pub(super) fn send_file(to: HandleRef, file: HandleRef, offset: u64, len: usize) -> Outcome {
    let mut buf = vec![0u8; len.min(CHUNK)];
    let read = super::file::read_at(file.raw, &mut buf, offset);
    if read.0 <= 0 {
        return read;
    }
    let op = Op::Send { handle: to, buf: buf.as_ptr(), len: read.0 as usize, flags: 0 };
    // SAFETY: the buffer lives; what has not been sent is read again.
    unsafe { call(&op) }
}

/// Receives a message for each header until there are none, without waiting.
pub(crate) fn recv_many(fd: i32, headers: &mut [c::mmsghdr]) -> Outcome {
    many(headers, |header| {
        // SAFETY: the caller has aimed the header at memory of its own.
        let outcome = unsafe { receive(fd, &raw mut header.msg_hdr, c::MSG_DONTWAIT) };
        header.msg_len = outcome.0.max(0) as u32;
        outcome
    })
}

/// Sends the messages until one would have to wait.
pub(crate) fn send_many(fd: i32, headers: &mut [c::mmsghdr]) -> Outcome {
    // SAFETY: the caller has aimed the header at memory that is lent to it.
    many(headers, |header| unsafe { send(fd, &header.msg_hdr, c::MSG_DONTWAIT) })
}

fn many(headers: &mut [c::mmsghdr], mut one: impl FnMut(&mut c::mmsghdr) -> Outcome) -> Outcome {
    for (done, header) in headers.iter_mut().enumerate() {
        let outcome = one(header);
        if outcome.0 < 0 {
            return if done == 0 { outcome } else { Outcome(done as i32) };
        }
    }
    Outcome(headers.len() as i32)
}
