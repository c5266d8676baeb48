//! The cells in `select!`. (Their values under stress: see `mvar_stress`.)

use std::sync::Arc;
use std::thread;

use bast_sync::oneshot::RecvError;
use bast_sync::select::{Arm, Select, changed, closed, put, read, recv_next, recv_once, take};
use bast_sync::{MVar, broadcast, oneshot, select, watch};

use super::{Alive, SHORT, Token, cancel, everywhere, on_workers, settle};

#[test]
fn what_is_there_is_chosen() {
    everywhere(|| {
        let (full, empty) = (MVar::new(1), MVar::<i32>::new_empty());
        for _ in 0..20 {
            select! {
                value = take(&full) => assert_eq!(value, 1),
                _ = take(&empty) => unreachable!(),
                _ = read(&empty) => unreachable!(),
            }
            select! {
                () = put(&full, 1) => {}
                _ = read(&empty) => unreachable!(),
            }
            select! {
                value = read(&full) => assert_eq!(value, 1),
                () = put(&full, 2) => unreachable!(),
            }
        }
        select! {
            _ = take(&empty) => unreachable!(),
            default => {}
        }
    });
}

#[test]
fn what_comes_is_chosen() {
    everywhere(|| {
        let alive = Alive::default();
        let mvar = Arc::new(MVar::<Token>::new_empty());
        let (tx, one) = oneshot::channel();
        let (btx, many) = broadcast::channel(4);
        let (wtx, latest) = watch::channel(0);
        let (answer, question) = oneshot::channel::<u8>();
        let there = Arc::clone(&mvar);
        let token = alive.token(1);
        let steps: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(move || there.put(token)),
            Box::new(move || tx.send(2).unwrap()),
            Box::new(move || assert_eq!(btx.send(3), Ok(1))),
            Box::new(move || wtx.send(4).unwrap()),
            Box::new(move || drop(question)),
        ];
        // Switched off when they have served: they are closed then, and ready for ever.
        let (mut one, mut many, mut latest) = (Some(one), Some(many), Some(latest));
        for (at, step) in steps.into_iter().enumerate() {
            let actor = thread::spawn(move || {
                thread::sleep(SHORT);
                step();
            });
            let (_keep, mut quiet) = oneshot::channel::<u8>();
            let chosen = select! {
                token = take(&mvar) => {
                    assert_eq!(token.id, 1);
                    0
                }
                value = one.as_mut().map(recv_once) => {
                    assert_eq!(value, Ok(2));
                    1
                }
                value = many.as_mut().map(recv_next) => {
                    assert_eq!(value, Ok(3));
                    2
                }
                new = latest.as_mut().map(changed) => {
                    assert_eq!(new, Ok(()));
                    3
                }
                () = closed(&answer) => 4,
                _ = recv_once(&mut quiet) => unreachable!(),
            };
            assert_eq!(chosen, at);
            actor.join().unwrap();
            match at {
                1 => one = None,
                2 => many = None,
                3 => assert_eq!(latest.take().map(|rx| *rx.borrow()), Some(4)),
                _ => {}
            }
        }
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn what_has_ended_is_chosen_too() {
    everywhere(|| {
        let (tx, mut one) = oneshot::channel::<u8>();
        let fiber = bast_rt::spawn(move || {
            select! {
                value = recv_once(&mut one) => assert_eq!(value, Err(RecvError)),
            }
        });
        let (btx, mut many) = broadcast::channel::<u8>(1);
        let other = bast_rt::spawn(move || {
            select! {
                value = recv_next(&mut many) => assert_eq!(value, Err(broadcast::RecvError::Closed)),
            }
        });
        bast_rt::sleep(SHORT);
        drop((tx, btx));
        fiber.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn an_arm_that_loses_leaves_everything_where_it_is() {
    on_workers(1, || {
        let alive = Alive::default();
        let (a, b) = (Arc::new(MVar::<Token>::new_empty()), Arc::new(MVar::<Token>::new_empty()));
        let (one, two) = (Arc::clone(&a), Arc::clone(&b));
        let fiber = bast_rt::spawn(move || {
            select! {
                token = take(&one) => token.id,
                token = take(&two) => token.id,
            }
        });
        settle();
        // Both before it runs again: the first has won, the second stays.
        a.put(alive.token(1));
        b.put(alive.token(2));
        assert_eq!(fiber.join().unwrap(), 1);
        assert_eq!(b.take().id, 2);
        assert!(a.is_empty());
        // The other way round: two full boxes, and two values to put.
        a.put(alive.token(3));
        b.put(alive.token(4));
        let (one, two, theirs) = (Arc::clone(&a), Arc::clone(&b), alive.clone());
        let fiber = bast_rt::spawn(move || {
            select! {
                () = put(&one, theirs.token(5)) => 1,
                () = put(&two, theirs.token(6)) => 2,
            }
        });
        settle();
        assert_eq!(alive.count(), 4);
        assert_eq!((b.take().id, a.take().id), (4, 3));
        assert_eq!(fiber.join().unwrap(), 2);
        assert_eq!(b.take().id, 6);
        assert!(a.is_empty());
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn an_arm_that_reads_lets_the_value_go_whatever_happens() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new_empty());
        let other = Arc::clone(&mvar);
        let reader = bast_rt::spawn(move || {
            let quiet = MVar::<u8>::new_empty();
            select! {
                value = read(&other) => value,
                _ = take(&quiet) => unreachable!(),
            }
        });
        settle();
        mvar.put(1);
        // It has been counted as a reader, and has not looked yet.
        assert_eq!(mvar.try_take(), None);
        assert_eq!(reader.join().unwrap(), 1);
        assert_eq!(mvar.try_take(), Some(1));
    });
}

#[test]
fn cancelling_a_select_leaves_all_lists() {
    everywhere(|| {
        let alive = Alive::default();
        let (empty, full) = (Arc::new(MVar::new_empty()), Arc::new(MVar::new(alive.token(1))));
        let (tx, mut rx) = broadcast::channel::<u8>(1);
        let (one, two, theirs) = (Arc::clone(&empty), Arc::clone(&full), alive.clone());
        cancel(bast_rt::spawn(move || {
            select! {
                token = take(&one) => drop(token),
                token = read(&one) => drop(token),
                () = put(&two, theirs.token(2)) => {}
                _ = recv_next(&mut rx) => {}
            }
        }));
        assert_eq!(alive.count(), 1);
        empty.put(alive.token(3));
        assert_eq!((empty.take().id, full.take().id), (3, 1));
        assert!(tx.send(1).is_err());
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn as_many_as_there_are() {
    everywhere(|| {
        let boxes: Arc<Vec<MVar<usize>>> = Arc::new((0..20).map(|_| MVar::new_empty()).collect());
        let theirs = Arc::clone(&boxes);
        let thread = thread::spawn(move || {
            for i in 0..200 {
                theirs[i * 7 % 20].put(i);
            }
        });
        let mut sum = 0;
        for _ in 0..200 {
            let mut any = Select::new();
            for mvar in boxes.iter() {
                any = any.on(take(mvar), |value| value);
            }
            sum += any.wait();
        }
        assert_eq!(sum, 200 * 199 / 2);
        thread.join().unwrap();
    });
}

/// `attempt` is public: a second one drops what the first has taken, whose destructor finds the event whole.
#[test]
fn a_destructor_that_tries_its_own_event() {
    use std::cell::{Cell, RefCell};

    type Event = bast_sync::select::Take<'static, Again>;
    thread_local! {
        static EVENT: Cell<Option<&'static Event>> = const { Cell::new(None) };
        static DROPS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }
    struct Again(usize);
    impl Drop for Again {
        fn drop(&mut self) {
            DROPS.with_borrow_mut(|drops| drops.push(self.0));
            if let Some(event) = EVENT.take() {
                assert!(event.attempt());
            }
        }
    }
    // All on one thread: that of the only worker.
    on_workers(1, || {
        let mvar: &'static MVar<Again> = Box::leak(Box::new(MVar::new(Again(0))));
        let event: &'static Event = Box::leak(Box::new(take(mvar)));
        // LeakSanitizer takes for lost what nothing points to.
        static KEPT: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());
        let kept = [std::ptr::from_ref(mvar).addr(), std::ptr::from_ref(event).addr()];
        KEPT.lock().unwrap().extend(kept);
        assert!(event.attempt());
        EVENT.set(Some(event));
        mvar.put(Again(1));
        let putter = bast_rt::spawn(|| mvar.put(Again(2)));
        settle();
        assert!(event.attempt());
        putter.join().unwrap();
        DROPS.with_borrow(|drops| assert_eq!(*drops, [0, 1]));
    });
}
