//! One operation as one system call, for the system at hand: the only place where that is chosen.
//!
//! Each system gives the same functions, and `c`: C's types and constants under the names that `libc` has for
//! them. Portable code says `c::` and means whichever it is.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use self::unix::c;
#[cfg(unix)]
pub(crate) use self::unix::*;
#[cfg(windows)]
pub use self::windows::c;
#[cfg(windows)]
pub(crate) use self::windows::*;

use crate::Outcome;

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Block,
    NoWait,
}

/// After a handshake: a socket's mode is again what it has between operations.
pub(crate) fn calm(fd: i32) {
    if STREAMS_BLOCK {
        let _ = set_nonblocking(fd, false);
    }
}

/// Whether an outcome says "not yet".
pub(crate) const fn would_block(outcome: Outcome) -> bool {
    outcome.is_errno(c::EAGAIN) || outcome.is_errno(c::EINPROGRESS) || outcome.is_errno(c::EALREADY)
}

/// Asks the processor for a cache line that will be used soon. Records lie on stacks that have not
/// been touched for a while, and the miss would cost more than the rest of handling a completion.
#[inline]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; any address will do.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
