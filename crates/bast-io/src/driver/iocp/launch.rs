//! Starting an operation: which call it is, and what is to be written before it.
//!
//! ```text
//!   launch: Lent filled, stage set ─▶ the call ─┬─ done, and no packet comes ─▶ finish ─▶ the outcome, inline
//!                                               ├─ pending; or done with a packet to come ─▶ in flight
//!                                               └─ failed: no packet comes ─▶ the error, inline
//! ```
//!
//! A warning is an error to Winsock and a success to the kernel, packet included: a datagram, or a pipe's message, of
//! which there was more than there was room for. The status in the `OVERLAPPED` tells it from a failure.
//!
//! The packet may be there before the call has returned, but only this thread takes packets, and it does not before
//! `launch` has ended. So what is written after the call (that the record is in flight) is written in time.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use windows_sys::Wdk::System::IO::NtDeviceIoControlFile;
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_IO_PENDING, HANDLE, RtlNtStatusToDosError, STATUS_PENDING, TRUE,
};
use windows_sys::Win32::Networking::WinSock as ws;
use windows_sys::Win32::System::Threading::CreateEventW;

use super::lent::{Accept, overlapped};
use super::table::Place;
use super::{Iocp, finish, half, stage, wait};
use crate::op::Interest;
use crate::sys::{self, Mode, Transfer, c};
use crate::{HandleRef, Kind, Op, Outcome, Record, SockAddr};

/// `IOCTL_AFD_POLL`, by which `select` and `WSAPoll` ask.
const AFD_POLL: u32 = 0x0001_2024;

/// What is polled for: data, the peer's end, a reset, our own close, a connection, a handshake that has failed.
const READABLE: u32 = 0x1 | 0x8 | 0x10 | 0x20 | 0x80 | 0x100;
/// Room, a reset, our own close, a handshake that has failed.
const WRITABLE: u32 = 0x4 | 0x10 | 0x20 | 0x100;

/// 0 or `SOCKET_ERROR` with the last error.
fn socket_call(returned: i32) -> Result<(), Outcome> {
    if returned == 0 { Ok(()) } else { Err(sys::last_error()) }
}

/// `TRUE` or `FALSE` with the last error.
fn call(returned: i32) -> Result<(), Outcome> {
    if returned != 0 { Ok(()) } else { Err(sys::last_error()) }
}

impl Iocp {
    /// Makes a call that completes by a packet, in one way or another.
    ///
    /// # Safety
    /// io 1: `record` is lent to us and on no list; `start` starts its operation with that `OVERLAPPED`.
    unsafe fn launch(
        &mut self,
        record: NonNull<Record>,
        place: Place,
        offset: u64,
        start: impl FnOnce(NonNull<Record>) -> Result<(), Outcome>,
    ) -> Option<Outcome> {
        let r = record.as_ptr();
        // SAFETY: the caller's promise; io 3: all is written before the call.
        unsafe {
            (*r).lent.overlapped = sys::overlapped_at(offset);
            (*r).lent.port = self.port();
            (*r).stage = stage::KERNEL;
            if place == Place::Away {
                let event = CreateEventW(null(), TRUE, 0, null());
                if event.is_null() {
                    finish::give_up(record);
                    return Some(sys::last_error());
                }
                (*r).lent.event = event;
                half::away();
                // The lowest bit: no packet to the port that the handle may have.
                (*r).lent.overlapped.hEvent = (event as usize | 1) as HANDLE;
            }
            match start(record) {
                Err(o) if !o.is_errno(ERROR_IO_PENDING as i32) && !finish::is_warned(record) => {
                    finish::give_up(record);
                    return Some(finish::refused(record, o));
                }
                Err(o) if o.is_errno(ERROR_IO_PENDING as i32) => {
                    if place == Place::Away
                        && let Err(error) = wait::register(record, (*r).lent.event)
                    {
                        // Nobody would tell of its end: it is to end now.
                        finish::cancel_and_wait(record);
                        let outcome = finish::finish(record);
                        return Some(if outcome.0 < 0 { error } else { outcome });
                    }
                }
                _ if place == (Place::Home { skips: false }) => {}
                _ => return Some(finish::finish(record)),
            }
            self.inflight.push_back(record);
        }
        self.in_kernel += 1;
        None
    }

