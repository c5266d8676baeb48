//! Fiber locals: whose they are, when they begin, what children get, and how they end.

use std::cell::{Cell, RefCell};
use std::panic::panic_any;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bast_rt::{Builder, fiber_local, park, scope, sleep, spawn, spawn_local, timeout, yield_now};

use crate::support::{
    Dropped, Drops, OnDrop, growth, is_cancelled, message, panic_of, process_tests, runtime, tests,
    until, workers,
};

type Log = Arc<Mutex<Vec<&'static str>>>;

/// Notes its drop, after a suspension.
struct Slow(Log, &'static str);

impl Drop for Slow {
    fn drop(&mut self) {
        yield_now();
        sleep(Duration::from_micros(100));
        self.0.lock().unwrap().push(self.1);
    }
}

tests! {
    fn each_fiber_and_each_thread_has_its_own() {
        fiber_local! { static N: Cell<u32> = const { Cell::new(0) } }
        N.set(1000);
        let runtime = runtime();
        let fibers: Vec<_> = (0..100).map(|i| runtime.spawn(move || {
            assert_eq!(N.get(), 0);
            for _ in 0..i {
                N.set(N.get() + 1);
                yield_now();
            }
            N.get()
        })).collect();
        for (i, fiber) in (0..).zip(fibers) {
            assert_eq!(fiber.join().unwrap(), i);
        }
        assert_eq!(thread::spawn(|| N.replace(5)).join().unwrap(), 0);
        assert_eq!(N.get(), 1000);
    }

    /// Many keys: the table grows while references to values are held across suspensions.
    fn values_do_not_move() {
        fn key<const I: usize>() -> &'static bast_rt::LocalKey<Cell<usize>> {
            fiber_local! { static A: Cell<usize> = Cell::new(0); static B: Cell<usize> = Cell::new(1) }
            // A generic function has one static for all its instances; the keys below are told apart.
            if I == 0 { &A } else { &B }
        }
        fiber_local! {
            static C: RefCell<Vec<u8>> = RefCell::default();
            static D: [u64; 40] = [7; 40];
            static E: String = "e".repeat(100);
        }
        let work = || key::<0>().with(|a| {
            a.set(10);
            key::<1>().with(|b| {
                yield_now();
                C.with_borrow_mut(|c| {
                    c.push(1);
                    D.with(|d| E.with(|e| {
                        yield_now();
                        b.set(b.get() + d.len() + e.len() + c.len());
                    }));
                });
                a.get() + b.get()
            })
        });
        assert_eq!(work(), 152);
        workers(1).run(|| {
            let fibers: Vec<_> = (0..50).map(|_| spawn(work)).collect();
            fibers.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), 152));
        });
    }

    fn the_initializer_runs_once_and_only_when_needed() {
        static MADE: AtomicU32 = AtomicU32::new(0);
        fiber_local! {
            static LAZY: u32 = MADE.fetch_add(1, SeqCst);
            static SET: Cell<u32> = { MADE.fetch_add(100, SeqCst); Cell::new(0) };
        }
        workers(1).run(|| {
            assert_eq!(MADE.load(SeqCst), 0);
            assert_eq!((LAZY.with(|n| *n), LAZY.with(|n| *n)), (0, 0));
            SET.set(3);
            assert_eq!(SET.get(), 3);
            assert_eq!(MADE.load(SeqCst), 1);
        });
    }

    /// What must not be done in a `thread_local!`.
    fn an_initializer_may_suspend() {
        fiber_local! {
            static SLOW: Rc<Cell<u32>> = { (0..5).for_each(|_| yield_now()); Rc::new(Cell::new(0)) };
        }
        workers(1).run(|| {
            let fibers: Vec<_> = (0..20).map(|i| spawn(move || {
                SLOW.with(|n| { n.set(i); yield_now(); assert_eq!(n.get(), i) });
                SLOW.with(|n| n.get())
            })).collect();
            for (i, fiber) in (0..).zip(fibers) {
                assert_eq!(fiber.join().unwrap(), i);
            }
        });
    }

    fn a_panic_in_the_initializer_leaves_nothing() {
        static FAILS: AtomicBool = AtomicBool::new(true);
        fiber_local! {
            static FRAIL: u32 = { if FAILS.swap(false, SeqCst) { panic!("not yet") } 7 };
        }
        workers(1).run(|| {
            assert_eq!(message(&*panic_of(|| FRAIL.with(|n| *n))), "not yet");
            assert_eq!(FRAIL.with(|n| *n), 7);
        });
    }

    /// Of two values the first stays: a reference to it may be held by then.
    fn an_initializer_that_comes_to_itself() {
        static MADE: AtomicU32 = AtomicU32::new(0);
        static ENDED: AtomicU32 = AtomicU32::new(0);
        struct Counted(u32);
        impl Drop for Counted {
            fn drop(&mut self) { ENDED.fetch_add(1, SeqCst); }
        }
        fn make() -> Counted {
            let mine = MADE.fetch_add(1, SeqCst);
            if mine < 3 { TWICE.with(|value| assert_eq!(value.0, 3)); }
            Counted(mine)
        }
        fiber_local! { static TWICE: Counted = make() }
        workers(1).run(|| {
            assert_eq!(TWICE.with(|value| value.0), 3);
            assert_eq!((MADE.load(SeqCst), ENDED.load(SeqCst)), (4, 3));
        });
        assert_eq!(ENDED.load(SeqCst), 4);
    }

    fn values_end_in_reverse_order_on_the_fiber_before_join_returns() {
        fiber_local! {
            static FIRST: RefCell<Option<Slow>> = const { RefCell::new(None) };
            static SECOND: RefCell<Option<Slow>> = const { RefCell::new(None) };
        }
        let log = Log::default();
        for way in 0..4 {
            let mine = Arc::clone(&log);
            let runtime = workers(1);
            let fiber = runtime.spawn(move || {
                FIRST.set(Some(Slow(Arc::clone(&mine), "first")));
                SECOND.set(Some(Slow(Arc::clone(&mine), "second")));
                match way {
                    0 => {}
                    1 => panic_any("by intent"),
                    _ => park(),
                }
            });
            match way {
                0 => fiber.join().unwrap(),
                1 => assert_eq!(message(&*fiber.join().unwrap_err()), "by intent"),
                2 => {
                    until("it waits", || runtime.run(|| log.lock().unwrap().is_empty()));
                    fiber.cancel();
                    assert!(is_cancelled(&fiber.join()));
                }
                _ => {
                    runtime.run(yield_now);
                    drop((fiber, runtime));
                }
            }
            assert_eq!(*log.lock().unwrap(), ["second", "first"], "way {way}");
            log.lock().unwrap().clear();
        }
    }

    /// As in std: the other value is there, or made, or gone.
    fn a_destructor_that_uses_other_keys() {
        static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
        struct Curious;
        impl Drop for Curious {
            fn drop(&mut self) {
                let mut seen = vec![
                    OLDER.try_with(|text| text.clone()).unwrap_or("gone".into()),
                    FRESH.try_with(|text| text.clone()).unwrap_or("gone".into()),
                    NEWER.try_with(|text| text.clone()).unwrap_or("gone".into()),
                    PLAIN.try_with(|n| n.get().to_string()).unwrap_or("gone".into()),
                    CURIOUS.try_with(|_| "there".into()).unwrap_or_else(|error| error.to_string()),
                ];
                let error = panic_of(|| CURIOUS.with(|_| ()));
                seen.push(message(&*error).to_owned());
                SEEN.lock().unwrap().append(&mut seen);
            }
        }
        fiber_local! {
            static PLAIN: Cell<u32> = const { Cell::new(1) };
            static OLDER: String = "older".into();
            static CURIOUS: Curious = const { Curious };
            static NEWER: String = "newer".into();
            static FRESH: String = "fresh".into();
        }
        let body = || {
            PLAIN.set(2);
            OLDER.with(|_| ());
            CURIOUS.with(|_| ());
            NEWER.with(|_| ());
        };
        for on_fiber in [true, false] {
            if on_fiber { workers(1).run(body) } else { thread::spawn(body).join().unwrap() }
            let message = "cannot access a fiber-local value during or after its destruction: AccessError";
            let expected = ["older", "fresh", "gone", "2", "already destroyed", message];
            assert_eq!(*SEEN.lock().unwrap(), expected);
            SEEN.lock().unwrap().clear();
        }
    }

    fn a_panic_in_a_destructor_stops_neither_the_others_nor_the_result() {
        fiber_local! {
            static COUNTED: RefCell<Option<Dropped>> = const { RefCell::new(None) };
            static BAD: RefCell<Option<OnDrop<fn()>>> = const { RefCell::new(None) };
        }
        let drops = Drops::default();
        let token = drops.token();
        let result = workers(1).run(move || {
            COUNTED.set(Some(token));
            BAD.set(Some(OnDrop(|| panic!("in a destructor of a local"))));
            42
        });
        assert_eq!((result, drops.get()), (42, 1));
    }

    fn a_cancellation_that_comes_while_the_locals_end_is_too_late() {
        fiber_local! {
            static COUNTED: RefCell<Option<Dropped>> = const { RefCell::new(None) };
            static WAITS: RefCell<Option<OnDrop<Box<dyn FnMut()>>>> = const { RefCell::new(None) };
        }
        let (drops, waited) = (Drops::default(), Drops::default());
        let (token, mut done) = (drops.token(), Some(waited.token()));
        workers(1).run(move || {
            let fiber = spawn(move || {
                COUNTED.set(Some(token));
                WAITS.set(Some(OnDrop(Box::new(move || { park(); drop(done.take()) }))));
                42
            });
            yield_now();
            fiber.cancel();
            (0..3).for_each(|_| yield_now());
            assert!(!fiber.is_finished());
            fiber.fiber().unpark();
            assert_eq!(fiber.join().unwrap(), 42);
        });
        assert_eq!((drops.get(), waited.get()), (1, 1));
    }

    /// The result of a fiber that nobody joins is dropped where it can still use the locals; one whose
    /// handle goes while the locals end, where it can still suspend.
    fn results_that_nobody_takes() {
        static SEEN: Mutex<Vec<Option<u32>>> = Mutex::new(Vec::new());
        fiber_local! {
            static N: Cell<u32> = const { Cell::new(0) };
            static WAITS: RefCell<Option<OnDrop<fn()>>> = const { RefCell::new(None) };
        }
        struct Looks;
        impl Drop for Looks {
            fn drop(&mut self) {
                yield_now();
                SEEN.lock().unwrap().push(N.try_with(Cell::get).ok());
            }
        }
        workers(1).run(|| {
            drop(spawn(|| { N.set(1); Looks }));
            (0..5).for_each(|_| yield_now());
            assert_eq!(*SEEN.lock().unwrap(), [Some(1)]);
            let late = spawn(|| { N.set(2); WAITS.set(Some(OnDrop(|| { yield_now(); yield_now() }))); Looks });
            yield_now();
            drop(late);
            (0..9).for_each(|_| yield_now());
            assert_eq!(*SEEN.lock().unwrap(), [Some(1), None]);
        });
    }

    fn children_inherit_by_every_way_of_spawning() {
        fiber_local! {
            inherit static REQUEST: RefCell<Option<u32>> = const { RefCell::new(None) };
            static OWN: Cell<u32> = const { Cell::new(0) };
        }
        fn mine() -> (Option<u32>, u32) { (REQUEST.with_borrow(|id| *id), OWN.get()) }
        let [one, other] = [workers(1), workers(1)];
        assert_eq!(one.run(mine), (None, 0));
        REQUEST.set(Some(1));
        OWN.set(1);
        assert_eq!(one.run(mine), (Some(1), 0));
        assert_eq!(one.spawn(mine).join().unwrap(), (Some(1), 0));
        assert_eq!(spawn(mine).join().unwrap(), (Some(1), 0));
        one.run(move || {
            REQUEST.set(Some(2));
            OWN.set(2);
            let expected = (Some(2), 0);
            assert_eq!(spawn(mine).join().unwrap(), expected);
            assert_eq!(spawn_local(mine).join().unwrap(), expected);
            assert_eq!(other.run(mine), expected);
            assert_eq!(other.spawn(mine).join().unwrap(), expected);
            assert_eq!(scope(|s| s.spawn(mine).join().unwrap()), expected);
            let builder = || Builder::new().name("child".into());
            assert_eq!(builder().spawn(mine).unwrap().join().unwrap(), expected);
            assert_eq!(builder().worker(0).spawn(mine).unwrap().join().unwrap(), expected);
            assert_eq!(builder().spawn_local(mine).unwrap().join().unwrap(), expected);
            let scoped = scope(|s| builder().spawn_scoped(s, mine).unwrap().join().unwrap());
            assert_eq!(scoped, expected);
            // The value at the time of spawning, and from then on the child's own.
            let child = spawn(|| { let before = mine(); REQUEST.set(Some(4)); (before, spawn(mine)) });
            REQUEST.set(Some(3));
            let (before, grandchild) = child.join().unwrap();
            assert_eq!((before, grandchild.join().unwrap()), ((Some(2), 0), (Some(4), 0)));
            assert_eq!(mine(), (Some(3), 2));
        });
        assert_eq!(mine(), (Some(1), 1));
    }

    fn a_panic_in_clone_is_the_spawners() {
        struct Frail(Dropped);
        impl Clone for Frail {
            fn clone(&self) -> Frail { panic!("cannot be cloned") }
        }
        fiber_local! {
            inherit static SOUND: String = "sound".into();
            inherit static FRAIL: RefCell<Option<Frail>> = const { RefCell::new(None) };
        }
        let (values, closures) = (Drops::default(), Drops::default());
        let (value, closure, scoped) = (values.token(), closures.token(), closures.token());
        workers(1).run(move || {
            SOUND.with(|_| ());
            FRAIL.set(Some(Frail(value)));
            let error = panic_of(|| spawn(move || drop(closure)));
            assert_eq!(message(&*error), "cannot be cloned");
            let error = panic_of(|| scope(|s| drop(s.spawn(move || drop(scoped)))));
            assert_eq!(message(&*error), "cannot be cloned");
            FRAIL.take();
            spawn(|| SOUND.with(|text| assert_eq!(text, "sound"))).join().unwrap();
        });
        assert_eq!((values.get(), closures.get()), (1, 2));
        let _ = |frail: Frail| frail.0;
    }

    /// A clone that suspends, and uses locals while its table is being walked.
    fn a_clone_may_do_anything() {
        #[derive(Default)]
        struct Busy(u32);
        impl Clone for Busy {
            fn clone(&self) -> Busy {
                yield_now();
                LATER.with(|_| ());
                Busy(self.0 + 1)
            }
        }
        fiber_local! {
            inherit static BUSY: RefCell<Busy> = RefCell::default();
            inherit static LATER: String = "later".into();
        }
        workers(1).run(|| {
            BUSY.set(Busy(1));
            let neighbour = spawn(|| (0..20).for_each(|_| yield_now()));
            let child = spawn(|| (BUSY.with_borrow(|busy| busy.0), LATER.with(|text| text.len())));
            assert_eq!(child.join().unwrap(), (2, 5));
            neighbour.join().unwrap();
        });
    }

    /// No stack for it, or a runtime that stops: what it inherited goes all the same.
    fn what_a_fiber_that_never_ran_inherited_is_dropped() {
        fiber_local! { inherit static TOKEN: Option<Arc<()>> = None }
        let token = Arc::new(());
        let held = Arc::clone(&token);
        let runtime = workers(1);
        let fibers = thread::spawn(move || {
            fiber_local! { inherit static SET: RefCell<Option<Arc<()>>> = const { RefCell::new(None) } }
            SET.set(Some(held));
            let busy = runtime.spawn(|| thread::sleep(Duration::from_millis(50)));
            let fibers: Vec<_> = (0..10).map(|_| runtime.spawn(|| ())).collect();
            drop((busy, runtime));
            fibers
        }).join().unwrap();
        assert!(fibers.iter().all(bast_rt::JoinHandle::is_finished));
        assert_eq!(Arc::strong_count(&token), 1);
        TOKEN.with(|token| assert!(token.is_none()));
    }

    /// Unwinding by a timeout leaves the values as they are.
    fn a_timeout_inside_with() {
        fiber_local! { static NAMES: RefCell<Vec<u32>> = RefCell::default() }
        workers(1).run(|| {
            let late = timeout(Duration::from_millis(2), || NAMES.with_borrow_mut(|names| {
                names.push(1);
                sleep(Duration::from_secs(60));
            }));
            assert!(late.is_err());
            assert_eq!(NAMES.take(), [1]);
        });
    }
}

