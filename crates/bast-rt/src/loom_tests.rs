//! The small state machines under loom: every interleaving that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p bast-rt --release --lib loom`
//!
//! Each model is the real code of one or two modules with the least around it that gives it meaning. A
//! lost wake shows as a deadlock, which loom reports. The models have been seen to fail, each with one
//! of these faults (three preemptions):
//! * `remote`: `Relaxed` in `take` or `signal`, every signal posts, `settle` drops the early signals.
//! * `ending`: the count alone decides.
//! * `inbox`: the wrong pusher wakes. (`Relaxed` in `push` or `drain` is not seen: the waker's own
//!   ordering covers it here, and the links are not loom's cells.)
//! * `idle`: no second look, no fences, the last searcher does not pass on, `leave` misses that it was
//!   chosen.
//! * `lifecycle`: DONE set before the waiter is taken up, `Relaxed` in `begin_finish`, `register` or
//!   `is_done`, `unregister` after TAKEN. (`Relaxed` in `finish` alone is not seen.)

#[allow(unsafe_code)]
mod ends;

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use bast_io::Waker;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

use crate::idle::{Idle, Left};
use crate::inbox::{Inbox, Node};
use crate::lifecycle::{Finish, Lifecycle};
use crate::remote::{Remote, UNPARK, WAKE};

/// A fiber as other threads see it.
struct Target {
    link: std::cell::UnsafeCell<*mut Target>,
    remote: Remote,
    /// 0: no home yet.
    home: AtomicUsize,
}

// SAFETY: the link is guarded by the inbox's protocol, which the models check.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

// SAFETY: the models keep targets alive until they have been drained.
unsafe impl Node for Target {
    fn link(node: NonNull<Target>) -> *mut *mut Target {
        // SAFETY: alive.
        unsafe { node.as_ref() }.link.get()
    }
}

impl Target {
    fn new(home: usize) -> Target {
        let target = Target {
            link: std::cell::UnsafeCell::new(std::ptr::null_mut()),
            remote: Remote::new(),
            home: AtomicUsize::new(home),
        };
        if home != 0 {
            target.remote.settle_unshared();
        }
        target
    }
}

struct Post {
    inbox: Inbox<Target>,
    waker: Waker,
}

impl Post {
    fn new() -> Post {
        Post { inbox: Inbox::new(), waker: Waker::new().unwrap() }
    }

    /// As `fiber::signal_remote`.
    fn signal(&self, target: &Target, bits: u8) {
        if target.remote.signal(bits) {
            assert_eq!(target.home.load(Acquire), 1, "a fiber is posted to its home");
            // SAFETY: the target outlives the model's run.
            if unsafe { self.inbox.push(NonNull::from(target)) } {
                self.waker.wake();
            }
        }
    }
}

