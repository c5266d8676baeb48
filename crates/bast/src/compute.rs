//! A door to [rayon](https://docs.rs/rayon): CPU work is split over its threads while the fiber waits.
//!
//! ```text
//!   fiber ──blocking──▶ a thread of the blocking pool ──▶ rayon's threads: f, join, par_iter, …
//!     └ waits; its worker goes on ◀───────────────────────────┘ result, or panic
//! ```
//!
//! The thread in between only waits. It costs some microseconds, which does not matter for work that is worth
//! splitting, and it keeps this door a line.

/// Runs `f` in rayon's global pool while the fiber waits, so that a long computation does not hold up the other
/// fibers of this worker. Inside, rayon's `join`, `scope` and parallel iterators work on its threads; waits
/// of bast would block one of them.
///
/// `f` may borrow: this returns only after `f` has ended, and a request to cancel the fiber meanwhile is
/// delivered afterwards. Needs the feature `rayon`.
///
/// # Panics
/// With the panic of `f`. As [`blocking`](crate::blocking()) if there is no thread to wait on.
///
/// ```
/// use rayon::prelude::*;
///
/// let numbers: Vec<u64> = (1..=1000).collect();
/// bast::spawn(move || {
///     let sum: u64 = bast::compute(|| numbers.par_iter().map(|n| n * n).sum());
///     assert_eq!(sum, 333_833_500);
/// }).join().unwrap();
/// ```
pub fn compute<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    crate::blocking(|| rayon::scope(|_| f()))
}
