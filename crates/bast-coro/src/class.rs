//! All stacks of one size: slabs, and the lists of free stacks.
//!
//! ```text
//!             take                        take                       take, guards by batches
//!   in use ◄────────── hot ─── shed ───► cold ◄─┐          fresh ───────────────► in use
//!      │                ▲      (bulk)     │     │            ▲
//!      └───── give ─────┘                 └── whole slab ────┘
//!                                            free: reset
//! ```
//!
//! * **hot**: a LIFO list, pages kept. Taking and giving is a push and a pop, nothing else.
//! * **cold**: pages given back, guards still there. Listed by slab, so that a slab of which
//!   nothing is used any more is noticed.
//! * **fresh**: the part of a slab beyond `next`; never touched since the slab was mapped or reset.
//!
//! Giving pages back one stack at a time costs 1 to 3 µs each, and reading anything in a page to
//! find out whether it is there would fault it in. So it is done in bulk and rarely:
//!
//! * When the hot list has grown to twice its limit, all beyond the limit is shed: sorted by
//!   address, neighbours merged, one vectored call. Guards survive that (`MADV_DONTNEED` skips
//!   guard markers and protected pages alike).
//! * When all slots of a slab are free and cold the slab is mapped anew in place, which frees its
//!   page tables as well, and its slots are fresh again.
//! * Stacks that stay hot may have been used deeply once. A cursor goes round the hot list, some
//!   stacks every [`TICK`] gives, and gives back all but the top [`KEEP`] bytes, whether they are
//!   there or not. That costs about 0.3 µs for a stack without deep pages, so 1 ns a give: with
//!   2048 free stacks a take and give was measured at 3.4 ns, with one at 2.5.

use std::io;
use std::ptr::NonNull;

use crate::error::StackErrorKind;
use crate::guard::Guard;
use crate::os::{self, Range};
use crate::registry::{self, Registration, SlabInfo};
use crate::stack::{LINE, Stack, colour_of};

/// Guards are installed for this many slots at once.
const BATCH: usize = 64;
/// No slab is larger (8 GiB of address space at the default stack size).
const MAX_SLOTS: usize = 32768;
const MAX_SLAB_BYTES: usize = 9 << 30;
/// The first slab is no larger, whatever the stack size.
const FIRST_SLAB_BYTES: usize = 64 << 20;
/// Upkeep comes every so many gives.
const TICK: u32 = 1024;
/// So many hot stacks lose their deep pages at each upkeep.
const SWEEP: usize = 4;
/// A hot stack keeps this much of its top. Four times what a sleeping fiber needs; common code
/// (a TLS handshake excepted) stays within.
const KEEP: usize = 16 * 1024;

struct Slab {
    base: NonNull<u8>,
    slots: usize,
    /// Slots from here on are fresh.
    next: usize,
    /// Slots below have their guards.
    guarded: usize,
    cold: Vec<u32>,
    registration: Registration,
}

pub(crate) struct Class {
    index: usize,
    pub(crate) usable: usize,
    page: usize,
    /// Bytes of a slot that are not its stack.
    guard: usize,
    coloured: bool,
    pool: *const u8,
    hot: Vec<Stack>,
    hot_limit: usize,
    tick: u32,
    cursor: usize,
    slabs: Vec<Slab>,
    /// Indices of `slabs`, by address.
    order: Vec<usize>,
    /// No slab before this one has fresh slots.
    open: usize,
    cold: usize,
    next_slots: usize,
    max_slots: usize,
    ranges: Vec<Range>,
}

pub(crate) struct ClassConfig {
    pub(crate) index: usize,
    pub(crate) usable: usize,
    pub(crate) page: usize,
    pub(crate) coloured: bool,
    pub(crate) pool: *const u8,
    pub(crate) hot_limit: usize,
    pub(crate) first_slab: usize,
}

impl Class {
    pub(crate) fn new(config: ClassConfig) -> Class {
        let ClassConfig { index, usable, page, coloured, pool, hot_limit, first_slab } = config;
        let guard = page * os::GUARD_PAGES;
        let stride = usable + guard;
        let max_slots = (MAX_SLAB_BYTES / stride).clamp(1, MAX_SLOTS);
        let first = first_slab.min(FIRST_SLAB_BYTES / stride).clamp(1, max_slots);
        Class {
            index,
            usable,
            page,
            guard,
            coloured,
            pool,
            hot: Vec::new(),
            hot_limit,
            tick: TICK,
            cursor: 0,
            slabs: Vec::new(),
            order: Vec::new(),
            open: 0,
            cold: 0,
            next_slots: first,
            max_slots,
            ranges: Vec::new(),
        }
    }

