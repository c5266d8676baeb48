//! The closed set of operations: what a program may ask of a kernel.
//!
//! An [`Op`] is plain data: handles by value, memory by raw pointer. It is lent to a driver inside a
//! [`Record`](crate::Record) and everything it points at stays lent until the record completes
//! (contract io 1). Each driver matches this enum exhaustively, so that a new operation is a compile
//! error in every driver until it has been thought about there.
//!
//! Cancelling is a request to the driver ([`Driver::cancel`](crate::Driver::cancel)), not an
//! operation: it has no completion of its own.

use crate::addr::SockAddr;
use crate::handle::HandleRef;
use crate::sys::c;

/// A socket option, by its name in `setsockopt(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SockOpt {
    /// `SOL_SOCKET`, `IPPROTO_TCP`, …
    pub level: i32,
    /// `SO_REUSEADDR`, `TCP_NODELAY`, …
    pub name: i32,
}

/// Which readiness [`Op::Poll`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, end of stream, or an error.
    Readable,
    /// Room to write, or an error.
    Writable,
}

/// The half of a connection that [`Op::Shutdown`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Further reads see the end of the stream.
    Read,
    /// The peer sees the end of the stream.
    Write,
    /// Both.
    Both,
}

/// One operation. The result of each is an [`Outcome`](crate::Outcome): the number that its system
/// call returns, or the error. Fields are named as the call's manual page names its arguments, and calls as Unix names
/// them; on Windows each is the call that does the same. Close-on-exec is there: not inherited.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Op {
    /// Completes with 0.
    Nop,

    // ---- sockets: made and set up (at once on a readiness driver) ----
    /// Makes a socket. Completes with the new handle.
    Socket { domain: i32, kind: i32, protocol: i32 },
    /// Gives the socket a local address.
    Bind { handle: HandleRef, addr: *const SockAddr },
    /// Makes the socket a listener.
    Listen { handle: HandleRef, backlog: i32 },
    /// Ends one half of a connection or both.
    Shutdown { handle: HandleRef, how: Half },
    /// Writes the local (`peer: false`) or remote address to `addr`.
    GetName { handle: HandleRef, peer: bool, addr: *mut SockAddr },
    /// `setsockopt` with the `len` bytes at `value`.
    SetOpt { handle: HandleRef, opt: SockOpt, value: *const u8, len: u32 },
    /// `getsockopt` into the `*len` bytes at `value`; `*len` is what was written.
    GetOpt { handle: HandleRef, opt: SockOpt, value: *mut u8, len: *mut u32 },

    // ---- sockets: what waits ----
    /// Takes a connection; the peer's address goes to `addr` (null: not wanted). Completes with the
    /// new handle, close-on-exec.
    Accept { handle: HandleRef, addr: *mut SockAddr },
    /// Connects the socket. Completes when the handshake has ended either way.
    Connect { handle: HandleRef, addr: *const SockAddr },
    /// `recv` with `flags` (`MSG_PEEK`, …).
    Recv { handle: HandleRef, buf: *mut u8, len: usize, flags: i32 },
    /// `send` with `flags`; never raises SIGPIPE. May send less than `len`.
    Send { handle: HandleRef, buf: *const u8, len: usize, flags: i32 },
    /// `recvmsg`: vectored, with source address and control data.
    RecvMsg { handle: HandleRef, msg: *mut c::msghdr, flags: i32 },
    /// `sendmsg`: vectored, with destination address and control data; never raises SIGPIPE.
    SendMsg { handle: HandleRef, msg: *const c::msghdr, flags: i32 },

    // ---- files, pipes and everything else with a descriptor ----
    /// Reads at `offset`; `None` reads at the handle's own position (pipes, terminals, sequential
    /// files).
    Read { handle: HandleRef, buf: *mut u8, len: usize, offset: Option<u64> },
    /// Writes at `offset`, or at the handle's own position.
    Write { handle: HandleRef, buf: *const u8, len: usize, offset: Option<u64> },
    /// Vectored [`Op::Read`].
    ReadV { handle: HandleRef, iov: *const c::iovec, count: u32, offset: Option<u64> },
    /// Vectored [`Op::Write`].
    WriteV { handle: HandleRef, iov: *const c::iovec, count: u32, offset: Option<u64> },
    /// Opens the NUL-terminated `path` relative to the working directory, close-on-exec. Completes
    /// with the new handle. (On Windows the path is WTF-8, and the upper half of `mode` is `FILE_FLAG_…`.)
    Open { path: *const c::c_char, flags: i32, mode: u32 },
    /// Closes a raw descriptor whose [`Handle`](crate::Handle) was given up by `into_raw`.
    Close { fd: i32 },
    /// Flushes a file to its device; `data_only` as `fdatasync`.
    Fsync { handle: HandleRef, data_only: bool },
    /// `statx` of the NUL-terminated `path` relative to `dir` (`AT_FDCWD`, or a descriptor with
    /// `AT_EMPTY_PATH`).
    Statx { dir: i32, path: *const c::c_char, flags: i32, mask: u32, out: *mut c::statx },
    /// Moves bytes between two handles of which one is a pipe; `None` offsets use the handle's own
    /// position. (`EINVAL` on Windows, whose kernel does not do it.)
    Splice {
        from: HandleRef,
        from_offset: Option<u64>,
        to: HandleRef,
        to_offset: Option<u64>,
        len: u32,
    },
    /// `sendfile` from a file at `offset` to a socket. At the end of the file it completes with 0 whether there is
    /// room or not.
    SendFile { to: HandleRef, file: HandleRef, offset: u64, len: usize },
    /// Completes with 0 when the handle is ready (the thesis' `threadWaitRead` / `threadWaitWrite`).
    /// Moves no data. (On Windows also when an object is signalled; `EOPNOTSUPP` for a pipe with a synchronous handle.)
    Poll { handle: HandleRef, interest: Interest },
    /// As [`Op::Poll`], for a caller that tries again ([`Driver::attempt`](crate::Driver::attempt)) and to whom a false
    /// alarm costs no more than time: so the driver need not ask the kernel about what it knows.
    Again { handle: HandleRef, interest: Interest },

    /// Calls `start(data, overlapped)`, which starts an overlapped call on `handle` and returns 0 or the code of its
    /// error, [`PENDING`](crate::sys::c::PENDING) among them. Completes with the bytes moved when that call has ended.
    /// `hEvent` in the `OVERLAPPED` stays as it is.
    #[cfg(windows)]
    Overlapped {
        handle: HandleRef,
        start: unsafe extern "C" fn(*mut (), *mut c::c_void) -> i32,
        data: *mut (),
    },

    // ---- what no kernel does asynchronously ----
    /// Runs `call(data)` on the blocking pool. Completes with what it returns (`-errno` for an
    /// error). Not cancellable once it runs. If it is `interruptible`, cancelling makes the system call
    /// that it is in fail with `EINTR` (on Windows with `ERROR_OPERATION_ABORTED`, if it is one on a synchronous
    /// handle); as there may be none yet, this is to be repeated until the operation has completed. If it is
    /// `limited` and the pool's queue is full it completes with `EBUSY`, and has not run.
    Call { call: unsafe fn(*mut ()) -> i32, data: *mut (), interruptible: bool, limited: bool },
}

