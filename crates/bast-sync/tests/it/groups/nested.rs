//! Groups in groups, in timeouts, in tokens; and what ends with what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{Cancelled, Runtime, mask, sleep, spawn, timeout, yield_now};
use bast_sync::{CancelToken, for_each_concurrent, group, join, join_all, par_map, race};

use super::support::{
    EVER, Live, OnDrop, everywhere, hang, is_cancelled, message, panic_of, until, watch,
};

const SHORT: Duration = Duration::from_millis(5);

type Result<T> = std::result::Result<T, Cancelled>;

/// A tree of groups, with `width` members each, whose leaves wait for ever.
fn tree(depth: usize, width: usize, live: &Live) -> Result<()> {
    let _live = live.enter();
    if depth == 0 {
        hang();
        return Ok(());
    }
    group(|g| {
        for _ in 0..width {
            g.spawn(move || tree(depth - 1, width, live));
        }
        if depth.is_multiple_of(2) {
            hang();
        }
        Ok(())
    })
}

/// 1 + 3 + 9 + 27 + 81
const TREE: usize = 121;

everywhere! {
    fn a_tree_ends_with_its_root() {
        for round in 0..5 {
            let live = Live::default();
            // By a member's failure.
            let result = group(|g| {
                g.spawn(|| tree(4, 3, &live));
                until("it has grown", || live.get() == TREE);
                g.spawn(|| Result::<()>::Err(Cancelled::new()));
                if round % 2 == 0 { hang() }
                Ok(())
            });
            assert!(result.is_err());
            assert_eq!(live.get(), 0);
            // By a timeout.
            assert!(timeout(SHORT, || tree(4, 3, &live)).is_err());
            assert_eq!(live.get(), 0);
            // By a token.
            let token = CancelToken::new();
            let theirs = (live.clone(), token.clone());
            let fiber = spawn(move || theirs.1.run(|| tree(4, 3, &theirs.0)));
            until("it has grown", || live.get() == TREE);
            token.cancel();
            assert_eq!(fiber.join().unwrap(), Err(Cancelled::new()));
            assert_eq!(live.get(), 0);
            // By cancelling the fiber.
            let theirs = live.clone();
            let fiber = spawn(move || tree(4, 3, &theirs));
            if round > 2 { until("it has grown", || live.get() == TREE) }
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
            assert_eq!(live.get(), 0);
        }
    }

    fn an_inner_failure_stays_inside_if_it_is_handled() {
        let result = group(|outer| {
            let other = outer.spawn(|| { sleep(SHORT); Result::Ok(1) });
            let inner: Result<()> = group(|g| {
                g.spawn(|| Result::<()>::Err(Cancelled::new()));
                hang();
                Ok(())
            });
            assert!(inner.is_err() && !outer.is_cancelled());
            sleep(Duration::from_micros(100));
            other.join()
        });
        assert_eq!(result, Ok(1));
    }

    fn timeouts_around_and_inside() {
        let live = Live::default();
        let result = group(|g| {
            for i in 0..10 {
                let live = &live;
                g.spawn(move || {
                    let inner = timeout(SHORT, || group(|g| {
                        g.spawn(|| { let _live = live.enter(); hang(); Ok(()) });
                        if i % 2 == 0 { hang() }
                        Result::Ok(())
                    }));
                    assert!(inner.is_err(), "its own timeout");
                    sleep(Duration::from_micros(100));
                    Ok(())
                });
            }
            Result::Ok(())
        });
        assert_eq!(result, Ok(()));
        assert_eq!(live.get(), 0);
        // The outer timeout is shorter.
        let result = timeout(SHORT, || timeout(EVER, || group(|g| {
            g.spawn(|| timeout(EVER, || tree(2, 3, &live)).unwrap_or(Ok(())));
            timeout(EVER, hang).ok();
            Result::Ok(())
        })));
        assert!(result.is_err());
        assert_eq!(live.get(), 0);
    }

    fn everything_that_waits_for_fibers_is_inside() {
        let live = Live::default();
        let work = || { let _live = live.enter(); hang() };
        let ways: [(&str, usize, &(dyn Fn() + Sync)); 6] = [
            ("race", 3, &|| race([0, 1, 2].map(|_| || work()))),
            ("join_all", 4, &|| drop(join_all((0..4).map(|_| || work())))),
            ("par_map", 5, &|| drop(par_map(0..5, 5, |_| work()))),
            ("limited", 2, &|| for_each_concurrent(0.., 2, |_| work())),
            ("join", 2, &|| assert_eq!(join(work, work), ((), ()))),
            ("nested", 12, &|| drop(par_map(0..3, 9, |_| drop(join_all((0..4).map(|_| || work())))))),
        ];
        for (name, count, way) in ways {
            let result: Result<()> = group(|g| {
                g.spawn(|| { way(); Ok(()) });
                until(name, || live.get() == count);
                Err(Cancelled::new())
            });
            assert!(result.is_err(), "{name}");
            assert_eq!(live.get(), 0, "{name}");
            assert!(timeout(SHORT, way).is_err(), "{name}");
            assert_eq!(live.get(), 0, "{name}");
            let token = CancelToken::new();
            group(|g| {
                g.spawn(|| { until(name, || live.get() == count); token.cancel(); Result::Ok(()) });
                assert!(token.run(way).is_err(), "{name}");
                Ok(())
            }).unwrap();
            assert_eq!(live.get(), 0, "{name}");
        }
    }

    fn cleanups_may_open_groups() {
        let (cleaned, live) = (AtomicUsize::new(0), Live::default());
        let result: Result<()> = group(|g| {
            for _ in 0..5 {
                g.spawn(|| {
                    let _end = OnDrop(|| {
                        // It unwinds, so nothing in here is interrupted.
                        let inner = group(|g| {
                            for _ in 0..3 {
                                g.spawn(|| { sleep(Duration::from_micros(200)); cleaned.fetch_add(1, SeqCst); Ok(()) });
                            }
                            yield_now();
                            Result::Ok(())
                        });
                        assert!(inner.is_ok());
                        assert_eq!(par_map(0..3, 2, |i| { yield_now(); i }), [0, 1, 2]);
                    });
                    let _live = live.enter();
                    hang();
                    Ok(())
                });
            }
            until("they run", || live.get() == 5);
            Err(Cancelled::new())
        });
        assert!(result.is_err());
        assert_eq!(cleaned.load(SeqCst), 15);
    }

    fn a_panic_travels_through_all_levels() {
        let live = Live::default();
        let payload = panic_of(|| group(|g| -> Result<()> {
            g.spawn(|| tree(2, 3, &live));
            g.spawn(|| group(|g| {
                g.spawn(|| tree(1, 3, &live));
                g.spawn(|| { par_map(0..3, 2, |i| assert!(i < 2, "three")); Ok(()) });
                hang();
                Result::Ok(())
            }));
            hang();
            Ok(())
        }));
        assert_eq!(message(&*payload), "three");
        assert_eq!(live.get(), 0);
    }

    fn under_a_mask_nothing_comes_in() {
        let token = CancelToken::new();
        let result = token.run(|| {
            let inner = mask(|| group(|g| {
                let a = g.spawn(|| { token.cancel(); yield_now(); sleep(Duration::from_micros(100)); Ok(1) });
                sleep(Duration::from_micros(300));
                Result::Ok(a.join()? + par_map(0..3, 1, |i| { yield_now(); i }).len())
            }));
            assert_eq!(inner, Ok(4));
            yield_now();
            unreachable!();
        });
        assert!(result.is_err());
    }
}

