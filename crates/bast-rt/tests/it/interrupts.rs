//! Requests to end where they are not welcome: on plain threads, in destructors, too late.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use bast_io::{Interest, Outcome};
use bast_rt::wait::{self, Interruption, Parked, Reason};
use bast_rt::{
    Interrupted, current, deadline, interruptible, mask, ops, park, park_timeout, scope, sleep,
    spawn, timeout, yield_now,
};

use crate::sockets::{Pair, listener};
use crate::support::{
    Drops, OnDrop, child, is_cancelled, is_child, message, panic_of, runtime, tests, workers,
    yield_until,
};

const LONG: Duration = Duration::from_secs(1000);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

tests! {
    // ---- plain threads ----

    fn a_thread_is_interrupted_in_each_wait() {
        let runtime = runtime();
        let begin = Instant::now();
        assert!(timeout(ms(2), || sleep(LONG)).is_err());
        assert!(timeout(ms(2), park).is_err());
        assert!(timeout(ms(2), || park_timeout(LONG)).is_err());
        assert!(timeout(ms(2), || loop { yield_now() }).is_err());
        let parked = runtime.spawn(park);
        let fiber = parked.fiber();
        assert!(timeout(ms(2), || parked.join()).is_err());
        fiber.cancel();
        let pair = Pair::new();
        assert!(timeout(ms(2), || ops::recv(&pair.0, &mut [0], 0, None)).is_err());
        assert!(timeout(ms(2), || ops::recv(&pair.0, &mut [0], 0, Some(LONG))).is_err());
        assert!(timeout(ms(2), || ops::poll(&pair.0, Interest::Readable, None)).is_err());
        assert!(timeout(ms(2), || ops::accept(&listener().0, None)).is_err());
        assert!(timeout(ms(2), || loop { ops::send(&pair.0, &[0; 4096], 0, None).unwrap(); }).is_err());
        // An operation's own time is its own affair.
        let own = timeout(LONG, || ops::recv(&pair.0, &mut [0], 0, Some(ms(1))));
        let overdue = Outcome::OVERDUE.into_result().unwrap_err();
        assert_eq!(own.unwrap().unwrap_err().kind(), overdue.kind());
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    fn a_threads_timeouts_nest() {
        assert_eq!(timeout(LONG, || timeout(ms(1), || sleep(LONG)).is_err()), Ok(true));
        assert!(timeout(ms(1), || timeout(LONG, || sleep(LONG)).is_err()).is_err());
        let at = bast_rt::Instant::now() + ms(2);
        assert!(deadline(at, || deadline(at, || sleep(LONG)).is_err()).is_err());
        assert_eq!(timeout(Duration::ZERO, || 1), Ok(1));
        assert!(timeout(Duration::ZERO, || sleep(LONG)).is_err());
        assert_eq!(timeout(Duration::MAX, || { sleep(ms(1)); 1 }), Ok(1));
        let caught = timeout(ms(1), || catch_unwind(|| sleep(LONG)).unwrap_err().is::<Interrupted>());
        assert_eq!(caught, Ok(true));
    }

    /// Inside a mask a thread waits for as long as it takes, whatever has expired around it.
    fn a_threads_mask_holds_timeouts_off() {
        let runtime = runtime();
        let pair = Arc::new(Pair::new());
        let (sender, done) = (Arc::clone(&pair), Cell::new(0));
        let late = thread::spawn(move || {
            thread::sleep(ms(30));
            ops::send(&sender.1, b"x", 0, None).unwrap();
        });
        let slow = runtime.spawn(|| { crate::support::real_sleep(ms(20)); 4 });
        let result = timeout(ms(1), || {
            mask(|| {
                sleep(ms(5));
                done.set(done.get() + 1);
                assert_eq!(slow.join().unwrap(), 4);
                done.set(done.get() + 1);
                assert_eq!(ops::recv(&pair.0, &mut [0], 0, None).unwrap(), 1, "no error either");
                park_timeout(ms(1));
                assert_eq!(runtime.run(|| { yield_now(); 5 }), 5);
                let me = current();
                scope(|s| { s.spawn(|| me.unpark()); park() });
                done.set(done.get() + 1);
            });
            yield_now();
            unreachable!("due");
        });
        result.unwrap_err();
        assert_eq!(done.get(), 3);
        late.join().unwrap();
        // What borrows from the thread's frame is masked by itself.
        let mut text = String::from("borrowed");
        let result = timeout(ms(1), || {
            runtime.run(|| { crate::support::real_sleep(ms(20)); text.push('!') });
            scope(|s| { s.spawn(|| { crate::support::real_sleep(ms(20)); text.push('!') }); });
            yield_now();
        });
        assert!(result.is_err());
        assert_eq!(text, "borrowed!!");
    }

    fn a_threads_destructors_may_wait() {
        let runtime = runtime();
        let done = Cell::new(false);
        let result = timeout(ms(1), || {
            let _cleanup = OnDrop(|| {
                sleep(ms(3));
                runtime.spawn(|| sleep(ms(3))).join().unwrap();
                let pair = Pair::new();
                ops::send(&pair.1, b"x", 0, None).unwrap();
                assert_eq!(ops::recv(&pair.0, &mut [0], 0, None).unwrap(), 1);
                assert!(ops::recv(&pair.0, &mut [0], 0, Some(ms(2))).is_err());
                park_timeout(ms(1));
                done.set(true);
            });
            sleep(LONG);
        });
        assert!(result.is_err() && done.get());
    }

    fn a_threads_token_interrupts_what_waits() {
        let runtime = runtime();
        for wait in [
            || sleep(LONG),
            park as fn(),
            || park_timeout(LONG),
            || loop { yield_now() },
        ] {
            let (flag, other) = (Arc::new(AtomicBool::new(false)), wait::me());
            let set = Arc::clone(&flag);
            let setter = thread::spawn(move || {
                thread::sleep(ms(5));
                set.store(true, SeqCst);
                other.interrupt();
            });
            assert_eq!(interruptible(&flag, wait), None);
            setter.join().unwrap();
            // And a fiber in the same way.
            let other = Arc::new(AtomicBool::new(false));
            let set = Arc::clone(&other);
            let (tell, told) = std::sync::mpsc::channel();
            let fiber = runtime.spawn(move || {
                tell.send(wait::me()).unwrap();
                interruptible(&other, wait).is_none()
            });
            let unparker = told.recv().unwrap();
            thread::sleep(ms(2));
            set.store(true, SeqCst);
            unparker.interrupt();
            assert!(fiber.join().unwrap());
        }
        let set = AtomicBool::new(true);
        assert_eq!(interruptible(&set, || 3), Some(3));
        assert_eq!(interruptible(&set, yield_now), None);
        assert_eq!(timeout(LONG, || interruptible(&set, yield_now)), Ok(None));
    }

    /// An unpark that comes while a thread is interrupted is kept.
    fn a_threads_unpark_is_not_lost() {
        thread::spawn(|| {
            current().unpark();
            assert!(timeout(Duration::ZERO, park).is_err());
            park();
        }).join().unwrap();
        runtime().run(|| {
            current().unpark();
            assert!(timeout(Duration::ZERO, park).is_err());
            park();
        });
    }

    // ---- too late, and in the wrong place ----

    /// An interruption kept beyond its scope must not be followed.
    fn an_interruption_that_has_lost_its_scope() {
        fn kept() -> Interruption {
            let mut kept = None;
            let result = timeout(Duration::ZERO, || wait::wait(
                &Reason::new("a test", &()), None,
                |wait| if let Parked::Interrupted(interruption) = wait.park() {
                    kept = Some(interruption);
                }
            ));
            assert_eq!(result, Ok(()));
            kept.unwrap()
        }
        let check = || {
            let stale = kept();
            let mut later = [0u64; 64];
            std::hint::black_box(&mut later);
            let payload = panic_of(|| -> () { stale.raise() });
            assert!(message(&*payload).contains("its scope"), "{}", message(&*payload));
            assert_eq!(later, [0; 64]);
            // Within the scope it does what it says.
            let raised = timeout(Duration::ZERO, || wait::wait(
                &Reason::new("a test", &()), None,
                |wait| match wait.park() {
                    Parked::Interrupted(interruption) => interruption.raise(),
                    _ => unreachable!("it is due"),
                }
            ));
            let _: bast_rt::Elapsed = Result::<(), _>::unwrap_err(raised);
        };
        check();
        runtime().run(check);
    }

    /// Closing is what a cancelled fiber does last: the handle is closed, and then it unwinds.
    fn a_cancelled_fiber_closes() {
        runtime().run(|| {
            let fiber = spawn(|| {
                let pair = Pair::new();
                current().cancel();
                ops::close(pair.0).unwrap();
                // The peer sees it: end of stream.
                let seen = mask(|| ops::recv(&pair.1, &mut [0], 0, None));
                assert_eq!(seen.unwrap(), 0);
                yield_now();
                unreachable!("cancelled");
            });
            let result: Result<(), _> = fiber.join();
            assert!(is_cancelled(&result));
            let pair = Pair::new();
            timeout(Duration::ZERO, || ops::close(pair.0)).unwrap().unwrap();
            assert_eq!(ops::recv(&pair.1, &mut [0], 0, None).unwrap(), 0);
        });
    }

    fn of_itself_by_every_name() {
        runtime().run(|| {
            for way in [|| current().cancel(), || current().clone().cancel()] {
                let (drops, counts) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
                let (token, count) = (drops.token(), Arc::clone(&counts));
                let fiber = spawn(move || {
                    let _token = token;
                    way();
                    count.fetch_add(1, SeqCst);
                    sleep(Duration::ZERO);
                    count.fetch_add(10, SeqCst);
                });
                assert!(is_cancelled(&fiber.join()));
                assert_eq!((counts.load(SeqCst), drops.get()), (1, 1));
            }
        });
        // A plain thread cannot be cancelled.
        current().cancel();
        yield_now();
    }

    /// From a fiber of another worker, of another runtime, and from a plain thread; each request counts
    /// once, however many make it.
    fn from_everywhere_at_once() {
        let (here, other) = (workers(2), workers(1));
        for round in 0..200 {
            let steps = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&steps);
            let fiber = here.spawn(move || {
                let caught = catch_unwind(|| if round % 2 == 0 { park() } else { sleep(LONG) });
                assert!(caught.is_err());
                for _ in 0..5 {
                    yield_now();
                    sleep(Duration::from_micros(10));
                    count.fetch_add(1, SeqCst);
                }
            });
            let who = fiber.fiber();
            let (a, b, c) = (who.clone(), who.clone(), who.clone());
            let first = here.spawn(move || a.cancel());
            let second = other.spawn(move || b.cancel());
            let third = thread::spawn(move || c.cancel());
            who.cancel();
            fiber.join().unwrap();
            first.join().unwrap();
            second.join().unwrap();
            third.join().unwrap();
            assert_eq!(steps.load(SeqCst), 5);
            who.cancel(); // it has ended
        }
    }

    /// A request that comes while the fiber is suspended in a destructor, unwinding because of an earlier
    /// timeout, waits for its end.
    fn while_suspended_in_a_destructor() {
        for count in [1, 2] {
            workers(count).run(|| {
                let (inside, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
                let fiber = spawn({
                    let (inside, steps) = (Arc::clone(&inside), Arc::clone(&steps));
                    move || {
                        let result = timeout(ms(1), || {
                            let _cleanup = OnDrop(|| {
                                inside.store(true, SeqCst);
                                park();
                                sleep(ms(1));
                                steps.fetch_add(1, SeqCst);
                            });
                            sleep(LONG);
                        });
                        assert!(result.is_err());
                        steps.fetch_add(10, SeqCst);
                        yield_now();
                        steps.fetch_add(100, SeqCst);
                    }
                });
                yield_until("the destructor", || inside.load(SeqCst));
                fiber.cancel();
                sleep(ms(2));
                assert!(!fiber.is_finished(), "a cleanup may take its time");
                fiber.fiber().unpark();
                assert!(is_cancelled(&fiber.join()));
                assert_eq!(steps.load(SeqCst), 11);
            });
        }
    }

    /// A destructor that panics and catches that itself, while its fiber is cancelled.
    fn a_panic_caught_inside_a_destructor() {
        runtime().run(|| {
            let done = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&done);
            let fiber = spawn(move || {
                let _cleanup = OnDrop(move || {
                    let caught = catch_unwind(|| { yield_now(); panic!("in a destructor") });
                    assert_eq!(message(&*caught.unwrap_err()), "in a destructor");
                    sleep(ms(1));
                    count.fetch_add(1, SeqCst);
                });
                park();
            });
            yield_now();
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
            assert_eq!(done.load(SeqCst), 1);
        });
    }

    /// Two that unwind at once on one worker, and a third that is cancelled beside them.
    fn cancelled_beside_others_that_are_cancelled() {
        workers(1).run(|| {
            let slow = || {
                let fiber = spawn(|| {
                    let _cleanup = OnDrop(park);
                    sleep(LONG);
                });
                sleep(ms(1));
                fiber.cancel();
                sleep(ms(1));
                assert!(!fiber.is_finished());
                fiber
            };
            let (first, second) = (slow(), slow());
            let quick = spawn(park);
            sleep(ms(1));
            quick.cancel();
            assert!(is_cancelled(&quick.join()));
            for fiber in [first, second] {
                fiber.fiber().unpark();
                assert!(is_cancelled(&fiber.join()));
            }
        });
    }
}

const ENDS: &str = "it::interrupts::a_panic_that_leaves_a_destructor_ends_the_process";

tests! {
    /// As on a thread: a panic must not leave a destructor while its fiber unwinds.
    fn a_panic_that_leaves_a_destructor_ends_the_process() {
        if is_child(ENDS) {
            let runtime = runtime();
            let fiber = runtime.spawn(|| {
                let _cleanup = OnDrop(|| panic!("it leaves the destructor"));
                park();
            });
            fiber.cancel();
            let _ = fiber.join();
            return;
        }
        let output = child(ENDS).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        assert!(text.contains("it leaves the destructor"), "{text}");
    }
}
