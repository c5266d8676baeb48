//! Other unix systems: `mmap` and `mprotect`, one mapping for each guard.
//!
//! This is the portable floor (macOS, the BSDs). There are no guards without mappings here, so
//! the guard calls answer `EINVAL`, which callers take as "use `protect`".

use std::io;
use std::ptr;
use std::ptr::NonNull;

use super::Range;

pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf only reads.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(16384)
}

pub(crate) fn reserve(len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: no address is asked for, so no existing mapping can be touched.
    unsafe { map(ptr::null_mut(), len, 0) }
}

/// # Safety
/// With MAP_FIXED in `flags`, the caller owns `[at, at + len)` and nothing in it is in use.
unsafe fn map(at: *mut u8, len: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANON;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping; the caller vouches for MAP_FIXED.
    let base = unsafe { libc::mmap(at.cast(), len, prot, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// # Safety
/// `[base, base + len)` was reserved here, and nothing in it is in use or will be used.
pub(crate) unsafe fn release(base: NonNull<u8>, len: usize) {
    // SAFETY: passed on. A failure leaves the range mapped: a leak and no more.
    unsafe { libc::munmap(base.as_ptr().cast(), len) };
}

/// # Safety
/// As [`release`]. After an error the range must never be used again.
pub(crate) unsafe fn reset(base: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: the caller owns the range and nothing in it is in use.
    unsafe { map(base.as_ptr(), len, libc::MAP_FIXED) }.map(drop)
}

/// # Safety
/// The contents of all ranges are dead; all lie in reservations made here.
pub(crate) unsafe fn discard(ranges: &[Range]) {
    for range in ranges {
        // MADV_FREE is what these systems honour for anonymous memory.
        // SAFETY: passed on.
        unsafe { libc::madvise(range.start.cast(), range.len, libc::MADV_FREE) };
    }
}

/// # Safety
/// None needed: it does nothing.
pub(crate) unsafe fn guard_many(_ranges: &[Range]) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

/// # Safety
/// None needed: it does nothing.
pub(crate) unsafe fn guard_each(_ranges: &[Range]) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

/// # Safety
/// The range is page-aligned, lies in a reservation made here, and holds nothing.
pub(crate) unsafe fn protect(range: Range) -> io::Result<()> {
    // SAFETY: passed on.
    check(unsafe { libc::mprotect(range.start.cast(), range.len, libc::PROT_NONE) })
}

/// # Safety
/// As [`protect`].
pub(crate) unsafe fn unprotect(range: Range) -> io::Result<()> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: passed on.
    check(unsafe { libc::mprotect(range.start.cast(), range.len, prot) })
}

pub(crate) fn map_limit() -> Option<u64> {
    None
}

fn check(ret: libc::c_int) -> io::Result<()> {
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
