//! Races.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{Cancelled, mask, sleep, spawn, timeout, yield_now};
use bast_sync::{race, race_ok};

use super::support::{Live, everywhere, hang, message, panic_of, runtimes, until};

const SHORT: Duration = Duration::from_millis(5);

everywhere! {
    fn the_first_wins_and_the_others_have_ended() {
        for winner in 0..10 {
            let live = Live::default();
            let won = race((0..10).map(|i| { let live = &live; move || {
                let _live = live.enter();
                if i != winner { hang() }
                sleep(Duration::from_micros(100));
                i
            }}));
            assert_eq!(won, winner);
            assert_eq!(live.get(), 0);
        }
    }

    fn all_at_once() {
        for _ in 0..200 {
            let (live, ends) = (Live::default(), AtomicUsize::new(0));
            let inside = race((0..5).map(|_| || { let inside = live.enter(); ends.fetch_add(1, SeqCst); inside }));
            assert_eq!(live.get(), 1, "what the losers returned was dropped");
            drop(inside);
            assert!((1..=5).contains(&ends.load(SeqCst)));
        }
    }

    fn of_one_and_of_none() {
        assert_eq!(race([|| { yield_now(); 5 }]), 5);
        assert_eq!(message(&*panic_of(|| race((0..0).map(|i| move || i)))), "race: nobody takes part");
        assert_eq!(race_ok((0..0).map(|i| move || Ok::<u8, u8>(i))), Err(vec![]));
    }

    fn a_panic_is_no_way_to_lose() {
        let live = Live::default();
        let payload = panic_of(|| race((0..5).map(|i| { let live = &live; move || {
            let _live = live.enter();
            if i == 3 { sleep(SHORT); panic!("three") }
            hang();
        }})));
        assert_eq!(message(&*payload), "three");
        assert_eq!(live.get(), 0);
        // After the winner it changes nothing.
        let won = race((0..2).map(|i| move || {
            if i == 0 { return 7 }
            let _ = std::panic::catch_unwind(hang);
            panic!("too late")
        }));
        assert_eq!(won, 7);
    }

    fn a_loser_takes_its_time() {
        let steps = AtomicUsize::new(0);
        race((0..2).map(|i| { let steps = &steps; move || {
            if i == 1 {
                mask(|| { steps.fetch_add(1, SeqCst); sleep(SHORT); steps.fetch_add(1, SeqCst); })
            } else {
                until("the loser runs", || steps.load(SeqCst) > 0)
            }
        }}));
        assert_eq!(steps.load(SeqCst), 2);
    }

    fn errors_lose() {
        let live = Live::default();
        let won = race_ok((0..10).map(|i| { let live = &live; move || {
            let _live = live.enter();
            if i < 5 { return Err(i) }
            if i != 7 { hang() }
            sleep(SHORT);
            Ok(i)
        }}));
        assert_eq!(won, Ok(7));
        assert_eq!(live.get(), 0);
        let lost = race_ok((0..5).map(|i| move || { if i % 2 == 0 { sleep(SHORT) } Err::<(), _>(i) }));
        assert_eq!(lost, Err(vec![0, 1, 2, 3, 4]));
        let payload = panic_of(|| race_ok((0..3).map(|i| move || { if i == 1 { panic!("one") } Err::<(), _>(i) })));
        assert_eq!(message(&*payload), "one");
    }

    fn within_a_timeout() {
        let live = Live::default();
        assert!(timeout(SHORT, || race((0..5).map(|_| || { let _live = live.enter(); hang() }))).is_err());
        assert_eq!(live.get(), 0);
    }

    /// Who cancels himself ends the race as `Cancelled`.
    fn a_contender_that_cancels_itself() {
        let fiber = spawn(|| race((0..2).map(|i| move || {
            if i == 1 { bast_rt::current().cancel() }
            hang();
        })));
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
    }
}

/// What comes of a request that arrives while a loser's result is dropped: it is still due afterwards.
#[test]
fn a_request_during_the_drop_of_a_loser_is_not_lost() {
    struct Slow;
    impl Drop for Slow {
        fn drop(&mut self) {
            bast_rt::current().cancel();
            yield_now();
        }
    }
    for runtime in runtimes() {
        let reached = runtime.spawn(|| {
            // The loser begins first, or it would not begin.
            let begun = AtomicBool::new(false);
            let both: [Box<dyn FnOnce() -> Option<Slow> + Send + '_>; 2] = [
                Box::new(|| {
                    mask(|| {
                        begun.store(true, SeqCst);
                        sleep(SHORT);
                        Some(Slow)
                    })
                }),
                Box::new(|| {
                    while !begun.load(SeqCst) {
                        yield_now();
                    }
                    None
                }),
            ];
            assert!(race(both).is_none());
            yield_now();
        });
        let ended = reached.join();
        assert!(ended.is_err_and(|payload| payload.is::<Cancelled>()), "the request was lost");
    }
}
