//! Cancel tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{Cancelled, mask, scope, sleep, spawn, timeout, yield_now};
use bast_sync::select::{after, cancelled, recv};
use bast_sync::{CancelToken, mpsc, select};

use super::support::{EVER, Live, OnDrop, everywhere, hang, is_cancelled, until};

const SHORT: Duration = Duration::from_millis(5);

everywhere! {
    fn not_cancelled() {
        let token = CancelToken::new();
        assert!(!token.is_cancelled());
        assert_eq!(token.run(|| 5), Ok(5));
        assert_eq!(token.spawn(|| 6).join().unwrap(), Ok(6));
        assert_eq!(CancelToken::default().run(|| { yield_now(); sleep(SHORT); 7 }), Ok(7));
    }

    fn before_run() {
        let token = CancelToken::new();
        token.cancel();
        assert!(token.is_cancelled());
        assert_eq!(token.run(|| unreachable!("cancelled")), Err::<(), _>(Cancelled::new()));
        assert_eq!(token.spawn(|| unreachable!("cancelled")).join().unwrap(), Err::<(), _>(Cancelled::new()));
        token.cancelled();
    }

    fn during_run() {
        for round in 0..200 {
            let (token, live) = (CancelToken::new(), Live::default());
            let begun = Arc::new(AtomicBool::new(false));
            let (lives, begins) = (live.clone(), Arc::clone(&begun));
            let fiber = token.spawn(move || {
                let _live = lives.enter();
                begins.store(true, SeqCst);
                hang();
            });
            if round % 4 != 0 {
                until("it begins", || begun.load(SeqCst));
            }
            if round % 4 == 1 {
                sleep(Duration::from_micros(50));
            }
            token.cancel();
            assert!(fiber.join().unwrap().is_err());
            assert_eq!(live.get(), 0);
        }
    }

    fn the_caller_itself_is_interrupted() {
        let token = CancelToken::new();
        let clone = token.clone();
        let other = spawn(move || { sleep(SHORT); clone.cancel() });
        assert!(token.run(hang).is_err());
        other.join().unwrap();
        // It may go on as it likes.
        sleep(SHORT);
        yield_now();
    }

    fn from_a_plain_thread() {
        let token = CancelToken::new();
        let clone = token.clone();
        let other = std::thread::spawn(move || { std::thread::sleep(SHORT); clone.cancel() });
        assert!(token.run(hang).is_err());
        other.join().unwrap();
    }

    fn after_run_and_twice() {
        let token = CancelToken::new();
        assert_eq!(token.run(|| 1), Ok(1));
        token.cancel();
        token.cancel();
        yield_now();
        sleep(SHORT);
        assert!(token.is_cancelled());
    }

    fn from_inside_itself() {
        let token = CancelToken::new();
        let mut after = false;
        assert!(token.run(|| { token.cancel(); after = true; yield_now(); unreachable!() }).is_err());
        assert!(after, "cancel itself does not raise");
        // What does not suspend any more returns what it has.
        let token = CancelToken::new();
        assert_eq!(token.run(|| { token.cancel(); 5 }), Ok(5));
    }

    fn delivered_once_for_each_run() {
        let token = CancelToken::new();
        let inner = token.run(|| {
            let caught = std::panic::catch_unwind(|| { token.cancel(); yield_now() });
            assert!(caught.unwrap_err().is::<bast_rt::Interrupted>());
            sleep(SHORT);
            3
        });
        assert_eq!(inner, Ok(3));
    }

    fn runs_nest_and_each_catches_its_own() {
        let (outer, inner) = (CancelToken::new(), CancelToken::new());
        let result = outer.run(|| {
            let result = inner.run(|| { inner.cancel(); hang() });
            assert!(result.is_err());
            5
        });
        assert_eq!(result, Ok(5));
        let inner = CancelToken::new();
        let result = outer.run(|| inner.run(|| { outer.cancel(); hang() }));
        assert_eq!(result, Err(Cancelled::new()));
        // Both at once: the outer one goes first.
        let (outer, inner) = (CancelToken::new(), CancelToken::new());
        let mut here = false;
        let result = outer.run(|| {
            let _ = inner.run(|| { inner.cancel(); outer.cancel(); hang() });
            here = true;
        });
        assert!(result.is_err() && !here);
        // The same token twice.
        let token = CancelToken::new();
        assert_eq!(token.run(|| token.run(|| { token.cancel(); hang() })), Err(Cancelled::new()));
    }

    fn with_timeouts() {
        let token = CancelToken::new();
        assert!(timeout(SHORT, || token.run(hang)).is_err());
        assert_eq!(token.run(|| timeout(SHORT, hang).is_err()), Ok(true));
        let result = timeout(EVER, || token.run(|| timeout(EVER, || { token.cancel(); hang() })));
        assert_eq!(result, Ok(Err(Cancelled::new())));
    }

    fn a_fibers_own_cancellation_passes_through() {
        let token = CancelToken::new();
        let fiber = token.spawn(hang);
        sleep(SHORT);
        fiber.cancel();
        assert!(is_cancelled(&fiber.join()));
        assert!(!token.is_cancelled());
    }

    fn a_panic_passes_through() {
        let token = CancelToken::new();
        let fiber = token.spawn(|| panic!("expected"));
        assert!(matches!(fiber.join(), Err(payload) if !payload.is::<Cancelled>()));
        assert!(!token.is_cancelled());
    }

    fn held_off_by_mask_and_destructors() {
        let token = CancelToken::new();
        let mut steps = 0;
        let result = token.run(|| {
            let _end = OnDrop(|| { sleep(Duration::from_micros(50)); yield_now(); steps += 10 });
            mask(|| { token.cancel(); yield_now(); sleep(Duration::from_micros(50)) });
            yield_now();
            unreachable!()
        });
        assert!(result.is_err());
        assert_eq!(steps, 10);
    }

    fn children() {
        let parent = CancelToken::new();
        let (one, two) = (parent.child_token(), parent.child_token());
        let grandchild = one.child_token();
        two.cancel();
        assert!(two.is_cancelled() && !parent.is_cancelled() && !one.is_cancelled());
        let fiber = grandchild.spawn(hang);
        sleep(Duration::from_micros(100));
        parent.cancel();
        assert!(one.is_cancelled() && grandchild.is_cancelled());
        assert!(fiber.join().unwrap().is_err());
        let late = grandchild.child_token();
        assert!(late.is_cancelled());
        assert!(late.run(|| ()).is_err());
        assert!(late.child_token().is_cancelled());
    }

    fn a_child_outlives_its_parents_handle() {
        let parent = CancelToken::new();
        let child = parent.child_token().child_token();
        drop(parent);
        assert!(!child.is_cancelled());
        child.cancel();
        assert!(child.is_cancelled());
    }

    fn children_do_not_pile_up() {
        let parent = CancelToken::new();
        for _ in 0..10_000 {
            let a = parent.child_token();
            let b = a.child_token();
            drop(a);
            let c = parent.child_token();
            drop((b, c));
        }
        let text = format!("{parent:?}");
        assert!(text.contains("places: 2"), "{text}");
        parent.cancel();
    }

    fn long_chains() {
        let first = CancelToken::new();
        let mut last = first.child_token();
        for _ in 0..100_000 {
            last = last.child_token();
        }
        first.cancel();
        assert!(last.is_cancelled());
        drop(first);
        drop(last);
        let mut last = CancelToken::new();
        for _ in 0..100_000 {
            last = last.child_token();
        }
        drop(last);
    }

    fn drop_guards() {
        let token = CancelToken::new();
        let guard = token.clone().drop_guard();
        assert!(!token.is_cancelled());
        drop(guard);
        assert!(token.is_cancelled());
        let token = CancelToken::new();
        let back = token.clone().drop_guard().disarm();
        assert!(!token.is_cancelled() && !back.is_cancelled());
        back.cancel();
        assert!(token.is_cancelled());
        // By unwinding.
        let token = CancelToken::new();
        let theirs = token.clone();
        assert!(spawn(move || { let _guard = theirs.drop_guard(); panic!("expected") }).join().is_err());
        assert!(token.is_cancelled());
    }

    fn waiting_for_it() {
        let token = CancelToken::new();
        let fibers: Vec<_> = (0..20).map(|i| {
            let token = token.clone();
            spawn(move || { token.cancelled(); i })
        }).collect();
        let thread = { let token = token.clone(); std::thread::spawn(move || token.cancelled()) };
        sleep(SHORT);
        assert!(fibers.iter().all(|fiber| !fiber.is_finished()));
        assert!(timeout(SHORT, || token.cancelled()).is_err());
        token.cancel();
        for (i, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.join().unwrap(), i);
        }
        thread.join().unwrap();
        token.cancelled();
    }

    fn as_an_event() {
        let (tx, rx) = mpsc::channel();
        let token = CancelToken::new();
        tx.send(1).unwrap();
        assert!(select! { n = recv(&rx) => n == Ok(1), () = cancelled(&token) => false });
        assert!(select! { () = cancelled(&token) => false, _ = after(SHORT) => true });
        for round in 0..100 {
            let parent = CancelToken::new();
            let token = parent.child_token();
            let waiters: Vec<_> = (0..3).map(|_| {
                let token = token.clone();
                spawn(move || select! {
                    () = cancelled(&token) => 1,
                    () = cancelled(&CancelToken::new()) => 2,
                })
            }).collect();
            if round % 3 != 0 { yield_now() }
            if round % 3 == 2 { sleep(Duration::from_micros(50)) }
            parent.cancel();
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), 1);
            }
        }
        // Both may complete: none starves the other.
        token.cancel();
        let mut chosen = [0; 2];
        for _ in 0..200 {
            tx.send(2).unwrap();
            let arm = select! { _ = recv(&rx) => 0, () = cancelled(&token) => 1 };
            chosen[arm] += 1;
        }
        assert!(chosen.iter().all(|&count| count > 20), "{chosen:?}");
    }

    /// What is started inside with plain `spawn` is nobody's; a scope waits, as std's does.
    fn what_is_not_inherited() {
        let token = CancelToken::new();
        let done = AtomicUsize::new(0);
        let mut free = None;
        let result = token.run(|| {
            free = Some(spawn(|| { sleep(Duration::from_millis(20)); 7 }));
            scope(|s| {
                s.spawn(|| { sleep(Duration::from_millis(10)); done.fetch_add(1, SeqCst) });
                token.cancel();
                hang();
            });
        });
        assert!(result.is_err());
        assert_eq!(done.load(SeqCst), 1);
        assert_eq!(free.unwrap().join().unwrap(), 7);
    }

    fn many_inside_at_once() {
        let (token, live) = (CancelToken::new(), Live::default());
        let fibers: Vec<_> = (0..1000).map(|i| {
            let (live, child) = (live.clone(), if i % 2 == 0 { token.child_token() } else { token.clone() });
            child.spawn(move || { let _live = live.enter(); hang() })
        }).collect();
        until("all are there", || live.get() == 1000);
        token.cancel();
        assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap().is_err()));
        assert_eq!(live.get(), 0);
    }
}
