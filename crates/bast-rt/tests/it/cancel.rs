//! Cancellation in every state of a fiber.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bast_io::{Interest, Kind};
use bast_rt::{
    Cancelled, JoinHandle, Runtime, mask, ops, park, park_timeout, run_blocking, scope, sleep,
    spawn, spawn_local, yield_now,
};

use crate::sockets::{Pair, listener};
use crate::support::{
    Drops, OnDrop, Random, is_cancelled, runtime, scaled, tests, until, workers, yield_until,
};

type Wait = Box<dyn FnOnce() + Send>;

/// Everything a fiber can wait for that may never come.
pub(crate) fn waits() -> Vec<(&'static str, Wait)> {
    fn wait(f: impl FnOnce() + Send + 'static) -> Wait {
        Box::new(f)
    }
    vec![
        ("park", wait(park)),
        ("park_timeout", wait(|| park_timeout(Duration::from_secs(1000)))),
        ("sleep", wait(|| sleep(Duration::MAX))),
        (
            "yield",
            wait(|| {
                loop {
                    yield_now()
                }
            }),
        ),
        (
            "join",
            wait(|| {
                let _ = spawn(park).join();
                park()
            }),
        ),
        // A cancelled scope waits for its children: they have to end by themselves.
        (
            "scope",
            wait(|| {
                scope(|s| {
                    let inner = s.spawn(park);
                    let _end = OnDrop(|| inner.cancel());
                    park();
                })
            }),
        ),
        (
            "recv",
            wait(|| {
                let pair = Pair::new();
                ops::recv(&pair.0, &mut [0; 100], 0, None).unwrap();
            }),
        ),
        (
            "recv with a timeout",
            wait(|| {
                let pair = Pair::new();
                ops::recv(&pair.0, &mut [0; 100], 0, Some(Duration::from_secs(1000))).unwrap();
            }),
        ),
        (
            "send",
            wait(|| {
                let pair = Pair::new();
                loop {
                    ops::send(&pair.0, &[0; 4096], 0, None).unwrap();
                }
            }),
        ),
        ("accept", wait(|| drop(ops::accept(&listener().0, None).unwrap()))),
        (
            "connect",
            wait(|| {
                // A full backlog: the kernel drops what comes, and connect waits.
                let family = ops::family(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
                let socket = || ops::socket(family, ops::STREAM, 0, Kind::Stream).unwrap();
                let full = socket();
                ops::bind(&full, &std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
                ops::listen(&full, 0).unwrap();
                let address = ops::local_addr(&full).unwrap();
                let tries: Vec<_> = (0..8).map(|_| socket()).collect();
                for socket in &tries {
                    let _ = ops::connect(socket, &address, Some(Duration::from_millis(5)));
                }
                drop(ops::connect(&socket(), &address, None));
                yield_now();
            }),
        ),
        (
            "poll",
            wait(|| {
                let pair = Pair::new();
                ops::poll(&pair.0, Interest::Readable, None).unwrap();
            }),
        ),
        (
            "blocking calls",
            wait(|| {
                loop {
                    run_blocking(|| std::thread::sleep(Duration::from_millis(1)));
                    yield_now();
                }
            }),
        ),
    ]
}

tests! {
    fn in_each_wait() {
        let runtime = runtime();
        for round in 0..4 {
            for (name, body) in waits() {
                let (drops, begun) = (Drops::default(), Arc::new(AtomicBool::new(false)));
                let (token, begins) = (drops.token(), Arc::clone(&begun));
                let fiber = runtime.spawn(move || {
                    let _token = token;
                    begins.store(true, SeqCst);
                    body();
                });
                until(name, || begun.load(SeqCst));
                std::thread::sleep(Duration::from_millis(if name == "connect" { 60 } else { round }));
                assert!(!fiber.is_finished(), "{name} waits");
                let begin = Instant::now();
                fiber.cancel();
                assert!(is_cancelled(&fiber.join()), "{name}");
                assert!(begin.elapsed() < Duration::from_secs(60), "{name}: {:?}", begin.elapsed());
                assert_eq!(drops.get(), 1, "{name}: the stack has been unwound");
            }
        }
    }

    fn before_its_first_run() {
        for count in [1, 2] {
            let runtime = workers(count);
            runtime.run(|| {
                let reached = Arc::new(AtomicUsize::new(0));
                let reach = Arc::clone(&reached);
                let fiber = spawn(move || { yield_now(); reach.store(1, SeqCst); park() });
                fiber.cancel();
                assert!(is_cancelled(&fiber.join()));
                // (The other worker may have begun with it before the request.)
                assert!(count == 2 || reached.load(SeqCst) == 0, "the first suspension point raises");
                // A fiber that never suspends ends as if nothing had happened.
                let fiber = spawn(|| 5);
                fiber.cancel();
                assert_eq!(fiber.join().unwrap(), 5);
            });
        }
    }

    fn twice_and_too_late() {
        runtime().run(|| {
            let fiber = spawn(|| {
                let caught = std::panic::catch_unwind(park).unwrap_err();
                assert!(caught.is::<Cancelled>());
                // Delivered once: from here on it can go on as it likes.
                yield_now();
                sleep(Duration::from_millis(1));
                park_timeout(Duration::from_millis(1));
                3
            });
            yield_now();
            fiber.cancel();
            fiber.cancel();
            yield_now();
            fiber.cancel();
            assert_eq!(fiber.join().unwrap(), 3);
            let ended = spawn(|| 4);
            yield_until("the end", || ended.is_finished());
            ended.cancel();
            assert_eq!(ended.join().unwrap(), 4);
        });
    }

    fn itself() {
        runtime().run(|| {
            let (to, from) = mpsc::channel::<JoinHandle<()>>();
            let (tell, told) = mpsc::channel();
            let fiber = spawn(move || {
                let me = loop { match from.try_recv() { Ok(me) => break me, Err(_) => yield_now() } };
                me.cancel();
                tell.send("still here").unwrap();
                let _told = OnDrop(|| tell.send("unwound").unwrap());
                yield_now();
                tell.send("never").unwrap();
            });
            to.send(fiber).unwrap();
            let mut all = Vec::new();
            while all.last() != Some(&"unwound") {
                yield_now();
                all.extend(told.try_iter());
            }
            sleep(Duration::from_millis(1));
            all.extend(told.try_iter());
            assert_eq!(all, ["still here", "unwound"]);
        });
    }

    fn while_masked_is_delivered_after() {
        for count in [1, 2] {
            workers(count).run(|| {
                let steps = Arc::new(AtomicUsize::new(0));
                let counts = Arc::clone(&steps);
                let [go, asked] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
                let (goes, asks) = (Arc::clone(&go), Arc::clone(&asked));
                let fiber = spawn(move || {
                    mask(|| {
                        goes.store(true, SeqCst);
                        while !asks.load(SeqCst) { yield_now() }
                        for _ in 0..20 {
                            mask(|| sleep(Duration::from_micros(100)));
                            yield_now();
                            counts.fetch_add(1, SeqCst);
                        }
                        spawn(yield_now).join().unwrap();
                    });
                    counts.fetch_add(100, SeqCst);
                    yield_now();
                    counts.fetch_add(1000, SeqCst);
                });
                yield_until("begun", || go.load(SeqCst));
                fiber.cancel();
                asked.store(true, SeqCst);
                assert!(is_cancelled(&fiber.join()));
                assert_eq!(steps.load(SeqCst), 120);
            });
        }
    }

    fn a_mask_ends_with_the_panic_that_leaves_it() {
        runtime().run(|| {
            let fiber = spawn(|| {
                let _ = std::panic::catch_unwind(|| mask(|| panic!("inside")));
                park();
            });
            yield_now();
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
        });
    }

    fn destructors_may_wait_while_the_fiber_unwinds() {
        let runtime = runtime();
        for (name, body) in waits() {
            let done = Arc::new(AtomicUsize::new(0));
            let dones = Arc::clone(&done);
            let fiber = runtime.spawn(move || {
                let _guard = OnDrop(move || {
                    yield_now();
                    sleep(Duration::from_micros(200));
                    assert_eq!(spawn(|| { yield_now(); 3 }).join().unwrap(), 3);
                    assert_eq!(run_blocking(|| 4), 4);
                    let pair = Pair::new();
                    ops::send(&pair.0, b"x", 0, None).unwrap();
                    assert_eq!(ops::recv(&pair.1, &mut [0], 0, None).unwrap(), 1);
                    dones.fetch_add(1, SeqCst);
                });
                body();
            });
            std::thread::sleep(Duration::from_millis(if name == "connect" { 60 } else { 1 }));
            fiber.cancel();
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()), "{name}");
            assert_eq!(done.load(SeqCst), 1, "{name}");
        }
    }

    /// A joiner that is cancelled leaves; whom it waited for lives on.
    fn a_joiner_leaves_alone() {
        for count in [1, 2] {
            workers(count).run(|| {
                let lives = Arc::new(AtomicUsize::new(0));
                for _ in 0..scaled(500) {
                    let alive = Arc::clone(&lives);
                    let target = spawn(move || { park(); alive.fetch_add(1, SeqCst) });
                    let (fiber, target_join) = (target.fiber(), spawn(move || target.join().unwrap()));
                    yield_now();
                    target_join.cancel();
                    assert!(is_cancelled(&target_join.join()));
                    fiber.unpark();
                }
                yield_until("all targets", || lives.load(SeqCst) == scaled(500));
            });
        }
    }

    /// The joiner is cancelled at the moment at which its target ends.
    fn a_joiner_cancelled_at_the_end_of_its_target() {
        let runtime = workers(2);
        let drops = Drops::default();
        let rounds = scaled(3_000);
        runtime.run(|| {
            let mut random = Random(17);
            for _ in 0..rounds {
                let token = drops.token();
                let target = spawn(move || { park(); token });
                let fiber = target.fiber();
                let joiner = spawn(move || target.join().map(drop));
                (0..random.below(3)).for_each(|_| yield_now());
                let unpark = spawn(move || fiber.unpark());
                (0..random.below(3)).for_each(|_| yield_now());
                joiner.cancel();
                match joiner.join() {
                    Ok(result) => result.unwrap(),
                    result => assert!(is_cancelled(&result)),
                }
                unpark.join().unwrap();
            }
        });
        drop(runtime);
        assert_eq!(drops.get(), rounds);
    }

    /// Fibers are cancelled at random moments of a life full of suspensions.
    fn at_random_moments() {
        let runtime = workers(2);
        let drops = Drops::default();
        let least = scaled(2_000);
        let (rounds, cancelled) = runtime.run(|| {
            let mut random = Random(23);
            let (mut rounds, mut cancelled) = (0, 0);
            // On a busy machine many end before the request comes.
            while rounds < least || cancelled <= least / 10 {
                rounds += 1;
                let token = drops.token();
                let fiber = spawn(move || {
                    let _token = token;
                    let pair = Pair::new();
                    for _ in 0..3 {
                        yield_now();
                        sleep(Duration::from_micros(20));
                        let _ = ops::recv(&pair.0, &mut [0], 0, Some(Duration::from_micros(20)));
                        park_timeout(Duration::from_micros(20));
                        spawn(|| ()).join().unwrap();
                    }
                });
                (0..random.below(30)).for_each(|_| yield_now());
                if random.below(4) == 0 { sleep(Duration::from_micros(random.below(300))) }
                fiber.cancel();
                match fiber.join() {
                    Ok(()) => {}
                    result => { assert!(is_cancelled(&result)); cancelled += 1 }
                }
            }
            (rounds, cancelled)
        });
        drop(runtime);
        assert_eq!(drops.get(), rounds);
        println!("{cancelled} of {rounds} were cancelled");
    }

    fn a_cancelled_local_fiber_drops_what_it_holds_here() {
        workers(1).run(|| {
            let held = Rc::new(Cell::new(1));
            let theirs = Rc::clone(&held);
            let fiber = spawn_local(move || { park(); theirs });
            yield_now();
            assert_eq!(Rc::strong_count(&held), 2);
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
            assert_eq!(Rc::strong_count(&held), 1);
        });
    }

    fn from_a_plain_thread_while_it_starts() {
        let runtime: Runtime = workers(2);
        for i in 0..scaled(2_000) {
            let fiber = runtime.spawn(park);
            if i % 3 == 0 { std::thread::yield_now() }
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
        }
    }
}

