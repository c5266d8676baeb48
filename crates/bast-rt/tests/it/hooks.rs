//! Switch hooks: each fiber sees its own state of the thread, and a hook that misbehaves harms nobody.
//! Each test runs in a process of its own, as hooks stay.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::hook::{self, SwitchHook};
use bast_rt::{mask, park, scope, sleep, spawn, spawn_local, timeout, yield_now};

use crate::support::{
    OnDrop, child, is_cancelled, is_child, process_tests, runtime, workers, yield_until,
};

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static NAMES: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// A hook of two functions.
struct Of<S, R>(&'static str, S, R);

impl<V: 'static, S, R> SwitchHook for Of<S, R>
where
    S: Fn() -> V + Send + Sync + 'static,
    R: Fn(V) + Send + Sync + 'static,
{
    type Saved = V;

    fn suspend(&self) -> V {
        (self.1)()
    }

    fn resume(&self, saved: V) {
        (self.2)(saved);
    }

    fn name(&self) -> &'static str {
        self.0
    }
}

fn number() -> impl SwitchHook {
    hook::cell("NUMBER", &NUMBER, || 0)
}

/// Suspends in every way and looks whether the number is still its own.
fn keeps(mine: u32) {
    assert_eq!(NUMBER.replace(mine), 0, "a fiber begins with the neutral value");
    for round in 0..20 {
        match round % 5 {
            0 => sleep(Duration::from_micros(50)),
            1 => drop(timeout(Duration::from_micros(100), park)),
            2 => scope(|s| drop(s.spawn(|| assert_eq!(NUMBER.get(), 0)))),
            3 => bast_rt::run_blocking(|| ()),
            _ => yield_now(),
        }
        assert_eq!(NUMBER.get(), mine);
    }
}

