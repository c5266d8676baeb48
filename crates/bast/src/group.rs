//! Structured concurrency: fibers that have ended when the call returns that started them, and what ends
//! them early. The crate's root exports the most used.
//!
//! | to | use | elsewhere |
//! |---|---|---|
//! | start fibers that borrow, join them by hand | [`scope`](crate::scope()) | std |
//! | start fibers that fail together | [`group`](group()) | Trio's nursery, Go's `errgroup`, Kotlin's `coroutineScope` |
//! | work on each item of an iterator, a few at a time | [`par_map`], [`par_map_unordered`], [`for_each_concurrent`] | `buffered`, `buffer_unordered` |
//! | run some closures to their ends | [`join`], [`join_all`], [`try_join_all`] | rayon, `Promise.all` |
//! | take the first answer | [`race`], [`race_ok`] | `Promise.any` |
//! | end something from afar | [`CancelToken`] | tokio's `CancellationToken` |
//! | end something in time | [`timeout`](crate::timeout) | |
//!
//! All of them nest in each other. Whoever is told to end unwinds from the suspension point that it is at, cancels
//! its own fibers on the way, and waits for them. So when a call returns or unwinds, nothing that it
//! started is left, and everything may borrow from the caller's stack.
//!
//! ```
//! use std::time::Duration;
//!
//! // Ask all mirrors for all files, three files at a time, for a second at most.
//! let mirrors = ["a.example", "b.example"];
//! let files = ["index", "data", "sums", "news"];
//! let fetched = bast::timeout(Duration::from_secs(1), || {
//!     bast::par_map(files, 3, |file| bast::race(mirrors.map(|mirror| move || fetch(mirror, file))))
//! });
//! assert_eq!(fetched.unwrap().len(), 4);
//!
//! fn fetch(mirror: &str, file: &str) -> String {
//!     bast::sleep(Duration::from_millis(1));
//!     format!("{mirror}/{file}")
//! }
//! ```

#[doc(inline)]
pub use bast_sync::{
    CancelToken, DropGuard, Group, GroupJoinHandle, for_each_concurrent, group, join, join_all,
    par_map, par_map_unordered, race, race_ok, try_join_all,
};
