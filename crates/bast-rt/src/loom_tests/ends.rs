//! The ends of workers and of fibers: all workers together, a result with its handle gone, a joiner that is cancelled.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use bast_io::Waker;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

use super::Joined;
use crate::ending::Ending;
use crate::lifecycle::{Finish, Lifecycle};

/// Two workers of a runtime that stops, each with a queue of what the other sends.
struct Stopping {
    ending: Ending,
    queues: [AtomicUsize; 2],
    wakers: [Waker; 2],
}

impl Stopping {
    fn send(&self, to: usize) {
        self.queues[to].fetch_add(1, Release);
        self.wakers[to].wake();
    }

    /// As `Worker::run`, with `left` things to run, each of which sends one to the other worker, which sends `back` things back.
    fn work(&self, me: usize, mut left: usize, back: usize) {
        let mut counted = false;
        loop {
            if self.queues[me].load(Relaxed) > 0 {
                if std::mem::take(&mut counted) {
                    self.ending.recall();
                }
                left += self.queues[me].swap(0, AcqRel) * back;
            }
            for _ in 0..std::mem::take(&mut left) {
                self.send(1 - me);
            }
            if !std::mem::replace(&mut counted, true) && self.ending.count(2) {
                self.wakers.iter().for_each(Waker::wake);
            }
            let swept = || self.queues.iter().all(|queue| queue.load(Relaxed) == 0);
            if self.ending.is_over(2, swept) {
                return;
            }
            self.wakers[me].wait(None);
        }
    }
}

/// The last of one worker sends something to the other, which sends something back: neither ends before it has
/// taken that, and both end.
#[test]
fn loom_workers_end_together() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let stopping = Arc::new(Stopping {
            ending: Ending::new(),
            queues: [AtomicUsize::new(0), AtomicUsize::new(0)],
            wakers: [Waker::new().unwrap(), Waker::new().unwrap()],
        });
        let other = {
            let stopping = Arc::clone(&stopping);
            thread::spawn(move || stopping.work(1, 0, 1))
        };
        stopping.work(0, 1, 0);
        other.join().unwrap();
        assert!(stopping.queues.iter().all(|queue| queue.load(Relaxed) == 0));
    });
}

/// A fiber ends while its handle is dropped and a handle to it goes elsewhere: its result is dropped once, by one who may,
/// and the record is freed once, after that.
#[test]
fn loom_detached() {
    struct Detached {
        lifecycle: Lifecycle,
        /// Whether the result is there.
        result: UnsafeCell<bool>,
        /// How often the result has been dropped.
        dropped: AtomicUsize,
        freed: UnsafeCell<usize>,
    }
    // SAFETY: the cells are guarded by the lifecycle, which the model checks.
    unsafe impl Send for Detached {}
    // SAFETY: as above.
    unsafe impl Sync for Detached {}

    impl Detached {
        /// As the vtable's `discard`.
        fn discard(&self) {
            // SAFETY: loom checks it.
            if self.result.with_mut(|result| unsafe { std::mem::take(&mut *result) }) {
                self.dropped.fetch_add(1, Relaxed);
            }
        }

        /// As `fiber::free_now`.
        fn free_if(&self, last: bool) {
            if last {
                self.discard();
                // SAFETY: loom checks it.
                self.freed.with_mut(|freed| unsafe { *freed += 1 });
            }
        }

        /// As `fiber::finish`.
        fn finish(&self) {
            // SAFETY: loom checks it.
            self.result.with_mut(|result| unsafe { *result = true });
            let last = match self.lifecycle.begin_finish() {
                Finish::Done { last } => last,
                Finish::Detached => {
                    self.discard();
                    self.lifecycle.finish()
                }
                Finish::Waiter => unreachable!("nobody joins"),
            };
            self.free_if(last);
        }

        /// As `fiber::detach`.
        fn detach(&self) {
            if !self.lifecycle.is_unique() && self.lifecycle.detach() {
                self.discard();
            }
            self.free_if(self.lifecycle.release());
        }
    }

    loom::model(|| {
        let detached = Arc::new(Detached {
            lifecycle: Lifecycle::new(2),
            result: UnsafeCell::new(false),
            dropped: AtomicUsize::new(0),
            freed: UnsafeCell::new(0),
        });
        detached.lifecycle.retain();
        let ways: [fn(&Detached); 2] = [Detached::finish, |fiber| {
            fiber.free_if(fiber.lifecycle.release());
        }];
        let threads: Vec<_> = ways
            .into_iter()
            .map(|way| {
                let detached = Arc::clone(&detached);
                thread::spawn(move || way(&detached))
            })
            .collect();
        detached.detach();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(detached.dropped.load(Relaxed), 1);
        // SAFETY: loom checks it.
        assert_eq!(detached.freed.with(|freed| unsafe { *freed }), 1);
    });
}

/// Somebody cancels a fiber that joins another one, which ends: the joiner leaves without the result or has it, and the
/// finisher looks at no waiter that has left.
#[test]
fn loom_join_that_is_cancelled() {
    loom::model(|| {
        let joined = Arc::new(Joined::new());
        let cancelled = Arc::new(AtomicBool::new(false));
        let fiber = {
            let joined = Arc::clone(&joined);
            thread::spawn(move || joined.finish())
        };
        let canceller = {
            let (joined, cancelled) = (Arc::clone(&joined), Arc::clone(&cancelled));
            thread::spawn(move || {
                cancelled.store(true, Release);
                joined.waker.wake();
            })
        };
        // As `join::wait`.
        joined.waiter.with_mut(|waiter| {
            // SAFETY: loom checks it.
            unsafe { *waiter = true }
        });
        let mut left = false;
        if joined.lifecycle.register() {
            while !left && !joined.lifecycle.is_done() {
                left = cancelled.load(Acquire) && joined.lifecycle.unregister();
                if !left {
                    joined.waker.wait(None);
                }
            }
        }
        if left {
            // The frame goes, and with it the waiter.
            joined.waiter.with_mut(|waiter| {
                // SAFETY: loom checks it.
                unsafe { *waiter = false }
            });
        } else {
            // SAFETY: loom checks it.
            assert_eq!(joined.result.with(|result| unsafe { *result }), 42);
        }
        fiber.join().unwrap();
        canceller.join().unwrap();
    });
}
