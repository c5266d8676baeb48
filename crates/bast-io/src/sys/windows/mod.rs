//! Windows: one operation as one call: the table that the pool and plain threads share.
//!
//! Every socket of ours is non-blocking for good: Windows has no flag that asks for a single call not to wait, and
//! overlapped calls, which the driver makes, do not look at the mode. So a socket call never waits here, whatever
//! the [`Mode`]: it says `EAGAIN`, and whoever may wait asks [`wait_fd`] and calls again. Files and pipes that are
//! to wait do so in their call, with an event of its own, so that nothing is posted to a driver's port.
//!
//! Handles and sockets have 32 significant bits (Microsoft's "Interprocess communication between 32-bit and 64-bit
//! applications"): they are `i32` everywhere, and sign-extended here.

pub mod c;
mod file;
mod path;
mod port;
mod socket;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_HANDLE_EOF, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, GetLastError, HANDLE,
    WAIT_OBJECT_0,
};
use windows_sys::Win32::Networking::WinSock as ws;
use windows_sys::Win32::Storage::FileSystem::{FILE_TYPE_PIPE, GetFileType};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::Pipes::PeekNamedPipe;
use windows_sys::Win32::System::Threading::{INFINITE, WaitForSingleObject};

pub(crate) use self::file::{Transfer, access, overlapped_at, pieces};
pub(crate) use self::path::decode;
pub(crate) use self::port::{Bell, WAKE};
pub(crate) use self::socket::{
    received, recv_many, send_many, sent, set_nonblocking, shutdown, start_winsock, total, wait_fd,
};
use super::Mode;
use crate::op::Interest;
use crate::{HandleRef, Kind, Op, Outcome};

/// The most that is moved in one call.
pub(crate) const MAX_RW: usize = 0x7fff_f000;

/// Whether a stream is in blocking mode, so that a handshake has to change that for its time.
pub(crate) const STREAMS_BLOCK: bool = false;

/// The longest time that a close can be told to wait, in seconds.
pub(crate) const LINGER_MOST: u64 = u16::MAX as u64;

/// The errors that say that the process or the system has run out of something: descriptors, memory.
/// An `accept` that has failed so fails again at once.
pub(crate) const SHORTAGES: &[i32] = &[c::EMFILE, ws::WSAEMFILE, c::ENOBUFS, c::ENOMEM];

/// What a socket says whose timeout is over.
pub(crate) const OVERDUE: i32 = c::ETIMEDOUT;

/// What an `accept` says of the connection that it would have taken, not of the listener: the next is another.
pub(crate) const OF_ONE_CONNECTION: &[i32] = &[
    c::ECONNABORTED,
    c::ECONNRESET,
    ws::WSAENETDOWN,
    c::EHOSTUNREACH,
    c::ENETUNREACH,
    windows_sys::Win32::Foundation::ERROR_NETNAME_DELETED as i32,
];

/// A number as a handle.
pub(crate) const fn handle(raw: i32) -> HANDLE {
    raw as isize as HANDLE
}

/// A number as a socket.
pub(crate) const fn socket(raw: i32) -> ws::SOCKET {
    raw as isize as ws::SOCKET
}

/// A handle as a number.
pub(crate) fn raw(handle: HANDLE) -> i32 {
    handle as isize as i32
}

/// The calling thread's last error.
pub(crate) fn last_error() -> Outcome {
    // SAFETY: no memory is involved.
    Outcome::from_errno(unsafe { GetLastError() } as i32)
}

/// Events as [`wait_fd`] takes them.
pub(crate) const fn events(interest: Interest) -> i16 {
    match interest {
        Interest::Readable => 1,
        Interest::Writable => 2,
    }
}

/// 0 if the socket is ready, `EAGAIN` if not, `EBADF` if it is none.
pub(crate) fn poll_now(fd: i32, interest: Interest) -> Outcome {
    match wait_fd(fd, events(interest), Some(std::time::Duration::ZERO)) {
        0 => Outcome::WOULD_BLOCK,
        e if e < 0 => Outcome::from_errno(c::EBADF),
        _ => Outcome(0),
    }
}

