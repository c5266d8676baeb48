//! Timeouts and deadlines: each catches its own expiry and nothing else, wherever it comes.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{
    Cancelled, Elapsed, Instant, Interrupted, current, deadline, interruptible, mask, ops, park,
    park_timeout, run_blocking, scope, sleep, spawn, spawn_local, timeout, wait, yield_now,
};

use crate::cancel::waits;
use crate::sockets::Pair;
use crate::support::{
    Drops, OnDrop, Random, is_cancelled, message, panic_of, runtime, scaled, tests, workers,
    yield_until,
};

const LONG: Duration = Duration::from_secs(1000);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Keeps the worker for a while, as a computation would.
fn compute(duration: Duration) {
    let begin = Instant::now();
    let real = std::time::Instant::now();
    // The simulator's clock stands still meanwhile.
    while begin.elapsed() < duration && real.elapsed() < duration * 2 {
        std::hint::spin_loop();
    }
}

tests! {
    fn the_inner_one_first() {
        runtime().run(|| {
            let result = timeout(LONG, || {
                assert!(timeout(ms(1), || sleep(LONG)).is_err());
                assert!(timeout(ms(1), park).is_err());
                yield_now();
                5
            });
            assert_eq!(result, Ok(5));
        });
    }

    fn the_outer_one_first() {
        runtime().run(|| {
            let (drops, beyond) = (Drops::default(), Cell::new(false));
            let result = timeout(ms(1), || {
                let _outer = drops.token();
                let _ = timeout(LONG, || {
                    let _inner = drops.token();
                    let _ = timeout(Duration::MAX, || sleep(LONG));
                    beyond.set(true);
                });
                beyond.set(true);
            });
            assert!(result.is_err() && !beyond.get());
            assert_eq!(drops.get(), 2);
            sleep(ms(1));
        });
    }

    /// Whoever wakes after the time is up finds that it is, even if the worker's thread has slept through both.
    fn it_is_over_for_who_wakes_later() {
        runtime().run(|| for _ in 0..scaled(2_000) {
            let result = timeout(Duration::from_micros(50), || {
                mask(|| run_blocking(|| std::thread::sleep(Duration::from_micros(100))));
                yield_now();
            });
            assert!(result.is_err());
        });
    }

    /// Both are due at the same moment: the outer one ends the inner one.
    fn both_at_once() {
        runtime().run(|| {
            for _ in 0..20 {
                let (at, beyond) = (Instant::now() + ms(1), Cell::new(false));
                let result = deadline(at, || {
                    let _ = deadline(at, || sleep(LONG));
                    beyond.set(true);
                });
                assert!(result.is_err() && !beyond.get());
                yield_now();
            }
        });
    }

    /// The outer scope is to end while the inner one unwinds: the inner one says so first.
    fn the_outer_one_while_the_inner_one_unwinds() {
        runtime().run(|| {
            let (inner_said, outer) = (Cell::new(false), AtomicBool::new(false));
            let result = interruptible(&outer, || {
                let inner = timeout(ms(1), || {
                    let _slow = OnDrop(|| {
                        outer.store(true, SeqCst);
                        wait::me().interrupt();
                        sleep(ms(1));
                    });
                    sleep(LONG);
                });
                inner_said.set(inner.is_err());
                yield_now();
                unreachable!("the outer one is due");
            });
            assert!(Option::<()>::is_none(&result));
            assert!(inner_said.get());
        });
    }

    fn zero_and_for_ever() {
        runtime().run(|| {
            for _ in 0..3 {
                assert_eq!(timeout(Duration::ZERO, || 3), Ok(3), "what needs no wait");
                assert!(timeout(Duration::ZERO, yield_now).is_err());
                assert!(timeout(Duration::ZERO, || sleep(LONG)).is_err());
                assert_eq!(timeout(Duration::MAX, || { sleep(ms(1)); 4 }), Ok(4));
                let past = Instant::now();
                sleep(ms(1));
                assert_eq!(deadline(past, || 5), Ok(5));
                assert!(deadline(past, park).is_err());
                assert!(timeout(Duration::MAX, || timeout(Duration::ZERO, park)).unwrap().is_err());
                assert!(timeout(Duration::ZERO, || { let _ = timeout(Duration::MAX, park); }).is_err());
                yield_now();
            }
        });
    }

    fn inside_mask_it_does_nothing() {
        runtime().run(|| {
            let slept = Cell::new(0);
            let result = mask(|| timeout(ms(1), || {
                sleep(ms(5));
                slept.set(slept.get() + 1);
                7
            }));
            assert_eq!(result, Ok(7));
            // It is over: nothing is delivered later.
            yield_now();
            sleep(ms(1));
            assert_eq!(slept.get(), 1);
        });
    }

    fn a_mask_inside_holds_it_off() {
        runtime().run(|| {
            let done = Cell::new(false);
            let result = timeout(ms(1), || {
                mask(|| {
                    sleep(ms(5));
                    yield_now();
                    done.set(true);
                });
                yield_now();
                unreachable!("due since the mask began");
            });
            let _: Elapsed = result.unwrap_err();
            assert!(done.get());
        });
    }

    /// In a destructor, while the fiber unwinds for whatever reason, suspension points do not raise.
    fn in_a_destructor_while_unwinding() {
        runtime().run(|| {
            let body = |seen: Arc<AtomicUsize>, end: fn()| {
                let _cleanup = OnDrop(move || {
                    let slow = timeout(ms(1), || { sleep(ms(5)); 1 });
                    assert_eq!(slow, Ok(1), "nothing unwinds out of a destructor");
                    assert_eq!(timeout(Duration::ZERO, || { yield_now(); 2 }), Ok(2));
                    // What has a limit of its own keeps it.
                    let pair = Pair::new();
                    assert!(ops::recv(&pair.0, &mut [0], 0, Some(ms(1))).is_err());
                    park_timeout(ms(1));
                    seen.fetch_add(1, SeqCst);
                });
                end();
            };
            let seen = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&seen);
            assert!(timeout(ms(1), move || body(count, || sleep(LONG))).is_err());
            let count = Arc::clone(&seen);
            let panicked = catch_unwind(move || body(count, || panic!("the user's")));
            assert_eq!(message(&*panicked.unwrap_err()), "the user's");
            let count = Arc::clone(&seen);
            let cancelled = spawn(move || body(count, || sleep(LONG)));
            yield_now();
            cancelled.cancel();
            assert!(is_cancelled(&cancelled.join()));
            assert_eq!(seen.load(SeqCst), 3);
            assert!(timeout(ms(1), || sleep(LONG)).is_err(), "and afterwards all is as before");
        });
    }

    fn what_returns_counts_however_late() {
        runtime().run(|| {
            assert_eq!(timeout(ms(1), || { compute(ms(4)); 8 }), Ok(8));
            sleep(ms(1));
            let result = timeout(ms(1), || { compute(ms(4)); sleep(LONG) });
            assert!(result.is_err());
        });
    }

    /// Fibers that always find something to do are interrupted as well.
    fn busy_fibers_are_interrupted() {
        workers(1).run(|| {
            assert!(timeout(ms(2), || loop { yield_now() }).is_err());
            assert!(timeout(ms(2), || loop { let _ = spawn_local(|| ()).join(); }).is_err());
            let pair = Pair::new();
            let result = timeout(ms(2), || loop {
                ops::send(&pair.0, b"x", 0, None).unwrap();
                ops::recv(&pair.1, &mut [0], 0, None).unwrap();
            });
            assert!(result.is_err());
        });
    }

    /// User code that catches the payload and does not pass it on has used it up.
    fn caught_by_user_code() {
        runtime().run(|| {
            let result = timeout(ms(1), || {
                let caught = catch_unwind(|| sleep(LONG)).unwrap_err();
                assert!(caught.is::<Interrupted>());
                drop(caught);
                yield_now();
                sleep(ms(2));
                9
            });
            assert_eq!(result, Ok(9));
            // Passed on, it arrives where it was meant to.
            let result = timeout(ms(1), || {
                let caught = catch_unwind(|| sleep(LONG)).unwrap_err();
                yield_now();
                resume_unwind(caught)
            });
            let _: Elapsed = Result::<(), _>::unwrap_err(result);
        });
    }

    /// A payload that outlives its scope is nobody else's.
    fn kept_and_resumed_elsewhere() {
        #[inline(never)]
        fn limited<R>(duration: Duration, f: impl FnOnce() -> R) -> Result<R, Elapsed> {
            timeout(duration, f)
        }
        runtime().run(|| {
            let mut kept = None;
            let result = limited(ms(1), || kept = catch_unwind(|| sleep(LONG)).err());
            assert_eq!(result, Ok(()));
            let stale = kept.unwrap();
            // The new scope is where the old one was.
            let passed = panic_of(|| limited(LONG, move || -> () { resume_unwind(stale) }));
            assert!(passed.is::<Interrupted>(), "it passes through");
            assert!(limited(ms(1), || sleep(LONG)).is_err());
            // Out of the fiber: it ends it, as any panic does.
            let fiber = spawn(move || -> () { resume_unwind(passed) });
            assert!(fiber.join().unwrap_err().is::<Interrupted>());
        });
    }

    /// Of a cancellation and a timeout that are both due the cancellation goes first: it unwinds further.
    fn a_cancellation_at_the_same_time() {
        for count in [1, 2] {
            workers(count).run(|| {
                let beyond = Arc::new(AtomicBool::new(false));
                let (masked, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let fiber = spawn({
                    let (beyond, masked, go) = (Arc::clone(&beyond), Arc::clone(&masked), Arc::clone(&go));
                    move || {
                        let _ = timeout(ms(1), || {
                            mask(|| {
                                sleep(ms(3));
                                masked.store(true, SeqCst);
                                while !go.load(SeqCst) { yield_now() }
                            });
                            sleep(LONG);
                        });
                        beyond.store(true, SeqCst);
                        park();
                    }
                });
                yield_until("masked", || masked.load(SeqCst));
                fiber.cancel();
                go.store(true, SeqCst);
                assert!(is_cancelled(&fiber.join()));
                // (From another worker the request may still be under way when the mask ends.)
                assert!(count == 2 || !beyond.load(SeqCst));
            });
        }
    }

    /// A timeout that has been delivered does not use up the cancellation that comes after it.
    fn a_cancellation_after_it() {
        runtime().run(|| {
            let elapsed = Arc::new(AtomicUsize::new(0));
            let counts = Arc::clone(&elapsed);
            let fiber = spawn(move || {
                let _ = timeout(LONG, || loop {
                    assert!(timeout(Duration::from_micros(100), park).is_err());
                    counts.fetch_add(1, SeqCst);
                });
                unreachable!("cancelled");
            });
            yield_until("some", || elapsed.load(SeqCst) > 3);
            fiber.cancel();
            let result: Result<(), _> = fiber.join();
            assert!(is_cancelled(&result));
        });
    }

    fn around_every_wait() {
        let runtime = runtime();
        for (name, body) in waits() {
            runtime.run(|| {
                let result = timeout(ms(if name == "connect" { 80 } else { 2 }), body);
                assert!(result.is_err(), "{name}");
                sleep(ms(1));
            });
        }
    }

    /// The result of what has ended all the same is not lost.
    fn a_blocking_call_is_waited_for() {
        runtime().run(|| {
            let value = Cell::new(0);
            let result = timeout(ms(1), || {
                value.set(run_blocking(|| { std::thread::sleep(ms(20)); 6 }));
                yield_now();
                unreachable!("due");
            });
            let _: Elapsed = result.unwrap_err();
            assert_eq!(value.get(), 6);
        });
    }

    /// The children are waited for; then the parent unwinds.
    fn around_a_scope() {
        runtime().run(|| {
            let (mut ended, go) = (false, AtomicBool::new(false));
            let (flag, gate) = (&mut ended, &go);
            let result = timeout(ms(1), || scope(|s| {
                s.spawn(move || {
                    while !gate.load(SeqCst) { sleep(ms(1)) }
                    *flag = true;
                });
                let _open = OnDrop(|| gate.store(true, SeqCst));
                sleep(LONG);
            }));
            assert!(result.is_err() && ended);
        });
    }

    /// A neighbour that is suspended while it unwinds neither holds a timeout off nor has one delivered.
    fn beside_a_neighbour_that_unwinds() {
        workers(1).run(|| {
            let neighbour = spawn_local(|| {
                let _guard = OnDrop(park);
                panic!("unwinding for long");
            });
            yield_now();
            for _ in 0..10 {
                assert!(timeout(ms(1), || sleep(LONG)).is_err());
                // One that is suspended in a destructor because of its timeout, beside the other.
                let result = timeout(ms(1), || {
                    let _guard = OnDrop(|| { yield_now(); sleep(ms(1)) });
                    let _ = timeout(LONG, park);
                });
                assert!(result.is_err());
            }
            assert!(!neighbour.is_finished());
            neighbour.fiber().unpark();
            assert_eq!(message(&*neighbour.join().unwrap_err()), "unwinding for long");
            assert!(timeout(ms(1), || sleep(LONG)).is_err());
        });
    }

    /// A neighbour begins to unwind after this one has caught a panic: nothing old is held against it.
    fn a_panic_of_long_ago_does_not_hold_it_off() {
        workers(1).run(|| {
            drop(catch_unwind(|| panic!("caught long ago")));
            yield_now();
            let neighbour = spawn_local(|| {
                let _guard = OnDrop(park);
                panic!("unwinding for long");
            });
            yield_now();
            let begin = std::time::Instant::now();
            // The neighbour would otherwise end this wait.
            let fiber = neighbour.fiber();
            let late = spawn_local(move || { sleep(Duration::from_secs(60)); fiber.unpark() });
            assert!(timeout(ms(1), || sleep(LONG)).is_err());
            assert!(!late.is_finished(), "{:?}", begin.elapsed());
            late.cancel();
            neighbour.fiber().unpark();
            drop(neighbour.join());
        });
    }

    /// Many fibers with nested timeouts that expire in every order: each catches its own.
    fn at_random() {
        let runtime = workers(2);
        let (drops, made) = (Drops::default(), AtomicUsize::new(0));
        let made = &made;
        runtime.run(|| scope(|s| for seed in 1..=8 {
            let drops = drops.clone();
            s.spawn(move || {
                let mut random = Random(seed * 0x9e37_79b9);
                for _ in 0..scaled(300) {
                    let spans = [0, 1, 2].map(|_| Duration::from_micros(random.below(400)));
                    let naps = [0, 1, 2].map(|_| Duration::from_micros(random.below(300)));
                    let level = Cell::new(0);
                    let token = || { made.fetch_add(1, SeqCst); drops.token() };
                    let outer = timeout(spans[0], || {
                        level.set(1);
                        let _token = token();
                        let middle = timeout(spans[1], || {
                            level.set(2);
                            let _token = token();
                            let inner = timeout(spans[2], || {
                                level.set(3);
                                let _token = token();
                                sleep(naps[0]);
                            });
                            assert_eq!(level.get(), 3);
                            level.set(if inner.is_ok() { 4 } else { 5 });
                            sleep(naps[1]);
                        });
                        assert!(middle.is_err() || level.get() > 3);
                        level.set(6);
                        park_timeout(naps[2]);
                        level.set(7);
                    });
                    assert!(outer.is_err() || level.get() == 7);
                    assert!(outer.is_ok() || level.get() != 7);
                }
            });
        }));
        assert_eq!(drops.get(), made.load(SeqCst));
    }

    /// Cancelled and timed out at random moments: one or the other, and what was held is dropped.
    fn raced_with_cancellation() {
        let runtime = workers(2);
        let drops = Drops::default();
        let rounds = scaled(2_000);
        runtime.run(|| {
            let mut random = Random(99);
            let (mut cancelled, mut elapsed) = (0, 0);
            for _ in 0..rounds {
                let token = drops.token();
                let span = Duration::from_micros(random.below(150));
                let fiber = spawn(move || {
                    let _token = token;
                    timeout(span, || { sleep(LONG) }).is_err()
                });
                (0..random.below(5)).for_each(|_| yield_now());
                if random.below(2) == 0 { sleep(Duration::from_micros(random.below(150))) }
                fiber.cancel();
                match fiber.join() {
                    Ok(expired) => { assert!(expired); elapsed += 1 }
                    result => { assert!(is_cancelled(&result)); cancelled += 1 }
                }
            }
            assert_eq!(cancelled + elapsed, rounds);
        });
        drop(runtime);
        assert_eq!(drops.get(), rounds);
    }

    fn the_error_says_what_it_is() {
        let elapsed = timeout(Duration::ZERO, || runtime().run(|| timeout(Duration::ZERO, park)));
        let elapsed = elapsed.unwrap().unwrap_err();
        assert_eq!(elapsed.to_string(), "the time is up");
        let error = std::io::Error::from(elapsed);
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "the time is up");
    }

    /// The fiber asks itself, in each of the ways, inside a timeout.
    fn cancelled_by_itself() {
        runtime().run(|| {
            let fiber = spawn(|| {
                let caught = panic_of(|| timeout(LONG, || {
                    current().cancel();
                    current().cancel();
                    yield_now();
                }));
                assert!(caught.is::<Cancelled>());
                current().cancel();
                yield_now();
                assert!(timeout(ms(1), park).is_err(), "delivered once; timeouts go on");
                catch_unwind(AssertUnwindSafe(yield_now)).is_ok()
            });
            assert!(fiber.join().unwrap());
        });
    }
}
