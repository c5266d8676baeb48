//! What may be kept across a suspension because a fiber stays on its worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Mutex;
use std::thread;

thread_local! {
    static NAMES: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn rc_guards_and_references_to_thread_locals() {
    // The simulator has one worker.
    let simulated = std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim");
    let workers = if simulated { 1 } else { 2 };
    let runtime = bast::Runtime::builder().workers(workers).build().unwrap();
    runtime.run(|| {
        let fibers: Vec<_> = (0..100u32)
            .map(|i| {
                bast::spawn(move || {
                    let lock = Mutex::new(i);
                    let guard = lock.lock().unwrap(); // not Send
                    let rc = Rc::new(i); // not Send
                    let thread = thread::current().id();
                    NUMBER.with(|number| {
                        for _ in 0..50 {
                            let before = number.get();
                            number.set(before + 1);
                            // No other fiber of this worker has run in between.
                            assert_eq!(number.get(), before + 1);
                            let also = Rc::clone(&rc);
                            bast::yield_now();
                            assert_eq!(Rc::strong_count(&also), 2);
                            assert!(std::ptr::eq(number, NUMBER.with(std::ptr::from_ref)));
                        }
                    });
                    assert_eq!(thread, thread::current().id());
                    *guard
                })
            })
            .collect();
        for (i, fiber) in (0..).zip(fibers) {
            assert_eq!(fiber.join().unwrap(), i);
        }
    });
}

/// A borrow that is held across a suspension is seen by the other fibers of the worker: an error at
/// run time, never two mutable references.
#[test]
fn a_ref_cell_still_guards() {
    crate::one_worker().run(|| {
        let fiber = bast::spawn(|| {
            NAMES.with_borrow_mut(|names| {
                names.push("mine");
                bast::yield_now();
                names.len()
            })
        });
        bast::yield_now();
        NAMES.with(|names| assert!(names.try_borrow().is_err()));
        assert_eq!(fiber.join().unwrap(), 1);
    });
}
