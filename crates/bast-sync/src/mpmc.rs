//! Many senders, many receivers, with the names of the (unstable) `std::sync::mpmc`; from fibers, from plain threads and
//! between them.
//!
//! Each message goes to one receiver. Messages leave in the order in which they were accepted, and
//! those who wait are served in the order in which they came.
//!
//! # Differences from std
//! As of [`mpsc`](crate::mpsc).
//!
//! ```
//! use bast_sync::mpmc;
//!
//! let (jobs, queue) = mpmc::sync_channel::<u64>(4);
//! let workers: Vec<_> = (0..3)
//!     .map(|_| {
//!         let queue = queue.clone();
//!         bast_rt::spawn(move || queue.iter().sum::<u64>())
//!     })
//!     .collect();
//! (1..=100).for_each(|job| jobs.send(job).unwrap());
//! drop(jobs);
//! let sum: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
//! assert_eq!(sum, 5050);
//! ```

use std::fmt;
use std::iter::FusedIterator;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use bast_rt::Instant;

use crate::channel::{Channel, Unsent};
use crate::mpsc::{not_now, nothing, nothing_yet, unsent};
use crate::pace::Pace;
use crate::select::{Receiving, Recv, Sending};

pub use crate::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// A channel that takes any number of messages.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    pair(Channel::new(None))
}

/// A channel that holds `bound` messages; with 0 each `send` waits for its receiver.
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    pair(Channel::new(Some(bound)))
}

fn pair<T>(channel: Arc<Channel<T>>) -> (Sender<T>, Receiver<T>) {
    let sender = Sender { channel: Arc::clone(&channel), pace: Pace::new() };
    (sender, Receiver { channel, pace: Pace::new() })
}

/// Why [`Sender::send_timeout`] has not sent its message, which it gives back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room in time.
    Timeout(T),
    /// All receivers have gone.
    Disconnected(T),
}

/// The sending side.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
    pace: Pace,
}

impl<T> Sender<T> {
    /// Sends if there is room, and with a bound of 0 if a receiver waits.
    ///
    /// # Errors
    /// The message, if not, or if all receivers have gone.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.pace.step_quietly();
        self.channel.try_send(message).map_err(not_now)
    }

    /// Sends, waiting for room; with a bound of 0 until the message has been received.
    ///
    /// # Errors
    /// The message, if all receivers have gone.
    ///
    /// # Cancellation
    /// A suspension point. If it unwinds the message has not been sent, and is dropped.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.pace.step();
        self.channel.send(message, || None).map_err(unsent)
    }

    /// As [`send`](Sender::send), for `timeout` at most. One beyond the clock's range is none.
    ///
    /// # Errors
    /// The message, if there was no room in time, or all receivers have gone.
    ///
    /// # Cancellation
    /// As [`send`](Sender::send).
    #[inline]
    pub fn send_timeout(&self, message: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(message, || Instant::now().checked_add(timeout))
    }

    /// As [`send`](Sender::send), until `deadline` at the latest.
    ///
    /// # Errors
    /// As [`send_timeout`](Sender::send_timeout).
    ///
    /// # Cancellation
    /// As [`send`](Sender::send).
    #[inline]
    pub fn send_deadline(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_until(message, || Some(deadline))
    }

    fn send_until(
        &self,
        message: T,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<(), SendTimeoutError<T>> {
        self.pace.step();
        self.channel.send(message, deadline).map_err(|unsent| match unsent {
            Unsent::Closed(message) => SendTimeoutError::Disconnected(message),
            Unsent::Full(message) => SendTimeoutError::Timeout(message),
        })
    }
}

/// The receiving side.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
    pace: Pace,
}

impl<T> Receiver<T> {
    /// Receives a message if there is one.
    ///
    /// # Errors
    /// There is no message; and if there are no senders there will be none.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.pace.step_quietly();
        self.channel.try_recv().map_err(nothing)
    }

    /// Receives a message, waiting for it.
    ///
    /// # Errors
    /// There is no message, and no sender.
    ///
    /// # Cancellation
    /// A suspension point. If it unwinds no message has been received.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.pace.step();
        self.channel.recv(|| None).map_err(|_| RecvError)
    }

    /// As [`recv`](Receiver::recv), for `timeout` at most. One beyond the clock's range is none.
    ///
    /// # Errors
    /// There was no message in time, or there is no message, and no sender.
    ///
    /// # Cancellation
    /// As [`recv`](Receiver::recv).
    #[inline]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.pace.step();
        self.channel.recv(|| Instant::now().checked_add(timeout)).map_err(nothing_yet)
    }

    /// As [`recv`](Receiver::recv), until `deadline` at the latest.
    ///
    /// # Errors
    /// As [`recv_timeout`](Receiver::recv_timeout).
    ///
    /// # Cancellation
    /// As [`recv`](Receiver::recv).
    #[inline]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.pace.step();
        self.channel.recv(|| Some(deadline)).map_err(nothing_yet)
    }

    /// Receives until all senders have gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Receives what is there, without waiting.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

/// What both sides can be asked.
macro_rules! questions {
    ($side:ident) => {
        impl<T> $side<T> {
            /// Whether no message is queued. Always true with a bound of 0.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.channel.lock().queue.is_empty()
            }

            /// Whether there is no room. Always true with a bound of 0.
            #[must_use]
            pub fn is_full(&self) -> bool {
                self.channel.lock().is_full()
            }

            /// How many messages are queued.
            #[must_use]
            pub fn len(&self) -> usize {
                self.channel.lock().queue.len()
            }

            /// The bound, if there is one.
            #[must_use]
            pub fn capacity(&self) -> Option<usize> {
                self.channel.lock().capacity()
            }

            /// Whether both belong to one channel.
            #[must_use]
            pub fn same_channel(&self, other: &$side<T>) -> bool {
                Arc::ptr_eq(&self.channel, &other.channel)
            }
        }

        impl<T> UnwindSafe for $side<T> {}
        impl<T> RefUnwindSafe for $side<T> {}

        impl<T> fmt::Debug for $side<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($side)).finish_non_exhaustive()
            }
        }
    };
}
questions!(Sender);
questions!(Receiver);

crate::iterators::iterators!(
    "See [`Receiver::iter`].",
    "See [`Receiver::try_iter`].",
    "An iterator that owns its receiver."
);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.channel.add_sender();
        Sender { channel: Arc::clone(&self.channel), pace: Pace::new() }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.channel.add_receiver();
        Receiver { channel: Arc::clone(&self.channel), pace: Pace::new() }
    }
}

impl<T> Drop for Sender<T> {
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

impl<T> Receiving for Receiver<T> {
    type Message = T;

    fn event(&self) -> Recv<'_, T> {
        Recv::new(&self.channel, None)
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting on send operation",
            SendTimeoutError::Disconnected(_) => "sending on a disconnected channel",
        })
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}
