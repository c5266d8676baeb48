//! From an operation to a submission queue entry.

use std::ptr::NonNull;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};

use super::ring::Ring;
use crate::op::Interest;
use crate::{Kind, Op, Record, SockAddr, sys};

/// The entry's flag (in the field that files use for their priority) that says: do not try first, but
/// wait. Used when a try is known to be in vain; readiness is still looked at before waiting.
const RECVSEND_POLL_FIRST: u16 = 1;
const ACCEPT_POLL_FIRST: u16 = 4;

/// The most that Linux moves in one call.
const MAX_RW: usize = 0x7fff_f000;

/// A length as entries carry it; a shorter transfer is always allowed.
fn len(len: usize) -> u32 {
    len.min(MAX_RW) as u32
}

/// -1: the descriptor's own position.
fn offset(at: Option<u64>) -> u64 {
    at.unwrap_or(u64::MAX)
}

/// What marks the completions of `record`. Records are aligned, so that small numbers are free.
pub(super) fn user_data(record: NonNull<Record>) -> u64 {
    record.as_ptr() as u64
}

const _: () = assert!(size_of::<squeue::Entry>() == 64);

/// Sets the flags of an entry whose builder offers no way to.
fn with_ioprio(mut entry: squeue::Entry, flags: u16) -> squeue::Entry {
    // SAFETY: an entry is the kernel's 64-byte structure, in which `ioprio` is the u16 at byte 2.
    unsafe { (&raw mut entry).cast::<u16>().add(1).write(flags) };
    entry
}

/// Waits for readiness, once.
pub(super) fn poll(fd: i32, interest: Interest) -> squeue::Entry {
    opcode::PollAdd::new(Fd(fd), sys::events(interest) as u16 as u32).build()
}

