//! One stack: an owned slot of a slab.
//!
//! ```text
//!   low                                                                       high
//!   ├─ guard ─┼──────────────── usable ─────────────────┬────────┬─ colour ─┤
//!    GUARD_PAGES never touched … frames ◄── grows ──────┤ header │ 0–15 lines
//!                                                       base
//! ```
//!
//! A [`Stack`] is the address of its header, which is also where its frames begin. So the header
//! shares its page, and mostly its neighbouring cache line, with the frames that are touched
//! anyhow. Size and place of the slot follow from the header; the fault handler gets there from
//! the other side, by the slab's entry in the registry.

use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;

use crate::os::{self, Range};
use crate::registry::SlabInfo;

/// One cache line.
pub(crate) const LINE: usize = 64;
/// Number of offsets that stack tops take in turn. 16 lines: with the header that is 1 KiB, so
/// that 3 KiB of the top page are left for a sleeping fiber.
///
/// Without, all tops are at the same place in their pages, and share the few sets of each cache
/// that this place maps to. Measured (with the portable switch), ns for a resume and suspend,
/// coloured against plain, with `cargo run --release -p bast-coro --example switch_cost`:
///
/// | coroutines | 1 | 10 | 100 | 10,000 | 100,000 |
/// |---|---|---|---|---|---|
/// | coloured | 3.0 | 3.2 | 3.9 | 9.9 | 38 |
/// | plain | 3.0 | 6.0 | 6.5 | 10.4 | 79 |
pub(crate) const COLOURS: usize = 16;

#[repr(C, align(64))]
pub(crate) struct Header {
    /// Identity of the pool (its place in the registry), never followed.
    pub(crate) pool: Cell<*const u8>,
    /// Index of the size class in its pool.
    pub(crate) class: Cell<usize>,
    pub(crate) usable: Cell<usize>,
    pub(crate) page: Cell<usize>,
    /// Where the committed part ends, where that matters (`os::prepare`).
    limit: Cell<usize>,
    name: Cell<*const u8>,
    name_len: Cell<usize>,
}

impl Header {
    #[inline]
    pub(crate) fn clear_label(&self) {
        self.name_len.set(0);
        self.name.set(std::ptr::null());
    }
}

/// An owned stack, taken from a [`StackPool`](crate::StackPool) and to be given back to it.
///
/// A stack that is dropped instead is lost to its pool, and keeps the pool's memory from being
/// unmapped; nothing worse.
#[must_use = "a stack that is not given back is lost to its pool"]
#[repr(transparent)]
pub struct Stack {
    header: NonNull<Header>,
}

impl Stack {
    /// The stack in the slot whose bytes behind the guard are `range`.
    ///
    /// # Safety
    /// The range was prepared, holds nothing, belongs to nobody else, and stays mapped for as long as the
    /// stack is in use.
    pub(crate) unsafe fn init(
        range: Range,
        limit: usize,
        page: usize,
        colour: usize,
        class: usize,
        pool: *const u8,
    ) -> Stack {
        let top = range.start.wrapping_add(range.len);
        let header = top.wrapping_sub((colour + 1) * LINE).cast::<Header>();
        // SAFETY: in the slot, page-aligned top minus whole lines: aligned; the slot is ours.
        unsafe {
            header.write(Header {
                pool: Cell::new(pool),
                class: Cell::new(class),
                usable: Cell::new(range.len),
                page: Cell::new(page),
                limit: Cell::new(limit),
                name: Cell::new(std::ptr::null()),
                name_len: Cell::new(0),
            });
            Stack { header: NonNull::new_unchecked(header) }
        }
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the slot stays mapped while a Stack exists (coro 1: a pool with stacks out
        // never unmaps), and the header is only accessed through shared references to cells.
        unsafe { self.header.as_ref() }
    }

    /// The highest address of the frames; below it the stack grows.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.header.cast()
    }

    /// The lowest address of the slot, guard included.
    #[inline]
    pub(crate) fn slot(&self) -> *mut u8 {
        let header = self.header();
        let base = self.base().as_ptr();
        // Header and colour are less than a page, so the slot's end is the next page boundary.
        let page = header.page.get();
        let to_end = page - (base.addr() & (page - 1));
        base.wrapping_add(to_end).wrapping_sub(header.usable.get() + page * os::GUARD_PAGES)
    }

    /// Where the committed part ends, where that matters (`os::prepare`).
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.header().limit.get()
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        self.header().limit.set(limit);
    }

    /// The bytes between `sp`, an address on this stack, and the guard.
    #[inline]
    pub(crate) fn room_below(&self, sp: *const u8) -> usize {
        sp.addr().saturating_sub(self.slot().addr() + self.header().page.get() * os::GUARD_PAGES)
    }

    /// Bytes between the guard and the end of the slot.
    ///
    /// The header and the offset of the top (up to 1 KiB together) are part of it.
    #[inline]
    pub fn usable_size(&self) -> usize {
        self.header().usable.get()
    }

    /// Names the code that runs on this stack, for the report of an overflow. A null `name`
    /// takes the name away; giving the stack back to its pool does so, too.
    ///
    /// # Safety
    /// `name` is null, or its `len` bytes stay valid and unchanged until the label is set anew
    /// or the stack is given back: a fault handler may read them at any instruction.
    #[inline]
    pub unsafe fn set_label(&self, name: *const u8, len: usize) {
        let header = self.header();
        // The handler runs on this very thread, so program order is all the order it needs; the
        // length is zero while the pointer changes.
        header.name_len.set(0);
        header.name.set(name);
        header.name_len.set(if name.is_null() { 0 } else { len });
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("base", &self.base())
            .field("usable_size", &self.usable_size())
            .finish()
    }
}

/// The offset of the top of slot number `index`, in lines.
#[inline]
pub(crate) fn colour_of(index: usize, coloured: bool) -> usize {
    if coloured { index % COLOURS } else { 0 }
}

/// For the fault handler: whether `addr`, an address in `slab`, is in the guard of a slot.
#[cfg(unix)]
pub(crate) fn in_guard(slab: SlabInfo, addr: usize) -> bool {
    (addr - slab.base) % slab.stride < slab.guard
}

/// For the fault handler: the label of the slot of `slab` that `addr` is in, and its usable size.
/// Async-signal-safe.
///
/// # Safety
/// The slab is mapped, `addr` lies in it, and its slot was handed out at least once.
pub(crate) unsafe fn label_at(slab: SlabInfo, addr: usize) -> (*const u8, usize, usize) {
    let index = (addr - slab.base) / slab.stride;
    let end = slab.base + (index + 1) * slab.stride;
    let header = end - (colour_of(index, slab.coloured) + 1) * LINE;
    let header = std::ptr::with_exposed_provenance::<Header>(header);
    // SAFETY: the top of a slot is mapped and never guarded.
    let header = unsafe { &*header };
    (header.name.get(), header.name_len.get(), slab.stride - slab.guard)
}
