//! Many datagrams at once. The kernel is called without waiting, and in between the fiber waits for readiness (why,
//! says `bast_io::batch`):
//!
//! ```text
//!   call ──n──▶ done               call ──n──▶ all? done
//!    ▲  ╰EAGAIN▶ poll: readable     ▲  ╰EAGAIN▶ poll: writable
//!    ╰──────────────╯               ╰──────────────╯
//! ```
//!
//! On the simulator each message is an operation. The first receive waits, the others take what is there.

use std::io;
use std::time::Duration;

use bast_io::batch::{RecvBatch, SendBatch, Transmit};
use bast_io::{Handle, Interest, Op, Outcome};

use super::{DONT_WAIT, poll, waiting};
use crate::{Instant, wait};

/// How long a call may wait: the moment is fixed when it begins.
struct Patience {
    /// Not at all.
    none: bool,
    until: Option<Instant>,
}

impl Patience {
    fn new(flags: i32, timeout: Option<Duration>) -> Patience {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Patience { none: flags & DONT_WAIT != 0, until }
    }

    /// Waits until `handle` is ready; `OVERDUE` when the time is up, `EAGAIN` if there is none.
    fn wait(&self, handle: &Handle, interest: Interest) -> io::Result<()> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if self.none {
            return Outcome::WOULD_BLOCK.into_result().map(drop);
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Outcome::OVERDUE.into_result().map(drop);
        }
        match poll(handle, interest, left) {
            // The next round says so, or finds that something has come at the last moment.
            Err(_) if self.until.is_some_and(|until| until <= Instant::now()) => Ok(()),
            result => result,
        }
    }
}

/// Waits for a datagram, and takes all that are there and fit into `batch`: how many.
///
/// # Errors
/// The kernel's; `OVERDUE` when the time is up.
pub fn recv_many(
    handle: &Handle,
    batch: &mut RecvBatch,
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    wait::check();
    batch.clear();
    if handle.is_simulated() {
        return recv_each(handle, batch, flags, timeout);
    }
    let patience = Patience::new(flags, timeout);
    loop {
        match batch.recv_now(handle) {
            Outcome::WOULD_BLOCK => patience.wait(handle, Interest::Readable)?,
            outcome => {
                wait::spend();
                return outcome.into_result().map(|_| batch.len());
            }
        }
    }
}

/// [`recv_many`] on the simulator.
fn recv_each(
    handle: &Handle,
    batch: &mut RecvBatch,
    mut flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    while let Some(msg) = batch.next_header() {
        let op = Op::RecvMsg { handle: handle.as_ref(), msg, flags };
        // SAFETY: rt 5: the header names memory of the batch, which is borrowed until the operation is over.
        match unsafe { waiting(op, timeout) } {
            Ok(n) => batch.push(n),
            Err(error) if batch.is_empty() => return Err(error),
            Err(_) => break,
        }
        flags |= DONT_WAIT;
    }
    Ok(batch.len())
}

/// Sends all of `transmits` in order, and waits for room meanwhile. How many datagrams were sent: less than all if an
/// error or the time stopped it after the first.
///
/// # Errors
/// The kernel's, of the first datagram; `OVERDUE` when the time is up and none was sent; `InvalidInput` if a
/// `segment_size` is 0.
pub fn send_many(
    handle: &Handle,
    transmits: &[Transmit<'_>],
    flags: i32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    wait::check();
    if transmits.iter().any(|transmit| transmit.segment_size == Some(0)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a segment_size of 0"));
    }
    let patience = Patience::new(flags, timeout);
    let mut batch = SendBatch::new(transmits, handle);
    let mut sent = 0;
    while !batch.is_done() {
        let outcome = if handle.is_simulated() {
            send_one(handle, &mut batch)
        } else {
            batch.send_now(handle)
        };
        let stopped = match outcome {
            Outcome::WOULD_BLOCK => patience.wait(handle, Interest::Writable),
            outcome => match outcome.into_result() {
                Ok(messages) => {
                    sent += batch.sent(messages);
                    wait::spend();
                    Ok(())
                }
                Err(_) if batch.refused(outcome) => Ok(()),
                Err(error) => Err(error),
            },
        };
        match stopped {
            Ok(()) => {}
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// The next message as an operation: how many were sent, 1.
fn send_one(handle: &Handle, batch: &mut SendBatch<'_>) -> Outcome {
    let Some(msg) = batch.next_header() else { return Outcome(0) };
    let op = Op::SendMsg { handle: handle.as_ref(), msg, flags: DONT_WAIT };
    // SAFETY: rt 5: the header names memory of the batch, which is borrowed until the operation is over.
    let outcome = unsafe { crate::perform(op, None) };
    if outcome.0 >= 0 { Outcome(1) } else { outcome }
}
