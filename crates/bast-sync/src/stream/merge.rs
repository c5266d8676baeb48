//! Many streams as one, fair.
//!
//! ```text
//!   source 0: a fiber ── item ─▶ ┐
//!   source 1: a fiber ── item ─▶ │ one queue, first in, first out ──▶ next ── credit ──▶ that source's fiber
//!   …                            ┘
//! ```
//!
//! A source takes its next item only when the last one has been given to the consumer. So each has one item in the queue
//! at most, the queue needs no other bound, and between two items of one source comes one of each other that has any.

use std::fmt;
use std::iter::FusedIterator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use bast_rt::{Cancelled, Interrupted, spawn, wait};

use super::producer::Stream;
use crate::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// An item, or the panic that ended its source; and the source.
type Message<T> = (usize, thread::Result<T>);

/// See [`merge`](merge()).
pub struct Merge<T> {
    /// One for each source. Goes first, so that sources that wait for it end.
    credits: Vec<SyncSender<()>>,
    messages: Stream<Message<T>>,
}

/// The items of all sources, as they come; of sources that always have items, in turn. Each source runs in a fiber of its
/// own, one item ahead, which starts at once.
///
/// ```
/// use bast_sync::stream;
///
/// let (tell, told) = bast_sync::mpsc::sync_channel(1);
/// let mut merged = stream::merge([told]);
/// tell.send(7).unwrap();
/// assert_eq!(merged.next(), Some(7));
/// ```
///
/// # Panics
/// If no fiber can be started. `next` panics with the first panic of a source, after the items before it.
#[track_caller]
pub fn merge<I, S, T>(sources: I) -> Merge<T>
where
    I: IntoIterator<Item = S>,
    S: IntoIterator<Item = T, IntoIter: Send + 'static>,
    T: Send + 'static,
{
    let mut parts = Parts::new();
    sources.into_iter().for_each(|source| parts.add(source.into_iter()));
    parts.merged()
}

#[track_caller]
pub(super) fn two<T>(
    one: impl Iterator<Item = T> + Send + 'static,
    other: impl Iterator<Item = T> + Send + 'static,
) -> Merge<T>
where
    T: Send + 'static,
{
    let mut parts = Parts::new();
    parts.add(one);
    parts.add(other);
    parts.merged()
}

/// A merge to which sources can be added. The sender keeps it open meanwhile.
struct Parts<T>(Merge<T>, Sender<Message<T>>);

impl<T: Send + 'static> Parts<T> {
    fn new() -> Parts<T> {
        let (sender, receiver) = channel();
        Parts(Merge { credits: Vec::new(), messages: Stream::new(receiver, Vec::new()) }, sender)
    }

    #[track_caller]
    fn add(&mut self, source: impl Iterator<Item = T> + Send + 'static) {
        let Parts(merge, sender) = self;
        let (credit, credits) = sync_channel(1);
        let (number, sender) = (merge.credits.len(), sender.clone());
        merge.credits.push(credit);
        merge.messages.add(spawn(move || run(number, source, &sender, &credits)));
    }

    fn merged(self) -> Merge<T> {
        self.0
    }
}

/// What a source's fiber does.
fn run<T>(
    number: usize,
    source: impl Iterator<Item = T>,
    sender: &Sender<Message<T>>,
    credits: &Receiver<()>,
) {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        for item in source {
            if sender.send((number, Ok(item))).is_err() || credits.recv().is_err() {
                return;
            }
        }
    }));
    match ended {
        Ok(()) => {}
        Err(payload) if payload.is::<Cancelled>() || payload.is::<Interrupted>() => {
            wait::resume_unwind(payload)
        }
        // At once, and not only when all sources have ended. If nobody listens nobody is to know.
        Err(payload) => drop(sender.send((number, Err(payload)))),
    }
}

impl<T> Iterator for Merge<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let (source, item) = self.messages.next()?;
        match item {
            Ok(item) => {
                // It waits for that, or has ended.
                let _ = self.credits[source].try_send(());
                Some(item)
            }
            Err(payload) => {
                self.credits.clear();
                self.messages.stop();
                wait::resume_unwind(payload)
            }
        }
    }
}

impl<T> FusedIterator for Merge<T> {}

impl<T> fmt::Debug for Merge<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merge").field("sources", &self.credits.len()).finish_non_exhaustive()
    }
}