    /// Receives or sends on a socket.
    ///
    /// # Safety
    /// As [`Iocp::launch`]; `op` is the record's.
    pub(super) unsafe fn transfer(&mut self, record: NonNull<Record>, op: &Op) -> Option<Outcome> {
        let single = |buf: *const u8, len: usize| c::iovec {
            iov_len: len.min(sys::MAX_RW) as u32,
            iov_base: buf.cast_mut().cast(),
        };
        let (one, msg, flags, reads) = match *op {
            Op::Recv { buf, len, flags, .. } => (Some(single(buf, len)), None, flags, true),
            Op::Read { buf, len, .. } => (Some(single(buf, len)), None, 0, true),
            Op::Send { buf, len, flags, .. } => (Some(single(buf, len)), None, flags, false),
            Op::Write { buf, len, .. } => (Some(single(buf, len)), None, 0, false),
            Op::RecvMsg { msg, flags, .. } => (None, Some(msg), flags, true),
            Op::SendMsg { msg, flags, .. } => (None, Some(msg.cast_mut()), flags, false),
            Op::ReadV { .. } => (None, None, 0, true),
            Op::WriteV { .. } => (None, None, 0, false),
            _ => unreachable!("only what transfers"),
        };
        let Some((handle, _)) = op.waits_for() else { unreachable!("it is a socket's") };
        // SAFETY: io 1 for lists and headers.
        let (list, count) = unsafe {
            match (one.as_ref(), msg, op) {
                (Some(one), ..) => (std::ptr::from_ref(one), 1),
                (_, Some(msg), _) => ((*msg).msg_iov.cast_const(), (*msg).msg_iovlen as u32),
                (_, _, Op::ReadV { iov, count, .. } | Op::WriteV { iov, count, .. }) => {
                    (*iov, *count)
                }
                _ => unreachable!("as above"),
            }
        };
        // SAFETY: as above.
        if handle.kind == Kind::Stream && unsafe { sys::total(list, count as usize) } == 0 {
            return Some(Outcome(0)); // Windows would wait for data.
        }
        let socket = sys::socket(handle.raw);
        let named = msg.filter(|msg| {
            // SAFETY: as above.
            handle.kind != Kind::Stream && unsafe { !(**msg).msg_name.is_null() }
        });
        let flags = (flags & !(c::MSG_TRUNC | c::MSG_DONTWAIT)) as u32;
        let list = list.cast();
        let place = self.table.place(handle, self.port());
        // SAFETY: the caller's promise. The list is read before the call returns, the rest is the operation's own.
        unsafe {
            self.launch(record, place, 0, |record| {
                let (none, overlapped) = (null_mut(), overlapped(record));
                // Where the kernel may write what it received: Wine keeps the address until the end.
                let received = &raw mut (*record.as_ptr()).lent.flags;
                received.write(flags);
                socket_call(match (reads, named) {
                    (true, Some(msg)) => {
                        let (name, len) = ((*msg).msg_name.cast(), &raw mut (*msg).msg_namelen);
                        let len = len.cast();
                        ws::WSARecvFrom(
                            socket, list, count, none, received, name, len, overlapped, None,
                        )
                    }
                    (true, None) => {
                        ws::WSARecv(socket, list, count, none, received, overlapped, None)
                    }
                    (false, Some(msg)) => {
                        let (name, len) = ((*msg).msg_name.cast(), (*msg).msg_namelen as i32);
                        ws::WSASendTo(socket, list, count, none, flags, name, len, overlapped, None)
                    }
                    (false, None) => {
                        ws::WSASend(socket, list, count, none, flags, overlapped, None)
                    }
                })
            })
        }
    }

