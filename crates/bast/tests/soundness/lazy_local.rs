//! Suspending inside the initializer of a `thread_local!`.
//!
//! ```text
//!   A: LOUD.with ─▶ initializer … suspended ……………………………… returns: std replaces the value
//!   B:                            LOUD.with(&loud) … holds &loud …………………… it has been dropped
//! ```
//!
//! std says why it may replace the value: the initializer has returned, so nobody can be inside
//! `with`. With one stack for each thread that is so. Here fiber B is inside `with`, and its reference
//! outlives what it refers to. With a `Vec` for a value that is a use after free in safe code.
//!
//! `Loud` has no size: so the reference in B covers no memory, and the program has no undefined
//! behaviour. That a value is dropped while it is borrowed shows all the same.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use crate::{one_worker, wait_for};

static A_IS_INSIDE: AtomicBool = AtomicBool::new(false);
static B_HOLDS_IT: AtomicBool = AtomicBool::new(false);
static A_IS_THROUGH: AtomicBool = AtomicBool::new(false);
static DROPS: AtomicU32 = AtomicU32::new(0);

struct Loud;

impl Loud {
    /// The first one to be made takes its time, as one that reads a file or asks a server would.
    fn new() -> Loud {
        if !A_IS_INSIDE.swap(true, SeqCst) {
            wait_for(&B_HOLDS_IT);
        }
        Loud
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        DROPS.fetch_add(1, SeqCst);
    }
}

thread_local! {
    static LOUD: Loud = Loud::new();
}

#[test]
fn a_thread_local_is_dropped_while_another_fiber_borrows_it() {
    let dropped_under_b = one_worker().run(|| {
        let a = bast::spawn(|| {
            LOUD.with(|_| ());
            A_IS_THROUGH.store(true, SeqCst);
        });
        let b = bast::spawn(|| {
            wait_for(&A_IS_INSIDE);
            LOUD.with(|_borrowed| {
                let before = DROPS.load(SeqCst);
                B_HOLDS_IT.store(true, SeqCst);
                wait_for(&A_IS_THROUGH);
                DROPS.load(SeqCst) - before
            })
        });
        a.join().unwrap();
        b.join().unwrap()
    });
    assert_eq!(dropped_under_b, 1);
}