    /// A slot is its guard and its stack. With 256 KiB that is 65 pages: being odd, the stride
    /// spreads the stack tops over all sets of the TLB. Measured by `examples/switch_cost.rs`
    /// with coloured tops, 65 pages against 64, ns for a resume and suspend: 3.9 against 6.5 with
    /// 100 coroutines, no difference with 10 or 10,000, 38 against 49 with 100,000.
    fn stride(&self) -> usize {
        self.usable + self.guard
    }

    /// Stacks that are neither in a list nor fresh.
    pub(crate) fn live(&self) -> usize {
        self.slabs.iter().map(|s| s.next).sum::<usize>() - self.free()
    }

    pub(crate) fn free(&self) -> usize {
        self.hot.len() + self.cold
    }

    pub(crate) fn hot(&self) -> usize {
        self.hot.len()
    }

    pub(crate) fn slabs(&self) -> usize {
        self.slabs.len()
    }

    #[inline]
    pub(crate) fn take_hot(&mut self) -> Option<Stack> {
        self.hot.pop()
    }

    #[inline]
    pub(crate) fn give(&mut self, stack: Stack) {
        self.hot.push(stack);
        self.tick -= 1;
        if self.tick == 0 {
            self.upkeep();
        }
    }

    #[cold]
    #[inline(never)]
    fn upkeep(&mut self) {
        self.tick = TICK;
        if self.hot.len() > 2 * self.hot_limit {
            self.shed(self.hot_limit);
        }
        self.sweep(SWEEP);
    }

