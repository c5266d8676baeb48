//! What is said when a stack overflows, and by whom. Each case dies in a child.

use std::hint::black_box;
use std::process::Output;

#[cfg(unix)]
use bast_coro::overflow::AltStack;
use bast_coro::{Builder, Guards, PoolConfig, StackPool};

#[cfg(unix)]
use crate::support::assert_success;
use crate::support::{aborted, in_child, segfaulted, stderr};

/// Uses up any stack; the sum keeps it from being a loop.
#[allow(unconditional_recursion)]
#[inline(never)]
fn dive(n: u64) -> u64 {
    let mut frame = [n; 64];
    black_box(&mut frame);
    dive(n + 1) + black_box(frame[3])
}

#[track_caller]
fn assert_reported(output: &Output, name: &str, kib: usize) {
    let text = stderr(output);
    assert!(aborted(output), "{:?}: {text}", output.status);
    let line = format!("\nfiber '{name}' has overflowed its stack of {kib} KiB\n");
    assert!(text.contains(&line), "{text}");
    assert!(text.contains("Builder::stack_size") && text.contains("BAST_STACK"), "{text}");
}

#[test]
fn names_the_fiber_and_its_size() {
    let output = in_child("overflow::names_the_fiber_and_its_size", || {
        let c = Builder::new().name("deep thought").stack_size(64 << 10).create(|_| dive(0));
        c.unwrap().call();
    });
    assert_reported(&output, "deep thought", 64);
}

#[test]
fn without_a_name_and_on_another_thread() {
    let output = in_child("overflow::without_a_name_and_on_another_thread", || {
        let worker = || bast_coro::Coroutine::new(|_| dive(0)).call();
        let _ = std::thread::Builder::new().name("worker".into()).spawn(worker).unwrap().join();
    });
    assert_reported(&output, "<unnamed>", 256);
}

#[test]
fn with_guards_by_protection_from_a_pool() {
    let output = in_child("overflow::with_guards_by_protection_from_a_pool", || {
        let config = PoolConfig::new().guards(Guards::Mprotect).stack_size(128 << 10);
        let pool = StackPool::with_config(config).unwrap();
        let pool = std::rc::Rc::new(std::cell::RefCell::new(pool));
        // The seventh slot: colour and index have to be right to find its name.
        let others: Vec<_> =
            (0..6).map(|_| bast_coro::Coroutine::with_pool(&pool, |_| ())).collect();
        let c = Builder::new().name("seventh").create_in(&pool, |_| dive(0)).unwrap();
        c.call();
        drop(others);
    });
    assert_reported(&output, "seventh", 128);
}

/// Trimmed and taken anew: the guard is still there and the name is the new one.
#[test]
fn on_a_recycled_stack() {
    let output = in_child("overflow::on_a_recycled_stack", || {
        let pool = std::rc::Rc::new(std::cell::RefCell::new(StackPool::new().unwrap()));
        let held = bast_coro::Coroutine::with_pool(&pool, |_| ());
        Builder::new().name("first").create_in(&pool, |_| ()).unwrap().call();
        pool.borrow_mut().trim(0);
        assert_eq!(pool.borrow().stats().hot, 0);
        Builder::new().name("second").create_in(&pool, |_| dive(0)).unwrap().call();
        drop(held);
    });
    assert_reported(&output, "second", 256);
}

/// One frame larger than the guard: rustc probes each page on the way.
#[test]
#[cfg(not(feature = "sanitizer"))] // frames that a sanitizer lays out itself are not probed
fn with_a_frame_larger_than_the_guard() {
    #[inline(never)]
    fn huge() -> u8 {
        let mut frame = [1u8; 1 << 20];
        black_box(&mut frame);
        frame[12345]
    }
    let output = in_child("overflow::with_a_frame_larger_than_the_guard", || {
        Builder::new().name("wide").create(|_| huge()).unwrap().call();
    });
    assert_reported(&output, "wide", 256);
}

#[test]
#[cfg(not(feature = "sanitizer"))] // a sanitizer has the handler that std would install
fn std_still_reports_its_own_threads() {
    let output = in_child("overflow::std_still_reports_its_own_threads", || {
        let _pool = StackPool::new().unwrap();
        let thread = std::thread::Builder::new().name("ordinary".into()).spawn(|| dive(0));
        let _ = thread.unwrap().join();
    });
    let text = stderr(&output);
    // On Windows the exception goes on, and ends the process by its own code.
    assert!(aborted(&output) || cfg!(windows), "{:?}: {text}", output.status);
    assert!(!output.status.success());
    assert!(text.contains("thread 'ordinary'"), "{text}");
    assert!(text.contains("has overflowed its stack"), "{text}");
    assert!(!text.contains("fiber"), "{text}");
}

#[test]
#[cfg(not(feature = "sanitizer"))] // a sanitizer reports it and exits
fn a_wild_pointer_is_still_a_segmentation_fault() {
    let output = in_child("overflow::a_wild_pointer_is_still_a_segmentation_fault", || {
        let c = bast_coro::Coroutine::new(|_| {
            let wild = black_box(std::ptr::without_provenance::<u8>(8));
            // SAFETY: none; this is the fault the test is about.
            unsafe { wild.read_volatile() }
        });
        c.call();
    });
    assert!(segfaulted(&output), "{:?}: {}", output.status, stderr(&output));
    assert!(!stderr(&output).contains("fiber"), "{}", stderr(&output));
}

