//! Handles: descriptors with an identity. (A descriptor is what the system calls so; on Windows a handle or a socket.)
//!
//! The kernel reuses descriptor numbers at once; a driver's notes about a descriptor ("registered",
//! "nothing to read") must not survive it. Each [`Handle`] therefore carries an id that is never used
//! twice in a process, and a driver trusts what it noted under a number only if the id still agrees.

#[cfg_attr(windows, path = "handle/windows.rs")]
#[cfg_attr(unix, path = "handle/unix.rs")]
mod own;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::c;

pub use self::own::{BorrowedSocket, Owned};

/// A descriptor's number. (Windows' handles and sockets have 32 significant bits.)
pub type Raw = i32;

/// What a driver has to know about a descriptor before it uses it.
///
/// The modes are those of Unix. On Windows every socket of ours is non-blocking, and operations wait all the same;
/// files and pipes are synchronous or overlapped, as they were opened, and both will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connected or connecting TCP stream. In blocking mode; non-blocking calls say so per call.
    Stream,
    /// A listening socket. In non-blocking mode: `accept` has no per-call flag.
    Listener,
    /// Any other socket: datagram, sequenced packets, a local (`AF_UNIX`) stream. In blocking mode.
    /// (Not `Stream`, as a short read of these does not mean that nothing more is there.)
    Datagram,
    /// A pipe, terminal, eventfd, …: pollable, in non-blocking mode unless `foreign`.
    Pipe,
    /// A regular file, directory or block device: never "not ready", may wait for the disk.
    File,
    /// Somebody else's descriptor (on Windows: socket), mode unknown: only [`Op::Poll`](crate::Op::Poll) is asked of
    /// it.
    Foreign,
}

impl Kind {
    /// What [`Op::Open`](crate::Op::Open) needs among its flags to give a descriptor of this kind.
    #[must_use]
    pub const fn open_flags(self) -> i32 {
        match self {
            Kind::Pipe => c::O_NONBLOCK,
            _ => 0,
        }
    }
}

/// A borrowed handle as an [`Op`](crate::Op) carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleRef {
    pub(crate) raw: Raw,
    pub(crate) kind: Kind,
    pub(crate) id: u64,
}

impl HandleRef {
    /// The descriptor's number.
    #[must_use]
    pub const fn raw(&self) -> Raw {
        self.raw
    }

    /// The descriptor's kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The identity: unique in this process, 0 for foreign descriptors.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }
}

/// The first number of the simulator's descriptors. They lie above what any kernel hands out
/// (`fs.nr_open` is at most 2^30), so that neither is ever mistaken for the other.
pub const SIM_BASE: Raw = 1 << 30;

/// An owned descriptor. Dropping it closes it.
///
/// Rust's borrows see to contract io 6 for a handle that is used through references: an operation
/// borrows the handle until it has completed, so it cannot be dropped under one.
#[derive(Debug)]
pub struct Handle {
    raw: Raw,
    kind: Kind,
    id: u64,
}

impl Handle {
    /// Takes ownership of a raw descriptor that an operation yielded, or that another library gave
    /// up. The descriptor must be in the mode that its [`Kind`] says.
    ///
    /// # Safety
    /// Nobody else owns `raw`.
    #[must_use]
    pub unsafe fn from_raw(raw: Raw, kind: Kind) -> Handle {
        // Relaxed: only uniqueness matters, no memory is published through the counter.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Handle { raw, kind, id: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// The handle as operations carry it. It must not be used after the handle is closed.
    #[must_use]
    pub const fn as_ref(&self) -> HandleRef {
        HandleRef { raw: self.raw, kind: self.kind, id: self.id }
    }

    /// The same descriptor under another kind (a socket that became a listener). It gets a new
    /// identity, as its mode changed.
    #[must_use]
    pub fn into_kind(self, kind: Kind) -> Handle {
        // SAFETY: `into_raw` gave up ownership.
        unsafe { Handle::from_raw(self.into_raw(), kind) }
    }

    /// Whether this is one of the simulator's descriptors.
    #[must_use]
    pub const fn is_simulated(&self) -> bool {
        self.raw >= SIM_BASE
    }

    /// The number.
    #[must_use]
    pub const fn raw(&self) -> Raw {
        self.raw
    }

    /// Gives up ownership without closing.
    #[must_use]
    pub fn into_raw(self) -> Raw {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = crate::driver::close_raw(self.raw);
    }
}