/// Closes a socket or a handle; which of the two it is Windows knows.
pub(crate) fn close(fd: i32) -> Outcome {
    // SAFETY: no memory is involved; the caller owns the handle. What is no socket is refused and left alone.
    unsafe {
        if ws::closesocket(socket(fd)) == 0 {
            return Outcome(0);
        }
        match ws::WSAGetLastError() {
            ws::WSAENOTSOCK | ws::WSANOTINITIALISED if CloseHandle(handle(fd)) != 0 => Outcome(0),
            ws::WSAENOTSOCK | ws::WSANOTINITIALISED => last_error(),
            code => Outcome::from_errno(code),
        }
    }
}

/// Nanoseconds of the performance counter, which is monotonic.
pub(crate) fn now() -> u64 {
    static FREQUENCY: AtomicU64 = AtomicU64::new(0);
    let (mut ticks, mut frequency) = (0i64, FREQUENCY.load(Relaxed)); // everybody finds the same
    // SAFETY: pointers to locals; neither call fails since Windows XP.
    unsafe {
        if frequency == 0 {
            let mut found = 0i64;
            QueryPerformanceFrequency(&raw mut found);
            frequency = found as u64;
            FREQUENCY.store(frequency, Relaxed);
        }
        QueryPerformanceCounter(&raw mut ticks);
    }
    (u128::from(ticks as u64) * 1_000_000_000 / u128::from(frequency)) as u64
}

/// Milliseconds for a wait, rounded up so that it does not end before its time.
pub(crate) fn milliseconds(timeout: Option<std::time::Duration>) -> u32 {
    timeout.map_or(INFINITE, |t| {
        u32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(INFINITE).min(INFINITE - 1)
    })
}

/// Whether a waitable object (an event, a process, …) is signalled.
pub(crate) fn is_signalled(fd: i32) -> bool {
    // SAFETY: no memory is involved.
    unsafe { WaitForSingleObject(handle(fd), 0) == WAIT_OBJECT_0 }
}

/// Whether it is a pipe. (Or a socket, which is asked otherwise.)
pub(crate) fn is_pipe(fd: i32) -> bool {
    // SAFETY: no memory is involved.
    unsafe { GetFileType(handle(fd)) == FILE_TYPE_PIPE }
}

/// Whether a read of a pipe would not wait: there is something, or nothing will come any more.
pub(crate) fn has_data(fd: i32) -> bool {
    let (mut there, none) = (0u32, std::ptr::null_mut());
    // SAFETY: room for one answer.
    let known = unsafe {
        PeekNamedPipe(
            handle(fd),
            none,
            0,
            std::ptr::null_mut(),
            &raw mut there,
            std::ptr::null_mut(),
        )
    };
    known == 0 || there > 0
}

/// The end of a stream, as a read says it; other outcomes stay.
pub(crate) const fn end_is_zero(outcome: Outcome) -> Outcome {
    if outcome.is_errno(c::EPIPE) || outcome.is_errno(ERROR_HANDLE_EOF as i32) {
        return Outcome(0);
    }
    outcome
}

/// A pipe that nobody reads, as a write says it; other outcomes stay.
pub(crate) const fn unread_is_broken(outcome: Outcome) -> Outcome {
    if outcome.is_errno(ERROR_NO_DATA as i32) || outcome.is_errno(ERROR_PIPE_NOT_CONNECTED as i32) {
        return Outcome::from_errno(c::EPIPE);
    }
    outcome
}

