//! Twins: what threads and fibers have in common.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::{message, twins};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

twins! {
    fn join_returns_the_result() {
        assert_eq!(spawn(|| 6 * 7).join().unwrap(), 42);
        let text = String::from("moved in and out");
        assert_eq!(spawn(move || text + "!").join().unwrap(), "moved in and out!");
    }

    fn join_returns_the_panics_payload() {
        let payload = spawn(|| if true { panic!("number {}", 7) }).join().unwrap_err();
        assert_eq!(message(&*payload), "number 7");
        let payload = spawn(|| std::panic::panic_any(77u64)).join().unwrap_err();
        assert_eq!(payload.downcast_ref::<u64>(), Some(&77));
        let payload = spawn(|| std::panic::resume_unwind(Box::new('x'))).join().unwrap_err();
        assert_eq!(payload.downcast_ref::<char>(), Some(&'x'));
    }

    fn a_panic_runs_destructors() {
        struct Mark(Arc<AtomicBool>);
        impl Drop for Mark {
            fn drop(&mut self) {
                assert!(std::thread::panicking());
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let mark = Mark(Arc::clone(&dropped));
        let fiber = spawn(move || {
            let _mark = mark;
            panic!("expected");
        });
        assert!(fiber.join().is_err());
        assert!(dropped.load(Ordering::Relaxed));
        assert!(!std::thread::panicking());
    }

    fn a_caught_panic_does_not_end_it() {
        let fiber = spawn(|| {
            let caught = catch_unwind(|| panic!("expected"));
            yield_now();
            caught.is_err()
        });
        assert!(fiber.join().unwrap());
    }

    fn names() {
        assert_eq!(name_of(&spawn(|| {})), None);
        let named = Builder::new().name(String::from("a name")).spawn(|| {
            current().name().map(str::to_owned)
        });
        let named = named.unwrap();
        assert_eq!(name_of(&named).as_deref(), Some("a name"));
        assert_eq!(named.join().unwrap().as_deref(), Some("a name"));
        assert_eq!(spawn(|| current().name().map(str::to_owned)).join().unwrap(), None);
    }

    fn ids() {
        let here = current().id();
        assert_eq!(here, current().id());
        let other = spawn(|| current().id());
        let known = id_of(&other);
        let told = other.join().unwrap();
        assert_eq!(told, known);
        assert_ne!(told, here);
        let ids: std::collections::HashSet<Id> =
            (0..100).map(|_| spawn(|| current().id()).join().unwrap()).collect();
        assert_eq!(ids.len(), 100);
    }

    fn is_finished() {
        let go = Arc::new(AtomicBool::new(false));
        let fiber = {
            let go = Arc::clone(&go);
            spawn(move || {
                while !go.load(Ordering::Acquire) {
                    park();
                }
            })
        };
        sleep(SHORT);
        assert!(!fiber.is_finished());
        go.store(true, Ordering::Release);
        unpark(&fiber);
        let start = Instant::now();
        while !fiber.is_finished() {
            assert!(start.elapsed() < LONG);
            yield_now();
        }
        fiber.join().unwrap();
    }

    fn a_dropped_handle_detaches() {
        let [go, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (gate, there) = (Arc::clone(&go), Arc::clone(&done));
        drop(spawn(move || {
            while !gate.load(Ordering::Acquire) {
                sleep(Duration::from_millis(1));
            }
            there.store(true, Ordering::Release);
        }));
        sleep(SHORT);
        assert!(!done.load(Ordering::Acquire));
        go.store(true, Ordering::Release);
        while !done.load(Ordering::Acquire) {
            yield_now();
        }
    }

    fn an_unpark_before_the_park_counts_once() {
        current().unpark();
        current().unpark();
        let start = Instant::now();
        park();
        assert!(start.elapsed() < LONG);
        // Both were one: this one waits.
        let start = Instant::now();
        park_timeout(SHORT);
        assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
    }

    fn park_timeout_ends_early_on_unpark() {
        let fiber = spawn(|| {
            let start = Instant::now();
            park_timeout(2 * LONG);
            start.elapsed()
        });
        unpark(&fiber);
        assert!(fiber.join().unwrap() < LONG);
    }

    fn an_unpark_of_what_has_ended_does_nothing() {
        let fiber = spawn(current);
        let handle = fiber.join().unwrap();
        handle.unpark();
        assert_ne!(handle.id(), current().id());
    }

    fn ping_pong() {
        const ROUNDS: usize = 2000;
        let ball = Arc::new(AtomicUsize::new(0));
        let pong = {
            let (ball, pinger) = (Arc::clone(&ball), current());
            spawn(move || {
                for round in 0..ROUNDS {
                    while ball.load(Ordering::Acquire) != 2 * round + 1 {
                        park();
                    }
                    ball.store(2 * round + 2, Ordering::Release);
                    pinger.unpark();
                }
            })
        };
        for round in 0..ROUNDS {
            ball.store(2 * round + 1, Ordering::Release);
            unpark(&pong);
            while ball.load(Ordering::Acquire) != 2 * round + 2 {
                park();
            }
        }
        pong.join().unwrap();
    }

    fn sleeping_takes_its_time() {
        let start = Instant::now();
        sleep(SHORT);
        assert!((SHORT..LONG).contains(&start.elapsed()));
        sleep(Duration::ZERO);
    }

    fn many_sleep_at_once() {
        // One after the other they would take longer than any machine needs to start them.
        let nap = Duration::from_secs(1);
        let start = Instant::now();
        let sleepers: Vec<_> = (0..100).map(|_| spawn(move || sleep(nap))).collect();
        sleepers.into_iter().for_each(|s| s.join().unwrap());
        assert!((nap..100 * nap).contains(&start.elapsed()), "{:?}", start.elapsed());
    }

    fn a_scope_borrows() {
        let mut words = vec![String::from("a"), String::from("bc")];
        let mut count = 0;
        let total = scope(|s| {
            let lens: Vec<_> = words.iter().map(|word| s.spawn(move || word.len())).collect();
            s.spawn(|| count += 1);
            lens.into_iter().map(|len| len.join().unwrap()).sum::<usize>()
        });
        words.push(String::from("d"));
        assert_eq!((total, count, words.len()), (3, 1, 3));
    }

    fn a_scope_waits_for_all() {
        let done = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    sleep(SHORT);
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 10);
    }

    fn scopes_nest() {
        let total = AtomicUsize::new(0);
        scope(|outer| {
            for _ in 0..4 {
                outer.spawn(|| {
                    scope(|inner| {
                        for _ in 0..4 {
                            inner.spawn(|| total.fetch_add(1, Ordering::Relaxed));
                        }
                    });
                });
            }
            outer.spawn(|| outer.spawn(|| total.fetch_add(100, Ordering::Relaxed)));
        });
        assert_eq!(total.load(Ordering::Relaxed), 116);
    }

    fn a_scope_panics_when_a_child_did() {
        let others = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                s.spawn(|| panic!("the child's"));
                s.spawn(|| {
                    sleep(SHORT);
                    others.fetch_add(1, Ordering::Relaxed);
                });
            });
        }));
        let payload = result.unwrap_err();
        let said = message(&*payload);
        assert!(said.starts_with("a scoped ") && said.ends_with(" panicked"), "{said}");
        assert_eq!(others.load(Ordering::Relaxed), 1);
    }

    fn a_joined_panic_is_not_the_scopes() {
        let value = scope(|s| {
            let payload = s.spawn(|| if true { panic!("joined") }).join().unwrap_err();
            message(&*payload).len()
        });
        assert_eq!(value, 6);
    }

    fn a_scopes_own_panic_waits_and_goes_on() {
        let done = AtomicBool::new(false);
        let result = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                s.spawn(|| {
                    sleep(SHORT);
                    done.store(true, Ordering::Relaxed);
                });
                panic!("the parent's");
            });
        }));
        assert_eq!(message(&*result.unwrap_err()), "the parent's");
        assert!(done.load(Ordering::Relaxed));
    }

    fn a_scope_drops_results_before_it_returns() {
        struct Count<'a>(&'a AtomicUsize);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                std::thread::yield_now();
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = AtomicUsize::new(0);
        for round in 1..=50 {
            scope(|s| {
                let early = s.spawn(|| Count(&dropped));
                s.spawn(|| Count(&dropped));
                let late = s.spawn(|| {
                    yield_now();
                    Count(&dropped)
                });
                drop(early);
                yield_now();
                drop(late);
            });
            assert_eq!(dropped.load(Ordering::Relaxed), 3 * round);
        }
    }

    fn a_scoped_handle_goes_to_a_sibling() {
        let text = String::from("borrowed");
        let length = scope(|s| {
            let first = s.spawn(|| &text[..3]);
            let second = s.spawn(|| first.join().unwrap().len());
            second.join().unwrap()
        });
        assert_eq!(length, 3);
    }

    fn a_scoped_handle_says_that_it_is_finished() {
        let go = AtomicBool::new(false);
        scope(|s| {
            let other = s.spawn(|| {
                while !go.load(Ordering::Acquire) {
                    sleep(Duration::from_millis(1));
                }
            });
            assert!(!other.is_finished());
            go.store(true, Ordering::Release);
            let start = Instant::now();
            while !other.is_finished() {
                assert!(start.elapsed() < LONG);
                yield_now();
            }
            other.join().unwrap();
        });
    }

    fn an_empty_scope_and_an_early_return() {
        assert_eq!(scope(|_| 5), 5);
        let done = AtomicUsize::new(0);
        let run = |early: bool| -> Result<(), u8> {
            scope(|s| {
                s.spawn(|| done.fetch_add(1, Ordering::Relaxed));
                if early {
                    return Err(1);
                }
                s.spawn(|| done.fetch_add(10, Ordering::Relaxed));
                Ok(())
            })
        };
        assert_eq!((run(true), run(false)), (Err(1), Ok(())));
        assert_eq!(done.load(Ordering::Relaxed), 12);
    }

    fn a_scoped_builder() {
        let text = String::from("borrowed");
        scope(|s| {
            let named = Builder::new().name(String::from("scoped")).spawn_scoped(s, || {
                (current().name().map(str::to_owned), text.len())
            });
            let (name, len) = named.unwrap().join().unwrap();
            assert_eq!((name.as_deref(), len), (Some("scoped"), 8));
        });
    }

    fn yielding_lets_others_run() {
        let turn = Arc::new(AtomicUsize::new(0));
        let other = {
            let turn = Arc::clone(&turn);
            spawn(move || {
                for round in 0..50 {
                    while turn.load(Ordering::Acquire) != 2 * round {
                        yield_now();
                    }
                    turn.fetch_add(1, Ordering::AcqRel);
                }
            })
        };
        for round in 0..50 {
            while turn.load(Ordering::Acquire) != 2 * round + 1 {
                yield_now();
            }
            turn.fetch_add(1, Ordering::AcqRel);
        }
        other.join().unwrap();
    }

    fn a_stack_as_large_as_asked_for() {
        fn deep(n: usize) -> usize {
            let frame = std::hint::black_box([n; 128]);
            if n == 0 { frame[5] } else { deep(n - 1) + usize::from(frame[7] == n) }
        }
        let fiber = Builder::new().stack_size(8 << 20).spawn(|| deep(2000)).unwrap();
        assert_eq!(fiber.join().unwrap(), 2000);
    }

    fn thread_locals_last_across_a_suspension() {
        thread_local!(static VALUE: Cell<*const u8> = const { Cell::new(std::ptr::null()) });
        let address = || VALUE.with(std::ptr::from_ref) as usize;
        let fiber = spawn(move || {
            let before = address();
            for _ in 0..10 {
                yield_now();
                sleep(Duration::from_millis(1));
                assert_eq!(address(), before);
            }
        });
        fiber.join().unwrap();
    }

    fn there_is_some_parallelism() {
        assert!(available_parallelism().unwrap().get() >= 1);
    }
}
