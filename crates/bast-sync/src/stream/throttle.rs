//! At most so many items in so much time.
//!
//! The moments at which the last `n` items were given are kept: the next may follow when the oldest is long enough ago. So
//! the bound holds in every window of that length, wherever it begins; of `pace`, which shares a worker between fibers
//! that never wait, nothing could be used here.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::time::Duration;

use bast_rt::{Instant, sleep, sleep_until};

/// See [`StreamExt::throttle`](super::StreamExt::throttle).
pub struct Throttle<I> {
    items: I,
    n: usize,
    per: Duration,
    given: VecDeque<Instant>,
}

impl<I> Throttle<I> {
    #[track_caller]
    pub(super) fn new(items: I, n: usize, per: Duration) -> Throttle<I> {
        assert!(n > 0, "0 items in any time: none could ever be given");
        Throttle { items, n, per, given: VecDeque::new() }
    }
}

impl<I: Iterator> Iterator for Throttle<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if self.given.len() == self.n {
            match self.given[0].checked_add(self.per) {
                Some(at) => sleep_until(at),
                None => sleep(Duration::MAX),
            }
            self.given.pop_front();
        }
        let item = self.items.next()?;
        self.given.push_back(Instant::now());
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<I: FusedIterator> FusedIterator for Throttle<I> {}

impl<I> fmt::Debug for Throttle<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("n", &self.n)
            .field("per", &self.per)
            .finish_non_exhaustive()
    }
}
