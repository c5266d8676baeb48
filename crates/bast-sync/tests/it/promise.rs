//! Promises, from fibers, plain threads, and across workers.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bast_rt::{Builder, block_on, park, sleep, spawn, yield_now};
use bast_sync::promise::{Promise, PromiseError, Resolver, pause, start};

use crate::support::{OnDrop, message, on_many, on_one, settle, tests};

/// Not by sleeping: the simulator's clock would go there at once.
fn forever() {
    loop {
        park();
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Oops(u32);

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oops {}", self.0)
    }
}

impl std::error::Error for Oops {}

/// On a plain thread, and in a fiber.
fn both(body: fn()) {
    body();
    on_one(body);
}

/// A list that callbacks write to.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, text: &'static str) {
        self.0.lock().unwrap().push(text);
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().join(" ")
    }
}

/// With the smallest stack that a fiber can have.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    let fiber = Builder::new().stack_size(16 << 10).spawn(f).unwrap();
    fiber.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
}

tests! {
    fn values_and_errors_go_down_the_chain() {
        both(|| {
            assert_eq!(Promise::ready(1).map(|n| n + 1).wait().unwrap(), 2);
            let failed = Promise::<u32>::failed(Oops(3));
            let error = failed.map(|_| unreachable!()).and_then(|()| pause()).wait().unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&Oops(3)));
            assert_eq!(error.to_string(), "oops 3");
            assert_eq!(error.downcast::<Oops>().unwrap(), Oops(3));

            for later in [false, true] {
                let (promise, resolver) = Promise::new();
                let text = promise
                    .and_then(|n: u32| if n > 2 { Promise::failed(Oops(n)) } else { Promise::ready(n) })
                    .catch(|error| Promise::ready(error.downcast::<Oops>().unwrap().0 * 100))
                    .map(|n| n.to_string());
                if later {
                    spawn(move || resolver.resolve(3));
                } else {
                    resolver.resolve(3);
                    assert!(text.is_resolved());
                }
                assert_eq!(text.wait().unwrap(), "300");
            }
            // An error that goes through several hands stays what it is.
            let (promise, resolver) = Promise::<()>::new();
            resolver.reject(PromiseError::cancelled());
            let again = promise.catch(Promise::failed).wait().unwrap_err();
            assert!(again.is_cancelled() && !again.is_panic() && !again.is_broken());
        });
    }

    fn finally_runs_either_way_and_only_its_errors_count() {
        both(|| {
            let log = Log::default();
            let note = |text| {
                let log = log.clone();
                move || { log.add(text); pause() }
            };
            assert_eq!(Promise::ready(1).finally(note("one")).wait().unwrap(), 1);
            let (promise, resolver) = Promise::<u32>::new();
            let promise = promise.finally(note("two"));
            resolver.reject("no");
            assert_eq!(promise.wait().unwrap_err().to_string(), "no");
            let worse = Promise::<u32>::failed("bad").finally(|| Promise::failed("worse"));
            assert_eq!(worse.wait().unwrap_err().to_string(), "worse");
            assert_eq!(log.text(), "one two");
        });
    }

    fn callbacks_run_before_resolve_returns_and_with_nobody_waiting() {
        both(|| {
            let log = Log::default();
            let (promise, resolver) = Promise::new();
            let l = log.clone();
            drop(promise.map(move |text| l.add(text)));
            resolver.resolve("called");
            log.add("returned");
            assert_eq!(log.text(), "called returned");
        });
    }

    /// Neither by a nested `resolve` nor on a promise that is resolved already.
    fn callbacks_do_not_nest() {
        both(|| {
            let log = Log::default();
            let (l1, l2, l3) = (log.clone(), log.clone(), log.clone());
            let (first, resolve_first) = Promise::new();
            let (second, resolve_second) = Promise::new();
            drop(second.map(move |()| l2.add("second")));
            drop(first.map(move |()| {
                l1.add("begin");
                resolve_second.resolve(());
                drop(Promise::ready(()).map(move |()| l3.add("third")));
                l1.add("end");
            }));
            resolve_first.resolve(());
            assert_eq!(log.text(), "begin end second third");
        });
    }

    /// Short is better; but it must not hang.
    fn a_callback_may_wait_for_what_it_has_set_off() {
        both(|| {
            let (first, resolve_first) = Promise::new();
            let (second, resolve_second) = Promise::new();
            let doubled = second.map(|n: u32| 2 * n);
            let sum = first.map(move |n: u32| {
                resolve_second.resolve(n + 1);
                doubled.wait().unwrap() + start(|| 100).wait().unwrap()
            });
            resolve_first.resolve(1);
            assert_eq!(sum.wait().unwrap(), 104);
        });
    }

    fn a_callback_s_panic_rejects_what_it_was_to_resolve() {
        both(|| {
            let (promise, resolver) = Promise::new();
            let promise = promise.map(|n: u32| -> u32 { panic!("callback {n}, on purpose") });
            resolver.resolve(1);
            let error = promise.wait().unwrap_err();
            assert!(error.is_panic());
            assert!(error.to_string().ends_with("panicked: callback 1, on purpose"));
            let payload = error.try_into_panic().unwrap();
            assert_eq!(message(&*payload), "callback 1, on purpose");
            let at_once = Promise::ready(()).map(|()| panic!("at once, on purpose"));
            assert!(at_once.wait().unwrap_err().is_panic());
            assert!(PromiseError::new("no").try_into_panic().is_err());
        });
    }

    fn a_dropped_resolver_breaks_the_promise_and_says_so() {
        both(|| {
            let (promise, resolver) = Promise::<u32>::new();
            let waiting = spawn(move || promise.map(|n| n).wait());
            settle();
            drop(resolver);
            let error = waiting.join().unwrap().unwrap_err();
            assert!(error.is_broken());
            assert!(error.to_string().contains("`resolve` or `reject`"), "{error}");
        });
    }

    fn both_and_all_wait_for_all_and_keep_the_order() {
        both(|| {
            let (late, resolver) = Promise::new();
            let pair = Promise::both(late, start(|| "b"));
            settle();
            assert!(!pair.is_resolved());
            resolver.resolve('a');
            assert_eq!(pair.wait().unwrap(), ('a', "b"));

            let (ends, resolvers): (Vec<_>, Vec<_>) = (0..10).map(|_| Promise::new()).unzip();
            let all = Promise::all(ends);
            for (n, resolver) in resolvers.into_iter().enumerate().rev() {
                resolver.resolve(n);
            }
            assert_eq!(all.wait().unwrap(), (0..10).collect::<Vec<_>>());
            assert!(Promise::<u8>::all([]).wait().unwrap().is_empty());

            // Fails when the last has come.
            let (late, resolver) = Promise::new();
            let all = Promise::all([late, Promise::failed("first"), Promise::failed("second")]);
            assert!(!all.is_resolved());
            resolver.resolve(());
            assert_eq!(all.wait().unwrap_err().to_string(), "first");
            let (late, resolver) = Promise::<()>::new();
            let pair = Promise::both(Promise::<()>::failed("one"), late);
            assert!(!pair.is_resolved());
            resolver.reject("two");
            assert_eq!(pair.wait().unwrap_err().to_string(), "one");
        });
    }

    fn pick_cancels_the_losers_and_choose_does_not() {
        on_many(|| {
            for cancels in [true, false] {
                let ended = Arc::new(AtomicUsize::new(0));
                let go_on = Arc::new(AtomicBool::new(false));
                let loser = || {
                    let (ended, go_on) = (Arc::clone(&ended), Arc::clone(&go_on));
                    let (unwound, over) = (Arc::clone(&ended), Arc::clone(&go_on));
                    let guard = OnDrop(move || {
                        if !over.load(SeqCst) {
                            unwound.fetch_add(1, SeqCst);
                        }
                    });
                    start(move || {
                        let guard = guard;
                        while !go_on.load(SeqCst) {
                            yield_now();
                        }
                        drop(guard);
                        ended.fetch_add(100, SeqCst);
                        0
                    })
                };
                let (promise, resolver) = Promise::new();
                let promises = [loser(), promise, loser()];
                let first = if cancels { Promise::pick(promises) } else { Promise::choose(promises) };
                resolver.resolve(7);
                assert_eq!(first.wait().unwrap(), 7);
                if cancels {
                    while ended.load(SeqCst) % 100 < 2 {
                        yield_now();
                    }
                }
                go_on.store(true, SeqCst);
                while ended.load(SeqCst) % 100 + ended.load(SeqCst) / 100 < 2 {
                    yield_now();
                }
                assert_eq!(ended.load(SeqCst), if cancels { 2 } else { 200 });
            }
            let failed = Promise::<u32>::pick([Promise::failed("no"), start(|| { park(); 1 })]);
            assert_eq!(failed.wait().unwrap_err().to_string(), "no");
        });
    }

    #[should_panic(expected = "of no promises none is the first")]
    fn of_none_none_is_the_first() {
        drop(Promise::<()>::choose([]));
    }

    fn cancelling_ends_the_source_and_comes_down_the_chain() {
        on_many(|| {
            // A fiber: the promise fails when that has ended.
            let unwound = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&unwound);
            let log = Log::default();
            let l = log.clone();
            let guard = OnDrop(move || seen.store(true, SeqCst));
            let promise = start(move || {
                let _guard = guard;
                forever();
            })
            .map(|()| 1)
            .finally(move || { l.add("finally"); Promise::ready(()) });
            sleep(Duration::from_millis(2));
            promise.cancel();
            assert!(promise.wait().unwrap_err().is_cancelled());
            assert!(unwound.load(SeqCst));
            assert_eq!(log.text(), "finally");

            // A resolver that knows nothing of it.
            let (promise, resolver) = Promise::<u32>::new();
            let promise = promise.and_then(|_| pause());
            assert!(!resolver.is_cancelled());
            promise.cancel();
            promise.cancel();
            assert!(resolver.is_cancelled() && promise.is_resolved());
            resolver.resolve(1);
            assert!(promise.wait().unwrap_err().is_cancelled());

            // One that decides itself what it means.
            let (promise, resolver) = Promise::<u32>::new();
            let asked = Log::default();
            let l = asked.clone();
            resolver.on_cancel(move || l.add("asked"));
            let promise = promise.map(|n| n);
            promise.cancel();
            promise.cancel();
            assert_eq!(asked.text(), "asked");
            assert!(!promise.is_resolved());
            resolver.resolve(5);
            assert_eq!(promise.wait().unwrap(), 5);

            // All of several, and what a callback has returned.
            let inner = start(forever);
            let outer = Promise::ready(()).and_then(move |()| inner);
            let all = Promise::all([outer, pause().and_then(|()| start(forever))]);
            sleep(Duration::from_millis(2));
            all.cancel();
            assert!(all.wait().unwrap_err().is_cancelled());
            let (one, two) = (start(forever), start(forever));
            let pair = Promise::both(one, two);
            pair.cancel();
            assert!(pair.wait().unwrap_err().is_cancelled());
        });
    }

    /// It comes when there is nothing to be cancelled, and finds what the callback returns.
    fn cancelling_while_a_callback_runs_is_not_lost() {
        on_one(|| {
            let (promise, resolver) = Promise::new();
            let gate = Arc::new(AtomicBool::new(false));
            let g = Arc::clone(&gate);
            let promise = Arc::new(promise.and_then(move |()| {
                while !g.load(SeqCst) {
                    yield_now();
                }
                start(forever)
            }));
            let resolving = spawn(move || resolver.resolve(()));
            settle();
            promise.cancel();
            gate.store(true, SeqCst);
            resolving.join().unwrap();
            let promise = Arc::into_inner(promise).unwrap();
            assert!(promise.wait().unwrap_err().is_cancelled());
        });
    }

    /// A request to the fiber that resolves is not meant for the callback that runs there.
    fn a_callback_is_not_cancelled_with_the_fiber_that_it_runs_on() {
        on_one(|| {
            let (promise, resolver) = Promise::new();
            let promise = promise.map(|()| { sleep(Duration::from_millis(3)); 1 });
            let fiber = spawn(move || {
                resolver.resolve(());
                loop {
                    yield_now();
                }
            });
            settle();
            fiber.cancel();
            assert_eq!(promise.wait().unwrap(), 1);
            assert!(crate::support::is_cancelled(&fiber.join()));
        });
    }

    fn fibers_handles_and_futures_become_promises() {
        on_many(|| {
            assert_eq!(start(|| 1).and_then(|n| start(move || n + 1)).wait().unwrap(), 2);
            let panics = start(|| panic!("its fiber, on purpose")).map(|()| ());
            assert!(panics.wait().unwrap_err().is_panic());
            assert_eq!(Promise::from(spawn(|| 3)).wait().unwrap(), 3);
            let handle = spawn(forever);
            let promise = Promise::from(handle);
            sleep(Duration::from_millis(1));
            promise.cancel();
            assert!(promise.wait().unwrap_err().is_cancelled());
            let promise = Promise::of(async { Promise::ready(4).await.unwrap() + start(|| 1).await.unwrap() });
            assert_eq!(promise.wait().unwrap(), 5);
            let dropped = Arc::new(AtomicBool::new(false));
            let d = Arc::clone(&dropped);
            let guard = OnDrop(move || d.store(true, SeqCst));
            let never = Promise::<()>::of(async move {
                let _guard = guard;
                std::future::pending().await
            });
            sleep(Duration::from_millis(1));
            never.cancel();
            assert!(never.wait().unwrap_err().is_cancelled());
            assert!(dropped.load(SeqCst));
        });
        // A fiber that never ran, as its runtime ended.
        let runtime = bast_rt::Runtime::builder().workers(1).build().unwrap();
        let promise = runtime.spawn(|| start(forever)).join().unwrap();
        drop(runtime);
        assert!(promise.wait().unwrap_err().is_cancelled());
    }

    fn a_wait_that_is_given_up_lets_go_of_the_promise() {
        on_one(|| {
            let (promise, resolver) = Promise::<Arc<()>>::new();
            assert!(bast_rt::timeout(Duration::from_millis(2), || promise.wait()).is_err());
            let value = Arc::new(());
            resolver.resolve(Arc::clone(&value));
            assert_eq!(Arc::strong_count(&value), 1);
        });
    }

    fn resolved_from_anywhere_at_any_time() {
        on_many(|| {
            for round in 0..500_u32 {
                let (promise, resolver) = Promise::new();
                let resolve = move || {
                    (0..round % 20 * 50).for_each(|_| std::hint::spin_loop());
                    resolver.resolve(round);
                };
                let (thread, fiber) = if round % 2 == 0 {
                    (Some(std::thread::spawn(resolve)), None)
                } else {
                    (None, Some(spawn(resolve)))
                };
                let promise = promise.map(|n| n + 1).and_then(|n| start(move || n + 1));
                let got = match round % 3 {
                    0 => promise.wait(),
                    1 => block_on(promise),
                    _ => spawn(move || promise.wait()).join().unwrap(),
                };
                assert_eq!(got.unwrap(), round + 2);
                thread.into_iter().for_each(|thread| thread.join().unwrap());
                fiber.into_iter().for_each(|fiber| fiber.join().unwrap());
            }
        });
    }

    fn a_million_binds_need_no_stack() {
        // A hundred would overflow the stack, if they nested.
        const FEW: u32 = 30_000;
        let chain = |length, mut promise: Promise<u32>| {
            for n in 0..length {
                promise = match n % 3 {
                    0 => promise.and_then(|n| Promise::ready(n + 1)),
                    1 => promise.map(|n| n + 1),
                    _ => promise.finally(|| Promise::ready(())).catch(Promise::failed),
                };
            }
            promise
        };
        type End = fn(Promise<u32>, Resolver<u32>);
        let ends: [(u32, End); 4] = [
            (1_000_000, |last, resolver| {
                resolver.resolve(0);
                assert_eq!(last.wait().unwrap(), 666_667);
            }),
            (FEW, |last, resolver| {
                drop(resolver);
                assert!(last.wait().unwrap_err().is_broken());
            }),
            (FEW, |last, resolver| {
                drop(last);
                drop(resolver);
            }),
            (FEW, |last, resolver| {
                last.cancel();
                drop(resolver);
                assert!(last.wait().unwrap_err().is_cancelled());
            }),
        ];
        for (length, end) in ends {
            on_a_small_stack(move || {
                let (promise, resolver) = Promise::new();
                end(chain(length, promise), resolver);
            });
        }
    }

    /// Each callback resolves the next promise by hand, and each binds to what is ready.
    fn callbacks_that_set_off_the_next_need_no_stack() {
        fn by_hand(n: u32, resolver: Resolver<u32>) {
            if n == 0 {
                return resolver.resolve(0);
            }
            let (promise, next) = Promise::new();
            drop(promise.map(move |()| by_hand(n - 1, resolver)));
            next.resolve(());
        }
        fn ready(n: u32) -> Promise<u32> {
            if n == 0 {
                return Promise::ready(0);
            }
            Promise::ready(()).and_then(move |()| ready(n - 1))
        }
        on_a_small_stack(|| {
            let (promise, resolver) = Promise::new();
            by_hand(100_000, resolver);
            assert_eq!(promise.wait().unwrap(), 0);
            assert_eq!(ready(100_000).wait().unwrap(), 0);
        });
    }

    fn a_loop_of_pauses_runs_beside_others() {
        // (With AddressSanitizer each takes half a millisecond.)
        const TURNS: u32 = if cfg!(feature = "sanitizer") { 10_000 } else { 100_000 };
        fn count(n: u32, turns: Arc<AtomicUsize>) -> Promise<u32> {
            if n == TURNS {
                return Promise::ready(n);
            }
            turns.fetch_add(1, SeqCst);
            pause().and_then(move |()| count(n + 1, turns))
        }
        on_many(|| {
            let turns = Arc::<AtomicUsize>::default();
            let counting = count(0, Arc::clone(&turns));
            while turns.load(SeqCst) < 1000 {
                yield_now();
            }
            assert_eq!(counting.wait().unwrap(), TURNS);
        });
    }
}
