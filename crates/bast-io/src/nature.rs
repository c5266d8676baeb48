//! What kind of thing an operation is: what it waits for, and how it may be tried.
//!
//! The drivers differ in how they wait; the questions they ask about an operation are the same, and
//! are answered here once.

#[cfg(unix)]
use crate::Outcome;
use crate::op::Interest;
use crate::sys::c;
use crate::{HandleRef, Kind, Op, Stat, sys};

impl HandleRef {
    /// Whether it is asked by `recv` and `send`, which know `MSG_DONTWAIT`.
    pub(crate) const fn is_socket(&self) -> bool {
        matches!(self.kind, Kind::Stream | Kind::Listener | Kind::Datagram)
    }
}

impl Op {
    /// What a socket or pipe operation waits for when it cannot proceed; `None` for those that do not
    /// wait for a peer, and for `Splice`, which may wait for either end.
    pub(crate) const fn waits_for(&self) -> Option<(HandleRef, Interest)> {
        match *self {
            Op::Accept { handle, .. } | Op::Recv { handle, .. } | Op::RecvMsg { handle, .. } => {
                Some((handle, Interest::Readable))
            }
            Op::Connect { handle, .. } | Op::Send { handle, .. } | Op::SendMsg { handle, .. } => {
                Some((handle, Interest::Writable))
            }
            Op::Read { handle, .. } | Op::ReadV { handle, .. } => match handle.kind {
                Kind::File => None,
                _ => Some((handle, Interest::Readable)),
            },
            Op::Write { handle, .. } | Op::WriteV { handle, .. } => match handle.kind {
                Kind::File => None,
                _ => Some((handle, Interest::Writable)),
            },
            Op::Poll { handle, interest } | Op::Again { handle, interest } => {
                Some((handle, interest))
            }
            Op::SendFile { to, .. } => Some((to, Interest::Writable)),
            #[cfg(windows)]
            Op::Overlapped { .. } => None,
            Op::Nop
            | Op::Socket { .. }
            | Op::Bind { .. }
            | Op::Listen { .. }
            | Op::Shutdown { .. }
            | Op::GetName { .. }
            | Op::SetOpt { .. }
            | Op::GetOpt { .. }
            | Op::Open { .. }
            | Op::Close { .. }
            | Op::Fsync { .. }
            | Op::Statx { .. }
            | Op::Splice { .. }
            | Op::Call { .. } => None,
        }
    }

    /// For a write to a file at its own position: the descriptor, and how much is to be written.
    ///
    /// # Safety
    /// Contract io 1.
    #[cfg(unix)]
    pub(crate) unsafe fn moves_position(&self) -> Option<(i32, usize)> {
        match *self {
            Op::Write { handle, len, offset: None, .. } if handle.kind == Kind::File => {
                Some((handle.raw, len))
            }
            Op::WriteV { handle, iov, count, offset: None } if handle.kind == Kind::File => {
                // SAFETY: io 1: the list is there, and as long.
                let pieces = unsafe { std::slice::from_raw_parts(iov, count as usize) };
                Some((handle.raw, pieces.iter().map(|piece| piece.iov_len).sum()))
            }
            _ => None,
        }
    }

    /// Whether every driver does this on the spot: it waits neither for a peer nor for a disk.
    pub(crate) const fn is_immediate(&self) -> bool {
        matches!(
            self,
            Op::Statx { flags: Stat::KNOWN, .. }
                | Op::Nop
                | Op::Socket { .. }
                | Op::Bind { .. }
                | Op::Listen { .. }
                | Op::Shutdown { .. }
                | Op::GetName { .. }
                | Op::SetOpt { .. }
                | Op::GetOpt { .. }
                | Op::Close { .. }
        )
    }

    /// Whether the caller itself asked for `EAGAIN` instead of a wait.
    pub(crate) const fn is_dontwait(&self) -> bool {
        match *self {
            Op::Recv { flags, .. }
            | Op::Send { flags, .. }
            | Op::RecvMsg { flags, .. }
            | Op::SendMsg { flags, .. } => flags & c::MSG_DONTWAIT != 0,
            _ => false,
        }
    }

    /// Whether it waits for readiness first and is tried only then.
    pub(crate) const fn is_gated(&self) -> bool {
        matches!(self, Op::Splice { .. } | Op::SendFile { .. } | Op::Poll { .. } | Op::Again { .. })
    }

    /// Whether `outcome` shows that a stream has no more to read, or no more room (the argument is in
    /// `driver/readiness/table.rs`).
    #[cfg(unix)]
    pub(crate) const fn exhausted(&self, outcome: Outcome) -> bool {
        let (handle, len) = match *self {
            Op::Recv { handle, len, flags: 0, .. } | Op::Send { handle, len, flags: 0, .. } => {
                (handle, len)
            }
            Op::Read { handle, len, .. } | Op::Write { handle, len, .. } => (handle, len),
            _ => return false,
        };
        matches!(handle.kind, Kind::Stream) && outcome.0 > 0 && (outcome.0 as usize) < len
    }

    /// Whether it proceeds whenever its descriptor has data or room, so that one such operation's
    /// EAGAIN speaks for all.
    #[cfg(unix)]
    pub(crate) const fn is_plain(&self) -> bool {
        match *self {
            Op::Recv { flags, .. }
            | Op::Send { flags, .. }
            | Op::RecvMsg { flags, .. }
            | Op::SendMsg { flags, .. } => flags == 0,
            Op::Accept { .. }
            | Op::Read { .. }
            | Op::Write { .. }
            | Op::ReadV { .. }
            | Op::WriteV { .. } => true,
            _ => false,
        }
    }

    /// Sets the descriptors non-blocking that `splice` and `sendfile` must not wait for. They stay
    /// so: clearing the mode again would race with another such operation. It is done for each call, as the mode is
    /// the open file's: somebody may have set it through a clone.
    pub(crate) fn unblock_ends(&self) {
        let ends = match *self {
            Op::Splice { from, to, .. } => [Some(from), Some(to)],
            Op::SendFile { to, .. } => [Some(to), None],
            _ => return,
        };
        for end in ends.into_iter().flatten() {
            if end.is_socket() {
                let _ = sys::set_nonblocking(end.raw, true);
            }
        }
    }

    /// The ends of a splice and what is needed of each, files left out.
    pub(crate) fn gates(&self) -> [Option<(HandleRef, Interest)>; 2] {
        match *self {
            Op::Splice { from, to, .. } => [
                (from.kind != Kind::File).then_some((from, Interest::Readable)),
                (to.kind != Kind::File).then_some((to, Interest::Writable)),
            ],
            _ => [self.waits_for(), None],
        }
    }
}
