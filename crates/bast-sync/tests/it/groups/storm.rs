//! Cancel storms: random nestings of groups, tokens, timeouts and crews, cancelled at random by others. Whatever
//! happens, every call returns or unwinds, and then nobody is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{Cancelled, Interrupted, mask, sleep, spawn, timeout, yield_now};
use bast_sync::{CancelToken, group, join, par_map, par_map_unordered, race, try_join_all};

use super::support::{Live, OnDrop, Random, hang, runtimes, simulated, watch};

/// What all nodes of one storm share.
struct World {
    live: Live,
    tokens: Vec<CancelToken>,
    nodes: AtomicUsize,
}

struct Failed;

impl From<Cancelled> for Failed {
    fn from(_: Cancelled) -> Failed {
        Failed
    }
}

/// The panic of a storm, which prints nothing.
struct Thunder;

fn thunder() -> ! {
    bast_rt::wait::resume_unwind(Box::new(Thunder))
}

fn pause(random: &mut Random) {
    match random.below(4) {
        0 => {}
        1 => yield_now(),
        2 => sleep(Duration::from_micros(random.below(60))),
        _ => (0..random.below(4)).for_each(|_| yield_now()),
    }
}

/// A random part of the tree.
fn node(world: &World, seed: u64, depth: u32) -> Result<u64, Failed> {
    let _inside = world.live.enter();
    world.nodes.fetch_add(1, SeqCst);
    let mut random = Random(seed | 1);
    for _ in 0..5 {
        random.below(2);
    }
    let _slow = (random.below(4) == 0).then(|| {
        OnDrop(|| {
            yield_now();
            sleep(Duration::from_micros(20));
        })
    });
    pause(&mut random);
    let below = |i: u64| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2 * i + 1);
    let width = 1 + random.below(4);
    let kind = if depth == 0 { random.below(6) } else { 6 + random.below(12) };
    match kind {
        0 => hang(),
        1 => return Err(Failed),
        2 if random.below(4) == 0 => thunder(),
        3 => sleep(Duration::from_micros(random.below(200))),
        4 => world.tokens[random.below(4) as usize].cancel(),
        2 | 5 => {}
        6..=8 => {
            return group(|g| {
                for i in 0..width {
                    g.spawn(move || node(world, below(i), depth - 1));
                }
                let handle = g.spawn(move || node(world, below(9), depth - 1));
                pause(&mut random);
                match random.below(6) {
                    0 => g.cancel(),
                    1 => return Err(Failed),
                    2 => hang(),
                    3 => handle.cancel(),
                    4 => {
                        g.spawn(move || {
                            g.spawn(move || node(world, below(10), depth - 1));
                            Ok(0)
                        });
                    }
                    _ => return Ok(handle.join()?),
                }
                Ok(1)
            });
        }
        9 => {
            let token = &world.tokens[random.below(4) as usize];
            return token.run(|| node(world, below(0), depth - 1))?;
        }
        10 => {
            let token = world.tokens[random.below(4) as usize].child_token();
            let _guard = token.clone().drop_guard();
            return token.run(|| node(world, below(0), depth - 1))?;
        }
        11 => {
            let time = Duration::from_micros(random.below(400));
            return timeout(time, || node(world, below(0), depth - 1)).unwrap_or(Err(Failed));
        }
        12 => return mask(|| bounded(world, below(0))),
        13 => drop(race((0..=width).map(|i| move || node(world, below(i), depth - 1).is_ok()))),
        14 => drop(try_join_all((0..width).map(|i| move || node(world, below(i), depth - 1)))?),
        15 => {
            par_map(0..3 * width, width as usize, |i| node(world, below(i), depth - 1).is_ok());
        }
        16 => {
            let mut got = 0;
            par_map_unordered(
                0..2 * width,
                2,
                |i| node(world, below(i), depth - 1).is_ok(),
                |_| {
                    got += 1;
                    if got == 5 {
                        thunder();
                    }
                    yield_now();
                },
            );
        }
        _ => {
            let (a, b) =
                join(|| node(world, below(0), depth - 1), || node(world, below(1), depth - 1));
            return Ok(a? + b?);
        }
    }
    Ok(1)
}

