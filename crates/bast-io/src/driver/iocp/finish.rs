//! The end of an operation: what the kernel has written is read, what was lent for it is taken back.
//!
//! The status stands in the `OVERLAPPED`, as the kernel's own code; `error` makes Winsock's of it where that has one,
//! as `WSAGetOverlappedResult` would.

use std::ptr::{NonNull, null_mut};

use windows_sys::Win32::Foundation as e;
use windows_sys::Win32::Networking::WinSock as ws;
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult};

use super::launch::close_event;
use super::lent::overlapped;
use super::{half, stage};
use crate::op::Interest;
use crate::sys::{self, Mode, c};
use crate::{Op, Outcome, Record};

/// What Winsock calls an error that reached us by way of the file system.
const fn winsock(code: u32) -> i32 {
    match code {
        e::ERROR_NETNAME_DELETED | e::ERROR_PORT_UNREACHABLE | e::ERROR_GRACEFUL_DISCONNECT => {
            ws::WSAECONNRESET
        }
        e::ERROR_CONNECTION_ABORTED => ws::WSAECONNABORTED,
        e::ERROR_CONNECTION_REFUSED => ws::WSAECONNREFUSED,
        e::ERROR_HOST_UNREACHABLE => ws::WSAEHOSTUNREACH,
        e::ERROR_NETWORK_UNREACHABLE => ws::WSAENETUNREACH,
        e::ERROR_SEM_TIMEOUT => ws::WSAETIMEDOUT,
        e::ERROR_MORE_DATA => ws::WSAEMSGSIZE,
        e::ERROR_ADDRESS_ALREADY_ASSOCIATED => ws::WSAEADDRINUSE,
        e::ERROR_CONNECTION_INVALID | e::ERROR_PIPE_NOT_CONNECTED => ws::WSAENOTCONN,
        _ => code as i32,
    }
}

/// The outcome of a failed call or status, in Unix' way where the operation has one.
fn error(op: &Op, code: u32) -> Outcome {
    let sockets = op.waits_for().is_some_and(|(handle, _)| handle.is_socket());
    Outcome::from_errno(if sockets { winsock(code) } else { code as i32 })
}

/// How much a receive has room for.
///
/// # Safety
/// io 1.
unsafe fn room(op: &Op) -> usize {
    match *op {
        Op::Recv { len, .. } | Op::Read { len, .. } => len,
        // SAFETY: io 1.
        Op::RecvMsg { msg, .. } => unsafe { sys::total((*msg).msg_iov, (*msg).msg_iovlen) },
        // SAFETY: io 1.
        Op::ReadV { iov, count, .. } => unsafe { sys::total(iov, count as usize) },
        _ => 0,
    }
}

/// The outcome in Unix' way, once everything else is done.
///
/// # Safety
/// io 1: the kernel has let go of the record's memory.
unsafe fn as_unix(op: &Op, outcome: Outcome) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        match *op {
            Op::RecvMsg { msg, .. } => {
                (*msg).msg_controllen = 0;
                let cut = outcome.is_errno(c::EMSGSIZE);
                (*msg).msg_flags = if cut { c::MSG_TRUNC } else { 0 };
                sys::received(outcome, room(op))
            }
            Op::Recv { .. } | Op::Read { .. } | Op::ReadV { .. } => {
                sys::received(outcome, room(op))
            }
            Op::Write { handle, .. } | Op::WriteV { handle, .. } if !handle.is_socket() => {
                sys::unread_is_broken(outcome)
            }
            Op::Send { .. } | Op::SendMsg { .. } | Op::Write { .. } | Op::WriteV { .. } => {
                sys::sent(outcome)
            }
            // At the file's end there is nothing to send.
            Op::SendFile { .. } => sys::sent(sys::end_is_zero(outcome)),
            _ => outcome,
        }
    }
}

/// The outcome of a call that was refused.
///
/// # Safety
/// As [`as_unix`].
pub(super) unsafe fn refused(record: NonNull<Record>, outcome: Outcome) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        let op = &(*record.as_ptr()).op;
        as_unix(op, error(op, outcome.0.unsigned_abs()))
    }
}

/// Whether a call that said no has ended with a warning: not as an error, to the kernel.
///
/// # Safety
/// As [`finish`], or the call was refused before the kernel had anything.
pub(super) unsafe fn is_warned(record: NonNull<Record>) -> bool {
    // SAFETY: the caller's promise.
    let status = unsafe { (*overlapped(record)).Internal as u32 };
    status >> 30 == 2
}

/// Whether an accept has ended because somebody else was quicker to take the connection. (Windows gives each its own;
/// Wine tells all who wait.)
///
/// # Safety
/// As [`finish`].
pub(super) unsafe fn is_too_late(record: NonNull<Record>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        matches!((*record.as_ptr()).op, Op::Accept { .. })
            && (*overlapped(record)).Internal as i32 == e::STATUS_DEVICE_NOT_READY
    }
}