process_tests! {
    fn each_fiber_finds_its_own_value() {
        hook::add(number());
        runtime().run(|| {
            let fibers: Vec<_> = (1..=200).map(|i| spawn(move || keeps(i))).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    }

    /// Without the hook the same fails: the test above can fail.
    fn without_a_hook_fibers_share_the_value() {
        let wrong = workers(1).run(|| {
            let fibers = [spawn(|| keeps(1)), spawn(|| keeps(2))];
            fibers.into_iter().filter_map(|fiber| fiber.join().err()).count()
        });
        assert!(wrong > 0);
    }

    /// Also while it unwinds, and nothing is left by those that end with a value set.
    fn cancelled_and_panicking_fibers_keep_theirs() {
        hook::add(number());
        workers(1).run(|| {
            let cancelled: Vec<_> = (1..=20).map(|i| spawn(move || {
                NUMBER.set(i);
                let _guard = OnDrop(|| {
                    (0..3).for_each(|_| { yield_now(); assert_eq!(NUMBER.get(), i) });
                    NUMBER.set(i + 100);
                });
                if i % 4 == 0 { panic!("by intent") }
                park();
            })).collect();
            yield_now();
            for (i, fiber) in (1..).zip(&cancelled) {
                if i % 4 != 0 { fiber.cancel(); }
            }
            for fiber in cancelled {
                let result = fiber.join();
                assert!(is_cancelled(&result) || result.is_err());
                assert_eq!(NUMBER.get(), 0);
            }
        });
    }

    /// Values of any type, several hooks, the last one added nearest to the switch.
    fn several_hooks() {
        static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
        let call = |what: &'static str| CALLS.lock().unwrap().push(what);
        hook::add(number());
        hook::add(Of("NAMES", || NAMES.take(), |names| NAMES.set(names)));
        workers(1).run(move || {
            let fibers: Vec<_> = (0..10).map(|i| spawn(move || {
                for round in 0..10 {
                    NAMES.with_borrow_mut(|names| names.push("x"));
                    NUMBER.set(i + round);
                    yield_now();
                    assert_eq!(NAMES.with_borrow(Vec::len), round as usize + 1);
                    assert_eq!(NUMBER.get(), i + round);
                }
            })).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            hook::add(Of("third", move || call("suspend third"), move |()| call("resume third")));
            hook::add(Of("fourth", move || call("suspend fourth"), move |()| call("resume fourth")));
            yield_now();
            let calls = std::mem::take(&mut *CALLS.lock().unwrap());
            assert_eq!(calls, ["suspend third", "suspend fourth", "resume fourth", "resume third"]);
        });
    }

    /// What a fiber saved is what it gets back: it was not saved if the hook came after.
    fn a_hook_added_while_fibers_run() {
        workers(1).run(|| {
            let early = spawn_local(|| {
                NUMBER.set(7);
                park(); // without a hook: the 7 stays on the thread
                let after = NUMBER.replace(8);
                yield_now();
                (after, NUMBER.get())
            });
            yield_now();
            assert_eq!(NUMBER.get(), 7);
            hook::add(number());
            yield_now(); // now the 7 counts as this fiber's
            assert_eq!(NUMBER.get(), 7);
            let fresh = spawn_local(|| NUMBER.get());
            assert_eq!(fresh.join().unwrap(), 0);
            early.fiber().unpark();
            // It had saved nothing, and finds the neutral value; from its next suspension on it has its own.
            assert_eq!(early.join().unwrap(), (0, 8));
            assert_eq!(NUMBER.get(), 7);
        });
        let late = || {
            let fibers: Vec<_> = (0..50).map(|_| spawn(|| loop { yield_now() })).collect();
            for _ in 0..20 {
                hook::add(Of("more", || NAMES.take(), |names| NAMES.set(names)));
                sleep(Duration::from_micros(300));
            }
            fibers.iter().for_each(bast_rt::JoinHandle::<()>::cancel);
            fibers.into_iter().for_each(|fiber| assert!(is_cancelled(&fiber.join())));
        };
        runtime().run(late);
    }

    /// In either half: the hook goes, the fibers and the other hooks go on.
    fn a_hook_that_panics_is_switched_off() {
        static ARMED: AtomicBool = AtomicBool::new(false);
        static AFTER: AtomicU32 = AtomicU32::new(0);
        static DROPPED: AtomicU32 = AtomicU32::new(0);
        struct Saved;
        impl Drop for Saved {
            fn drop(&mut self) { DROPPED.fetch_add(1, SeqCst); }
        }
        // The payload of a hook's panic is let go of on purpose, which is a leak to AddressSanitizer.
        let halves = if cfg!(feature = "sanitizer") { 0 } else { 3 };
        for half in 0..halves {
            let bad = move || {
                if ARMED.swap(false, SeqCst) {
                    if half == 2 {
                        // A payload that panics again when it is dropped.
                        std::panic::panic_any(OnDrop(|| panic!("in the payload")));
                    }
                    panic!("in half {half} of a hook");
                }
            };
            let count = || { AFTER.fetch_add(1, SeqCst); };
            match half {
                0 => hook::add(Of("bad 0", move || { count(); bad(); Saved }, drop)),
                1 => hook::add(Of("bad 1", move || { count(); Saved }, move |saved| { bad(); drop(saved) })),
                _ => hook::add(Of("bad 2", move || { count(); bad(); Saved }, drop)),
            }
            if half == 0 { hook::add(number()); }
            DROPPED.store(0, SeqCst);
            workers(1).run(|| {
                let waits = spawn(|| { NUMBER.set(5); park(); assert_eq!(NUMBER.get(), 5) });
                yield_now();
                NUMBER.set(6);
                ARMED.store(true, SeqCst);
                yield_now();
                assert!(!ARMED.load(SeqCst));
                let calls = AFTER.load(SeqCst);
                (0..10).for_each(|_| yield_now());
                assert_eq!(AFTER.load(SeqCst), calls, "it is not called any more");
                assert_eq!(NUMBER.get(), 6);
                // What the hook had saved for this one is dropped.
                let before = DROPPED.load(SeqCst);
                waits.fiber().unpark();
                waits.join().unwrap();
                assert_eq!(DROPPED.load(SeqCst), before + 1);
            });
        }
    }

    /// Nothing of a fiber's state is disturbed by what a hook may do.
    fn a_hook_may_spawn_unpark_and_lock() {
        static SPAWNED: AtomicU32 = AtomicU32::new(0);
        static ENDED: AtomicU32 = AtomicU32::new(0);
        static BUSY: AtomicBool = AtomicBool::new(false);
        let work = || {
            if !BUSY.swap(true, SeqCst) {
                bast_rt::current().unpark();
                // The end of each child, run or not, calls the hook again.
                if SPAWNED.fetch_add(1, SeqCst) < 50 { drop(spawn(|| ENDED.fetch_add(1, SeqCst))); }
                mask(|| (0..200).for_each(|_| bast_rt::wait::spend()));
                BUSY.store(false, SeqCst);
            }
        };
        hook::add(Of("busy", work, move |()| work()));
        workers(1).run(|| {
            park(); // its own hook wakes it
            let fibers: Vec<_> = (0..10).map(|_| spawn(|| sleep(Duration::from_micros(300)))).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            yield_until("the children", || ENDED.load(SeqCst) == 50);
        });
    }

    /// A request that is pending is not raised, and lost, inside a hook.
    fn a_hook_is_masked() {
        hook::add(Of("looks", bast_rt::wait::check, |()| bast_rt::wait::check()));
        workers(1).run(|| {
            let fiber = spawn(|| { park(); unreachable!() });
            yield_now();
            fiber.cancel();
            let result: std::thread::Result<()> = fiber.join();
            assert!(is_cancelled(&result));
            assert!(timeout(Duration::from_millis(1), park).is_err());
        });
    }
}

/// It would leave its fiber half suspended: the process ends, and says why.
#[test]
fn a_hook_that_suspends_ends_the_process() {
    const PATH: &str = concat!(module_path!(), "::a_hook_that_suspends_ends_the_process");
    if is_child(PATH) {
        let _dog = crate::support::watch(PATH);
        let half = std::env::var("HALF").unwrap();
        let suspends = move |this: &str| {
            if half == this {
                yield_now()
            }
        };
        let also = suspends.clone();
        hook::add(Of("the sleepy one", move || suspends("first"), move |()| also("second")));
        workers(1).run(yield_now);
        unreachable!("it went on");
    }
    for half in ["first", "second"] {
        let output = child(PATH).env("HALF", half).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        let message =
            "the switch hook 'the sleepy one' suspended its fiber, which a hook must not do";
        assert!(said.contains(message), "{said}");
        assert!(!said.contains("it went on"), "{said}");
    }
}
