//! Windows: `VirtualAlloc`, and stacks that grow as those of its threads do.
//!
//! ```text
//!   slot                                                  limit                    end
//!   ├─ page ─┼─ kept ─┼──────── reserved ───────┬─ SOFT ──┼─ committed ────────────┤
//!     never   behind the usable range,            PAGE_GUARD, committed
//!     there   so that it is usable to its end
//! ```
//!
//! Memory counts against the machine's limit when it is committed, touched or not. So a stack begins with
//! [`FIRST`] bytes of it. When the pages below are touched the kernel moves them down: it knows the stack by
//! the thread's block (TEB), which names the slot as the stack's allocation while its code runs. There the
//! kernel also keeps the limit up to date, and the switch reads it back when the code has returned. At the
//! end of the slot the kernel opens [`GUARANTEE`] bytes for the handler, and raises an overflow.
//!
//! Frames of more than a page are probed page by page by what the compiler calls at their beginning. What
//! jumps over the pages nonetheless meets memory that is not committed, or at last the lowest page, and the
//! process ends without a word; nothing is overwritten (coro 3).

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::ptr::NonNull;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_GUARD, PAGE_READWRITE, VirtualAlloc,
    VirtualFree, VirtualProtect,
};
use windows_sys::Win32::System::SystemInformation::GetSystemInfo;

use super::Range;

/// Windows has these on each of its 64-bit systems.
const PAGE: usize = 4096;
/// Left for the handler of an overflow, as std asks for its own threads, and a page.
pub(crate) const GUARANTEE: usize = 6 * PAGE;
/// The pages that move: two that notice (so many have the system's own stacks), and the guarantee.
const SOFT: usize = 2 * PAGE + GUARANTEE;
/// The lowest page, which is never there, and room for what moves. An odd stride (see `Class::stride`).
pub(crate) const GUARD_PAGES: usize = 1 + SOFT / PAGE;
/// Committed from the beginning: what stays of a free stack as well (`KEEP`).
const FIRST: usize = 16 * 1024;

pub(crate) fn page_size() -> usize {
    let mut info = MaybeUninit::zeroed();
    // SAFETY: it is filled in by the call.
    let size = unsafe {
        GetSystemInfo(info.as_mut_ptr());
        info.assume_init().dwPageSize
    };
    assert_eq!(size as usize, PAGE, "pages of another size");
    PAGE
}

/// Reserves `len` bytes. Nothing can be read or written before [`prepare`].
pub(crate) fn reserve(len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: no address is asked for, so nothing that exists can be touched.
    let base = unsafe { VirtualAlloc(ptr::null(), len, MEM_RESERVE, PAGE_READWRITE) };
    NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)
}

/// # Safety
/// `base` was reserved here, and nothing in it is in use or will be used.
pub(crate) unsafe fn release(base: NonNull<u8>, _len: usize) {
    // SAFETY: passed on. A failure leaves the range reserved: a leak and no more.
    unsafe { VirtualFree(base.as_ptr().cast(), 0, MEM_RELEASE) };
}

/// # Safety
/// As [`release`], for these `len` bytes.
pub(crate) unsafe fn reset(base: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: passed on.
    check(unsafe { VirtualFree(base.as_ptr().cast(), len, MEM_DECOMMIT) })
}

/// Of whole usable ranges. They are gone until they are prepared again.
///
/// # Safety
/// The contents of all ranges are dead, and each follows a guard.
pub(crate) unsafe fn discard(ranges: &[Range]) {
    for Range { start, len } in ranges {
        // SAFETY: passed on. A failure leaves memory committed, which does not disturb `prepare`.
        unsafe { VirtualFree(start.wrapping_sub(SOFT).cast(), len + SOFT, MEM_DECOMMIT) };
    }
}

/// Commits the top of a usable range that holds nothing, with the pages that notice below it. Says where the
/// part ends that needs no notice.
///
/// # Safety
/// The range is whole pages of a reservation made here, follows a guard, and is in use by nobody.
pub(crate) unsafe fn prepare(usable: Range) -> io::Result<usize> {
    let len = usable.len.min(FIRST);
    let limit = usable.start.wrapping_add(usable.len - len);
    let soft = limit.wrapping_sub(SOFT);
    // SAFETY: passed on; the pages below are the range's or the guard's.
    unsafe {
        if VirtualAlloc(limit.cast(), len, MEM_COMMIT, PAGE_READWRITE).is_null() {
            return Err(io::Error::last_os_error());
        }
        if VirtualAlloc(soft.cast(), SOFT, MEM_COMMIT, PAGE_READWRITE | PAGE_GUARD).is_null() {
            let e = io::Error::last_os_error();
            VirtualFree(limit.cast(), len, MEM_DECOMMIT);
            return Err(e);
        }
    }
    Ok(limit.addr())
}

/// Gives the `deep` part of a free stack back if it is committed to below its end, as `limit` says. Returns
/// the new limit.
///
/// # Safety
/// `deep` is whole pages of a slot, beginning behind its guard; its contents are dead. `limit` is the slot's.
pub(crate) unsafe fn retract(deep: Range, limit: usize) -> Option<usize> {
    let end = deep.start.wrapping_add(deep.len);
    if limit >= end.addr() {
        return Some(limit);
    }
    let mut old = 0;
    let soft = end.wrapping_sub(SOFT);
    // All from `limit - SOFT` up is committed, so this takes no memory and fails for no want of it.
    // SAFETY: passed on.
    let moved = unsafe {
        VirtualProtect(soft.cast(), SOFT, PAGE_READWRITE | PAGE_GUARD, &raw mut old) != 0
            && VirtualFree(deep.start.wrapping_sub(SOFT).cast(), deep.len, MEM_DECOMMIT) != 0
    };
    Some(if moved { end.addr() } else { limit })
}

pub(crate) fn map_limit() -> Option<u64> {
    None
}

fn check(ok: i32) -> io::Result<()> {
    if ok != 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
