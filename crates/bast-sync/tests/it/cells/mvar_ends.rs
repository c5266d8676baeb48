//! `MVar`: operations that are cut short, by cancellation or a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bast_sync::MVar;

use super::{Alive, LONG, SHORT, Token, cancel, everywhere, on_workers, settle};

type Action = fn(&MVar<Token>, &Alive);

#[test]
fn cancelling_who_waits_changes_nothing() {
    everywhere(|| {
        let waits_for_value: [Action; 6] = [
            |mvar, _| drop(mvar.take()),
            |mvar, _| drop(mvar.take_timeout(LONG)),
            |mvar, _| drop(mvar.read()),
            |mvar, alive| drop(mvar.swap(alive.token(9))),
            |mvar, _| mvar.with(|_| unreachable!()),
            |mvar, _| mvar.modify(|_| unreachable!()),
        ];
        let waits_for_room: [Action; 2] = [
            |mvar, alive| mvar.put(alive.token(9)),
            |mvar, alive| drop(mvar.put_timeout(alive.token(9), LONG)),
        ];
        let alive = Alive::default();
        let run = |mvar: &Arc<MVar<Token>>, action: Action| {
            let (mvar, alive) = (Arc::clone(mvar), alive.clone());
            cancel(bast_rt::spawn(move || action(&mvar, &alive)));
        };
        let mvar = Arc::new(MVar::new_empty());
        waits_for_value.into_iter().for_each(|action| run(&mvar, action));
        assert!(mvar.is_empty());
        assert_eq!(alive.count(), 0);
        // Nobody is left in a list.
        mvar.put(alive.token(1));
        assert_eq!(mvar.read().id, 1);
        waits_for_room.into_iter().for_each(|action| run(&mvar, action));
        assert_eq!(alive.count(), 1);
        assert_eq!(mvar.take().id, 1);
        assert!(mvar.is_empty());
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn who_leaves_the_middle_of_the_queue_is_passed_over() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new_empty());
        let mut takers: Vec<_> = (0..5)
            .map(|_| {
                let mvar = Arc::clone(&mvar);
                let fiber = bast_rt::spawn(move || mvar.take());
                settle();
                fiber
            })
            .collect();
        for gone in [4, 2, 0] {
            takers.remove(gone).cancel();
        }
        settle();
        mvar.put(1);
        mvar.put(2);
        let taken: Vec<i32> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
        assert_eq!(taken, [1, 2]);
        assert!(mvar.is_empty());
    });
}

#[test]
fn a_taker_that_has_been_handed_the_value_returns_it_though_cancelled() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new_empty());
        let other = Arc::clone(&mvar);
        let taker = bast_rt::spawn(move || other.take());
        settle();
        // Both before it runs again.
        mvar.put(1);
        taker.cancel();
        assert_eq!(taker.join().unwrap(), 1);
        // The other way round it has gone when the value comes.
        let other = Arc::clone(&mvar);
        let taker = bast_rt::spawn(move || other.take());
        settle();
        taker.cancel();
        settle();
        mvar.put(2);
        assert!(taker.join().is_err());
        assert_eq!(mvar.take(), 2);
    });
}

#[test]
fn giving_back_is_not_interrupted() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new(1));
        let other = Arc::clone(&mvar);
        let fiber = bast_rt::spawn(move || {
            let value = other.take();
            bast_rt::current().cancel();
            // Many of them, so that some make a pause.
            for _ in 0..1000 {
                other.put(value);
                assert_eq!(other.try_take(), Some(value));
            }
            other.put(value);
            bast_rt::yield_now();
        });
        assert!(super::is_cancelled(&fiber.join()));
        assert_eq!(mvar.take(), 1);
    });
}

#[test]
fn a_loop_that_never_waits_can_be_cancelled_and_lets_others_run() {
    on_workers(1, || {
        let loops: [fn(&MVar<i32>); 3] = [
            |mvar| {
                let value = mvar.take();
                mvar.put(value);
            },
            |mvar| assert_eq!(mvar.read(), 1),
            |mvar| mvar.modify(|value| *value = 1),
        ];
        for body in loops {
            let mvar = Arc::new(MVar::new(1));
            let other = Arc::clone(&mvar);
            let fiber = bast_rt::spawn(move || {
                loop {
                    body(&other);
                }
            });
            bast_rt::sleep(SHORT);
            fiber.cancel();
            assert!(super::is_cancelled(&fiber.join()));
            assert_eq!(mvar.take(), 1);
        }
    });
}

#[test]
fn a_panic_in_modify_leaves_the_value_and_lets_the_next_in() {
    everywhere(|| {
        let alive = Alive::default();
        let mvar = Arc::new(MVar::new(alive.token(1)));
        let inside = Arc::new(MVar::new_empty());
        let (theirs, entered) = (Arc::clone(&mvar), Arc::clone(&inside));
        let panics = bast_rt::spawn(move || {
            theirs.modify(|token| {
                token.id += 1;
                entered.put(());
                bast_rt::sleep(SHORT);
                std::panic::resume_unwind(Box::new("expected"));
            });
        });
        inside.take();
        // This one waits for it.
        assert_eq!(mvar.modify(|token| token.id), 2);
        let payload = panics.join().unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"expected"));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            mvar.with(|_| std::panic::resume_unwind(Box::new(())))
        }));
        assert!(caught.is_err());
        assert_eq!(mvar.take().id, 2);
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn cancelling_inside_modify_leaves_the_value_and_lets_the_next_in() {
    everywhere(|| {
        let alive = Alive::default();
        let mvar = Arc::new(MVar::new(alive.token(1)));
        let inside = Arc::new(MVar::new_empty());
        let (theirs, entered) = (Arc::clone(&mvar), Arc::clone(&inside));
        let sleeper = bast_rt::spawn(move || {
            theirs.modify(|token| {
                *token = token.alive.token(2);
                entered.put(());
                bast_rt::sleep(LONG);
                token.id = 3;
            });
        });
        inside.take();
        let other = Arc::clone(&mvar);
        let next = bast_rt::spawn(move || other.take().id);
        cancel(sleeper);
        assert_eq!(next.join().unwrap(), 2);
        assert_eq!(alive.count(), 0);
        mvar.put(alive.token(4));
        let interrupted = bast_rt::timeout(SHORT, || mvar.with(|_| bast_rt::sleep(LONG)));
        assert!(interrupted.is_err());
        assert_eq!(mvar.take().id, 4);
    });
}

#[test]
fn a_clone_that_panics_or_waits_harms_only_its_reader() {
    struct Odd(u32);
    impl Clone for Odd {
        fn clone(&self) -> Odd {
            match self.0 {
                0 => std::panic::resume_unwind(Box::new(())),
                _ => bast_rt::sleep(SHORT),
            }
            Odd(self.0)
        }
    }
    everywhere(|| {
        let mvar = Arc::new(MVar::new(Odd(0)));
        assert!(catch_unwind(AssertUnwindSafe(|| mvar.read())).is_err());
        assert_eq!(mvar.take().0, 0);
        mvar.put(Odd(1));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let mvar = Arc::clone(&mvar);
                bast_rt::spawn(move || mvar.read().0)
            })
            .collect();
        assert_eq!(mvar.read().0, 1);
        // Takes it when the last reader has let go.
        assert_eq!(mvar.take().0, 1);
        mvar.put(Odd(1));
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 1));
    });
}
