//! Timers: in order, never early, all of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant as StdInstant};

use bast_rt::{Instant, mask, sleep, sleep_until, spawn, spawn_local, timeout, yield_now};

use crate::support::{Random, is_cancelled, runtime, scaled, tests, workers};

tests! {
    fn sleeps_end_in_the_order_of_their_deadlines_and_never_early() {
        workers(1).run(|| {
            let (order, begun) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
            let begin = Instant::now();
            let mut random = Random(7);
            let fibers: Vec<_> = (0..300).map(|_| {
                let (order, begun) = (Rc::clone(&order), Rc::clone(&begun));
                let after = Duration::from_micros(50_000 + random.below(40_000));
                spawn_local(move || {
                    let deadline = begin + after;
                    begun.set(begun.get() + 1);
                    sleep_until(deadline);
                    assert!(Instant::now() >= deadline, "early");
                    order.borrow_mut().push(after);
                })
            }).collect();
            while begun.get() < 300 { yield_now() }
            // Here, on the only worker, all of them sleep. A fiber that was late to begin would only have yielded.
            let in_time = begin.elapsed() < Duration::from_millis(50);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            let order = order.borrow();
            // Timers of one tick (16.4 µs) go off together.
            let tick = Duration::from_nanos(2 << 14);
            if in_time {
                let wrong = order.windows(2).filter(|pair| pair[0] > pair[1] + tick).count();
                assert!(wrong == 0, "{wrong} out of order");
            }
            assert_eq!(order.len(), 300);
        });
    }

    fn durations_at_the_ends_of_the_range() {
        let runtime = runtime();
        runtime.run(|| {
            sleep(Duration::ZERO);
            sleep(Duration::from_nanos(1));
            sleep_until(Instant::now());
            sleep_until(Instant::now() - Duration::from_millis(1));
            let fibers: Vec<_> = [Duration::MAX, Duration::from_secs(1 << 50), Duration::from_secs(1 << 32)]
                .map(|long| spawn(move || sleep(long))).into_iter().collect();
            sleep(Duration::from_millis(20));
            for fiber in fibers {
                assert!(!fiber.is_finished());
                fiber.cancel();
                assert!(is_cancelled(&fiber.join()));
            }
        });
        // Plain threads sleep, too.
        let begin = StdInstant::now();
        sleep(Duration::from_millis(2));
        sleep_until(Instant::now() + Duration::from_millis(2));
        assert!(begin.elapsed() >= Duration::from_millis(4));
        assert!(Instant::from(begin).elapsed() >= Duration::from_millis(4));
    }

    /// Random deadlines over several levels of the wheel; half of the sleepers are cancelled.
    fn a_hundred_thousand_sleepers() {
        let runtime = runtime();
        let total = scaled(100_000);
        let worst = runtime.run(|| {
            let mut random = Random(99);
            let fibers: Vec<_> = (0..total).map(|i| {
                let after = if i % 2 == 0 {
                    Duration::from_micros(random.below(1_500_000))
                } else {
                    Duration::from_secs(1 + random.below(1 << 30))
                };
                spawn(move || {
                    let begin = StdInstant::now();
                    sleep(after);
                    begin.elapsed().checked_sub(after).expect("never early")
                })
            }).collect();
            fibers.iter().skip(1).step_by(2).for_each(|fiber| fiber.cancel());
            let mut worst = Duration::ZERO;
            for (i, fiber) in fibers.into_iter().enumerate() {
                match fiber.join() {
                    Ok(late) => { assert_eq!(i % 2, 0); worst = worst.max(late) }
                    result => { assert_eq!(i % 2, 1); assert!(is_cancelled(&result)) }
                }
            }
            worst
        });
        // One that was forgotten would come when the wheel next turns to it, or never.
        assert!(worst < Duration::from_secs(60), "{worst:?} late");
    }

    fn a_wake_does_not_end_a_sleep() {
        workers(2).run(|| {
            let fiber = spawn(|| {
                let begin = StdInstant::now();
                sleep(Duration::from_millis(20));
                begin.elapsed()
            });
            let handle = fiber.fiber();
            let waker = spawn(move || (0..200).for_each(|_| { handle.unpark(); yield_now() }));
            assert!(fiber.join().unwrap() >= Duration::from_millis(20));
            waker.join().unwrap();
        });
    }

    fn timeouts_that_pass_while_a_thread_looks() {
        // The clock goes on between the look at the scopes and the wait for the first of them.
        for nanos in 0..20_000 {
            let result = timeout(Duration::from_nanos(nanos % 500), || sleep(Duration::from_secs(60)));
            assert!(result.is_err());
        }
        let begin = StdInstant::now();
        let masked = timeout(Duration::ZERO, || mask(|| sleep(Duration::from_millis(5))));
        assert!(masked.is_ok() && begin.elapsed() >= Duration::from_millis(5));
    }
}
