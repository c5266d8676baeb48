//! Task groups, one at a time.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{Builder, Cancelled, mask, park, sleep, spawn, timeout, yield_now};
use bast_sync::{CancelToken, Group, group};

use super::support::{Live, OnDrop, everywhere, hang, is_cancelled, message, panic_of, until};

const SHORT: Duration = Duration::from_millis(5);

#[derive(Debug, PartialEq)]
enum Error {
    Cancelled,
    Number(usize),
}

impl From<Cancelled> for Error {
    fn from(_: Cancelled) -> Error {
        Error::Cancelled
    }
}

type Result<T> = std::result::Result<T, Error>;

everywhere! {
    fn returns_what_the_body_returns() {
        assert_eq!(group(|_| Result::Ok(5)), Ok(5));
        assert_eq!(group(|_| Result::<()>::Err(Error::Number(3))), Err(Error::Number(3)));
    }

    fn members_borrow_and_are_awaited() {
        let mut words = vec![String::from("one"), String::from("three")];
        let (done, mut count) = (AtomicUsize::new(0), 0);
        let sum = group(|g| {
            let lens: Vec<_> = words.iter().map(|word| g.spawn(|| Result::Ok(word.len()))).collect();
            for _ in 0..10 {
                g.spawn(|| { sleep(SHORT); done.fetch_add(1, SeqCst); Ok(()) });
            }
            g.spawn(|| { count += 1; Ok(()) });
            let mut sum = 0;
            for len in lens { sum += len.join()?; }
            Ok(sum)
        });
        words.push(String::new());
        assert_eq!((sum, count, done.load(SeqCst)), (Ok(8), 1, 10));
    }

    fn the_first_error_ends_everybody() {
        for round in 0..50 {
            let live = Live::default();
            let mut body = false;
            let result: Result<()> = group(|g| {
                for _ in 0..10 {
                    g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
                }
                if round % 2 == 0 { until("they run", || live.get() == 10); }
                g.spawn(|| Result::<()>::Err(Error::Number(7)));
                g.spawn(|| {
                    let _ = std::panic::catch_unwind(hang);
                    Result::<()>::Err(Error::Number(8))
                });
                body = true;
                hang();
                Ok(())
            });
            assert_eq!(result, Err(Error::Number(7)));
            assert!(body);
            assert_eq!(live.get(), 0);
        }
    }

    fn the_bodys_error_ends_the_members() {
        let live = Live::default();
        let result: Result<()> = group(|g| {
            for _ in 0..10 {
                g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
            }
            sleep(SHORT);
            Err(Error::Number(1))
        });
        assert_eq!(result, Err(Error::Number(1)));
        assert_eq!(live.get(), 0);
    }

    fn an_error_after_the_body_has_returned() {
        let live = Live::default();
        let result = group(|g| {
            g.spawn(|| { sleep(SHORT); Result::<()>::Err(Error::Number(2)) });
            g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
            Ok(live.enter())
        });
        assert_eq!(result.unwrap_err(), Error::Number(2));
        assert_eq!(live.get(), 0, "the body's value was dropped");
    }

    fn a_panic_ends_everybody_and_goes_on() {
        for round in 0..20 {
            let live = Live::default();
            let payload = panic_of(|| group(|g| -> Result<()> {
                for _ in 0..10 {
                    g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
                }
                if round % 2 == 0 { sleep(Duration::from_micros(300)) }
                g.spawn(|| -> Result<()> { panic!("the member's") });
                hang();
                Ok(())
            }));
            assert_eq!(message(&*payload), "the member's");
            assert_eq!(live.get(), 0);
        }
    }

    fn the_bodys_panic_waits_for_members_that_wait_in_drop() {
        let (live, drops) = (Live::default(), AtomicUsize::new(0));
        let payload = panic_of(|| group(|g| -> Result<()> {
            for _ in 0..5 {
                g.spawn(|| {
                    let _live = live.enter();
                    let _end = OnDrop(|| { sleep(SHORT); yield_now(); drops.fetch_add(1, SeqCst); });
                    hang();
                    Ok(())
                });
            }
            until("they run", || live.get() == 5);
            panic!("the body's");
        }));
        assert_eq!(message(&*payload), "the body's");
        assert_eq!((live.get(), drops.load(SeqCst)), (0, 5));
    }

    fn a_panic_comes_before_an_error() {
        let live = Live::default();
        let payload = panic_of(|| group(|g| {
            g.spawn(|| {
                let _live = live.enter();
                let _ = std::panic::catch_unwind(hang);
                if true { panic!("while it is cancelled") }
                Ok(())
            });
            until("it runs", || live.get() == 1);
            Result::<()>::Err(Error::Number(1))
        }));
        assert_eq!(message(&*payload), "while it is cancelled");
    }

    fn the_first_panic_of_several() {
        let payload = panic_of(|| group(|g| -> Result<()> {
            g.spawn(|| -> Result<()> { panic!("first") });
            g.spawn(|| -> Result<()> { until("the first", || g.is_cancelled()); panic!("second") });
            let _ = std::panic::catch_unwind(hang);
            mask(|| sleep(SHORT));
            panic!("third");
        }));
        assert_eq!(message(&*payload), "first");
    }

    fn cancelled_by_hand() {
        let live = Live::default();
        // The body goes on if it does not suspend, and its value counts.
        let result = group(|g| {
            g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
            sleep(SHORT);
            g.cancel();
            g.cancel();
            assert!(g.is_cancelled());
            Result::Ok(4)
        });
        assert_eq!(result, Ok(4));
        // A member ends all; the body is interrupted.
        let result = group(|g| -> Result<()> {
            g.spawn(|| { sleep(SHORT); g.cancel(); Ok(()) });
            g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
            hang();
            Ok(())
        });
        assert_eq!(result, Err(Error::Cancelled));
        assert_eq!(live.get(), 0);
    }

    fn nobody_begins_in_a_cancelled_group() {
        let result = group(|g| {
            let early: Vec<_> = (0..10).map(|_| g.spawn(|| Ok(()))).collect();
            g.cancel();
            let late = g.spawn(|| -> Result<()> { unreachable!("the group is cancelled") });
            assert!(late.is_finished() && late.fiber().is_none());
            late.cancel();
            drop(early);
            Ok(mask(|| late.join()))
        });
        assert_eq!(result, Ok(Err(Cancelled::new())));
    }

    fn joining() {
        let result = group(|g| {
            let value = g.spawn(|| { yield_now(); Ok(String::from("value")) });
            let alone = g.spawn(|| { hang(); Result::Ok(1) });
            sleep(Duration::from_micros(200));
            alone.cancel();
            assert_eq!(alone.join(), Err(Cancelled::new()));
            assert!(!g.is_cancelled(), "one alone is no failure");
            let done = g.spawn(|| Ok(3));
            until("it ends", || done.is_finished());
            Ok((value.join()?, done.join()?))
        });
        assert_eq!(result, Ok((String::from("value"), 3)));
    }

    /// Who joins a member that fails is cancelled himself, and does not see it.
    fn joining_a_failure() {
        for round in 0..300 {
            let seen = AtomicBool::new(false);
            let result: Result<()> = group(|g| {
                let bad = g.spawn(move || {
                    if round % 3 == 0 { yield_now() }
                    Result::<u8>::Err(Error::Number(5))
                });
                if round % 2 == 0 { std::thread::yield_now() }
                if round % 5 == 0 { mask(|| sleep(Duration::from_micros(30))) }
                let other = g.spawn(|| {
                    let _ = bad.join();
                    seen.store(true, SeqCst);
                    Ok(())
                });
                let _ = other.join();
                seen.store(true, SeqCst);
                Ok(())
            });
            assert_eq!(result, Err(Error::Number(5)));
            assert!(!seen.load(SeqCst));
        }
    }

    fn a_joiner_that_is_masked_gets_an_error() {
        let result: Result<()> = group(|g| {
            let bad = g.spawn(|| Result::<u8>::Err(Error::Number(5)));
            mask(|| assert_eq!(bad.join(), Err(Cancelled::new())));
            Ok(())
        });
        assert_eq!(result, Err(Error::Number(5)));
    }

    fn members_start_members() {
        fn tree<'scope>(g: &'scope Group<'scope, '_, Error>, depth: usize, leaves: &'scope AtomicUsize) {
            if depth == 0 {
                leaves.fetch_add(1, SeqCst);
                return;
            }
            for _ in 0..3 {
                g.spawn(move || { tree(g, depth - 1, leaves); Ok(()) });
            }
        }
        let leaves = AtomicUsize::new(0);
        assert_eq!(group(|g| { tree(g, 5, &leaves); Result::Ok(()) }), Ok(()));
        assert_eq!(leaves.load(SeqCst), 243);
    }

    fn members_that_take_their_time() {
        let (steps, live) = (AtomicUsize::new(0), Live::default());
        let result: Result<()> = group(|g| {
            g.spawn(|| -> Result<()> {
                let _live = live.enter();
                mask(|| {
                    until("it is to end", || g.is_cancelled());
                    for _ in 0..10 { sleep(Duration::from_micros(100)); steps.fetch_add(1, SeqCst); }
                });
                yield_now();
                unreachable!("the request was held off, not forgotten")
            });
            g.spawn(|| {
                let _live = live.enter();
                // Catches what is to end it, and goes on.
                let _ = std::panic::catch_unwind(hang);
                sleep(SHORT);
                steps.fetch_add(100, SeqCst);
                Ok(())
            });
            until("they run", || live.get() == 2);
            Err(Error::Number(1))
        });
        assert_eq!(result, Err(Error::Number(1)));
        assert_eq!((live.get(), steps.load(SeqCst)), (0, 110));
    }

    fn a_masked_body_is_not_interrupted() {
        let result: Result<()> = group(|g| {
            mask(|| {
                g.spawn(|| Result::<()>::Err(Error::Number(1)));
                until("the group is cancelled", || g.is_cancelled());
            });
            park();
            unreachable!()
        });
        assert_eq!(result, Err(Error::Number(1)));
        assert_eq!(mask(|| group(|g| {
            g.spawn(|| Result::<()>::Err(Error::Number(2)));
            sleep(SHORT);
            Ok(())
        })), Err(Error::Number(2)));
    }

    fn results_that_nobody_takes_are_dropped() {
        let live = Live::default();
        let result = group(|g| {
            for _ in 0..10 {
                let live = &live;
                g.spawn(move || Ok(live.enter()));
            }
            let kept = g.spawn(|| Ok(live.enter()));
            until("it ends", || kept.is_finished());
            drop(kept);
            Result::Ok(())
        });
        assert_eq!(result, Ok(()));
        assert_eq!(live.get(), 0);
    }

    /// A value whose destructor waits, and borrows: the group ends after it.
    fn a_slow_destructor_of_a_result() {
        let dropped = AtomicUsize::new(0);
        let result = group(|g| {
            for _ in 0..5 {
                g.spawn(|| Ok(OnDrop(|| { sleep(Duration::from_micros(500)); dropped.fetch_add(1, SeqCst); })));
            }
            Result::Ok(())
        });
        assert_eq!(result, Ok(()));
        assert_eq!(dropped.load(SeqCst), 5);
    }

    fn names_and_settings() {
        let result = group(|g| {
            let name = g.spawn_with(Builder::new().name("member".into()), || {
                Ok(bast_rt::current().name().map(str::to_owned))
            });
            let name = name.unwrap();
            assert_eq!(name.fiber().unwrap().name(), Some("member"));
            Result::Ok(name.join()?)
        });
        assert_eq!(result, Ok(Some("member".to_owned())));
        let result = group(|g| {
            let error = g.spawn_with(Builder::new().stack_size(1), || Ok(())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(g.is_cancelled());
            Result::Ok(())
        });
        assert_eq!(result, Err(Error::Cancelled), "a member is missing");
    }

    fn errors_of_io() {
        let result = group(|g| -> io::Result<u8> {
            let member = g.spawn(|| { hang(); io::Result::Ok(1) });
            member.cancel();
            Ok(member.join()?)
        });
        let error = result.unwrap_err();
        assert!(error.get_ref().is_some_and(|inner| inner.is::<Cancelled>()), "{error:?}");
    }

    fn outside_requests() {
        // A timeout while the body waits, and while the group does.
        for body_waits in [true, false] {
            let live = Live::default();
            let result = timeout(SHORT, || group(|g| {
                for _ in 0..10 {
                    g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
                }
                if body_waits { hang() }
                Result::Ok(())
            }));
            assert!(result.is_err());
            assert_eq!(live.get(), 0);
        }
        // A token, and a cancelled fiber.
        for body_waits in [true, false] {
            let live = Live::default();
            let run = { let live = live.clone(); move || group(|g| {
                for _ in 0..10 {
                    g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
                }
                if body_waits { hang() }
                Result::Ok(())
            }) };
            let token = CancelToken::new();
            let fiber = token.spawn(run.clone());
            until("they run", || live.get() == 10);
            token.cancel();
            assert_eq!(fiber.join().unwrap(), Err(Cancelled::new()));
            assert_eq!(live.get(), 0);
            let fiber = spawn(run);
            until("they run", || live.get() == 10);
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
            assert_eq!(live.get(), 0);
        }
    }

    fn a_panic_comes_before_an_outside_request() {
        let live = Live::default();
        let payload = panic_of(|| timeout(SHORT, || group(|g| {
            g.spawn(|| -> Result<()> {
                let _live = live.enter();
                let _ = std::panic::catch_unwind(hang);
                panic!("a fault")
            });
            until("it runs", || live.get() == 1);
            hang();
            Result::Ok(())
        })));
        assert_eq!(message(&*payload), "a fault");
    }

    fn an_early_return() {
        fn find(words: &[&str]) -> Result<usize> {
            group(|g| {
                for word in words {
                    g.spawn(|| { sleep(SHORT); Ok(()) });
                    if word.is_empty() { return Err(Error::Number(word.len())) }
                }
                Ok(words.len())
            })
        }
        assert_eq!(find(&["a", "b"]), Ok(2));
        assert_eq!(find(&["a", "", "b"]), Err(Error::Number(0)));
    }

    fn its_state_can_be_looked_at() {
        let _: Result<()> = group(|g| {
            let member = g.spawn(|| { sleep(SHORT); Ok(()) });
            assert_eq!(format!("{g:?}"), "Group { is_cancelled: false, left: 1, .. }");
            assert!(format!("{member:?}").starts_with("GroupJoinHandle"));
            Ok(())
        });
    }
}
