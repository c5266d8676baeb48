//! Faults on purpose, for a build with a sanitizer: if it does not report these, it sees nothing in
//! fibers, and a clean run of the other tests means nothing. `cargo xtask asan` runs them one by one.

use std::hint::black_box;

/// Runs `fault` in a fiber that waits before and after, so that stacks have been switched.
fn in_a_fiber(fault: impl FnOnce() + Send + 'static) {
    let fiber = bast::spawn(move || {
        bast::yield_now();
        fault();
        bast::yield_now();
    });
    fiber.join().expect("the fiber");
}

#[test]
#[ignore = "must be reported by the sanitizer"]
fn a_use_after_free_in_a_fiber() {
    in_a_fiber(|| {
        let freed = black_box(Box::into_raw(Box::new(7_u64)));
        // SAFETY: none for the second: that is what must be reported.
        let value = unsafe {
            drop(Box::from_raw(freed));
            bast::yield_now();
            freed.read_volatile()
        };
        black_box(value);
    });
}

#[test]
#[ignore = "must be reported by the sanitizer"]
fn a_leak_by_a_fiber() {
    // Enough that a pointer left behind in a register or on a stack cannot hide them all.
    in_a_fiber(|| (0..100).for_each(|n| std::mem::forget(black_box(Box::new([n; 1000])))));
}
