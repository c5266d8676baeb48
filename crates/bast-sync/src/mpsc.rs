//! Many senders, one receiver, with the names of [`std::sync::mpsc`]; from fibers, from plain threads and between them.
//!
//! Messages arrive in the order in which they were accepted, and those who wait are served in the order in
//! which they came.
//!
//! # Differences from std
//! * A sender or receiver that is to wait parks its fiber; on a plain thread it blocks the thread.
//! * Everything that may wait is a suspension point. A message is not lost by a cancellation or timeout unless its
//!   own `send` unwinds: that drops it. What a receiver has been given it returns, and the next suspension point unwinds.
//! * [`select`](mod@crate::select) waits for several.
//!
//! ```
//! use bast_sync::mpsc;
//!
//! let (tx, rx) = mpsc::channel();
//! for id in 0..3 {
//!     let tx = tx.clone();
//!     bast_rt::spawn(move || tx.send(id).unwrap());
//! }
//! drop(tx);
//! let mut got: Vec<u32> = rx.iter().collect();
//! got.sort();
//! assert_eq!(got, [0, 1, 2]);
//! ```

// The single receiver of an unbounded channel takes all that is queued in one locked step, by swapping the
// queue with an empty buffer of its own, and serves itself from there: then a message costs about one
// atomic read-modify-write in all. With a bound that would hide what still counts, so there each is taken
// singly. A waiting receiver has an empty buffer and gets its message in its slot.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use bast_rt::Instant;

use crate::channel::{Channel, Unreceived, Unsent};
use crate::pace::Pace;
use crate::select::{Receiving, Recv, Sending};

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// Same as [`std::sync::mpsc::channel`].
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = Channel::new(None);
    let receiver = Receiver::new(Arc::clone(&channel));
    (Sender { channel, pace: Pace::new() }, receiver)
}

/// Same as [`std::sync::mpsc::sync_channel`]: holds `bound` messages; with 0 each `send` waits for its receiver.
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let channel = Channel::new(Some(bound));
    let receiver = Receiver::new(Arc::clone(&channel));
    (SyncSender { channel, pace: Pace::new() }, receiver)
}

/// Same as [`std::sync::mpsc::Sender`].
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
    pace: Pace,
}

impl<T> Sender<T> {
    /// Same as [`std::sync::mpsc::Sender::send`]: never waits, but for its turn if it sends on and on.
    ///
    /// # Errors
    /// The message, if the receiver has gone.
    ///
    /// # Cancellation
    /// A suspension point now and then. If it unwinds the message has not been sent, and is dropped.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.pace.step();
        self.channel.try_send(message).map_err(unsent)
    }
}

/// Same as [`std::sync::mpsc::SyncSender`].
pub struct SyncSender<T> {
    channel: Arc<Channel<T>>,
    pace: Pace,
}

impl<T> SyncSender<T> {
    /// Same as [`std::sync::mpsc::SyncSender::send`]: waits until there is room, with a bound of 0 until
    /// the message has been received.
    ///
    /// # Errors
    /// The message, if the receiver has gone.
    ///
    /// # Cancellation
    /// A suspension point. If it unwinds the message has not been sent, and is dropped.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.pace.step();
        self.channel.send(message, || None).map_err(unsent)
    }

    /// Same as [`std::sync::mpsc::SyncSender::try_send`].
    ///
    /// # Errors
    /// The message, if there is no room (with a bound of 0: no receiver that waits), or the receiver has gone.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.pace.step_quietly();
        self.channel.try_send(message).map_err(not_now)
    }
}

/// What the receiver has fetched from the queue. Borrowed for a few instructions at a time, in which no
/// code of the user's runs and nothing suspends.
pub(crate) struct Buffer<T>(UnsafeCell<VecDeque<T>>);

impl<T> Buffer<T> {
    #[inline]
    pub(crate) fn pop(&self) -> Option<T> {
        // SAFETY: not Sync, and nobody else on this thread borrows it now (see the type).
        unsafe { &mut *self.0.get() }.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: as above.
        unsafe { &*self.0.get() }.is_empty()
    }

    /// Takes a message from the channel, and from an unbounded one all others as well. The buffer is empty.
    #[inline]
    pub(crate) fn fetch(&self, channel: &Channel<T>) -> Result<T, Unreceived> {
        // SAFETY: as above; `fetch` runs no code of the user's.
        channel.fetch(unsafe { &mut *self.0.get() })
    }
}