/// Takes back what was lent for an operation that did not come to anything.
///
/// # Safety
/// The kernel has nothing of the record.
pub(super) unsafe fn give_up(record: NonNull<Record>) {
    // SAFETY: the caller's promise; what is taken here is nobody else's.
    unsafe {
        let lent = &mut (*record.as_ptr()).lent;
        if !lent.event.is_null() {
            close_event(std::mem::replace(&mut lent.event, null_mut()));
            half::back();
        }
        if !lent.accept.is_null() {
            let accept = Box::from_raw(std::mem::replace(&mut lent.accept, null_mut()));
            ws::closesocket(accept.socket);
        }
    }
}

/// Has an operation end, and waits for it.
///
/// # Safety
/// It is under way, with an event.
pub(super) unsafe fn cancel_and_wait(record: NonNull<Record>) {
    // SAFETY: the caller's promise.
    unsafe {
        let handle = sys::handle((*record.as_ptr()).op.descriptor().unwrap_or(-1));
        let mut n = 0;
        // What was not found has ended, or Wine is busy with it (see `mod`).
        while CancelIoEx(handle, overlapped(record)) == 0
            && (&raw const (*overlapped(record)).Internal).read_volatile()
                == e::STATUS_PENDING as usize
        {
            std::thread::yield_now();
        }
        GetOverlappedResult(handle, overlapped(record), &raw mut n, 1);
    }
}

/// The outcome of an operation that has ended; what was lent for it is taken back.
///
/// # Safety
/// The kernel has written its status and has let go of the record.
pub(super) unsafe fn finish(record: NonNull<Record>) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        let op = &(*record.as_ptr()).op;
        let (status, moved) = {
            let overlapped = overlapped(record);
            ((*overlapped).Internal as i32, (*overlapped).InternalHigh)
        };
        let moved = i32::try_from(moved).unwrap_or(i32::MAX);
        let mut outcome = match status {
            0.. => Outcome(moved),
            // A warning: there was more than there was room for. A stream's reader gets the rest later.
            e::STATUS_BUFFER_OVERFLOW if moved > 0 && !is_datagram(op) => Outcome(moved),
            // A message, of which a read of no bytes takes nothing.
            e::STATUS_BUFFER_OVERFLOW if matches!(op, Op::Poll { .. } | Op::Again { .. }) => {
                Outcome(0)
            }
            // Its half was shut down under it: a receive is at the end, a send that has not begun is refused.
            e::STATUS_CANCELLED if (*record.as_ptr()).stage == stage::SHUT => {
                match moved == 0 && sends(op) {
                    true => Outcome::from_errno(ws::WSAESHUTDOWN),
                    false => Outcome(moved),
                }
            }
            // It was cancelled after it had begun.
            e::STATUS_CANCELLED if moved > 0 && transfers(op) => Outcome(moved),
            _ => error(op, e::RtlNtStatusToDosError(status)),
        };
        match *op {
            Op::Accept { addr, .. } => {
                let accept = (*record.as_ptr()).lent.accept;
                if outcome.0 >= 0 {
                    outcome = accepted(op, (*accept).socket, addr);
                }
                if outcome.0 >= 0 {
                    // Not ours to close any more.
                    (*accept).socket = ws::INVALID_SOCKET;
                }
            }
            Op::Connect { handle, .. } if outcome.0 >= 0 => {
                let (s, name) = (sys::socket(handle.raw), ws::SO_UPDATE_CONNECT_CONTEXT);
                ws::setsockopt(s, ws::SOL_SOCKET, name, std::ptr::null(), 0);
                outcome = Outcome(0);
            }
            // The end of a pipe is something to read.
            Op::Poll { .. } | Op::Again { .. } if outcome != Outcome::CANCELLED => {
                outcome = Outcome(sys::end_is_zero(outcome).0.min(0));
            }
            _ => {}
        }
        give_up(record);
        as_unix(op, outcome)
    }
}

fn is_datagram(op: &Op) -> bool {
    op.waits_for().is_some_and(|(handle, _)| handle.kind() == crate::Kind::Datagram)
}

fn sends(op: &Op) -> bool {
    matches!(op.waits_for(), Some((_, Interest::Writable))) && transfers(op)
}

fn transfers(op: &Op) -> bool {
    !matches!(op, Op::Accept { .. } | Op::Connect { .. } | Op::Poll { .. } | Op::Again { .. })
}

/// Makes a new connection's socket like one that `accept` gives.
///
/// # Safety
/// io 1 for `addr`.
unsafe fn accepted(op: &Op, socket: ws::SOCKET, addr: *mut crate::SockAddr) -> Outcome {
    let Op::Accept { handle: listener, .. } = *op else { unreachable!("only for accept") };
    let from = sys::socket(listener.raw);
    // SAFETY: the option's value is a socket; `addr` may be written, unless it is null.
    unsafe {
        let (name, len) = (ws::SO_UPDATE_ACCEPT_CONTEXT, size_of::<ws::SOCKET>() as i32);
        if ws::setsockopt(socket, ws::SOL_SOCKET, name, (&raw const from).cast(), len) != 0 {
            return sys::last_error();
        }
        if !addr.is_null() {
            let handle = crate::HandleRef { raw: socket as i32, ..listener };
            let named = sys::call(&Op::GetName { handle, peer: true, addr }, Mode::NoWait);
            if named.0 < 0 {
                // It has come and gone.
                return Outcome::from_errno(c::ECONNABORTED);
            }
        }
    }
    Outcome(socket as i32)
}