/// A handler that the program had installed gets what is not ours.
#[test]
#[cfg(all(unix, not(feature = "sanitizer")))]
fn the_previous_handler_is_called() {
    extern "C" fn mine(_: libc::c_int) {
        // SAFETY: async-signal-safe.
        unsafe { libc::_exit(77) };
    }
    let output = in_child("overflow::the_previous_handler_is_called", || {
        // SAFETY: a handler of the right signature.
        unsafe { libc::signal(libc::SIGSEGV, mine as *const () as usize) };
        let _pool = StackPool::new().unwrap();
        // SAFETY: none; see above.
        unsafe { black_box(std::ptr::without_provenance::<u8>(8)).read_volatile() };
    });
    assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
}

/// A thread made by foreign code has no signal stack until it is given one.
#[test]
#[cfg(unix)]
fn on_a_foreign_thread_with_a_signal_stack() {
    extern "C" fn main(_: *mut libc::c_void) -> *mut libc::c_void {
        let kept = AltStack::ensure().unwrap();
        Builder::new().name("foreign").create(|_| dive(0)).unwrap().call();
        drop(kept);
        std::ptr::null_mut()
    }
    let output = in_child("overflow::on_a_foreign_thread_with_a_signal_stack", || {
        // SAFETY: plain thread creation; joined below.
        unsafe {
            let mut thread = std::mem::zeroed();
            let none = std::ptr::null_mut();
            assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), main, none), 0);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    });
    assert_reported(&output, "foreign", 256);
}

#[test]
#[cfg(unix)]
fn signal_stacks_come_and_go() {
    extern "C" fn main(_: *mut libc::c_void) -> *mut libc::c_void {
        let has = || {
            // SAFETY: asks only.
            unsafe {
                let mut old: libc::stack_t = std::mem::zeroed();
                assert_eq!(libc::sigaltstack(std::ptr::null(), &raw mut old), 0);
                old.ss_flags & libc::SS_DISABLE == 0
            }
        };
        let before = has();
        let outer = AltStack::ensure().unwrap();
        let inner = AltStack::ensure().unwrap();
        assert!(has());
        drop(inner);
        assert!(has(), "the inner one found one and took none away");
        let size = || {
            // SAFETY: asks only.
            unsafe {
                let mut old: libc::stack_t = std::mem::zeroed();
                assert_eq!(libc::sigaltstack(std::ptr::null(), &raw mut old), 0);
                old.ss_size
            }
        };
        let small = size();
        let large = AltStack::at_least(2 * small).unwrap();
        assert!(size() >= 2 * small);
        drop(large);
        assert_eq!(size(), small, "what was there before is back");
        drop(outer);
        assert_eq!(has(), before);
        std::ptr::null_mut()
    }
    let output = in_child("overflow::signal_stacks_come_and_go", || {
        // SAFETY: plain thread creation; joined below.
        unsafe {
            let mut thread = std::mem::zeroed();
            let none = std::ptr::null_mut();
            assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), main, none), 0);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    });
    assert_success(&output);
}

/// A thread made by foreign code needs nothing.
#[test]
#[cfg(windows)]
fn on_a_foreign_thread() {
    use windows_sys::Win32::System::Threading::{CreateThread, INFINITE, WaitForSingleObject};
    unsafe extern "system" fn main(_: *mut std::ffi::c_void) -> u32 {
        Builder::new().name("foreign").create(|_| dive(0)).unwrap().call();
        0
    }
    let output = in_child("overflow::on_a_foreign_thread", || {
        let none = std::ptr::null_mut::<std::ffi::c_void>();
        // SAFETY: plain thread creation; the process waits for it.
        unsafe {
            let thread = CreateThread(none.cast(), 0, Some(main), none, 0, none.cast());
            WaitForSingleObject(thread, INFINITE);
        }
    });
    assert_reported(&output, "foreign", 256);
}

/// A stack that has grown remembers so: it is used again, from a pool that has taken the deep part back.
#[test]
fn after_a_deep_use_and_a_trim() {
    let output = in_child("overflow::after_a_deep_use_and_a_trim", || {
        fn fill(n: usize) -> usize {
            let mut frame = [n; 64];
            black_box(&mut frame);
            if n == 0 { frame[3] } else { fill(n - 1) + black_box(frame[5]) }
        }
        let pool = std::rc::Rc::new(std::cell::RefCell::new(StackPool::new().unwrap()));
        for keep in [2, 1, 0] {
            let deep = [100, 300, 10]
                .map(|n| bast_coro::Coroutine::with_pool(&pool, move |_| fill(black_box(n))));
            deep.iter().for_each(|c| assert_eq!(c.call(), bast_coro::State::Term));
            pool.borrow_mut().trim(keep);
        }
        Builder::new().name("again").create_in(&pool, |_| dive(0)).unwrap().call();
    });
    assert_reported(&output, "again", 256);
}
