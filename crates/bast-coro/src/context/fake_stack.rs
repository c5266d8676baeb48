//! AddressSanitizer's second stack, which `portable` gives back when the code that had it has returned.
//!
//! To find the use of a variable whose function has returned, AddressSanitizer keeps variables on a *fake stack*:
//! one for each stack that code runs on, made by the first function that needs it, some megabytes of address space
//! whose pages are used in turn. It is destroyed when a switch is begun that names no place to keep it (`null`), so
//! that is how code should leave its stack for good. corosensei (0.3.4) names a place there too and forgets it, and
//! so each context would leave behind what it has used of it:
//!
//! ```text
//!   entry returns ─► current() ─► corosensei's last switch ─► resume() returns ─► destroy(), on the caller's stack
//!                    which it is                               now nothing is on it
//! ```
//!
//! Between these a result of corosensei's is still read from it, so it cannot be destroyed any sooner.

/// A fake stack that is still there, or null. Where there is no AddressSanitizer there is none.
#[cfg(feature = "sanitizer")]
pub(super) type FakeStack = *mut u8;
#[cfg(not(feature = "sanitizer"))]
pub(super) type FakeStack = ();

#[cfg(not(feature = "sanitizer"))]
#[inline]
pub(super) fn current() -> FakeStack {}

/// # Safety
/// None needed: there is none.
#[cfg(not(feature = "sanitizer"))]
#[inline]
pub(super) unsafe fn destroy((): FakeStack) {}

#[cfg(feature = "sanitizer")]
pub(super) use sanitized::{current, destroy};

#[cfg(feature = "sanitizer")]
mod sanitized {
    use std::ptr;

    use super::FakeStack;

    unsafe extern "C" {
        fn __asan_get_current_fake_stack() -> *mut u8;
        fn __sanitizer_start_switch_fiber(save: *mut *mut u8, bottom: *const u8, size: usize);
        fn __sanitizer_finish_switch_fiber(
            save: *mut u8,
            old_bottom: *mut *const u8,
            old_size: *mut usize,
        );
    }

    /// That of the code that calls this.
    pub(crate) fn current() -> FakeStack {
        // SAFETY: reads a variable of this thread.
        unsafe { __asan_get_current_fake_stack() }
    }

    /// Destroys one by what can: a switch to it, and one for good away from it. No stack is switched in fact, so
    /// the bounds that are told are, in the end, those that were there.
    ///
    /// # Safety
    /// Nothing is on it any more, and nobody will run on it.
    pub(crate) unsafe fn destroy(dead: FakeStack) {
        if dead.is_null() {
            return;
        }
        let (mut own, mut bottom, mut size) = (ptr::null_mut(), ptr::null(), 0);
        // SAFETY: each begin has its end, with no switch between. Meanwhile no function is entered that could get
        // its variables on `dead`. `own` comes back to where it was.
        unsafe {
            __sanitizer_start_switch_fiber(&raw mut own, ptr::null(), 0);
            __sanitizer_finish_switch_fiber(dead, &raw mut bottom, &raw mut size);
            __sanitizer_start_switch_fiber(ptr::null_mut(), bottom, size);
            __sanitizer_finish_switch_fiber(own, ptr::null_mut(), ptr::null_mut());
        }
    }
}
