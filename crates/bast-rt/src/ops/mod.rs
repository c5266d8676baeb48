//! Operations as safe functions: one for each thing that a face asks of a handle.
//!
//! [`perform`] is unsafe because an [`Op`] names memory by raw pointer. Here the memory is a borrow, and
//! a borrow lasts until the function returns, which is after the kernel has let go of it (contract rt
//! 5). So these functions are safe, and whoever builds upon them needs no `unsafe`. Everything goes
//! through operations, also what a kernel does at once, so that it works on simulated handles too.
//!
//! Each of them is a suspension point: if the fiber has been cancelled it unwinds with
//! [`Cancelled`](crate::Cancelled), after the operation has ended.
//!
//! A `timeout` gives the error that the system's socket option `SO_RCVTIMEO` gives: [`OVERDUE`](Outcome::OVERDUE). A
//! timeout of zero does not wait, and gives `EAGAIN` ([`WouldBlock`](io::ErrorKind::WouldBlock)). [`connect`] and the
//! polls differ, and say so. `None` waits for ever.
//!
//! ```text
//!   borrow ──▶ Op (raw pointers) ──▶ perform: submit, park, complete ──▶ result ──▶ borrow ends
//! ```

mod attempt;
mod batch;
mod file;
mod foreign;
mod message;
mod options;
mod socket;

use std::io;
use std::time::Duration;

use bast_io::outcome::{OF_ONE_CONNECTION, SHORTAGES};
use bast_io::{Handle, Kind, Op, Outcome};

use crate::{cancel, perform, wait};

pub use attempt::{
    try_accept, try_poll, try_read, try_read_uninit, try_read_vectored, try_recv_from, try_send_to,
    try_shutdown, try_write, try_write_vectored,
};
pub use bast_io::Stat;
pub use bast_io::addr::family;
pub use bast_io::opt::{
    BROADCAST, DATAGRAM, DONT_WAIT, JOIN_DATAGRAMS, LOCAL, MORE, NO_DELAY, ONLY_V6, PEEK,
    QUICK_ACK, REUSE_ADDR, REUSE_PORT, STREAM, TTL,
};
pub use batch::{recv_many, send_many};
pub use file::{
    close, fsync, open, open_beneath, read, read_cached, read_vectored, sendfile, splice, stat,
    stat_cached, stat_path, write, write_vectored,
};
pub use foreign::{read_foreign, write_foreign};
pub use message::{recv_from, recv_msg, send_msg, send_to};
pub use options::{
    flag, is_unknown_option, linger, option, set_flag, set_linger, set_option, set_time,
    take_error, time,
};
pub use socket::{
    accept, bind, connect, listen, local_addr, peer_addr, poll, poll_fd, recv, recv_vectored, send,
    send_vectored, shutdown, socket,
};

/// The outcome as a result. Where nothing can unwind, an operation that was given up because of a request
/// says so.
#[inline]
fn result(outcome: Outcome) -> io::Result<usize> {
    if cancel::UNWINDS || outcome.0 >= 0 {
        return outcome.into_result();
    }
    match (outcome, wait::due()) {
        (Outcome::CANCELLED | Outcome::TIMED_OUT, Some(cause)) => Err(cause.into_error()),
        _ => outcome.into_result(),
    }
}

/// Whether an error of [`accept`] says that the process or the system has run out of something. It says so at once, again
/// and again.
#[must_use]
pub fn is_shortage(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| SHORTAGES.contains(&errno))
}

/// Whether an error of [`accept`] is of the connection that it would have taken, and not the listener's.
#[must_use]
pub fn is_of_one_connection(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|errno| OF_ONE_CONNECTION.contains(&errno))
}

/// Performs `op`: for what only one system has, and no function here says.
///
/// # Errors
/// The operation's.
///
/// # Safety
/// As [`perform`].
pub unsafe fn at_once(op: Op) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    result(unsafe { perform(op, None) })
}

/// Performs `op`; `OVERDUE` if the time was up, `EAGAIN` if there was none to wait.
///
/// # Safety
/// As [`perform`].
#[inline]
unsafe fn waiting(op: Op, timeout: Option<Duration>) -> io::Result<usize> {
    match timeout {
        // SAFETY: the caller's promise.
        None => result(unsafe { perform(op, None) }),
        // SAFETY: the caller's promise.
        Some(timeout) => unsafe { limited(op, timeout) },
    }
}

/// # Safety
/// As [`perform`].
unsafe fn limited(op: Op, timeout: Duration) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    let outcome = unsafe { perform(op, Some(timeout)) };
    match result(outcome) {
        Err(error) if outcome == Outcome::TIMED_OUT && error.get_ref().is_none() => {
            if timeout.is_zero() { Outcome::WOULD_BLOCK } else { Outcome::OVERDUE }.into_result()
        }
        result => result,
    }
}

/// # Safety
/// `op` yields a handle that is in the mode that `kind` says; else as [`perform`].
unsafe fn opened(op: Op, kind: Kind, timeout: Option<Duration>) -> io::Result<Handle> {
    // SAFETY: the caller's promise.
    let raw = unsafe { waiting(op, timeout) }?;
    // SAFETY: io 2: the operation has yielded a new handle, and nobody else has heard of it. It fits:
    // it was an i32.
    Ok(unsafe { Handle::from_raw(raw as i32, kind) })
}
