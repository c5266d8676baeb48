//! What AddressSanitizer keeps for a stack goes with the code that ran there.

use std::fs;
use std::panic;
use std::ptr;

use bast_coro::{Coroutine, State};

use crate::support::{assert_success, in_child, stderr};

unsafe extern "C" {
    fn __asan_get_current_fake_stack() -> *mut u8;
}

fn fake_stack() -> *mut u8 {
    // SAFETY: reads a variable of this thread.
    unsafe { __asan_get_current_fake_stack() }
}

/// Pages of address space.
fn mapped() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_fake_stack_ends_with_its_code() {
    let output = in_child("sanitizer::a_fake_stack_ends_with_its_code", || {
        let own = fake_stack();
        if own.is_null() {
            return; // `detect_stack_use_after_return=0`
        }
        let round = || {
            let coroutine = Coroutine::new(move |yielder| {
                let at = fake_stack();
                assert!(at != own && !at.is_null());
                yielder.yield_now();
                assert!(ptr::eq(fake_stack(), at));
            });
            while coroutine.call() != State::Term {}
            assert!(ptr::eq(fake_stack(), own));
        };
        round();
        let before = mapped();
        (0..200).for_each(|_| round());
        let more = mapped().saturating_sub(before);
        // Eleven times the stack's size each.
        assert!(more < 200 * (11 * (256 << 10) / 4096) / 4, "{more} pages");
        // Whoever leaves by a panic is told if the bounds of this stack are not what they were.
        assert!(panic::catch_unwind(|| panic::resume_unwind(Box::new(()))).is_err());
    });
    assert_success(&output);
    assert!(!stderr(&output).contains("Sanitizer"), "{}", stderr(&output));
}
