//! Streams in direct style: plain iterators whose `next` waits, with back pressure everywhere.
//!
//! ```text
//!   source ──next──▶ fibers, a bounded number of items ahead ──next──▶ consumer: for item in …
//!                      └ cancelled and awaited when the iterator is dropped
//! ```
//!
//! There is no type for a stream: whatever is an [`Iterator`] is one, and std's adaptors (`map`, `filter`, `zip`,
//! `collect`, …) do what they always do, one item after the other. [`StreamExt`] adds what needs fibers or a clock.
//! A bounded stream that somebody else fills is a channel: [`mpsc::sync_channel`](crate::mpsc::sync_channel), whose
//! receiver is an iterator; nothing would be gained by another name for it.
//!
//! ```
//! use bast_sync::stream::StreamExt;
//!
//! // Look up many names, 64 at a time. Nothing is looked up that nobody asks for.
//! let names = (0..800_000).map(|n| format!("host{n}.example"));
//! let found: Vec<_> = names.par_map(64, |name| (name.len(), name)).take(3).collect();
//! assert_eq!(found[2], (13, "host2.example".to_owned()));
//! ```
//!
//! A pool of daemons, each of which serves one request at a time (`Lwt_pool`), needs no stream of its own either:
//!
//! ```
//! use std::sync::Arc;
//! use bast_sync::{Pool, stream::StreamExt};
//!
//! # struct Daemon;
//! # impl Daemon {
//! #     fn start() -> std::io::Result<Daemon> { Ok(Daemon) }
//! #     fn ask(&mut self, question: u32) -> u32 { question * 2 }
//! # }
//! let daemons = Arc::new(Pool::new(4, Daemon::start));
//! let answers = (0..1000).par_map(8, move |n| daemons.with(|daemon| daemon.ask(n)));
//! let sum = answers.sum::<Result<u32, _>>()?; // the first error ends it, and cancels what runs
//! assert_eq!(sum, 999_000);
//! # Ok::<(), bast_sync::PoolError<std::io::Error>>(())
//! ```
//!
//! | Lwt | here |
//! |---|---|
//! | `Lwt_stream.from`, `from_direct` | [`std::iter::from_fn`] |
//! | `create_bounded` | [`mpsc::sync_channel`](crate::mpsc::sync_channel) |
//! | `map_s`, `filter_s`, `iter_s`, `fold_s`, … | std's adaptors, `for` |
//! | `iter_n` | [`for_each_concurrent`](crate::for_each_concurrent) |
//! | `Lwt_list.map_p`, `iter_p` | [`par_map`](crate::par_map), [`for_each_concurrent`](crate::for_each_concurrent) |
//! | `choose` | [`merge`](StreamExt::merge) |
//! | `clone` | [`broadcast`](crate::broadcast) |
//! | `get_available` | [`Receiver::try_iter`](crate::mpsc::Receiver::try_iter) |
//!
//! # Structure
//! What an adaptor starts has ended when the iterator has been dropped: the fibers are cancelled wherever they wait, and
//! waited for. That happens also when the consumer panics, is cancelled or runs out of time half-way.
//!
//! An iterator can be forgotten ([`std::mem::forget`]) and its fibers with it, so what they run must be `'static`. The
//! functions that work on all items before they return ([`par_map`](crate::par_map),
//! [`par_map_unordered`](crate::par_map_unordered)) have no such gap, and may borrow everything.
//!
//! # Panics and errors
//! A panic in a fiber of a stream goes on in the consumer's call of `next`, after the other fibers of that stream have
//! ended; afterwards the stream is at its end. Errors need no special forms: the items are `Result`s, and who
//! stops at the first (`?`, `collect::<Result<_, _>>()`, `sum`) drops the stream.
//!
//! # Cancellation
//! `next` is a suspension point wherever it waits. If it unwinds nothing has been lost: whoever stops that by
//! [`timeout`](bast_rt::timeout) can call it again.

mod chunks;
mod merge;
mod par_map;
mod producer;
mod throttle;

use std::time::Duration;

pub use chunks::{Chunks, ChunksTimeout};
pub use merge::{Merge, merge};
pub use par_map::{ParMap, ParMapUnordered};
pub use producer::{Stream, generate};
pub use throttle::Throttle;

/// What streams have beyond iterators. Every iterator has it.
pub trait StreamExt: Iterator + Sized {
    /// The results of `f` for each item, in the items' order, worked on by at most `limit` fibers at a time.
    ///
    /// Lazy: items are taken when a result is asked for, on the fiber or thread that asks, and never more than `limit`
    /// beyond the results that have been given. While that iterator waits, so do the results that are ready: if it
    /// does, put it into a fiber by [`prefetch`](StreamExt::prefetch).
    ///
    /// ```
    /// use bast_sync::stream::StreamExt;
    ///
    /// let squares = (1..).par_map(8, |n: u64| n * n);
    /// assert_eq!(squares.take_while(|n| *n < 30).collect::<Vec<_>>(), [1, 4, 9, 16, 25]);
    /// ```
    ///
    /// # Panics
    /// If `limit` is 0. `next` panics with the first panic of `f`, in time.
    fn par_map<F, R>(self, limit: usize, f: F) -> ParMap<Self, F, R>
    where
        F: Fn(Self::Item) -> R + Send + Sync + 'static,
        Self::Item: Send + 'static,
        R: Send + 'static,
    {
        ParMap::new(self, limit, f)
    }