/// Members that have been made and have not begun are dropped unused.
#[test]
fn members_that_have_not_begun() {
    let _dog = watch("members_that_have_not_begun");
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let (begun, live) = (AtomicUsize::new(0), Live::default());
        let result = group(|g| {
            for _ in 0..10 {
                let (inside, begun) = (live.enter(), &begun);
                g.spawn(move || {
                    let _inside = inside;
                    begun.fetch_add(1, SeqCst);
                    Ok(())
                });
            }
            g.cancel();
            Result::Ok(())
        });
        assert_eq!((result, begun.load(SeqCst), live.get()), (Ok(()), 0, 0));
    });
}

/// The runtime goes while groups of all kinds are waiting on it.
#[test]
fn a_runtime_ends_with_groups_inside() {
    let _dog = watch("a_runtime_ends_with_groups_inside");
    for workers in [1, 2] {
        let live = Live::default();
        let builder = Runtime::builder();
        let Ok(runtime) = builder.workers(workers).build() else { continue };
        let theirs = Arc::new(live.clone());
        for _ in 0..4 {
            let live = Arc::clone(&theirs);
            runtime.spawn(move || drop(tree(3, 3, &live)));
            let live = Arc::clone(&theirs);
            runtime.spawn(move || {
                for_each_concurrent(0.., 7, |_| {
                    let _live = live.enter();
                    hang();
                });
            });
        }
        until("they have grown", || live.get() == 4 * (40 + 7));
        drop(runtime);
        assert_eq!(live.get(), 0);
    }
}
