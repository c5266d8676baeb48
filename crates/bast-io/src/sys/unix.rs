//! Unix: one operation as one system call: the table that every driver, the pool and plain threads share.
//!
//! [`call`] does an operation once. With [`Mode::NoWait`] it never waits for a peer: it returns
//! `EAGAIN` (for `connect` also `EINPROGRESS` / `EALREADY`) instead. Interrupted calls are repeated.
//!
//! Streams are in blocking mode and are asked per call (`MSG_DONTWAIT`). Three operations have no
//! such flag: `connect`, `splice` and `sendfile`. For these the descriptor itself is set non-blocking:
//! for the time of the handshake, or for good once it is spliced. Every path of this crate copes with
//! a stream in either mode.

use std::time::Duration;

#[cfg(any(not(target_os = "linux"), bast_kqueue))]
mod bsd;
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
mod linux;

#[cfg(any(not(target_os = "linux"), bast_kqueue))]
pub use self::bsd::c;
#[cfg(any(not(target_os = "linux"), bast_kqueue))]
pub(crate) use self::bsd::*;
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
pub use self::linux::c;
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
pub(crate) use self::linux::*;

use super::Mode;
use crate::op::{Half, Interest};
use crate::{HandleRef, Kind, Op, Outcome, SockAddr};

/// The longest time that a close can be told to wait, in seconds.
pub(crate) const LINGER_MOST: u64 = i32::MAX as u64;

/// The errors that say that the process or the system has run out of something: descriptors, memory.
/// An `accept` that has failed so fails again at once.
pub(crate) const SHORTAGES: &[i32] = &[c::EMFILE, c::ENFILE, c::ENOBUFS, c::ENOMEM];

/// What a socket says whose timeout is over.
pub(crate) const OVERDUE: i32 = c::EAGAIN;

/// What an `accept` says of the connection that it would have taken, not of the listener: the next is another.
pub(crate) const OF_ONE_CONNECTION: &[i32] = &[
    c::ECONNABORTED,
    c::ENETDOWN,
    c::EPROTO,
    c::ENOPROTOOPT,
    c::EHOSTDOWN,
    c::ENONET,
    c::EHOSTUNREACH,
    c::EOPNOTSUPP,
    c::ENETUNREACH,
];

/// The most that Linux moves in one call.
const MAX_RW: usize = 0x7fff_f000;

/// Repeats `f` while it is interrupted.
pub(crate) fn retry(mut f: impl FnMut() -> isize) -> Outcome {
    loop {
        let outcome = Outcome::from_libc(f());
        if !outcome.is_errno(c::EINTR) {
            return outcome;
        }
    }
}

/// Waits for `events` on `fd`; `None` waits for ever. The events that came, 0 if the time was up or a
/// signal came.
pub(crate) fn wait_fd(fd: i32, events: i16, timeout: Option<Duration>) -> i16 {
    let mut p = c::pollfd { fd, events, revents: 0 };
    let ts = timeout.map(timespec);
    let ts = ts.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are to locals, or null where that is allowed.
    let n = unsafe { c::ppoll(&raw mut p, 1, ts, std::ptr::null()) };
    if n > 0 { p.revents } else { 0 }
}

/// For the kernel; longer than it can count means for ever, or nearly so.
pub(crate) fn timespec(d: Duration) -> c::timespec {
    c::timespec {
        tv_sec: c::time_t::try_from(d.as_secs()).unwrap_or(c::time_t::MAX),
        tv_nsec: d.subsec_nanos().into(),
    }
}

/// `poll(2)`'s name for an interest.
pub(crate) const fn events(interest: Interest) -> i16 {
    match interest {
        Interest::Readable => c::POLLIN | c::POLLRDHUP,
        Interest::Writable => c::POLLOUT,
    }
}

/// 0 if the descriptor is ready, `EAGAIN` if not, `EBADF` if it is none.
pub(crate) fn poll_now(fd: i32, interest: Interest) -> Outcome {
    match wait_fd(fd, events(interest), Some(Duration::ZERO)) {
        0 => Outcome::from_errno(c::EAGAIN),
        e if e & c::POLLNVAL != 0 => Outcome::from_errno(c::EBADF),
        _ => Outcome(0),
    }
}

