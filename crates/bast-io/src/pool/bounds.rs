//! What a pool may have: the numbers that it is made with.

use std::time::Duration;

/// The bounds of a [`Pool`](super::Pool).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Threads that stay once they have been started.
    pub min_threads: usize,
    /// The most threads; at least one.
    pub max_threads: usize,
    /// How long a thread above the least waits for work before it ends.
    pub idle_for: Duration,
    /// How many calls may wait for a thread when another one comes that is
    /// [`limited`](crate::Op::Call). Others wait however many there are.
    pub queue: usize,
}

impl Bounds {
    /// No thread stays, 512 at most, ten seconds, 10,000 calls.
    pub const DEFAULT: Bounds = Bounds {
        min_threads: 0,
        max_threads: 512,
        idle_for: Duration::from_secs(10),
        queue: 10_000,
    };
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::DEFAULT
    }
}
