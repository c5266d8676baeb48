//! Items by the dozen.
//!
//! A chunk that has begun is kept in the iterator, so that nothing is lost if `next` unwinds. With a timeout the items are
//! stamped by the fiber that takes them: a chunk's time runs also while its first item waits for the consumer.

use std::fmt;
use std::iter::{Fuse, FusedIterator};
use std::mem;
use std::time::Duration;

use bast_rt::Instant;

use super::producer::{Next, Stream, prefetch};

/// As many places are made at once.
const SOME: usize = 1024;

/// See [`StreamExt::chunks`](super::StreamExt::chunks).
pub struct Chunks<I: Iterator> {
    items: Fuse<I>,
    chunk: Vec<I::Item>,
    n: usize,
}

impl<I: Iterator> Chunks<I> {
    #[track_caller]
    pub(super) fn new(items: I, n: usize) -> Chunks<I> {
        assert!(n > 0, "chunks of 0 items");
        Chunks { items: items.fuse(), chunk: Vec::new(), n }
    }
}

impl<I: Iterator> Iterator for Chunks<I> {
    type Item = Vec<I::Item>;

    fn next(&mut self) -> Option<Vec<I::Item>> {
        while self.chunk.len() < self.n {
            let Some(item) = self.items.next() else { break };
            if self.chunk.is_empty() {
                self.chunk.reserve(self.n.min(SOME));
            }
            self.chunk.push(item);
        }
        (!self.chunk.is_empty()).then(|| mem::take(&mut self.chunk))
    }
}

impl<I: Iterator> FusedIterator for Chunks<I> {}

impl<I: Iterator> fmt::Debug for Chunks<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("n", &self.n).finish_non_exhaustive()
    }
}

/// See [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout).
pub struct ChunksTimeout<T> {
    items: Stream<(Instant, T)>,
    chunk: Vec<T>,
    /// The chunk's, if it has begun; `None` is beyond the clock's range.
    deadline: Option<Instant>,
    n: usize,
    time: Duration,
}

impl<T: Send + 'static> ChunksTimeout<T> {
    #[track_caller]
    pub(super) fn new(
        items: impl Iterator<Item = T> + Send + 'static,
        n: usize,
        time: Duration,
    ) -> ChunksTimeout<T> {
        assert!(n > 0, "chunks of 0 items");
        let items = prefetch(items.map(|item| (Instant::now(), item)), n);
        ChunksTimeout { items, chunk: Vec::new(), deadline: None, n, time }
    }
}

impl<T> Iterator for ChunksTimeout<T> {
    type Item = Vec<T>;

    fn next(&mut self) -> Option<Vec<T>> {
        if self.chunk.is_empty() {
            let (since, first) = self.items.next()?;
            self.deadline = since.checked_add(self.time);
            self.chunk.reserve(self.n.min(SOME));
            self.chunk.push(first);
        }
        while self.chunk.len() < self.n {
            match self.items.next_until(self.deadline) {
                Next::Item((_, item)) => self.chunk.push(item),
                Next::End | Next::Late => break,
            }
        }
        Some(mem::take(&mut self.chunk))
    }
}

impl<T> FusedIterator for ChunksTimeout<T> {}

impl<T> fmt::Debug for ChunksTimeout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunksTimeout")
            .field("n", &self.n)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}