    /// As [`par_map`](StreamExt::par_map), with the results as they come.
    ///
    /// ```
    /// use bast_sync::stream::StreamExt;
    /// use std::time::Duration;
    ///
    /// let mut slow_first = [30, 0].into_iter().par_map_unordered(2, |millis| {
    ///     bast_rt::sleep(Duration::from_millis(millis));
    ///     millis
    /// });
    /// assert_eq!(slow_first.next(), Some(0));
    /// ```
    ///
    /// # Panics
    /// As [`par_map`](StreamExt::par_map).
    fn par_map_unordered<F, R>(self, limit: usize, f: F) -> ParMapUnordered<Self, F, R>
    where
        F: Fn(Self::Item) -> R + Send + Sync + 'static,
        Self::Item: Send + 'static,
        R: Send + 'static,
    {
        ParMapUnordered::new(self, limit, f)
    }

    /// The items in vectors of `n`; the last may have fewer. Starts no fiber.
    ///
    /// ```
    /// use bast_sync::stream::StreamExt;
    ///
    /// assert_eq!((1..=5).chunks(2).collect::<Vec<_>>(), [vec![1, 2], vec![3, 4], vec![5]]);
    /// ```
    ///
    /// # Panics
    /// If `n` is 0.
    fn chunks(self, n: usize) -> Chunks<Self> {
        Chunks::new(self, n)
    }

    /// As [`chunks`](StreamExt::chunks), but what there is of a chunk is given when `time` has passed since its first
    /// item. The iterator runs in a fiber of its own, as by [`prefetch(n)`](StreamExt::prefetch).
    ///
    /// ```
    /// use bast_sync::{mpsc, stream::StreamExt};
    /// use std::time::Duration;
    ///
    /// let (lines, log) = mpsc::sync_channel(100);
    /// let mut blocks = log.into_iter().chunks_timeout(1000, Duration::from_millis(10));
    /// lines.send("one").unwrap();
    /// assert_eq!(blocks.next(), Some(vec!["one"]));
    /// ```
    ///
    /// # Panics
    /// If `n` is 0. `next` panics with the iterator's panic; what there is of a chunk then can be had by the next call.
    fn chunks_timeout(self, n: usize, time: Duration) -> ChunksTimeout<Self::Item>
    where
        Self: Send + 'static,
        Self::Item: Send + 'static,
    {
        ChunksTimeout::new(self, n, time)
    }

    /// The items of this and of another, as they come: [`merge`](merge()) of two.
    ///
    /// ```
    /// use bast_sync::stream::StreamExt;
    ///
    /// let mut all: Vec<_> = (0..3).merge(10..13).collect();
    /// all.sort();
    /// assert_eq!(all, [0, 1, 2, 10, 11, 12]);
    /// ```
    fn merge<J>(self, other: J) -> Merge<Self::Item>
    where
        Self: Send + 'static,
        Self::Item: Send + 'static,
        J: IntoIterator<Item = Self::Item, IntoIter: Send + 'static>,
    {
        merge::two(self, other.into_iter())
    }

    /// At most `n` items in any `per`, waiting where that is needed: the first `n` at once, and each further one when
    /// `per` has passed since the `n`th before it was given. An item is taken only when it may be given. Starts no fiber.
    ///
    /// ```
    /// use bast_sync::stream::StreamExt;
    /// use std::time::{Duration, Instant};
    ///
    /// let begun = Instant::now();
    /// assert_eq!((0..5).throttle(2, Duration::from_millis(5)).count(), 5);
    /// assert!(begun.elapsed() >= Duration::from_millis(9));
    /// ```
    ///
    /// # Panics
    /// If `n` is 0.
    fn throttle(self, n: usize, per: Duration) -> Throttle<Self> {
        Throttle::new(self, n, per)
    }

    /// Runs the iterator in a fiber of its own, at most `n` items ahead of the consumer. It starts at once.
    ///
    /// ```
    /// use bast_sync::stream::StreamExt;
    ///
    /// let lines = std::io::Cursor::new("one\ntwo\n");
    /// let lines = std::io::BufRead::lines(lines).prefetch(100); // reads on while the consumer works
    /// assert_eq!(lines.map(|line| line.unwrap().len()).sum::<usize>(), 6);
    /// ```
    ///
    /// # Panics
    /// If `n` is 0. `next` panics with the iterator's panic, after the items before it.
    fn prefetch(self, n: usize) -> Stream<Self::Item>
    where
        Self: Send + 'static,
        Self::Item: Send + 'static,
    {
        producer::prefetch(self, n)
    }
}

impl<I: Iterator> StreamExt for I {}
