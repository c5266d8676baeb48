//! Where the stacks of this process are: the table that the fault handler reads.
//!
//! The one place of this crate with state shared between threads. It is here because a fault
//! handler is process-wide: it runs on whichever thread faulted, may take no lock, and has to
//! tell from the fault's address alone whether a guard of ours was hit.
//!
//! ```text
//!   SEGMENTS   [0] ──► 64 entries     an entry:  version | base | len | stride | guard | colour
//!              [1] ──► 128 entries               even: stable        odd: being written
//!              [2] ──► 256 entries
//!               …      null until needed
//! ```
//!
//! Segments are only ever appended, never moved or freed, so a pointer once seen stays good.
//! An entry is written when a slab is made and cleared before it is unmapped; its place is then
//! used for a later slab. Writers hold the lock `FREE`; the handler takes none.
//!
//! # Ordering
//!
//! * A segment's pointer is stored with Release after its entries have been initialised, and
//!   loaded with Acquire: who sees the segment sees entries.
//! * An entry is a sequence lock. The writer makes `version` odd, then a Release fence, then
//!   stores the fields (Relaxed), then stores the even `version` with Release. The reader loads
//!   `version` with Acquire, then the fields (Relaxed), then an Acquire fence, then `version`
//!   again. If a field it read came from a later write, the fences pair: the second load sees at
//!   least that write's odd version, differs from the first, and the entry is skipped.
//! * Skipping is right. The code that faulted runs on a stack of ours only if its slab is alive;
//!   that slab was registered before the stack was handed out (and a pool stays on its thread,
//!   so that registration is earlier in the very thread that faults: visible by program order),
//!   and it is cleared only after all its stacks have come back. So the entry that describes the
//!   faulting stack is never being changed, and one that is being changed is never the one.
//! * Cost: nothing on any path but the making and the end of a slab.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

const FIRST: usize = 64;
const SEGMENTS: usize = 24;

static TABLE: [AtomicPtr<Entry>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];
static FREE: Mutex<Free> = Mutex::new(Free { places: Vec::new(), segments: 0 });

/// Places that no slab has. Held by writers only.
struct Free {
    places: Vec<&'static Entry>,
    segments: usize,
}

#[derive(Default)]
struct Entry {
    version: AtomicUsize,
    base: AtomicUsize,
    len: AtomicUsize,
    stride: AtomicUsize,
    guard: AtomicUsize,
    coloured: AtomicUsize,
}

/// What is known of one slab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlabInfo {
    pub(crate) base: usize,
    pub(crate) len: usize,
    /// Distance of slots: a guard, then the stack.
    pub(crate) stride: usize,
    pub(crate) guard: usize,
    pub(crate) coloured: bool,
}

/// The registration of one slab; cleared when dropped.
#[derive(Debug)]
pub(crate) struct Registration(&'static Entry);

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Enters a slab. To be dropped before the slab is unmapped. An entry of no length is never found
/// and only takes a place.
pub(crate) fn register(info: SlabInfo) -> Registration {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.places.is_empty() {
        let segment: Box<[Entry]> = (0..FIRST << free.segments).map(|_| Entry::default()).collect();
        let segment: &'static [Entry] = Box::leak(segment);
        // 2^30 slabs: the address space is full long before the table is.
        TABLE[free.segments].store(segment.as_ptr().cast_mut(), Ordering::Release);
        free.segments += 1;
        free.places.extend(segment.iter().rev());
    }
    let entry = free.places.pop().expect("a segment was just added");
    entry.write(info);
    Registration(entry)
}

impl Registration {
    /// An address that no other registration has while this one lasts.
    #[inline]
    pub(crate) fn place(&self) -> *const u8 {
        ptr::from_ref(self.0).cast()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.write(SlabInfo::default());
        free.places.push(self.0);
    }
}

/// The slab that contains `addr`. Async-signal-safe: loads only.
pub(crate) fn find(addr: usize) -> Option<SlabInfo> {
    for (i, segment) in TABLE.iter().enumerate() {
        let segment = segment.load(Ordering::Acquire);
        if segment.is_null() {
            break;
        }
        for k in 0..FIRST << i {
            // SAFETY: segment i holds FIRST << i entries, is initialised before its pointer is
            // published, and is never freed.
            let entry = unsafe { &*segment.add(k) };
            if let Some(info) = entry.read()
                && addr.wrapping_sub(info.base) < info.len
            {
                return Some(info);
            }
        }
    }
    None
}

impl Entry {
    /// Only with `FREE` locked.
    fn write(&self, info: SlabInfo) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.base.store(info.base, Ordering::Relaxed);
        self.len.store(info.len, Ordering::Relaxed);
        self.stride.store(info.stride, Ordering::Relaxed);
        self.guard.store(info.guard, Ordering::Relaxed);
        self.coloured.store(usize::from(info.coloured), Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    fn read(&self) -> Option<SlabInfo> {
        let version = self.version.load(Ordering::Acquire);
        let info = SlabInfo {
            base: self.base.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            stride: self.stride.load(Ordering::Relaxed),
            guard: self.guard.load(Ordering::Relaxed),
            coloured: self.coloured.load(Ordering::Relaxed) != 0,
        };
        fence(Ordering::Acquire);
        let same = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        (same && info.len != 0).then_some(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_until_dropped_and_places_are_reused() {
        // Addresses that no mapping of a process has.
        let info = |i: usize| SlabInfo {
            base: usize::MAX / 2 + i * 4096,
            len: 4096,
            stride: 2048,
            guard: 1024,
            coloured: i.is_multiple_of(2),
        };
        let all: Vec<_> = (0..1000).map(|i| register(info(i))).collect();
        for i in 0..1000 {
            assert_eq!(find(info(i).base), Some(info(i)));
            assert_eq!(find(info(i).base + 4095), Some(info(i)));
        }
        assert_eq!(find(info(1000).base), None);
        let segments = FREE.lock().unwrap().segments;
        drop(all);
        assert_eq!(find(info(7).base), None);
        let again: Vec<_> = (0..1000).map(|i| register(info(i))).collect();
        assert_eq!(FREE.lock().unwrap().segments, segments);
        drop(again);
    }
}