/// Which of these is not ready, if one is; of several the first. One call asks for all.
pub(crate) fn unready(gates: [Option<(HandleRef, Interest)>; 2]) -> Result<Option<usize>, Outcome> {
    let mut polls = gates.map(|gate| match gate {
        Some((handle, interest)) => {
            c::pollfd { fd: handle.raw, events: events(interest), revents: 0 }
        }
        // Not looked at.
        None => c::pollfd { fd: -1, events: 0, revents: 0 },
    });
    // SAFETY: `polls` is a list of two.
    let outcome = retry(|| unsafe { c::poll(polls.as_mut_ptr(), 2, 0) } as isize);
    if outcome.0 < 0 {
        return Err(outcome);
    }
    if polls.iter().any(|p| p.revents & c::POLLNVAL != 0) {
        return Err(Outcome::from_errno(c::EBADF));
    }
    Ok(polls.iter().position(|p| p.fd >= 0 && p.revents == 0))
}

/// Sets or clears `O_NONBLOCK`, in one call.
pub(crate) fn set_nonblocking(fd: i32, on: bool) -> Outcome {
    let mut on = c::c_int::from(on);
    // SAFETY: FIONBIO reads one int.
    retry(|| unsafe { c::ioctl(fd, c::FIONBIO, &raw mut on) } as isize)
}

/// A socket's error that nobody has heard of yet, which asking takes; 0: none.
fn pending_error(fd: i32) -> i32 {
    let (mut error, mut len) = (0, size_of::<c::c_int>() as c::socklen_t);
    let value = (&raw mut error).cast();
    // SAFETY: both pointers are to locals, and the value is as long as it says.
    unsafe { c::getsockopt(fd, c::SOL_SOCKET, c::SO_ERROR, value, &raw mut len) };
    error
}

