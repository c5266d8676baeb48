//! Results and closures are dropped once, where they may be.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use bast_rt::{JoinHandle, current, sleep, spawn, spawn_local, yield_now};

use crate::support::{Drops, Random, runtime, scaled, tests, until, workers, yield_until};

/// Says on which thread it is dropped. Not `Send`.
struct Local {
    home: ThreadId,
    _rc: Rc<()>,
    elsewhere: Arc<AtomicBool>,
    drops: Drops,
}

impl Drop for Local {
    fn drop(&mut self) {
        if thread::current().id() != self.home {
            self.elsewhere.store(true, SeqCst);
        }
        drop(self.drops.token());
    }
}

/// Its destructor panics with a payload whose destructor panics.
struct Worst;

struct Payload;

impl Drop for Worst {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new(Payload));
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // Let go of, so it must not own anything.
        std::panic::resume_unwind(Box::new(()));
    }
}

bast_rt::fiber_local! {
    static WORST: Worst = Worst;
}

tests! {
    /// What nobody could catch ends where it begins, also when the payload of one panic makes another.
    fn panics_of_payloads_do_no_harm() {
        let runtime = workers(1);
        runtime.run(|| {
            drop(spawn(|| Worst));
            drop(spawn(|| std::panic::resume_unwind(Box::new(Payload))));
            spawn(|| WORST.with(|_| ())).join().unwrap();
            spawn(|| { drop(spawn(|| Worst)); yield_now() }).join().unwrap();
            bast_rt::scope(|s| { s.spawn(|| Worst); });
            bast_rt::scope(|s| drop(s.spawn(|| Worst)));
        });
        assert_eq!(runtime.run(|| 42), 42);
    }

    /// A result that is not `Send` is never dropped by another thread, whoever keeps a `Fiber`.
    fn local_results_are_dropped_on_their_own_thread() {
        let runtime = workers(1);
        let elsewhere = Arc::new(AtomicBool::new(false));
        let drops = Drops::default();
        for order in 0..4 {
            let (to, from) = mpsc::channel();
            let (flag, count) = (Arc::clone(&elsewhere), drops.clone());
            let local = runtime.spawn(move || {
                let local = Local {
                    home: thread::current().id(), _rc: Rc::new(()), elsewhere: flag, drops: count,
                };
                let fiber = spawn_local(move || { yield_now(); local });
                let keeper = fiber.fiber();
                match order {
                    0 => drop(fiber),
                    1 => { yield_until("the end", || fiber.is_finished()); drop(fiber) }
                    2 => drop(fiber.join()),
                    _ => { yield_now(); drop(fiber) }
                }
                (0..5).for_each(|_| yield_now());
                to.send(keeper).unwrap();
            });
            let keeper = from.recv().unwrap();
            local.join().unwrap();
            assert_eq!(drops.get(), order + 1, "order {order}: the result is gone");
            keeper.unpark();
            drop(keeper);
        }
        assert!(!elsewhere.load(SeqCst), "dropped by another thread");
        assert_eq!(drops.get(), 4);
    }

    /// A result of a detached fiber goes at its end, also if somebody can still unpark the fiber.
    fn results_nobody_can_ask_for_go_at_once() {
        let runtime = runtime();
        let drops = Drops::default();
        let token = drops.token();
        let fiber = runtime.spawn(move || { yield_now(); token });
        let keeper = fiber.fiber();
        drop(fiber);
        until("the drop", || drops.get() == 1);
        drop(keeper);
        assert_eq!(drops.get(), 1);
    }

    /// The handle goes first, later or at the same time, here or on another thread; somebody else may
    /// keep the fiber, or wake it.
    fn results_are_dropped_once_in_every_order() {
        let runtime = workers(2);
        let drops = Drops::default();
        let made = AtomicU64::new(0);
        let rounds = scaled(10_000);
        let (to, from) = mpsc::channel::<JoinHandle<_>>();
        let outside = thread::spawn(move || {
            for (i, handle) in from.iter().enumerate() {
                if i % 2 == 0 { drop(handle) } else { drop(handle.join()) }
            }
        });
        runtime.run(|| {
            let mut random = Random(0x5eed);
            for _ in 0..rounds {
                made.fetch_add(2, SeqCst);
                let (captured, result) = (drops.token(), drops.token());
                let pause = random.below(4);
                let fiber = spawn(move || {
                    let _captured = captured;
                    match pause {
                        0 => {}
                        1 => yield_now(),
                        2 => sleep(Duration::from_micros(20)),
                        _ => thread::yield_now(),
                    }
                    result
                });
                let keeper = (random.below(3) == 0).then(|| fiber.fiber());
                match random.below(7) {
                    0 => drop(fiber),
                    1 => { yield_now(); drop(fiber) }
                    2 => drop(fiber.join()),
                    3 => to.send(fiber).unwrap(),
                    4 => { let other = spawn(move || drop(fiber)); drop(other) }
                    5 => drop(spawn(move || drop(fiber.join())).join()),
                    _ => { fiber.cancel(); drop(fiber) }
                }
                if let Some(keeper) = keeper { keeper.unpark() }
            }
        });
        drop(to);
        outside.join().unwrap();
        drop(runtime);
        assert_eq!(drops.get() as u64, made.load(SeqCst));
    }

    fn a_result_is_kept_for_a_late_joiner() {
        let runtime = runtime();
        let drops = Drops::default();
        let token = drops.token();
        let fiber = runtime.spawn(move || token);
        until("the end", || fiber.is_finished());
        drop(runtime);
        assert_eq!(drops.get(), 0);
        let token = fiber.join().unwrap();
        assert_eq!(drops.get(), 0);
        drop(token);
        assert_eq!(drops.get(), 1);
    }

    /// Destructors of a result may suspend: those of a detached fiber run on it.
    fn a_detached_result_may_wait_in_its_destructor() {
        struct Waits(Drops);
        impl Drop for Waits {
            fn drop(&mut self) {
                let me = current();
                let waker = spawn(move || { yield_now(); me.unpark() });
                bast_rt::park();
                waker.join().unwrap();
                drop(self.0.token());
            }
        }
        for count in [1, 2] {
            let runtime = workers(count);
            let drops = Drops::default();
            for _ in 0..100 {
                let waits = Waits(drops.clone());
                drop(runtime.spawn(move || { yield_now(); waits }));
            }
            until("the drops", || drops.get() == 100);
        }
    }
}
