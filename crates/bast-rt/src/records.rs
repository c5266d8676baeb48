//! Recycled memory for fiber records: one free list a size class, per worker.
//!
//! A record is allocated by the spawner and freed by whoever drops its last reference, mostly the
//! same worker within microseconds. A list of the last few saves the general allocator's work. Memory
//! is taken from and returned to the global allocator with the class's layout, so it does not matter
//! that some records are freed elsewhere.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

use crate::tls;
use crate::worker::Worker;

/// Sizes are rounded up to multiples of this; larger records and stricter alignments go to the
/// allocator as they are.
const STEP: usize = 16;
const CLASSES: usize = 32;
/// Free records kept in each class: what a burst of fibers leaves, about 3 MB.
const KEEP: u32 = 16_384;

struct Class {
    first: Cell<*mut Free>,
    count: Cell<u32>,
}

struct Free {
    next: *mut Free,
}

/// One worker's free lists.
pub(crate) struct Records {
    classes: [Class; CLASSES],
}

/// The layout that a record of type `T` is allocated with, and its class.
const fn class_of<T>() -> (Layout, usize) {
    let layout = Layout::new::<T>();
    let size = layout.size().next_multiple_of(STEP);
    if layout.align() <= STEP && size / STEP < CLASSES {
        // The rounded size is small, so this cannot fail.
        match Layout::from_size_align(size, STEP) {
            Ok(layout) => (layout, size / STEP),
            Err(_) => (layout, CLASSES),
        }
    } else {
        (layout, CLASSES)
    }
}

impl Records {
    pub(crate) fn new() -> Records {
        Records {
            classes: [const { Class { first: Cell::new(std::ptr::null_mut()), count: Cell::new(0) } };
                CLASSES],
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        for (index, class) in self.classes.iter().enumerate() {
            while let Some(free) = NonNull::new(class.first.get()) {
                // SAFETY: on the list, so free and of this class.
                unsafe {
                    class.first.set(free.as_ref().next);
                    dealloc(
                        free.as_ptr().cast(),
                        Layout::from_size_align_unchecked(index * STEP, STEP),
                    );
                }
            }
        }
    }
}

/// Memory for a `T`, recycled if the caller is a worker.
#[inline]
pub(crate) fn allocate<T>(worker: Option<&Worker>) -> NonNull<T> {
    let (layout, class) = const { class_of::<T>() };
    if class < CLASSES
        && let Some(worker) = worker
    {
        let class = &worker.records.classes[class];
        if let Some(free) = NonNull::new(class.first.get()) {
            // SAFETY: on the list, so free and of this class.
            class.first.set(unsafe { free.as_ref() }.next);
            class.count.set(class.count.get() - 1);
            return free.cast();
        }
    }
    // SAFETY: records are not zero-sized.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout)).cast()
}

/// Gives the memory back.
///
/// # Safety
/// It came from `allocate::<T>` and holds nothing any more.
#[inline]
pub(crate) unsafe fn free<T>(memory: NonNull<T>) {
    let (layout, class) = const { class_of::<T>() };
    if class < CLASSES
        && let Some(worker) = tls::worker()
    {
        let class = &worker.records.classes[class];
        if class.count.get() < KEEP {
            let free = memory.cast::<Free>();
            // SAFETY: the memory is ours and large enough.
            unsafe { free.write(Free { next: class.first.get() }) };
            class.first.set(free.as_ptr());
            class.count.set(class.count.get() + 1);
            return;
        }
    }
    // SAFETY: allocated with this layout.
    unsafe { dealloc(memory.as_ptr().cast(), layout) };
}