impl Op {
    /// Whether a successful outcome is a descriptor that somebody has to own.
    #[must_use]
    pub const fn yields_handle(&self) -> bool {
        matches!(self, Op::Socket { .. } | Op::Accept { .. } | Op::Open { .. })
    }

    /// What it is called, for people who look at what waits.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Op::Nop => "nothing",
            Op::Socket { .. } => "socket",
            Op::Bind { .. } => "bind",
            Op::Listen { .. } => "listen",
            Op::Shutdown { .. } => "shutdown",
            Op::GetName { .. } => "getsockname",
            Op::SetOpt { .. } => "setsockopt",
            Op::GetOpt { .. } => "getsockopt",
            Op::Accept { .. } => "accept",
            Op::Connect { .. } => "connect",
            Op::Recv { .. } | Op::RecvMsg { .. } => "recv",
            Op::Send { .. } | Op::SendMsg { .. } => "send",
            Op::Read { .. } | Op::ReadV { .. } => "read",
            Op::Write { .. } | Op::WriteV { .. } => "write",
            Op::Open { .. } => "open",
            Op::Close { .. } => "close",
            Op::Fsync { .. } => "fsync",
            Op::Statx { .. } => "stat",
            Op::Splice { .. } => "splice",
            Op::SendFile { .. } => "sendfile",
            Op::Poll { interest: Interest::Readable, .. }
            | Op::Again { interest: Interest::Readable, .. } => "wait until readable",
            Op::Poll { interest: Interest::Writable, .. }
            | Op::Again { interest: Interest::Writable, .. } => "wait until writable",
            #[cfg(windows)]
            Op::Overlapped { .. } => "an overlapped call",
            Op::Call { .. } => "a blocking call",
        }
    }

    /// The descriptor that it is about, if there is one: where two are, the one that may have to wait.
    #[must_use]
    pub const fn descriptor(&self) -> Option<i32> {
        match self {
            Op::Bind { handle, .. }
            | Op::Listen { handle, .. }
            | Op::Shutdown { handle, .. }
            | Op::GetName { handle, .. }
            | Op::SetOpt { handle, .. }
            | Op::GetOpt { handle, .. }
            | Op::Accept { handle, .. }
            | Op::Connect { handle, .. }
            | Op::Recv { handle, .. }
            | Op::Send { handle, .. }
            | Op::RecvMsg { handle, .. }
            | Op::SendMsg { handle, .. }
            | Op::Read { handle, .. }
            | Op::Write { handle, .. }
            | Op::ReadV { handle, .. }
            | Op::WriteV { handle, .. }
            | Op::Fsync { handle, .. }
            | Op::Poll { handle, .. }
            | Op::Again { handle, .. }
            | Op::Splice { from: handle, .. }
            | Op::SendFile { to: handle, .. } => Some(handle.raw()),
            #[cfg(windows)]
            Op::Overlapped { handle, .. } => Some(handle.raw()),
            Op::Close { fd } => Some(*fd),
            Op::Nop | Op::Socket { .. } | Op::Open { .. } | Op::Statx { .. } | Op::Call { .. } => {
                None
            }
        }
    }
}
