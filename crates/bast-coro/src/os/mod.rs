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
//! | `guard_many`, `guard_each` | guards that cost no mapping, where the kernel has them |
//! | `protect`, `unprotect` | guards by page protection, one mapping each |
//! | `map_limit()` | how many mappings a process may have, where there is such a limit |
//!
//! No function here keeps state, so all of them may be called from any thread.
//!
//! Where the kernel commits memory when it is touched (Unix), stacks need no more than a guard of one page.
//! Where the program has to (Windows), there are two calls more, which do nothing elsewhere:
//!
//! | function | meaning |
//! |---|---|
//! | `prepare(range)` | a slot that holds nothing becomes a stack's |
//! | `retract(range, limit)` | the deep part of a free stack goes; None: `discard` does it |

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod imp;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "unix.rs"]
mod imp;

#[cfg(windows)]
#[path = "windows.rs"]
mod imp;

#[cfg(windows)]
pub(crate) use imp::{GUARANTEE, GUARD_PAGES, prepare, retract};
pub(crate) use imp::{discard, map_limit, page_size, release, reserve, reset};
#[cfg(unix)]
pub(crate) use imp::{guard_each, guard_many, protect, unprotect};
#[cfg(unix)]
pub(crate) use lazy::{GUARD_PAGES, prepare, retract};

/// Memory that is committed when it is touched.
#[cfg(unix)]
mod lazy {
    use super::Range;

    pub(crate) const GUARD_PAGES: usize = 1;

    /// # Safety
    /// None needed: it does nothing.
    #[inline]
    pub(crate) unsafe fn prepare(_usable: Range) -> std::io::Result<usize> {
        Ok(0)
    }

    /// # Safety
    /// None needed: it does nothing.
    #[inline]
    pub(crate) unsafe fn retract(_deep: Range, _limit: usize) -> Option<usize> {
        None
    }
}

/// One piece of address space, as the vectored calls take it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}
