//! `MVar`: what its operations do, and in which order waiters are served.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bast_sync::MVar;

use super::{Alive, LONG, SHORT, Token, everywhere, on_workers, settle, until};

static STATIC: MVar<u32> = MVar::new_empty();

#[test]
fn empty_and_full() {
    everywhere(|| {
        let mut mvar = MVar::new_empty();
        assert!(mvar.is_empty());
        assert_eq!(mvar.try_take(), None);
        assert_eq!(mvar.try_read(), None);
        assert_eq!(mvar.get_mut(), None);
        assert_eq!(mvar.try_put(1), Ok(()));
        assert_eq!(mvar.try_put(2), Err(2));
        assert!(!mvar.is_empty());
        assert_eq!((mvar.read(), mvar.read(), mvar.try_read()), (1, 1, Some(1)));
        assert_eq!(mvar.swap(3), 1);
        assert_eq!(mvar.with(|value| *value + 1), 4);
        assert_eq!(mvar.modify(|value| std::mem::replace(value, 5)), 3);
        *mvar.get_mut().unwrap() += 1;
        assert_eq!(mvar.take(), 6);
        mvar.put(7);
        assert_eq!(format!("{mvar:?}"), "MVar { is_empty: false, .. }");
        assert_eq!(mvar.into_inner(), Some(7));
        assert_eq!(MVar::<u8>::new_empty().into_inner(), None);
        assert_eq!(MVar::from('x').take(), 'x');
    });
    STATIC.put(1);
    assert_eq!(STATIC.take(), 1);
}

#[test]
fn a_put_ends_a_take_and_a_take_ends_a_put() {
    everywhere(|| {
        let mvar = Arc::new(MVar::new_empty());
        let other = Arc::clone(&mvar);
        let fiber = bast_rt::spawn(move || {
            bast_rt::sleep(SHORT);
            other.put(1);
            other.put(2);
            other.put(3);
        });
        assert_eq!((mvar.take(), mvar.take(), mvar.take()), (1, 2, 3));
        fiber.join().unwrap();
        let other = Arc::clone(&mvar);
        let thread = thread::spawn(move || {
            thread::sleep(SHORT);
            (other.take(), other.take(), other.take())
        });
        (4..=6).for_each(|i| mvar.put(i));
        assert_eq!(thread.join().unwrap(), (4, 5, 6));
        assert!(mvar.is_empty());
    });
}

#[test]
fn takers_are_served_in_their_order_and_one_by_one() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new_empty());
        let taken = Arc::new(Mutex::new(Vec::new()));
        for i in 0..20 {
            let (mvar, taken) = (Arc::clone(&mvar), Arc::clone(&taken));
            bast_rt::spawn(move || {
                let value = mvar.take();
                taken.lock().unwrap().push((i, value));
            });
            settle();
        }
        for i in 0..20 {
            mvar.put(i);
            // It has been handed over: not to be had by one who comes later.
            assert_eq!(mvar.try_take(), None);
            assert!(mvar.is_empty());
            settle();
            assert_eq!(*taken.lock().unwrap(), (0..=i).map(|i| (i, i)).collect::<Vec<_>>());
        }
    });
}

#[test]
fn putters_are_served_in_their_order() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        for i in 1..20 {
            let (mvar, done) = (Arc::clone(&mvar), Arc::clone(&done));
            bast_rt::spawn(move || {
                mvar.put(i);
                done.fetch_add(1, SeqCst);
            });
            settle();
        }
        for i in 0..20 {
            assert_eq!(done.load(SeqCst), i);
            assert_eq!(mvar.take(), i);
            // The next one has moved in.
            assert_eq!(mvar.is_empty(), i == 19);
            settle();
        }
    });
}

#[test]
fn all_readers_see_a_value_before_it_is_taken() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new_empty());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let spawn = |who: &'static str, f: fn(&MVar<u32>) -> u32| {
            let (mvar, seen) = (Arc::clone(&mvar), Arc::clone(&seen));
            bast_rt::spawn(move || {
                let value = f(&mvar);
                seen.lock().unwrap().push((who, value));
            });
            settle();
        };
        let take = |mvar: &MVar<u32>| mvar.take();
        let read = |mvar: &MVar<u32>| mvar.read();
        spawn("taker 1", take);
        spawn("reader 1", read);
        spawn("reader 2", read);
        spawn("taker 2", take);
        spawn("reader 3", read);
        mvar.put(7);
        settle();
        let mut first: Vec<_> = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(first.last(), Some(&("taker 1", 7)));
        first.sort_unstable();
        assert_eq!(first, [("reader 1", 7), ("reader 2", 7), ("reader 3", 7), ("taker 1", 7)]);
        mvar.put(8);
        settle();
        assert_eq!(*seen.lock().unwrap(), [("taker 2", 8)]);
    });
}