/// Two threads wake two fibers of a worker that sleeps whenever it has nothing.
#[test]
fn loom_inbox_and_sleep() {
    loom::model(|| {
        let post = Arc::new(Post::new());
        let targets = Arc::new([Target::new(1), Target::new(1)]);
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let (post, targets) = (Arc::clone(&post), Arc::clone(&targets));
                thread::spawn(move || post.signal(&targets[i], WAKE))
            })
            .collect();
        let mut woken = 0;
        while woken < 2 {
            for target in post.inbox.drain() {
                // SAFETY: alive until the end of the run.
                assert_eq!(unsafe { target.as_ref() }.remote.take(), WAKE);
                woken += 1;
            }
            if woken < 2 {
                post.waker.wait(None);
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Two wakers of one fiber: it is posted once at a time, and sees what each wrote before its wake.
#[test]
fn loom_two_wakers_of_one_fiber() {
    loom::model(|| {
        let post = Arc::new(Post::new());
        let target = Arc::new(Target::new(1));
        let conditions = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let (post, target) = (Arc::clone(&post), Arc::clone(&target));
                let conditions = Arc::clone(&conditions);
                thread::spawn(move || {
                    conditions[i].store(true, Relaxed);
                    post.signal(&target, if i == 0 { WAKE } else { UNPARK });
                })
            })
            .collect();
        // The fiber parks until both conditions hold.
        while !conditions.iter().all(|c| c.load(Relaxed)) {
            let mut parked = true;
            while parked {
                for target in post.inbox.drain() {
                    // SAFETY: alive until the end of the run.
                    assert_ne!(unsafe { target.as_ref() }.remote.take(), 0);
                    parked = false;
                }
                if parked {
                    post.waker.wait(None);
                }
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Two signals to a fiber that is just being started: each is found by the start or posted, and the
/// fiber is never posted twice at a time.
#[test]
fn loom_signals_around_the_start() {
    loom::model(|| {
        let post = Arc::new(Post::new());
        let target = Arc::new(Target::new(0));
        let signallers: Vec<_> = [WAKE, UNPARK]
            .into_iter()
            .map(|bits| {
                let (post, target) = (Arc::clone(&post), Arc::clone(&target));
                thread::spawn(move || post.signal(&target, bits))
            })
            .collect();
        // start
        target.home.store(1, Release);
        let mut seen = target.remote.settle();
        while seen != WAKE | UNPARK {
            let mut empty = true;
            for target in post.inbox.drain() {
                // SAFETY: alive until the end of the run.
                let bits = unsafe { target.as_ref() }.remote.take();
                assert_ne!(bits, 0, "posted for nothing");
                seen |= bits;
                empty = false;
            }
            if empty {
                post.waker.wait(None);
            }
        }
        for signaller in signallers {
            signaller.join().unwrap();
        }
    });
}

struct Joined {
    lifecycle: Lifecycle,
    result: UnsafeCell<u32>,
    /// The waiter's cell: whether the joiner has written it.
    waiter: UnsafeCell<bool>,
    waker: Waker,
}

impl Joined {
    fn new() -> Joined {
        Joined {
            lifecycle: Lifecycle::new(2),
            result: UnsafeCell::new(0),
            waiter: UnsafeCell::new(false),
            waker: Waker::new().unwrap(),
        }
    }

    /// As `fiber::finish`.
    fn finish(&self) {
        self.result.with_mut(|result| {
            // SAFETY: loom checks it.
            unsafe { *result = 42 }
        });
        if let Finish::Waiter = self.lifecycle.begin_finish() {
            // SAFETY: loom checks it.
            assert!(self.waiter.with_mut(|waiter| unsafe { std::mem::take(&mut *waiter) }));
            let _ = self.lifecycle.finish();
            self.waker.wake();
        }
    }

    /// As `join::wait`; `None` if it left.
    fn join(&self, leaves: bool) -> Option<u32> {
        if !self.lifecycle.is_done() {
            self.waiter.with_mut(|waiter| {
                // SAFETY: loom checks it.
                unsafe { *waiter = true }
            });
            if self.lifecycle.register() {
                if leaves && self.lifecycle.unregister() {
                    return None;
                }
                while !self.lifecycle.is_done() {
                    self.waker.wait(None);
                }
            }
        }
        // SAFETY: loom checks it.
        Some(self.result.with(|result| unsafe { *result }))
    }
}

// SAFETY: the cells are guarded by the lifecycle, which the models check.
unsafe impl Send for Joined {}
// SAFETY: as above.
unsafe impl Sync for Joined {}

#[test]
fn loom_join() {
    loom::model(|| {
        let joined = Arc::new(Joined::new());
        let fiber = {
            let joined = Arc::clone(&joined);
            thread::spawn(move || joined.finish())
        };
        assert_eq!(joined.join(false), Some(42));
        fiber.join().unwrap();
        assert!(joined.lifecycle.release(), "the handle's reference is the last");
    });
}

#[test]
fn loom_join_that_leaves_and_comes_back() {
    loom::model(|| {
        let joined = Arc::new(Joined::new());
        let fiber = {
            let joined = Arc::clone(&joined);
            thread::spawn(move || joined.finish())
        };
        if joined.join(true).is_none() {
            assert_eq!(joined.join(false), Some(42));
        }
        fiber.join().unwrap();
    });
}

/// A handle that is polled as a future, twice with another waker, and dropped: the finisher sees no waker that
/// is gone or being replaced, and the last poll's is called unless that poll sees the end.
#[test]
fn loom_polled_and_dropped() {
    struct Polled {
        joined: Joined,
        /// Which of the wakers the cell points to, and whether they are there.
        cell: UnsafeCell<usize>,
        wakers: [UnsafeCell<bool>; 2],
        woken: AtomicUsize,
    }
    // SAFETY: as for `Joined`.
    unsafe impl Send for Polled {}
    // SAFETY: as above.
    unsafe impl Sync for Polled {}

    impl Polled {
        /// As `JoinHandle::withdraw`.
        fn withdraw(&self) {
            if !self.joined.lifecycle.unregister() {
                while !self.joined.lifecycle.is_done() {
                    thread::yield_now();
                }
            }
        }

        fn set(&self, waker: usize, there: bool) {
            // SAFETY: loom checks it.
            self.wakers[waker].with_mut(|waker| unsafe { *waker = there });
        }

        /// As `JoinHandle::poll`; whether it is ready.
        fn poll(&self, waker: usize) -> bool {
            if !self.joined.lifecycle.is_done() {
                if waker > 0 {
                    self.withdraw();
                    self.set(waker - 1, false);
                }
                self.set(waker, true);
                // SAFETY: loom checks it.
                self.cell.with_mut(|cell| unsafe { *cell = waker });
                self.joined.lifecycle.register();
            }
            self.joined.lifecycle.is_done()
        }

        /// As `fiber::finish`.
        fn finish(&self) {
            // SAFETY: loom checks it.
            self.joined.result.with_mut(|result| unsafe { *result = 42 });
            match self.joined.lifecycle.begin_finish() {
                Finish::Waiter => {
                    // SAFETY: loom checks it.
                    let waker = self.cell.with(|cell| unsafe { *cell });
                    // SAFETY: as above.
                    assert!(
                        self.wakers[waker].with(|waker| unsafe { *waker }),
                        "a waker that is gone"
                    );
                    let _ = self.joined.lifecycle.finish();
                    self.woken.store(waker + 1, Relaxed);
                }
                Finish::Detached => {
                    let _ = self.joined.lifecycle.finish();
                }
                Finish::Done { .. } => {}
            }
        }
    }

    for drops in [false, true] {
        loom::model(move || {
            let polled = Arc::new(Polled {
                joined: Joined::new(),
                cell: UnsafeCell::new(0),
                wakers: [UnsafeCell::new(false), UnsafeCell::new(false)],
                woken: AtomicUsize::new(0),
            });
            let fiber = {
                let polled = Arc::clone(&polled);
                thread::spawn(move || polled.finish())
            };
            let ready = polled.poll(0) || polled.poll(1);
            if ready {
                // SAFETY: loom checks it.
                assert_eq!(polled.joined.result.with(|result| unsafe { *result }), 42);
            }
            if drops {
                polled.withdraw();
                polled.set(1, false);
                let _ = polled.joined.lifecycle.detach();
            }
            fiber.join().unwrap();
            assert!(ready || drops || polled.woken.load(Relaxed) == 2, "nobody polls again");
        });
    }
}

/// The runtime and two handles let go at the same time: exactly one frees.
#[test]
fn loom_last_reference() {
    loom::model(|| {
        let lifecycle = Arc::new(Lifecycle::new(2));
        lifecycle.retain();
        let freed = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (lifecycle, freed) = (Arc::clone(&lifecycle), Arc::clone(&freed));
                thread::spawn(move || {
                    if lifecycle.release() {
                        freed.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        if let Finish::Done { last: true } = lifecycle.begin_finish() {
            freed.fetch_add(1, Relaxed);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(freed.load(Relaxed), 1);
    });
}

/// Two workers' thread pool in miniature: `queue` counts fibers that anybody may take, or the tasks in the
/// injector, and `deque` the tasks that a worker has moved into its own.
struct Pool {
    queue: AtomicUsize,
    deque: AtomicUsize,
    idle: Idle,
    wakers: [Waker; 2],
}

impl Pool {
    /// With so many in its queue.
    fn with(queue: usize) -> Arc<Pool> {
        Arc::new(Pool {
            queue: AtomicUsize::new(queue),
            deque: AtomicUsize::new(0),
            idle: Idle::new(),
            wakers: [Waker::new().unwrap(), Waker::new().unwrap()],
        })
    }

    fn take(&self) -> bool {
        [&self.queue, &self.deque]
            .iter()
            .any(|from| from.fetch_update(AcqRel, Acquire, |left| left.checked_sub(1)).is_ok())
    }

    /// As `Worker::fetch_injected`: takes all, and keeps all but one for itself and whoever steals them.
    fn fetch(&self) -> bool {
        let Some(left) = self.queue.swap(0, AcqRel).checked_sub(1) else { return false };
        self.deque.fetch_add(left, Release);
        self.notify();
        true
    }

    fn add(&self) {
        self.queue.fetch_add(1, Release);
        self.notify();
    }

    fn notify(&self) {
        if let Some(worker) = self.idle.notify() {
            self.wakers[worker].wake();
        }
    }

    /// As `Worker::idle`, until it has got one piece of work.
    fn work(&self, index: usize) {
        let mut searching = false;
        loop {
            searching = searching || self.idle.start_search(2);
            if self.take() {
                if searching && self.idle.found() {
                    self.notify();
                }
                return;
            }
            self.idle.enter(index, searching);
            if self.queue.load(Acquire) == 0 && self.deque.load(Acquire) == 0 {
                self.wakers[index].wait(None);
            }
            searching = self.idle.leave(index) == Left::AsSearcher;
        }
    }
}

/// A piece of work for a worker that searches and sleeps.
#[test]
fn loom_idle() {
    loom::model(|| {
        let pool = Pool::with(0);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.work(0))
        };
        pool.add();
        worker.join().unwrap();
        assert_eq!(pool.queue.load(Relaxed), 0);
    });
}

/// One piece of work for each of two workers that search and sleep: both get theirs.
#[test]
fn loom_idle_two_workers() {
    let mut model = loom::model::Builder::new();
    // Three threads and two queues of locks: bounded, or it takes hours.
    model.preemption_bound = Some(2);
    model.check(|| {
        let pool = Pool::with(0);
        let workers: Vec<_> = (0..2)
            .map(|index| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.work(index))
            })
            .collect();
        pool.add();
        pool.add();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// A batch is for a moment in no queue: a second look at that moment must not strand what is in it.
#[test]
fn loom_idle_batch() {
    loom::model(|| {
        let pool = Pool::with(2);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.work(0))
        };
        if pool.fetch() {
            // This worker goes on with the first for ever: the other one gets the second, or had taken the first.
            worker.join().unwrap();
        }
    });
}