/// Same as [`std::sync::mpsc::Receiver`].
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    buffer: Buffer<T>,
    pace: Pace,
}

impl<T> Receiver<T> {
    fn new(channel: Arc<Channel<T>>) -> Receiver<T> {
        Receiver { channel, buffer: Buffer(UnsafeCell::new(VecDeque::new())), pace: Pace::new() }
    }

    #[inline(always)]
    fn take(&self) -> Result<T, Unreceived> {
        match self.buffer.pop() {
            Some(message) => Ok(message),
            None => self.buffer.fetch(&self.channel),
        }
    }

    #[inline(always)]
    fn recv_until(&self, deadline: impl FnOnce() -> Option<Instant>) -> Result<T, Unreceived> {
        self.pace.step();
        match self.take() {
            Err(Unreceived::Empty) => self.channel.recv_later(deadline()),
            done => done,
        }
    }

    /// Same as [`std::sync::mpsc::Receiver::try_recv`].
    ///
    /// # Errors
    /// There is no message; and if there are no senders there will be none.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.pace.step_quietly();
        self.take().map_err(nothing)
    }

    /// Same as [`std::sync::mpsc::Receiver::recv`].
    ///
    /// # Errors
    /// There is no message, and no sender.
    ///
    /// # Cancellation
    /// A suspension point. If it unwinds no message has been received.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_until(|| None).map_err(|_| RecvError)
    }

    /// Same as [`std::sync::mpsc::Receiver::recv_timeout`]. A timeout beyond the clock's range is none.
    ///
    /// # Errors
    /// There was no message in time, or there is no message, and no sender.
    ///
    /// # Cancellation
    /// As [`recv`](Receiver::recv).
    #[inline]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(|| Instant::now().checked_add(timeout)).map_err(nothing_yet)
    }

    /// As [`recv_timeout`](Receiver::recv_timeout), until a moment.
    ///
    /// # Errors
    /// As [`recv_timeout`](Receiver::recv_timeout).
    ///
    /// # Cancellation
    /// As [`recv`](Receiver::recv).
    #[inline]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_until(|| Some(deadline)).map_err(nothing_yet)
    }

    /// Same as [`std::sync::mpsc::Receiver::iter`].
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Same as [`std::sync::mpsc::Receiver::try_iter`].
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

// The errors, as std names them.

pub(crate) fn unsent<T>(why: Unsent<T>) -> SendError<T> {
    match why {
        Unsent::Closed(message) | Unsent::Full(message) => SendError(message),
    }
}

pub(crate) fn not_now<T>(why: Unsent<T>) -> TrySendError<T> {
    match why {
        Unsent::Closed(message) => TrySendError::Disconnected(message),
        Unsent::Full(message) => TrySendError::Full(message),
    }
}

pub(crate) fn nothing(why: Unreceived) -> TryRecvError {
    match why {
        Unreceived::Closed => TryRecvError::Disconnected,
        Unreceived::Empty => TryRecvError::Empty,
    }
}

pub(crate) fn nothing_yet(why: Unreceived) -> RecvTimeoutError {
    match why {
        Unreceived::Closed => RecvTimeoutError::Disconnected,
        Unreceived::Empty => RecvTimeoutError::Timeout,
    }
}

crate::iterators::iterators!(
    "Same as [`std::sync::mpsc::Iter`].",
    "Same as [`std::sync::mpsc::TryIter`].",
    "Same as [`std::sync::mpsc::IntoIter`]."
);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.channel.add_sender();
        Sender { channel: Arc::clone(&self.channel), pace: Pace::new() }
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> SyncSender<T> {
        self.channel.add_sender();
        SyncSender { channel: Arc::clone(&self.channel), pace: Pace::new() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.channel.remove_sender();
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        self.channel.remove_sender();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.remove_receiver();
    }
}

impl<T> Sending for Sender<T> {
    type Message = T;

    #[allow(private_interfaces)]
    fn channel(&self) -> &Channel<T> {
        &self.channel
    }
}

impl<T> Sending for SyncSender<T> {
    type Message = T;

    #[allow(private_interfaces)]
    fn channel(&self) -> &Channel<T> {
        &self.channel
    }
}

impl<T> Receiving for Receiver<T> {
    type Message = T;

    fn event(&self) -> Recv<'_, T> {
        Recv::new(&self.channel, Some(&self.buffer))
    }
}

// A panic leaves no channel in between: as std.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for SyncSender<T> {}
impl<T> RefUnwindSafe for SyncSender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