/// Cancels whoever drops it, in whom it then suspends.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        bast_rt::current().cancel();
        yield_now();
    }
}

/// The destructor of a result that nobody wants is interrupted; the request is for whoever drops the handle.
#[test]
fn a_request_during_the_drop_of_a_result_is_not_lost() {
    let runtime = workers(1);
    for scoped in [false, true] {
        let fiber = runtime.spawn(move || {
            if scoped {
                scope(|s| {
                    let child = s.spawn(|| Slow);
                    while !child.is_finished() {
                        yield_now();
                    }
                });
            } else {
                let child = spawn(|| Slow);
                while !child.is_finished() {
                    yield_now();
                }
            }
            yield_now();
        });
        assert!(is_cancelled(&fiber.join()), "the request was lost");
    }
}

#[test]
fn a_timeout_during_the_drop_of_a_result_is_not_lost() {
    struct Endless;
    impl Drop for Endless {
        fn drop(&mut self) {
            sleep(Duration::MAX);
        }
    }
    let runtime = workers(1);
    let fiber = runtime.spawn(|| {
        bast_rt::timeout(Duration::from_millis(5), || {
            let child = spawn(|| Endless);
            while !child.is_finished() {
                yield_now();
            }
            drop(child);
            sleep(Duration::from_secs(60));
        })
    });
    assert!(fiber.join().unwrap().is_err());
}

/// A panic whose payload panics in its own destructor does not keep a scope, or a worker, from going on.
#[test]
fn payloads_that_panic_when_they_are_dropped() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("a payload's destructor, on purpose");
        }
    }
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            std::panic::panic_any(Payload);
        }
    }
    let runtime = workers(1);
    let fiber = runtime.spawn(|| {
        drop(spawn(|| Loud));
        sleep(Duration::from_millis(1));
        let child = spawn(|| Loud);
        while !child.is_finished() {
            yield_now();
        }
        drop(child);
        scope(|s| {
            s.spawn(|| Loud);
        });
    });
    fiber.join().unwrap();
}
