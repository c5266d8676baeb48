//! Linux: `mmap`, `madvise`, `process_madvise`.
//!
//! The vectored calls name this process by the constant `PIDFD_SELF_THREAD` (Linux 6.14) and not
//! by a descriptor: a descriptor of one's own process, inherited by a forked child, would still
//! mean the parent, and the child would then discard its parent's stacks. Kernels that lack the
//! constant take the one-by-one calls.

use std::io;
use std::ptr;
use std::ptr::NonNull;

use super::Range;

/// `MADV_GUARD_INSTALL` (Linux 6.13): a guard as a marker in the page table, not as a mapping.
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// Stands for the calling thread wherever the kernel takes a pidfd (Linux 6.14).
const PIDFD_SELF_THREAD: libc::c_int = -10_000;
/// The kernel's limit on one vector (`UIO_MAXIOV`).
const MAX_VECTOR: usize = 1024;

pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf only reads.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Reserves `len` bytes, readable and writable, without committing any of them.
pub(crate) fn reserve(len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: no address is asked for, so no existing mapping can be touched.
    unsafe { map(ptr::null_mut(), len, 0) }
}

/// # Safety
/// With MAP_FIXED in `flags`, the caller owns `[at, at + len)` and nothing in it is in use.
unsafe fn map(at: *mut u8, len: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping; the caller vouches for MAP_FIXED.
    let base = unsafe { libc::mmap(at.cast(), len, prot, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // A huge page would commit 2 MiB for the one touched page of a stack. The call fails only on
    // kernels built without huge pages, where there is nothing to prevent.
    // SAFETY: the mapping was made just above.
    unsafe { libc::madvise(base, len, libc::MADV_NOHUGEPAGE) };
    NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// # Safety
/// `[base, base + len)` was reserved here, and nothing in it is in use or will be used.
pub(crate) unsafe fn release(base: NonNull<u8>, len: usize) {
    // SAFETY: passed on. A failure leaves the range mapped: a leak and no more.
    unsafe { libc::munmap(base.as_ptr().cast(), len) };
}

/// Replaces the mapping by a new one at the same place. Unlike discarding, this also frees the
/// page tables, 520 bytes for each stack of 256 KiB.
///
/// # Safety
/// As [`release`]. After an error the range must never be used again.
pub(crate) unsafe fn reset(base: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: the caller owns the range and nothing in it is in use.
    unsafe { map(base.as_ptr(), len, libc::MAP_FIXED) }.map(drop)
}

/// Gives the pages of all `ranges` back. Guards inside them stay. Best effort: where the kernel
/// refuses (locked memory), the pages merely stay.
///
/// # Safety
/// The contents of all ranges are dead; all lie in reservations made here.
pub(crate) unsafe fn discard(ranges: &[Range]) {
    // SAFETY: passed on.
    let done = unsafe { advise_many(ranges, libc::MADV_DONTNEED) }.unwrap_or(0);
    let mut skip = done;
    for range in ranges {
        if skip >= range.len {
            skip -= range.len;
            continue;
        }
        // SAFETY: as above; `skip < len`.
        unsafe {
            let start = range.start.add(skip);
            libc::madvise(start.cast(), range.len - skip, libc::MADV_DONTNEED);
        }
        skip = 0;
    }
}

/// Installs guards over all `ranges`. Returns the number of bytes done, from the front; a short
/// count with `Ok` cannot happen.
///
/// # Safety
/// All ranges are page-aligned, lie in reservations made here, and hold nothing.
pub(crate) unsafe fn guard_many(ranges: &[Range]) -> io::Result<()> {
    // SAFETY: passed on.
    let done = unsafe { advise_many(ranges, MADV_GUARD_INSTALL) }?;
    let all = ranges.iter().map(|r| r.len).sum::<usize>();
    if done == all { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
}

/// As [`guard_many`], one by one. A guard that is there already is no error.
///
/// # Safety
/// As [`guard_many`].
pub(crate) unsafe fn guard_each(ranges: &[Range]) -> io::Result<()> {
    // An emulator (QEMU's for single programs) says yes to every advice, also to this one that nobody gives,
    // and does nothing.
    // SAFETY: no memory is named.
    if unsafe { libc::madvise(ptr::null_mut(), 0, libc::c_int::MAX) } == 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    ranges.iter().try_for_each(|range| {
        // SAFETY: passed on.
        check(unsafe { libc::madvise(range.start.cast(), range.len, MADV_GUARD_INSTALL) })
    })
}

/// # Safety
/// As [`guard_many`].
pub(crate) unsafe fn protect(range: Range) -> io::Result<()> {
    // SAFETY: passed on.
    check(unsafe { libc::mprotect(range.start.cast(), range.len, libc::PROT_NONE) })
}

/// Undoes [`protect`]; the mapping joins its neighbours again.
///
/// # Safety
/// As [`guard_many`].
pub(crate) unsafe fn unprotect(range: Range) -> io::Result<()> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: passed on.
    check(unsafe { libc::mprotect(range.start.cast(), range.len, prot) })
}

/// `vm.max_map_count`.
pub(crate) fn map_limit() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

fn check(ret: libc::c_int) -> io::Result<()> {
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `process_madvise` on this process until all is done or the kernel refuses to go on. Returns
/// the bytes done; an error only if that is none.
///
/// # Safety
/// As for the advice given.
unsafe fn advise_many(ranges: &[Range], advice: libc::c_int) -> io::Result<usize> {
    let mut done = 0;
    let mut index = 0;
    let mut skip = 0; // bytes of ranges[index] that are done
    let mut vector = Vec::with_capacity(ranges.len().min(MAX_VECTOR));
    while index < ranges.len() {
        vector.clear();
        for (i, range) in ranges[index..].iter().take(MAX_VECTOR).enumerate() {
            let off = if i == 0 { skip } else { 0 };
            vector.push(libc::iovec {
                iov_base: range.start.wrapping_add(off).cast(),
                iov_len: range.len - off,
            });
        }
        // SAFETY: the vector lives across the call; the caller vouches for the ranges.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                PIDFD_SELF_THREAD,
                vector.as_ptr(),
                vector.len(),
                advice,
                0,
            )
        };
        let mut step = match usize::try_from(ret) {
            Ok(0) => return Ok(done),
            Ok(n) => n,
            Err(_) if done > 0 => return Ok(done),
            Err(_) => return Err(io::Error::last_os_error()),
        };
        done += step;
        // The kernel takes at most 2 GiB a call and may stop early: go on where it stopped.
        while index < ranges.len() && step >= ranges[index].len - skip {
            step -= ranges[index].len - skip;
            skip = 0;
            index += 1;
        }
        skip += step;
    }
    Ok(done)
}