    /// Takes a connection: one that is there at once, else the next by `AcceptEx`.
    ///
    /// # Safety
    /// As [`Iocp::transfer`].
    pub(super) unsafe fn accept(&mut self, record: NonNull<Record>, op: &Op) -> Option<Outcome> {
        let Op::Accept { handle, .. } = *op else { unreachable!("only for accept") };
        let mut ours = SockAddr::zeroed();
        let name = Op::GetName { handle, peer: false, addr: &raw mut ours };
        // SAFETY: the caller's promise; the address outlives the call.
        let (there, named) =
            unsafe { (sys::call(op, Mode::NoWait), sys::call(&name, Mode::NoWait)) };
        if !there.is_errno(c::EAGAIN) {
            return Some(there);
        }
        if named.0 < 0 {
            return Some(named);
        }
        let socket = Op::Socket { domain: ours.family(), kind: c::SOCK_STREAM, protocol: 0 };
        // SAFETY: no memory.
        let socket = unsafe { sys::call(&socket, Mode::NoWait) };
        if socket.0 < 0 {
            return Some(socket);
        }
        let socket = sys::socket(socket.0);
        let accept = Box::new(Accept { socket, addresses: [0; 2 * Accept::ADDRESS / 8] });
        let place = self.table.place(handle, self.port());
        // SAFETY: the caller's promise; `finish` and `give_up` free the allocation.
        unsafe {
            (*record.as_ptr()).lent.accept = Box::into_raw(accept);
            self.launch(record, place, 0, |record| {
                let accept = (*record.as_ptr()).lent.accept;
                let (room, each) = ((&raw mut (*accept).addresses).cast(), Accept::ADDRESS as u32);
                let (mut n, listener) = (0u32, sys::socket(handle.raw));
                let (n, overlapped) = (&raw mut n, overlapped(record));
                call(ws::AcceptEx(listener, socket, room, 0, each, each, n, overlapped))
            })
        }
    }