/// Closes a kernel descriptor. Not repeated when interrupted: Linux has closed it even so.
pub(crate) fn close(fd: i32) -> Outcome {
    // SAFETY: no memory is involved; the caller owns the descriptor.
    match Outcome::from_libc(unsafe { c::close(fd) } as isize) {
        o if o.is_errno(c::EINTR) => Outcome(0),
        o => o,
    }
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    let mut ts = c::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local; this clock always exists.
    unsafe { c::clock_gettime(c::CLOCK_MONOTONIC, &raw mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Does `op` once.
///
/// # Safety
/// Contract io 1 for the time of the call.
pub(crate) unsafe fn call(op: &Op, mode: Mode) -> Outcome {
    let dontwait = if mode == Mode::NoWait { c::MSG_DONTWAIT } else { 0 };
    let off = |o: Option<u64>| o.map(|o| i64::try_from(o).unwrap_or(i64::MAX));
    // SAFETY: for the whole match: io 1: what the operation points at is valid for its kind of
    // access until the call has returned.
    unsafe {
        match *op {
            Op::Nop => Outcome(0),
            Op::Socket { domain, kind, protocol } => {
                retry(|| c::socket(domain, kind | c::SOCK_CLOEXEC, protocol) as isize)
            }
            Op::Bind { handle, addr } => {
                let addr = &*addr;
                retry(|| c::bind(handle.raw, addr.as_ptr(), addr.len()) as isize)
            }
            Op::Listen { handle, backlog } => {
                // `accept` has no per-call flag, so a listener is non-blocking for good.
                let outcome = set_nonblocking(handle.raw, true);
                if outcome.0 < 0 {
                    return outcome;
                }
                retry(|| c::listen(handle.raw, backlog) as isize)
            }
            Op::Shutdown { handle, how } => {
                let how = match how {
                    Half::Read => c::SHUT_RD,
                    Half::Write => c::SHUT_WR,
                    Half::Both => c::SHUT_RDWR,
                };
                retry(|| c::shutdown(handle.raw, how) as isize)
            }
            Op::GetName { handle, peer, addr } => {
                let (addr, len) = SockAddr::out(addr);
                if peer {
                    retry(|| c::getpeername(handle.raw, addr, len) as isize)
                } else {
                    retry(|| c::getsockname(handle.raw, addr, len) as isize)
                }
            }
            Op::SetOpt { handle, opt, value, len } => {
                retry(|| c::setsockopt(handle.raw, opt.level, opt.name, value.cast(), len) as isize)
            }
            Op::GetOpt { handle, opt, value, len } => {
                retry(|| c::getsockopt(handle.raw, opt.level, opt.name, value.cast(), len) as isize)
            }
            Op::Accept { handle, addr } => retry(|| {
                let (addr, len) = SockAddr::out(addr);
                c::accept4(handle.raw, addr, len, c::SOCK_CLOEXEC) as isize
            }),
            Op::Connect { handle, addr } => {
                let addr = &*addr;
                // A second call tells what became of a handshake on Linux; elsewhere the error that is pending does.
                if !STREAMS_BLOCK && handle.kind == Kind::Stream {
                    let error = pending_error(handle.raw);
                    if error != 0 {
                        return Outcome::from_errno(error);
                    }
                }
                match retry(|| c::connect(handle.raw, addr.as_ptr(), addr.len()) as isize) {
                    // The handshake ended between two calls.
                    o if o.is_errno(c::EISCONN) && mode == Mode::NoWait => Outcome(0),
                    o => o,
                }
            }
            Op::Recv { handle, buf, len, flags } => {
                retry(|| c::recv(handle.raw, buf.cast(), len.min(MAX_RW), flags | dontwait))
            }
            Op::Send { handle, buf, len, flags } => {
                let flags = flags | dontwait | c::MSG_NOSIGNAL;
                retry(|| c::send(handle.raw, buf.cast(), len.min(MAX_RW), flags))
            }
            Op::RecvMsg { handle, msg, flags } => {
                retry(|| c::recvmsg(handle.raw, msg, flags | dontwait))
            }
            Op::SendMsg { handle, msg, flags } => {
                let flags = flags | dontwait | c::MSG_NOSIGNAL;
                retry(|| c::sendmsg(handle.raw, msg, flags))
            }
            // A socket's own calls have the per-call flag that `read` and `write` lack.
            Op::Read { handle, buf, len, .. } if handle.is_socket() => {
                call(&Op::Recv { handle, buf, len, flags: 0 }, mode)
            }
            Op::Write { handle, buf, len, .. } if handle.is_socket() => {
                call(&Op::Send { handle, buf, len, flags: 0 }, mode)
            }
            Op::ReadV { handle, iov, count, .. } if handle.is_socket() => {
                let mut msg = msghdr(iov, count);
                call(&Op::RecvMsg { handle, msg: &raw mut msg, flags: 0 }, mode)
            }
            Op::WriteV { handle, iov, count, .. } if handle.is_socket() => {
                let msg = msghdr(iov, count);
                call(&Op::SendMsg { handle, msg: &raw const msg, flags: 0 }, mode)
            }
            Op::Read { handle, buf, len, offset } => retry(|| match off(offset) {
                Some(at) => c::pread64(handle.raw, buf.cast(), len.min(MAX_RW), at),
                None => c::read(handle.raw, buf.cast(), len.min(MAX_RW)),
            }),
            Op::Write { handle, buf, len, offset } => retry(|| match off(offset) {
                Some(at) => c::pwrite64(handle.raw, buf.cast(), len.min(MAX_RW), at),
                None => c::write(handle.raw, buf.cast(), len.min(MAX_RW)),
            }),
            Op::ReadV { handle, iov, count, offset } => retry(|| match off(offset) {
                Some(at) => c::preadv64(handle.raw, iov, count as i32, at),
                None => c::readv(handle.raw, iov, count as i32),
            }),
            Op::WriteV { handle, iov, count, offset } => retry(|| match off(offset) {
                Some(at) => c::pwritev64(handle.raw, iov, count as i32, at),
                None => c::writev(handle.raw, iov, count as i32),
            }),
            Op::Open { path, flags, mode } => {
                retry(|| c::open64(path, flags | c::O_CLOEXEC, mode as c::c_uint) as isize)
            }
            Op::Close { fd } => crate::driver::close_raw(fd),
            Op::Fsync { handle, data_only: true } => retry(|| c::fdatasync(handle.raw) as isize),
            Op::Fsync { handle, data_only: false } => retry(|| c::fsync(handle.raw) as isize),
            Op::Statx { dir, path, flags, mask, out } => {
                retry(|| c::statx(dir, path, flags, mask, out) as isize)
            }
            Op::Splice { from, from_offset, to, to_offset, len } => {
                let (mut a, mut b) = (off(from_offset), off(to_offset));
                let p =
                    |o: &mut Option<i64>| o.as_mut().map_or(std::ptr::null_mut(), |o| &raw mut *o);
                let flags = if mode == Mode::NoWait { c::SPLICE_F_NONBLOCK } else { 0 };
                let (a, b) = (p(&mut a), p(&mut b));
                retry(|| c::splice(from.raw, a, to.raw, b, len as usize, flags))
            }
            Op::SendFile { to, file, offset, len } => {
                let mut at = i64::try_from(offset).unwrap_or(i64::MAX);
                retry(|| c::sendfile64(to.raw, file.raw, &raw mut at, len.min(MAX_RW)))
            }
            Op::Poll { handle, interest } | Op::Again { handle, interest } => match mode {
                Mode::NoWait => poll_now(handle.raw, interest),
                Mode::Block => {
                    wait_fd(handle.raw, events(interest), None);
                    poll_now(handle.raw, interest)
                }
            },
            Op::Call { call, data, .. } => Outcome(call(data)),
        }
    }
}

/// Reads from a file only what is in memory: `EAGAIN` (or `EOPNOTSUPP`) if the disk is needed. `None`
/// if `op` is no read of a file.
///
/// # Safety
/// As [`call`].
pub(crate) unsafe fn read_cached(op: &Op) -> Option<Outcome> {
    let (handle, one, iov, count, offset) = match *op {
        Op::Read { handle, buf, len, offset } => {
            let one = c::iovec { iov_base: buf.cast(), iov_len: len.min(MAX_RW) };
            (handle, Some(one), std::ptr::null(), 1, offset)
        }
        Op::ReadV { handle, iov, count, offset } => (handle, None, iov, count as i32, offset),
        _ => return None,
    };
    if handle.kind != Kind::File {
        return None;
    }
    let iov = one.as_ref().map_or(iov, std::ptr::from_ref);
    let at = offset.map_or(-1, |o| i64::try_from(o).unwrap_or(i64::MAX));
    // SAFETY: io 1 for the buffers; the list of one is a local.
    Some(retry(|| unsafe { c::preadv64v2(handle.raw, iov, count, at, c::RWF_NOWAIT) }))
}

/// Tries a splice in which no file takes part, so that nothing can delay it: `SPLICE_F_NONBLOCK` is for the
/// pipe, and [`unblock_ends`](Op::unblock_ends) for the socket. `None` for every other operation.
pub(crate) fn spliced(op: &Op) -> Option<Outcome> {
    let Op::Splice { from, to, .. } = *op else { return None };
    if from.kind == Kind::File || to.kind == Kind::File {
        return None;
    }
    op.unblock_ends();
    // SAFETY: the operation names no memory.
    Some(unsafe { call(op, Mode::NoWait) })
}

fn msghdr(iov: *const c::iovec, count: u32) -> c::msghdr {
    // SAFETY: a msghdr of zeroes names nothing.
    let mut msg: c::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = iov.cast_mut();
    msg.msg_iovlen = count as _;
    msg
}

/// Receives what is there, a message for each header, in one call.
pub(crate) fn recv_many(fd: i32, headers: &mut [c::mmsghdr]) -> Outcome {
    let (list, count) = (headers.as_mut_ptr(), headers.len() as u32);
    let (flags, forever) = (c::MSG_DONTWAIT, std::ptr::null_mut());
    // SAFETY: the list is as long as it says, and the caller has aimed each header at memory of its own.
    retry(|| unsafe { c::recvmmsg(fd, list, count, flags as _, forever) as isize })
}

/// Sends the messages for which there is room, in one call.
pub(crate) fn send_many(fd: i32, headers: &mut [c::mmsghdr]) -> Outcome {
    let (list, count) = (headers.as_mut_ptr(), headers.len() as u32);
    let flags = c::MSG_DONTWAIT | c::MSG_NOSIGNAL;
    // SAFETY: the list is as long as it says, and the caller has aimed each header at memory that is lent to it.
    retry(|| unsafe { c::sendmmsg(fd, list, count, flags as _) as isize })
}

/// Whether cancelling interrupts the call that the pool makes for it.
pub(crate) const fn is_interruptible(op: &Op) -> bool {
    matches!(op, Op::Call { interruptible: true, .. })
}
