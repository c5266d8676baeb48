//! The programs of `scoped_local` and `lazy_local` with what bast has against them: a switch hook for the
//! scoped thread-local, `fiber_local!` in place of the lazy `thread_local!`. Both are right then.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use scoped_tls::{ScopedKey, scoped_thread_local};

use crate::{one_worker, wait_for};

#[derive(Default)]
struct Flags {
    a_is_inside: AtomicBool,
    b_is_inside: AtomicBool,
    a_has_ended: AtomicBool,
}

scoped_thread_local! { static SCOPED: u64 }

/// The very crate: `set` and `with` by A and B in an order that is not last in, first out.
#[test]
fn scoped_tls_with_a_hook_refers_to_what_is_there() {
    bast::hook::add(bast::hook::cell("SCOPED", SCOPED.inner, std::ptr::null));
    one_worker().run(|| {
        let flags = Arc::new(Flags::default());
        let mine = |key: &'static ScopedKey<u64>| key.with(|value| *value);
        let a = bast::spawn({
            let flags = Arc::clone(&flags);
            move || {
                let on_the_stack_of_a = 1;
                SCOPED.set(&on_the_stack_of_a, || {
                    flags.a_is_inside.store(true, SeqCst);
                    wait_for(&flags.b_is_inside);
                    assert_eq!(mine(&SCOPED), 1);
                });
                assert!(!SCOPED.is_set());
            }
        });
        let b = bast::spawn({
            let flags = Arc::clone(&flags);
            move || {
                wait_for(&flags.a_is_inside);
                assert!(!SCOPED.is_set());
                SCOPED.set(&2, || {
                    flags.b_is_inside.store(true, SeqCst);
                    wait_for(&flags.a_has_ended);
                    assert_eq!(mine(&SCOPED), 2);
                });
                assert!(!SCOPED.is_set());
            }
        });
        a.join().unwrap();
        flags.a_has_ended.store(true, SeqCst);
        b.join().unwrap();
        assert!(!SCOPED.is_set());
        bast::spawn(|| assert!(!SCOPED.is_set())).join().unwrap();
    });
}

/// Also across workers, with random orders.
#[test]
fn many_scopes_at_once() {
    scoped_thread_local! { static MANY: u32 }
    bast::hook::add(bast::hook::cell("MANY", MANY.inner, std::ptr::null));
    fn scopes(n: u32, depth: u32) {
        MANY.set(&(n + depth), || {
            for _ in 0..n % 5 {
                bast::yield_now();
                MANY.with(|value| assert_eq!(*value, n + depth));
            }
            if depth < 3 {
                scopes(n, depth + 1);
            }
            MANY.with(|value| assert_eq!(*value, n + depth));
        });
    }
    bast::scope(|s| {
        for n in 0..200 {
            s.spawn(move || scopes(n, 0));
        }
    });
}

static A_IS_INSIDE: AtomicBool = AtomicBool::new(false);
static B_HOLDS_IT: AtomicBool = AtomicBool::new(false);
static A_IS_THROUGH: AtomicBool = AtomicBool::new(false);
/// Of the value that B borrows.
static DROPS: AtomicU32 = AtomicU32::new(0);

struct Loud(Cell<u32>);

impl Drop for Loud {
    fn drop(&mut self) {
        DROPS.fetch_add(u32::from(self.0.get() == 7), SeqCst);
    }
}

bast::fiber_local! {
    static LOUD: Loud = {
        if !A_IS_INSIDE.swap(true, SeqCst) {
            wait_for(&B_HOLDS_IT);
        }
        Loud(Cell::new(7))
    };
}

#[test]
fn a_fiber_local_is_not_dropped_while_another_fiber_borrows_its_own() {
    let dropped_under_b = one_worker().run(|| {
        let a = bast::spawn(|| {
            LOUD.with(|mine| mine.0.set(8));
            A_IS_THROUGH.store(true, SeqCst);
        });
        let b = bast::spawn(|| {
            wait_for(&A_IS_INSIDE);
            LOUD.with(|borrowed| {
                B_HOLDS_IT.store(true, SeqCst);
                wait_for(&A_IS_THROUGH);
                assert_eq!(borrowed.0.get(), 7);
                DROPS.load(SeqCst)
            })
        });
        a.join().unwrap();
        b.join().unwrap()
    });
    assert_eq!(dropped_under_b, 0);
    assert_eq!(DROPS.load(SeqCst), 1);
}