process_tests! {
    /// Locals come and go with their fibers, on all workers, and nothing is left.
    fn no_value_is_lost() {
        static ALIVE: AtomicUsize = AtomicUsize::new(0);
        struct Counted(#[allow(dead_code)] [u64; 16]);
        impl Counted {
            fn new() -> Counted { ALIVE.fetch_add(1, SeqCst); Counted([1; 16]) }
        }
        impl Clone for Counted {
            fn clone(&self) -> Counted { Counted::new() }
        }
        impl Drop for Counted {
            fn drop(&mut self) {
                yield_now();
                ALIVE.fetch_sub(1, SeqCst);
            }
        }
        fiber_local! {
            static A: Counted = Counted::new();
            inherit static B: Counted = Counted::new();
        }
        let runtime = runtime();
        let round = || runtime.run(|| {
            B.with(|_| ());
            let fibers: Vec<_> = (0..2_000).map(|i| spawn(move || {
                if i % 3 == 0 { A.with(|_| yield_now()); }
                if i % 7 == 0 { spawn(|| ()).join().unwrap(); }
            })).collect();
            for (i, fiber) in fibers.into_iter().enumerate() {
                if i % 5 == 0 { fiber.cancel(); }
                if i % 2 == 0 { let _ = fiber.join(); }
            }
        });
        (0..5).for_each(|_| round());
        until("all values are gone", || ALIVE.load(SeqCst) == 0);
        // AddressSanitizer keeps what was freed.
        let most = if cfg!(feature = "sanitizer") { 400 << 10 } else { 24 << 10 };
        let grown = growth(most, || {
            (0..20).for_each(|_| round());
            until("all values are gone", || ALIVE.load(SeqCst) == 0);
        });
        assert!(grown < most, "{grown} KiB more after 40,000 fibers with locals");
    }
}