    /// Connects, by `ConnectEx`, which wants a socket that has an address.
    ///
    /// # Safety
    /// As [`Iocp::transfer`].
    pub(super) unsafe fn connect(&mut self, record: NonNull<Record>, op: &Op) -> Option<Outcome> {
        let Op::Connect { handle, addr } = *op else { unreachable!("only for connect") };
        // SAFETY: io 1.
        let to = unsafe { &*addr };
        if handle.kind != Kind::Stream {
            // Only an address to be noted.
            // SAFETY: io 1.
            return Some(unsafe { sys::call(op, Mode::NoWait) });
        }
        let socket = sys::socket(handle.raw);
        let connect = match connect_ex(socket) {
            Ok(connect) => connect,
            Err(error) => return Some(error),
        };
        let mut any = match to.to_std() {
            Some(std::net::SocketAddr::V4(_)) => {
                SockAddr::from(std::net::SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, 0)))
            }
            Some(std::net::SocketAddr::V6(_)) => {
                SockAddr::from(std::net::SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0)))
            }
            None => return Some(Outcome::from_errno(c::EAFNOSUPPORT)),
        };
        let bind = Op::Bind { handle, addr: &raw mut any };
        // SAFETY: the address outlives the call.
        let bound = unsafe { sys::call(&bind, Mode::NoWait) };
        // `EINVAL` in Winsock's own form: it has an address already.
        if bound.0 < 0 && !bound.is_errno(ws::WSAEINVAL) {
            return Some(bound);
        }
        let place = self.table.place(handle, self.port());
        // SAFETY: the caller's promise.
        unsafe {
            self.launch(record, place, 0, |record| {
                let (name, len) = (to.as_ptr().cast(), to.len() as i32);
                call(connect(socket, name, len, null(), 0, null_mut(), overlapped(record)))
            })
        }
    }

    /// Sends a piece of a file.
    ///
    /// # Safety
    /// As [`Iocp::transfer`].
    pub(super) unsafe fn send_file(&mut self, record: NonNull<Record>, op: &Op) -> Option<Outcome> {
        let Op::SendFile { to, file, offset, len } = *op else { unreachable!("only for that") };
        if file.kind != Kind::File || to.kind != Kind::Stream {
            return Some(Outcome::from_errno(c::EINVAL));
        }
        if len == 0 {
            return Some(Outcome(0)); // To the call, zero is all.
        }
        let place = self.table.place(to, self.port());
        let len = len.min(sys::MAX_RW) as u32;
        let (to, file) = (sys::socket(to.raw), sys::handle(file.raw));
        // SAFETY: the caller's promise.
        unsafe {
            self.launch(record, place, offset, |record| {
                call(ws::TransmitFile(to, file, len, 0, overlapped(record), null(), 0))
            })
        }
    }

    /// Reads or writes what is no socket. `Err`: it is for the pool.
    ///
    /// # Safety
    /// As [`Iocp::transfer`].
    pub(super) unsafe fn file(
        &mut self,
        record: NonNull<Record>,
        op: &Op,
    ) -> Result<Option<Outcome>, ()> {
        // SAFETY: io 1.
        let (file, kind, offset, mut pieces) = unsafe { sys::pieces(op) };
        let (Op::Read { handle, .. }
        | Op::Write { handle, .. }
        | Op::ReadV { handle, .. }
        | Op::WriteV { handle, .. }) = *op
        else {
            unreachable!("only what transfers")
        };
        let place = self.table.place(handle, self.port());
        if place == Place::Inside
            || (kind == Kind::File && (offset.is_none() || place == Place::Away))
        {
            return Err(());
        }
        // A list's first piece, which is a short transfer.
        let piece = pieces.next().filter(|piece| piece.len() > 0);
        drop(pieces);
        let Some(piece): Option<Transfer> = piece else { return Ok(Some(Outcome(0))) };
        let file = sys::handle(file);
        // SAFETY: the caller's promise.
        Ok(unsafe {
            self.launch(record, place, offset.unwrap_or(0), |record| {
                match piece.start(file, overlapped(record)) {
                    (true, _) => Ok(()),
                    _ => Err(sys::last_error()),
                }
            })
        })
    }

    /// Starts somebody else's call, on a handle of which nothing is known. (So it completes by an event.)
    ///
    /// # Safety
    /// As [`Iocp::transfer`].
    pub(super) unsafe fn foreign(
        &mut self,
        record: NonNull<Record>,
        start: unsafe extern "C" fn(*mut (), *mut c_void) -> i32,
        data: *mut (),
    ) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            self.launch(record, Place::Away, 0, |record| {
                match start(data, overlapped(record).cast()) {
                    0 => Ok(()),
                    code => Err(Outcome::from_errno(code)),
                }
            })
        }
    }

    /// Waits until a socket is ready.
    ///
    /// # Safety
    /// As [`Iocp::transfer`].
    pub(super) unsafe fn poll_socket(
        &mut self,
        record: NonNull<Record>,
        handle: HandleRef,
        interest: Interest,
    ) -> Option<Outcome> {
        let place = self.table.place(handle, self.port());
        // SAFETY: the caller's promise.
        unsafe {
            let poll = &mut (*record.as_ptr()).lent.poll;
            poll.timeout = i64::MAX;
            (poll.count, poll.exclusive, poll.status) = (1, 0, 0);
            poll.socket = sys::handle(handle.raw);
            poll.events = match interest {
                Interest::Readable => READABLE,
                Interest::Writable => WRITABLE,
            };
            self.launch(record, place, 0, |record| {
                let lent = &raw mut (*record.as_ptr()).lent;
                let overlapped = overlapped(record);
                // `OVERLAPPED` begins with what the kernel calls a status block. Without a context no packet is posted.
                let context: *const c_void =
                    if place == Place::Away { null() } else { overlapped.cast() };
                let (block, poll) = (overlapped.cast(), (&raw mut (*lent).poll).cast::<c_void>());
                let len = size_of::<super::lent::Poll>() as u32;
                (*overlapped).Internal = STATUS_PENDING as usize;
                let status = NtDeviceIoControlFile(
                    sys::handle(handle.raw),
                    (*lent).event,
                    None,
                    context,
                    block,
                    AFD_POLL,
                    poll,
                    len,
                    poll,
                    len,
                );
                match status {
                    STATUS_PENDING => Err(Outcome::from_errno(ERROR_IO_PENDING as i32)),
                    0.. => Ok(()),
                    _ => Err(Outcome::from_errno(RtlNtStatusToDosError(status) as i32)),
                }
            })
        }
    }

    /// Waits until an object is signalled, or until there is something in a pipe: by a read of no bytes, which
    /// completes then. A file is always ready, and so is a pipe to be written to, of which nobody can tell.
    ///
    /// # Safety
    /// As [`Iocp::transfer`].
    pub(super) unsafe fn poll_object(
        &mut self,
        record: NonNull<Record>,
        handle: HandleRef,
        interest: Interest,
    ) -> Option<Outcome> {
        if handle.kind == Kind::File {
            return Some(Outcome(0));
        }
        if handle.id != 0 && sys::is_pipe(handle.raw) {
            if interest == Interest::Writable || sys::has_data(handle.raw) {
                return Some(Outcome(0));
            }
            let place = self.table.place(handle, self.port());
            if place == Place::Inside {
                // Its read would wait in the call, and nothing tells when it would not.
                return Some(Outcome::from_errno(c::EOPNOTSUPP));
            }
            let file = sys::handle(handle.raw);
            // SAFETY: only an address, to which nothing is written.
            let nothing = Transfer::Read(unsafe { overlapped(record) }.cast(), 0);
            // SAFETY: the caller's promise.
            return unsafe {
                self.launch(record, place, 0, |record| {
                    match nothing.start(file, overlapped(record)) {
                        (true, _) => Ok(()),
                        _ => Err(sys::last_error()),
                    }
                })
            };
        }
        if sys::is_signalled(handle.raw) {
            return Some(Outcome(0));
        }
        let r = record.as_ptr();
        // SAFETY: the caller's promise; io 3.
        unsafe {
            (*r).lent.overlapped = sys::overlapped_at(0);
            (*r).lent.port = self.port();
            (*r).stage = stage::OBJECT;
            if let Err(error) = wait::register(record, sys::handle(handle.raw)) {
                return Some(error);
            }
            self.inflight.push_back(record);
        }
        self.in_kernel += 1;
        None
    }
}