/// Does `op` once.
///
/// # Safety
/// Contract io 1 for the time of the call.
pub(crate) unsafe fn call(op: &Op, mode: Mode) -> Outcome {
    // SAFETY: for the whole match: io 1: what the operation points at is valid for its kind of
    // access until the call has returned.
    unsafe {
        match *op {
            Op::Nop => Outcome(0),
            Op::Socket { .. }
            | Op::Bind { .. }
            | Op::Listen { .. }
            | Op::Shutdown { .. }
            | Op::GetName { .. }
            | Op::SetOpt { .. }
            | Op::GetOpt { .. }
            | Op::Accept { .. }
            | Op::Connect { .. }
            | Op::Recv { .. }
            | Op::Send { .. }
            | Op::RecvMsg { .. }
            | Op::SendMsg { .. } => socket::call(op),
            Op::Read { handle, buf, len, .. } if handle.is_socket() => {
                socket::call(&Op::Recv { handle, buf, len, flags: 0 })
            }
            Op::Write { handle, buf, len, .. } if handle.is_socket() => {
                socket::call(&Op::Send { handle, buf, len, flags: 0 })
            }
            Op::ReadV { handle, iov, count, .. } if handle.is_socket() => {
                let mut msg = msghdr(iov, count);
                socket::call(&Op::RecvMsg { handle, msg: &raw mut msg, flags: 0 })
            }
            Op::WriteV { handle, iov, count, .. } if handle.is_socket() => {
                let msg = msghdr(iov, count);
                socket::call(&Op::SendMsg { handle, msg: &raw const msg, flags: 0 })
            }
            Op::Read { .. } | Op::Write { .. } | Op::ReadV { .. } | Op::WriteV { .. } => {
                file::transfer(op, mode)
            }
            Op::Open { path, flags, mode } => file::open(path, flags, mode),
            Op::Close { fd } => crate::driver::close_raw(fd),
            Op::Fsync { handle, .. } => file::flush(handle.raw),
            Op::Statx { dir, path, flags, out, .. } => file::stat(dir, path, flags, out),
            // There are no pipes that a kernel moves bytes through by itself.
            Op::Splice { .. } => Outcome::from_errno(c::EINVAL),
            Op::SendFile { to, file, offset, len } => socket::send_file(to, file, offset, len),
            Op::Poll { handle, interest } | Op::Again { handle, interest } => {
                poll(handle, interest, mode)
            }
            Op::Overlapped { handle, start, data } => file::overlapped(handle.raw, start, data),
            Op::Call { call, data, .. } => Outcome(call(data)),
        }
    }
}

/// Waits for a socket to be ready, or for an object to be signalled.
fn poll(handle: HandleRef, interest: Interest, mode: Mode) -> Outcome {
    if handle.kind == Kind::File {
        return Outcome(0);
    }
    if handle.kind.is_object() && !(handle.id != 0 && is_pipe(handle.raw)) {
        let wait = if mode == Mode::Block { INFINITE } else { 0 };
        // SAFETY: no memory is involved.
        return match unsafe { WaitForSingleObject(self::handle(handle.raw), wait) } {
            WAIT_OBJECT_0 => Outcome(0),
            windows_sys::Win32::Foundation::WAIT_FAILED => last_error(),
            _ => Outcome::WOULD_BLOCK,
        };
    }
    if mode == Mode::Block {
        wait_fd(handle.raw, events(interest), None);
    }
    poll_now(handle.raw, interest)
}

/// Whether cancelling interrupts the call that the pool makes for it: a call of the user's that says so, and one on a
/// pipe whose handle is synchronous.
pub(crate) const fn is_interruptible(op: &Op) -> bool {
    match op {
        Op::Call { interruptible, .. } => *interruptible,
        Op::Read { handle, .. }
        | Op::Write { handle, .. }
        | Op::ReadV { handle, .. }
        | Op::WriteV { handle, .. } => matches!(handle.kind, Kind::Pipe),
        _ => false,
    }
}

/// A message's header for a list of pieces.
fn msghdr(iov: *const c::iovec, count: u32) -> c::msghdr {
    c::msghdr {
        msg_name: std::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: iov.cast_mut(),
        msg_iovlen: count as usize,
        msg_control: std::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}
