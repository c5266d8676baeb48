//! The unpark token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use bast_rt::{Builder, current, ops, park, park_timeout, run_blocking, sleep, spawn, yield_now};

use crate::sockets::Pair;
use crate::support::{runtime, scaled, tests, workers};

tests! {
    fn an_unpark_before_the_park_counts_once() {
        let body = || {
            let me = current();
            me.unpark();
            me.unpark();
            park();
            let begin = Instant::now();
            park_timeout(Duration::from_millis(20));
            assert!(begin.elapsed() >= Duration::from_millis(20), "tokens do not add up");
        };
        runtime().run(body);
        thread::spawn(body).join().unwrap();
    }

    /// The token is `park`'s alone: waiting for something else neither takes it nor ends by it.
    fn nothing_but_park_consumes_the_token() {
        let body = |in_fiber: bool| {
            let me = current();
            me.unpark();
            spawn(|| sleep(Duration::from_millis(2))).join().unwrap();
            let begin = Instant::now();
            sleep(Duration::from_millis(5));
            assert!(begin.elapsed() >= Duration::from_millis(5));
            yield_now();
            let pair = Pair::new();
            let other = me.clone();
            let helper = spawn(move || {
                other.unpark();
                sleep(Duration::from_millis(2));
                other.unpark();
                ops::send(&pair.0, b"x", 0, None).unwrap();
            });
            assert_eq!(ops::recv(&pair.1, &mut [0], 0, None).unwrap(), 1);
            assert_eq!(run_blocking(|| 3), 3);
            helper.join().unwrap();
            if in_fiber {
                bast_rt::scope(|s| { s.spawn(yield_now); });
            }
            park(); // the token is still there
            let begin = Instant::now();
            park_timeout(Duration::from_millis(5));
            assert!(begin.elapsed() >= Duration::from_millis(5), "and it was one");
        };
        runtime().run(move || body(true));
        thread::spawn(move || body(false)).join().unwrap();
    }

    fn park_timeout_of_all_lengths() {
        let body = || {
            park_timeout(Duration::ZERO);
            for micros in [1, 100, 3000] {
                let begin = Instant::now();
                park_timeout(Duration::from_micros(micros));
                assert!(begin.elapsed() >= Duration::from_micros(micros), "early");
            }
            current().unpark();
            park_timeout(Duration::ZERO);
            let begin = Instant::now();
            park_timeout(Duration::from_millis(3));
            assert!(begin.elapsed() >= Duration::from_millis(3), "zero took the token");
            for long in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::from_secs(1 << 40)] {
                let me = current();
                let waker = spawn(move || { sleep(Duration::from_millis(2)); me.unpark() });
                park_timeout(long);
                waker.join().unwrap();
            }
        };
        runtime().run(body);
        thread::spawn(body).join().unwrap();
    }

    /// Rounds of ping-pong by the token alone, between all kinds of partners.
    fn no_token_is_lost_across_workers_and_threads() {
        let runtime = workers(2);
        let rounds = scaled(5_000) as u32;
        let play = |rounds: u32, mine: Arc<AtomicU32>, theirs: Arc<AtomicU32>, partner: bast_rt::Fiber| {
            for round in 1..=rounds {
                theirs.store(round, SeqCst);
                partner.unpark();
                while mine.load(SeqCst) < round { park() }
            }
        };
        for (a, b) in [(Some(0), Some(0)), (Some(0), Some(1)), (Some(0), None), (None, Some(1))] {
            let (ping, pong) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let (to_a, for_a) = std::sync::mpsc::channel::<bast_rt::Fiber>();
            let (to_b, for_b) = std::sync::mpsc::channel::<bast_rt::Fiber>();
            let side = |on: Option<usize>, mine, theirs, to: std::sync::mpsc::Sender<_>, partner: std::sync::mpsc::Receiver<_>| {
                let body = move || {
                    to.send(current()).unwrap();
                    let partner = loop {
                        match partner.try_recv() { Ok(partner) => break partner, Err(_) => yield_now() }
                    };
                    play(rounds, mine, theirs, partner);
                };
                match on {
                    Some(index) => {
                        let fiber = runtime.run(move || Builder::new().worker(index).spawn(body).unwrap());
                        Box::new(move || fiber.join().unwrap()) as Box<dyn FnOnce()>
                    }
                    None => {
                        let thread = thread::spawn(body);
                        Box::new(move || thread.join().unwrap())
                    }
                }
            };
            let first = side(a, Arc::clone(&ping), Arc::clone(&pong), to_b, for_a);
            let second = side(b, Arc::clone(&pong), Arc::clone(&ping), to_a, for_b);
            first();
            second();
            assert_eq!((ping.load(SeqCst), pong.load(SeqCst)), (rounds, rounds));
        }
    }

    fn an_unpark_before_the_first_run_is_kept() {
        let runtime = workers(1);
        runtime.run(|| {
            let fiber = spawn(park);
            fiber.fiber().unpark();
            fiber.join().unwrap();
        });
        let busy = Arc::new(AtomicBool::new(true));
        let hold = Arc::clone(&busy);
        drop(runtime.spawn(move || while hold.load(SeqCst) { thread::yield_now() }));
        let fiber = runtime.spawn(park);
        fiber.fiber().unpark();
        busy.store(false, SeqCst);
        fiber.join().unwrap();
    }
}
