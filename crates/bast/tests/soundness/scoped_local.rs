//! A thread-local that is set on entry and restored on exit, with fibers that leave in another order
//! than last in, first out.
//!
//! ```text
//!   A: set(&a) ──────────── ends: restores "nothing" ─ a is gone
//!   B:      set(&b) ………………………………………………… sees nothing ……… ends: restores &a
//!   C:                                                          with(|a| …)  a is gone
//! ```
//!
//! [`Scoped`] does what the crate `scoped-tls` does, but gives out the address instead of a reference;
//! `ScopedKey::with` turns the same number into a `&T`.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::LocalKey;

use crate::{one_worker, wait_for};

struct Scoped(&'static LocalKey<Cell<usize>>);

impl Scoped {
    fn set<T, R>(&self, value: &T, f: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Scoped, usize);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.0.set(self.1);
            }
        }
        let _restore = Restore(self, self.0.replace(std::ptr::from_ref(value).addr()));
        f()
    }

    fn address(&self) -> usize {
        self.0.get()
    }
}

thread_local! {
    static CELL: Cell<usize> = const { Cell::new(0) };
}
static SCOPED: Scoped = Scoped(&CELL);

static A_IS_INSIDE: AtomicBool = AtomicBool::new(false);
static B_IS_INSIDE: AtomicBool = AtomicBool::new(false);
static A_HAS_ENDED: AtomicBool = AtomicBool::new(false);

#[test]
fn a_scoped_thread_local_refers_to_what_is_gone() {
    one_worker().run(|| {
        let a = bast::spawn(|| {
            let on_the_stack_of_a = 1u64;
            SCOPED.set(&on_the_stack_of_a, || {
                A_IS_INSIDE.store(true, SeqCst);
                wait_for(&B_IS_INSIDE);
            });
            std::ptr::from_ref(&on_the_stack_of_a).addr()
        });
        let b = bast::spawn(|| {
            wait_for(&A_IS_INSIDE);
            SCOPED.set(&2u64, || {
                B_IS_INSIDE.store(true, SeqCst);
                wait_for(&A_HAS_ENDED);
                SCOPED.address()
            })
        });
        let address_in_a = a.join().unwrap();
        A_HAS_ENDED.store(true, SeqCst);
        // B is inside its own `set`, and finds nothing: `ScopedKey::with` panics.
        assert_eq!(b.join().unwrap(), 0);
        // Nobody is inside any `set`, and the variable refers to the stack of a fiber that has ended:
        // `ScopedKey::with` reads freed memory.
        assert_eq!(SCOPED.address(), address_in_a);
    });
}
