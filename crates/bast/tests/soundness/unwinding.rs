//! A fiber that suspends while it unwinds: what std says of panicking is said of each fiber by itself.
//!
//! Not under AddressSanitizer, where the panics stay in the count of the thread.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::{one_worker, wait_for};

/// Suspends in its destructor, and tells when it does.
struct Slow {
    inside: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.inside.store(true, SeqCst);
        wait_for(&self.go_on);
    }
}

/// Its panic is taken off the thread's count for the time.
#[test]
fn a_fiber_that_suspends_while_it_unwinds_is_alone_with_that() {
    one_worker().run(|| {
        let (inside, go_on) = (Arc::default(), Arc::default());
        let slow = Slow { inside: Arc::clone(&inside), go_on: Arc::clone(&go_on) };
        let (healthy, broken) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let neighbour = bast::spawn({
            let (healthy, inside) = (Arc::clone(&healthy), Arc::clone(&inside));
            move || {
                let guard = healthy.lock().unwrap();
                wait_for(&inside);
                assert!(!thread::panicking());
                drop(guard);
            }
        });
        let unwinding = bast::spawn(move || {
            let _slow = slow;
            resume_unwind(Box::new("by intent"));
        });
        neighbour.join().unwrap();
        assert!(!healthy.is_poisoned());

        // And a second panic is noticed, and no second panic of the first fiber: no abort.
        let theirs = Arc::clone(&broken);
        let other = bast::spawn(move || {
            let _guard = theirs.lock();
            resume_unwind(Box::new("as well"))
        });
        let result: thread::Result<()> = other.join();
        assert!(result.is_err() && broken.is_poisoned());
        go_on.store(true, SeqCst);
        assert!(unwinding.join().is_err());
        assert!(!thread::panicking());
    });
}
