//! Memory calls of the operating system: reserve, guard, give back.
//!
//! Everything the kernel is asked for by this crate, apart from the signal handler of
//! [`crate::overflow`], goes through this one module. Each system offers the same functions:
//!
//! | function | meaning |
//! |---|---|
//! | `page_size()` | the unit of everything below |
//! | `reserve(len)` | address space that is committed page by page as it is touched |
//! | `release(base, len)` | the whole reservation back |
//! | `reset(base, len)` | a reservation as new: no pages, no page tables, no guards |
//! | `discard(ranges)` | contents no longer needed; guards stay; may do nothing |
//! | `guard_many`, `guard_one` | guards that cost no mapping, where the kernel has them |
//! | `protect`, `unprotect` | guards by page protection, one mapping each |
//! | `map_limit()` | how many mappings a process may have, where there is such a limit |
//!
//! No function here keeps state, so all of them may be called from any thread.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod imp;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "unix.rs"]
mod imp;

pub(crate) use imp::{
    discard, guard_many, guard_one, map_limit, page_size, protect, release, reserve, reset,
    unprotect,
};

/// One piece of address space, as the vectored calls take it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}