    /// A stack that is not hot.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_slow(
        &mut self,
        guard: &mut Guard,
    ) -> Result<Stack, (StackErrorKind, io::Error)> {
        if self.cold > 0
            && let Some(slab) = self.slabs.iter().position(|s| !s.cold.is_empty())
            && let Some(slot) = self.slabs[slab].cold.last()
        {
            let stack = self.stack_at(slab, *slot as usize)?;
            self.slabs[slab].cold.pop();
            self.cold -= 1;
            return Ok(stack);
        }
        while self.open < self.slabs.len()
            && self.slabs[self.open].next == self.slabs[self.open].slots
        {
            self.open += 1;
        }
        if self.open == self.slabs.len() {
            self.add_slab().map_err(|e| (StackErrorKind::AddressSpace, e))?;
        }
        let stride = self.stride();
        let slab = &mut self.slabs[self.open];
        if slab.next == slab.guarded {
            let count = BATCH.min(slab.slots - slab.guarded);
            let first = slab.base.as_ptr().wrapping_add(slab.guarded * stride);
            // SAFETY: fresh slots of our own slab.
            unsafe { guard.install(first, stride, count, self.guard) }
                .map_err(|e| (StackErrorKind::Guard, e))?;
            slab.guarded += count;
        }
        let stack = self.stack_at(self.open, self.slabs[self.open].next)?;
        self.slabs[self.open].next += 1;
        Ok(stack)
    }

    fn stack_at(&self, slab: usize, slot: usize) -> Result<Stack, (StackErrorKind, io::Error)> {
        let at = self.slabs[slab].base.as_ptr().wrapping_add(slot * self.stride());
        let colour = colour_of(slot, self.coloured);
        // SAFETY: a guarded slot of our slab that was fresh or cold and is in no list now. The
        // slab stays mapped while any of its stacks is out (see drop).
        unsafe {
            let usable = Range { start: at.wrapping_add(self.guard), len: self.usable };
            let limit = os::prepare(usable).map_err(|e| (StackErrorKind::Memory, e))?;
            Ok(Stack::init(usable, limit, self.page, colour, self.index, self.pool))
        }
    }

    fn add_slab(&mut self) -> io::Result<()> {
        let stride = self.stride();
        let mut slots = self.next_slots;
        let base = loop {
            match os::reserve(slots * stride) {
                Ok(base) => break base,
                // Perhaps there is room for less.
                Err(_) if slots > 1 => slots /= 2,
                Err(e) => return Err(e),
            }
        };
        self.next_slots = (slots * 2).min(self.max_slots);
        let registration = registry::register(SlabInfo {
            base: base.as_ptr().expose_provenance(),
            len: slots * stride,
            stride,
            guard: self.guard,
            coloured: self.coloured,
        });
        let at = self.order.partition_point(|&i| self.slabs[i].base < base);
        self.order.insert(at, self.slabs.len());
        let cold = Vec::new();
        self.slabs.push(Slab { base, slots, next: 0, guarded: 0, cold, registration });
        Ok(())
    }

    /// Gives back the pages of all hot stacks but the `keep` most recent ones.
    pub(crate) fn shed(&mut self, keep: usize) {
        let excess = self.hot.len().saturating_sub(keep);
        if excess == 0 {
            return;
        }
        let stride = self.stride();
        let mut batch: Vec<Stack> = self.hot.drain(..excess).collect();
        batch.sort_unstable_by_key(|s| s.base());
        self.cold += batch.len();
        self.ranges.clear();
        let mut rest = batch.as_slice();
        for &index in &self.order {
            let slab = &mut self.slabs[index];
            let end = slab.base.addr().get() + slab.slots * stride;
            let count = rest.partition_point(|s| s.base().addr().get() < end);
            if count == 0 {
                continue;
            }
            let (mine, others) = rest.split_at(count);
            rest = others;
            let first_range = self.ranges.len();
            let mut run_end = 0; // slot number after the current run of neighbours
            for stack in mine {
                let slot = (stack.base().addr().get() - slab.base.addr().get()) / stride;
                slab.cold.push(slot as u32);
                if let Some(range) = self.ranges[first_range..].last_mut()
                    && slot == run_end
                {
                    range.len += stride;
                } else {
                    let start = slab.base.as_ptr().wrapping_add(slot * stride + self.guard);
                    self.ranges.push(Range { start, len: self.usable });
                }
                run_end = slot + 1;
            }
            if slab.cold.len() == slab.next {
                self.ranges.truncate(first_range);
                self.cold -= slab.cold.len();
                slab.cold = Vec::new();
                // SAFETY: every slot that was ever handed out is free again, and none is in the
                // hot list: what was listed there is what was counted.
                if unsafe { os::reset(slab.base, slab.slots * stride) }.is_ok() {
                    slab.next = 0;
                    slab.guarded = 0;
                    self.open = self.open.min(index);
                } else {
                    // The range is not ours any more: no slot, never used again.
                    slab.slots = 0;
                    slab.next = 0;
                    slab.guarded = 0;
                }
            }
        }
        debug_assert!(rest.is_empty(), "a stack outside all slabs");
        // SAFETY: slots that are free; the ranges begin after a guard and end at a slot's end.
        unsafe { os::discard(&self.ranges) };
    }

    /// Gives back the deep pages of `count` hot stacks, going round.
    pub(crate) fn sweep(&mut self, count: usize) {
        let keep = KEEP.next_multiple_of(self.page);
        if self.usable <= keep || self.hot.is_empty() {
            return;
        }
        self.ranges.clear();
        for _ in 0..count.min(self.hot.len()) {
            self.cursor = if self.cursor + 1 < self.hot.len() { self.cursor + 1 } else { 0 };
            let stack = &self.hot[self.cursor];
            let deep =
                Range { start: stack.slot().wrapping_add(self.guard), len: self.usable - keep };
            // SAFETY: a free stack; what stays includes the header, which is within the top page.
            match unsafe { os::retract(deep, stack.limit()) } {
                Some(limit) => stack.set_limit(limit),
                None => self.ranges.push(deep),
            }
        }
        // SAFETY: as above.
        unsafe { os::discard(&self.ranges) };
    }
}

impl Drop for Class {
    fn drop(&mut self) {
        let out = self.live() > 0;
        let stride = self.stride();
        for slab in self.slabs.drain(..) {
            if out {
                // coro 1: code may still be suspended on a stack that did not come back. Which
                // slab it is in is not known here, so all of this class stay.
                std::mem::forget(slab.registration);
                continue;
            }
            drop(slab.registration);
            // SAFETY: no stack is out, and the lists end with this class.
            unsafe { os::release(slab.base, slab.slots * stride) };
        }
    }
}

const _: () = assert!(LINE * (crate::stack::COLOURS + 1) < KEEP);