/// What ends by itself, for the inside of a mask.
fn bounded(world: &World, seed: u64) -> Result<u64, Failed> {
    let sums = par_map(0..3, 2, |i| {
        let _inside = world.live.enter();
        sleep(Duration::from_micros((seed ^ i) % 50));
        i
    });
    Ok(sums.iter().sum())
}

/// One storm on the calling fiber, and what it looked like.
fn storm(seed: u64) -> (usize, &'static str) {
    let tokens = (0..4).map(|_| CancelToken::new()).collect();
    let world = Arc::new(World { live: Live::default(), tokens, nodes: AtomicUsize::new(0) });
    let over = Arc::new(AtomicBool::new(false));
    let main = {
        let (world, over) = (Arc::clone(&world), Arc::clone(&over));
        spawn(move || {
            let _over = OnDrop(|| over.store(true, SeqCst));
            // The outermost timeout ends what would wait for ever.
            let result = timeout(Duration::from_millis(5), || node(&world, seed, 4));
            assert_eq!(world.live.get(), 0, "seed {seed}: after a return");
            result
        })
    };
    let mut stranger = {
        let (world, over, main) = (Arc::clone(&world), Arc::clone(&over), main.fiber());
        let mut random = Random(seed ^ 0x5555);
        move |wait: fn(u64)| {
            while !over.load(SeqCst) {
                wait(random.below(300));
                match random.below(20) {
                    token @ 0..=3 => world.tokens[token as usize].cancel(),
                    4 => main.cancel(),
                    _ => {}
                }
            }
        }
    };
    // On another fiber, and where time is real also from a thread.
    let fiber = spawn(move || stranger(|micros| sleep(Duration::from_micros(micros + 1))));
    let result = main.join();
    fiber.join().unwrap();
    assert_eq!(world.live.get(), 0, "seed {seed}");
    let how = match result {
        Ok(Ok(Ok(_))) => "returned",
        Ok(Ok(Err(_))) => "failed",
        Ok(Err(_)) => "timed out",
        Err(payload) if payload.is::<Cancelled>() => "cancelled",
        Err(payload) if payload.is::<Thunder>() => "panicked",
        Err(payload) if payload.is::<Interrupted>() => unreachable!("it left its scope"),
        Err(payload) => std::panic::resume_unwind(payload),
    };
    (world.nodes.load(SeqCst), how)
}

fn storms(seeds: impl Iterator<Item = u64>) {
    let mut seen = std::collections::BTreeMap::new();
    let mut nodes = 0;
    for seed in seeds {
        let (count, how) = match catch_unwind(AssertUnwindSafe(|| storm(seed))) {
            Ok(it) => it,
            Err(payload) => {
                eprintln!("BAST_TEST_SEED={seed}");
                std::panic::resume_unwind(payload)
            }
        };
        nodes += count;
        *seen.entry(how).or_insert(0) += 1;
    }
    eprintln!("{nodes} nodes; {seen:?}");
}

/// As many storms as fit in; `BAST_TEST_SEED` and `BAST_TEST_ROUNDS` choose others.
fn seeds() -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    match number("BAST_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("BAST_TEST_ROUNDS").unwrap_or(150),
    }
}

#[test]
fn on_workers() {
    let _dog = watch("groups::storm::on_workers");
    for runtime in runtimes() {
        runtime.run(|| storms(seeds()));
    }
}

#[test]
fn simulated_storms() {
    let _dog = watch("groups::storm::simulated_storms");
    simulated().run(|| storms(seeds()));
}

/// The whole from a plain thread, cancelled by another.
#[test]
fn from_threads() {
    let _dog = watch("groups::storm::from_threads");
    for seed in seeds().take(60) {
        let tokens = (0..4).map(|_| CancelToken::new()).collect();
        let world = World { live: Live::default(), tokens, nodes: AtomicUsize::new(0) };
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut random = Random(seed);
                while !over.load(SeqCst) {
                    std::thread::sleep(Duration::from_micros(random.below(300)));
                    world.tokens[random.below(4) as usize].cancel();
                }
            });
            let result = catch_unwind(AssertUnwindSafe(|| {
                timeout(Duration::from_millis(5), || node(&world, seed, 3))
            }));
            over.store(true, SeqCst);
            if let Err(payload) = result {
                assert!(payload.is::<Thunder>(), "seed {seed}");
            }
        });
        assert_eq!(world.live.get(), 0, "seed {seed}");
    }
}
