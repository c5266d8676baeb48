//! A stream that a fiber fills, a bounded number of items ahead.
//!
//! ```text
//!   fiber: f(push) ── push.send(item): waits while `ahead` items are queued ──▶ channel ──▶ next
//!     └ holds a sender of its own until f has ended: so the channel's end comes after f's, and its panic is there
//! ```
//!
//! The stream's drop lets go of the receiver, cancels the fiber and joins it. So a producer that cannot unwind (inside
//! `mask`, or where nothing unwinds) ends as well: its `send` fails.

use std::any::Any;
use std::fmt;
use std::iter::FusedIterator;

use bast_rt::wait::{self, drop_quietly};
use bast_rt::{Instant, JoinHandle, spawn};

use crate::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

/// Items that a fiber makes: see [`generate`] and [`StreamExt::prefetch`](super::StreamExt::prefetch).
pub struct Stream<T> {
    /// `None` at its end. Goes before the fibers.
    receiver: Option<Receiver<T>>,
    fibers: Fibers,
}

/// Fibers of a stream.
struct Fibers(Vec<JoinHandle<()>>);

impl Fibers {
    /// Waits for those that have ended, or are about to, and returns the first's panic.
    fn join(&mut self) -> Option<Box<dyn Any + Send>> {
        let mut first = None;
        for fiber in self.0.drain(..) {
            match wait::hold(|| fiber.join()) {
                Err(payload) if first.is_none() => first = Some(payload),
                other => drop_quietly(other),
            }
        }
        first
    }
}

impl Drop for Fibers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::cancel);
        drop_quietly(self.join());
    }
}

/// The items that `f` sends, in a fiber of its own, which starts at once. `send` waits while `ahead` items are there that
/// nobody has taken; with 0, until the item is taken.
///
/// The fiber is cancelled, and waited for, when the stream is dropped. The sender can be cloned and given to further
/// fibers; those are `f`'s affair.
///
/// ```
/// let numbers = bast_sync::stream::generate(4, |push| {
///     for n in 0.. {
///         if push.send(n).is_err() {
///             return; // nobody listens
///         }
///     }
/// });
/// assert_eq!(numbers.skip(10).take(3).collect::<Vec<_>>(), [10, 11, 12]);
/// ```
///
/// # Panics
/// If no fiber can be started. `next` panics with the panic of `f`, after the items that it has sent.
#[track_caller]
pub fn generate<T, F>(ahead: usize, f: F) -> Stream<T>
where
    F: FnOnce(SyncSender<T>) + Send + 'static,
    T: Send + 'static,
{
    let (push, receiver) = sync_channel(ahead);
    let last = push.clone();
    let fiber = spawn(move || {
        let _last = last;
        f(push);
    });
    Stream::new(receiver, vec![fiber])
}

#[track_caller]
pub(super) fn prefetch<I>(items: I, ahead: usize) -> Stream<I::Item>
where
    I: Iterator<Item: Send + 'static> + Send + 'static,
{
    assert!(ahead > 0, "0 items ahead: that is what the iterator is without a fiber");
    // One is in the fiber's hands.
    generate(ahead - 1, |push| {
        for item in items {
            if push.send(item).is_err() {
                return;
            }
        }
    })
}

/// What came of a bounded wait for an item.
pub(super) enum Next<T> {
    Item(T),
    End,
    Late,
}

impl<T> Stream<T> {
    /// The channel ends only when all fibers have ended, but for what follows the drop of their senders.
    pub(super) fn new(receiver: Receiver<T>, fibers: Vec<JoinHandle<()>>) -> Stream<T> {
        Stream { receiver: Some(receiver), fibers: Fibers(fibers) }
    }

    pub(super) fn add(&mut self, fiber: JoinHandle<()>) {
        self.fibers.0.push(fiber);
    }

    /// `None` waits for ever.
    pub(super) fn next_until(&mut self, deadline: Option<Instant>) -> Next<T> {
        let Some(receiver) = &self.receiver else { return Next::End };
        let received = match deadline {
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => receiver.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(item) => return Next::Item(item),
            Err(RecvTimeoutError::Timeout) => return Next::Late,
            Err(RecvTimeoutError::Disconnected) => {}
        }
        self.receiver = None;
        if let Some(payload) = self.fibers.join() {
            wait::resume_unwind(payload);
        }
        Next::End
    }

    /// Ends it before its time.
    pub(super) fn stop(&mut self) {
        self.receiver = None;
        self.fibers = Fibers(Vec::new());
    }
}

impl<T> Iterator for Stream<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self.next_until(None) {
            Next::Item(item) => Some(item),
            Next::End | Next::Late => None,
        }
    }
}

impl<T> FusedIterator for Stream<T> {}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("ended", &self.receiver.is_none()).finish_non_exhaustive()
    }
}