/// The entry that performs `op`; `None` if the kernel has none for it.
///
/// # Safety
/// Contract io 1.
pub(super) unsafe fn entry(ring: &Ring, op: &Op) -> Option<squeue::Entry> {
    let (code, entry) = match *op {
        Op::Accept { handle, addr } => {
            // SAFETY: io 1.
            let (addr, len) = unsafe { SockAddr::out(addr) };
            let entry =
                opcode::Accept::new(Fd(handle.raw), addr, len).flags(libc::SOCK_CLOEXEC).build();
            let flags = if ring.accept_hints { ACCEPT_POLL_FIRST } else { 0 };
            (opcode::Accept::CODE, with_ioprio(entry, flags))
        }
        Op::Connect { handle, addr } => {
            // SAFETY: io 1.
            let addr = unsafe { &*addr };
            let entry = opcode::Connect::new(Fd(handle.raw), addr.as_ptr(), addr.len()).build();
            (opcode::Connect::CODE, entry)
        }
        // The kernel is asked only after a try has failed, or when one would.
        Op::Recv { handle, buf, len: n, flags } => {
            let entry = opcode::Recv::new(Fd(handle.raw), buf, len(n)).flags(flags);
            (opcode::Recv::CODE, entry.ioprio(RECVSEND_POLL_FIRST).build())
        }
        Op::Send { handle, buf, len: n, flags } => {
            let flags = flags | libc::MSG_NOSIGNAL;
            let entry = opcode::Send::new(Fd(handle.raw), buf, len(n)).flags(flags).build();
            (opcode::Send::CODE, with_ioprio(entry, RECVSEND_POLL_FIRST))
        }
        Op::RecvMsg { handle, msg, flags } => {
            let entry = opcode::RecvMsg::new(Fd(handle.raw), msg).flags(flags as u32);
            (opcode::RecvMsg::CODE, entry.ioprio(RECVSEND_POLL_FIRST).build())
        }
        Op::SendMsg { handle, msg, flags } => {
            let flags = (flags | libc::MSG_NOSIGNAL) as u32;
            let entry = opcode::SendMsg::new(Fd(handle.raw), msg).flags(flags);
            (opcode::SendMsg::CODE, entry.ioprio(RECVSEND_POLL_FIRST).build())
        }
        // A socket's scalar transfers are `recv` and `send`; the vectored ones have no header that
        // would live long enough, and are polled for.
        Op::Read { handle, buf, len, .. } if handle.is_socket() => {
            // SAFETY: io 1.
            return unsafe { self::entry(ring, &Op::Recv { handle, buf, len, flags: 0 }) };
        }
        Op::Write { handle, buf, len, .. } if handle.is_socket() => {
            // SAFETY: io 1.
            return unsafe { self::entry(ring, &Op::Send { handle, buf, len, flags: 0 }) };
        }
        Op::Read { handle, buf, len: n, offset: at } if handle.kind == Kind::File => {
            let entry = opcode::Read::new(Fd(handle.raw), buf, len(n)).offset(offset(at)).build();
            (opcode::Read::CODE, entry)
        }
        Op::Write { handle, buf, len: n, offset: at } if handle.kind == Kind::File => {
            let entry = opcode::Write::new(Fd(handle.raw), buf, len(n)).offset(offset(at)).build();
            (opcode::Write::CODE, entry)
        }
        Op::ReadV { handle, iov, count, offset: at } if handle.kind == Kind::File => {
            let entry = opcode::Readv::new(Fd(handle.raw), iov, count).offset(offset(at)).build();
            (opcode::Readv::CODE, entry)
        }
        Op::WriteV { handle, iov, count, offset: at } if handle.kind == Kind::File => {
            let entry = opcode::Writev::new(Fd(handle.raw), iov, count).offset(offset(at)).build();
            (opcode::Writev::CODE, entry)
        }
        Op::Open { path, flags, mode } => {
            // As the C library's `open64`; and large files are the rule for io_uring anyway.
            let flags = flags | waits_for_nobody(flags);
            let entry = opcode::OpenAt::new(Fd(libc::AT_FDCWD), path)
                .flags(flags | libc::O_CLOEXEC | libc::O_LARGEFILE)
                .mode(mode)
                .build();
            (opcode::OpenAt::CODE, entry)
        }
        Op::Fsync { handle, data_only } => {
            let flags = io_uring::types::FsyncFlags::DATASYNC;
            let flags = if data_only { flags } else { io_uring::types::FsyncFlags::empty() };
            (opcode::Fsync::CODE, opcode::Fsync::new(Fd(handle.raw)).flags(flags).build())
        }
        Op::Statx { dir, path, flags, mask, out } => {
            let entry =
                opcode::Statx::new(Fd(dir), path, out.cast()).flags(flags).mask(mask).build();
            (opcode::Statx::CODE, entry)
        }
        Op::Splice { from, from_offset, to, to_offset, len } => {
            let entry = opcode::Splice::new(
                Fd(from.raw),
                offset(from_offset) as i64,
                Fd(to.raw),
                offset(to_offset) as i64,
                len,
            );
            let entry = entry.flags(libc::SPLICE_F_NONBLOCK).build();
            (opcode::Splice::CODE, entry)
        }
        Op::Poll { handle, interest } | Op::Again { handle, interest } => {
            (opcode::PollAdd::CODE, poll(handle.raw, interest))
        }
        // Pipes are non-blocking, so that the kernel would not wait for them: they are polled for.
        Op::Read { .. } | Op::Write { .. } | Op::ReadV { .. } | Op::WriteV { .. } => return None,
        Op::Nop
        | Op::Socket { .. }
        | Op::Bind { .. }
        | Op::Listen { .. }
        | Op::Shutdown { .. }
        | Op::GetName { .. }
        | Op::SetOpt { .. }
        | Op::GetOpt { .. }
        | Op::Close { .. }
        | Op::SendFile { .. }
        | Op::Call { .. } => return None,
    };
    ring.has(code).then_some(entry)
}

/// `O_NONBLOCK` for what the kernel would open without trying first, so that a thread of the ring waits for
/// the other end of a pipe (module `fifo`). It is taken away again by [`opened`].
const fn waits_for_nobody(flags: i32) -> i32 {
    let created = flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    if created && crate::fifo::may_wait(flags) { libc::O_NONBLOCK } else { 0 }
}

/// The ring has opened a file with these flags.
pub(super) fn opened(fd: i32, flags: i32) {
    if waits_for_nobody(flags) != 0 {
        let _ = sys::set_nonblocking(fd, false);
    }
}