/// `ConnectEx`, which has to be asked for. It is the same for all sockets of Windows' own provider.
fn connect_ex(socket: ws::SOCKET) -> Result<Connect, Outcome> {
    static FOUND: OnceLock<Connect> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(*found);
    }
    let (id, mut found, mut n): (_, ws::LPFN_CONNECTEX, _) = (ws::WSAID_CONNECTEX, None, 0u32);
    let (which, len) = (ws::SIO_GET_EXTENSION_FUNCTION_POINTER, size_of_val(&id) as u32);
    let (room, size) = ((&raw mut found).cast(), size_of_val(&found) as u32);
    // SAFETY: what is read and written is as long as it says.
    let asked = unsafe {
        let id = (&raw const id).cast();
        ws::WSAIoctl(socket, which, id, len, room, size, &raw mut n, null_mut(), None)
    };
    match found {
        Some(found) if asked == 0 => Ok(*FOUND.get_or_init(|| found)),
        _ => Err(sys::last_error()),
    }
}

type Connect = unsafe extern "system" fn(
    ws::SOCKET,
    *const ws::SOCKADDR,
    i32,
    *const c_void,
    u32,
    *mut u32,
    *mut windows_sys::Win32::System::IO::OVERLAPPED,
) -> i32;

/// Closes an event.
pub(super) fn close_event(event: HANDLE) {
    // SAFETY: the caller's own.
    unsafe { CloseHandle(event) };
}