#[test]
fn many_readers_wait_for_one_put() {
    everywhere(|| {
        const READERS: usize = 300;
        let alive = Alive::default();
        let mvar = Arc::new(MVar::<Token>::new_empty());
        let started = Arc::new(AtomicUsize::new(0));
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let (mvar, started) = (Arc::clone(&mvar), Arc::clone(&started));
                bast_rt::spawn(move || {
                    started.fetch_add(1, SeqCst);
                    mvar.read().id
                })
            })
            .collect();
        let thread = {
            let mvar = Arc::clone(&mvar);
            thread::spawn(move || mvar.read().id)
        };
        until("the readers", || started.load(SeqCst) == READERS);
        mvar.put(alive.token(9));
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 9));
        assert_eq!(thread.join().unwrap(), 9);
        assert_eq!(alive.count(), 1);
        drop(mvar.take());
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn while_it_is_modified_it_is_full_and_nobody_gets_at_it() {
    on_workers(1, || {
        let mvar = Arc::new(MVar::new(1));
        let order = Arc::new(Mutex::new(Vec::new()));
        let go = Arc::new(MVar::new_empty());
        let modifier = {
            let (mvar, go) = (Arc::clone(&mvar), Arc::clone(&go));
            bast_rt::spawn(move || {
                mvar.modify(|value| {
                    go.take();
                    *value = 2;
                });
            })
        };
        settle();
        assert!(!mvar.is_empty());
        assert_eq!((mvar.try_take(), mvar.try_read(), mvar.try_put(9)), (None, None, Err(9)));
        let spawn = |f: fn(&MVar<i32>) -> i32| {
            let (mvar, order) = (Arc::clone(&mvar), Arc::clone(&order));
            let fiber = bast_rt::spawn(move || {
                let value = f(&mvar);
                order.lock().unwrap().push(value);
            });
            settle();
            fiber
        };
        let waiters = [
            spawn(|mvar| {
                mvar.put(3);
                0
            }),
            spawn(MVar::take),
            spawn(|mvar| mvar.modify(|value| std::mem::replace(value, 4))),
            spawn(MVar::read),
            spawn(MVar::take),
        ];
        assert!(order.lock().unwrap().is_empty());
        go.put(());
        modifier.join().unwrap();
        waiters.into_iter().for_each(|fiber| fiber.join().unwrap());
        // The reader sees what the modifier left, the first taker takes that, then the putter's value moves
        // in, is modified, and taken.
        let mut order = order.lock().unwrap().clone();
        order.sort_unstable();
        assert_eq!(order, [0, 2, 2, 3, 4]);
        assert!(mvar.is_empty());
    });
}

#[test]
fn timeouts() {
    everywhere(|| {
        let alive = Alive::default();
        let mvar = MVar::new_empty();
        for timeout in [Duration::ZERO, SHORT] {
            assert!(mvar.take_timeout(timeout).is_none());
            assert!(mvar.read_timeout(timeout).is_none());
        }
        assert!(bast_rt::timeout(SHORT, || mvar.take()).is_err());
        assert!(bast_rt::timeout(SHORT, || mvar.modify(|_| ())).is_err());
        // What needs no wait is done, however short the time.
        assert!(mvar.put_timeout(alive.token(1), Duration::ZERO).is_ok());
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(mvar.put_timeout(alive.token(2), timeout).unwrap_err().id, 2);
        }
        assert!(bast_rt::timeout(SHORT, || mvar.put(alive.token(3))).is_err());
        assert_eq!(alive.count(), 1);
        assert_eq!(mvar.read_timeout(Duration::ZERO).unwrap().id, 1);
        assert_eq!(mvar.take_timeout(Duration::ZERO).unwrap().id, 1);
        assert_eq!(alive.count(), 0);
        // One that never ends. A fiber comes to each wait: one for both, which puts, sleeps and takes, would take back
        // its own if this thread is away for as long as it sleeps.
        let mvar = Arc::new(mvar);
        for limit in [Duration::MAX, LONG] {
            let (putter, taker) = (Arc::clone(&mvar), Arc::clone(&mvar));
            let token = alive.token(4);
            let putter = bast_rt::spawn(move || {
                bast_rt::sleep(SHORT);
                putter.put(token);
            });
            let token = mvar.take_timeout(limit).unwrap();
            assert_eq!(token.id, 4);
            putter.join().unwrap();
            mvar.put(token);
            let taker = bast_rt::spawn(move || {
                bast_rt::sleep(SHORT);
                taker.take().id
            });
            assert!(mvar.put_timeout(alive.token(5), limit).is_ok());
            assert_eq!(taker.join().unwrap(), 4);
            assert_eq!(mvar.read_timeout(limit).unwrap().id, 5);
            drop(mvar.take());
        }
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn a_timeout_that_runs_out_while_the_wait_begins() {
    // A thread computes how long it is to sleep; nothing may be left of that.
    everywhere(|| {
        let mvar = MVar::<u8>::new_empty();
        for nanos in 0..2000 {
            let timeout = Duration::from_nanos(nanos);
            assert!(bast_rt::timeout(timeout, || mvar.take()).is_err());
            assert!(mvar.take_timeout(timeout).is_none());
        }
    });
}

#[test]
fn a_value_goes_with_its_box() {
    let alive = Alive::default();
    drop(MVar::new(alive.token(1)));
    assert_eq!(alive.count(), 0);
    let mvar = MVar::new_empty();
    mvar.put(alive.token(2));
    drop(mvar);
    assert_eq!(alive.count(), 0);
    assert_eq!(MVar::new(alive.token(3)).into_inner().unwrap().id, 3);
    assert_eq!(alive.count(), 0);
}
