//! Random calls, drops, resets, panics and trims, checked against a simple model.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use bast_coro::{Builder, Coroutine, Guards, PoolConfig, StackPool, State};

use crate::support::Random;

/// Enough to unwind all frames from `descend`. Where there are more registers an unwinder needs more.
const SMALL: usize = if cfg!(target_arch = "x86_64") { 16 << 10 } else { 32 << 10 };

/// One alive for each body that has begun and not ended.
struct Alive(Rc<Cell<usize>>);

impl Alive {
    fn new(count: &Rc<Cell<usize>>) -> Alive {
        count.set(count.get() + 1);
        Alive(Rc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Case {
    coroutine: Coroutine<usize>,
    yields: usize,
    panics: bool,
    called: usize,
}

#[test]
fn calls_and_drops() {
    let first = std::env::var("BAST_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = first.map_or(1..9, |s| s..s + 1);
    for seed in seeds {
        // Printed with a failure; BAST_SEED=n replays it.
        println!("BAST_SEED={seed}");
        one(seed);
    }
}

fn one(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let guards = if seed.is_multiple_of(2) { Guards::Auto } else { Guards::Mprotect };
    let config = PoolConfig::new().guards(guards).hot_limit(20).first_slab(4);
    let pool = Rc::new(RefCell::new(StackPool::with_config(config).unwrap()));
    let alive = Rc::new(Cell::new(0));
    let mut all: Vec<Case> = Vec::new();
    for step in 0..20_000 {
        match random.below(100) {
            0..30 if all.len() < 300 => all.push(make(&mut random, &pool, &alive)),
            0..80 if !all.is_empty() => {
                let i = random.below(all.len());
                if !call(&mut all[i]) {
                    all.swap_remove(i);
                }
            }
            80..95 if !all.is_empty() => {
                let i = random.below(all.len());
                drop(all.swap_remove(i));
            }
            95 => pool.borrow_mut().trim(random.below(30)),
            96 if step % 7 == 0 => all.clear(),
            _ => {}
        }
        let started = all.iter().filter(|c| c.called > 0).count();
        assert_eq!(alive.get(), started, "step {step}");
        assert_eq!(pool.borrow().stats().live, all.len(), "step {step}");
    }
    all.clear();
    assert_eq!((alive.get(), pool.borrow().stats().live), (0, 0));
}

fn make(random: &mut Random, pool: &Rc<RefCell<StackPool>>, alive: &Rc<Cell<usize>>) -> Case {
    let (yields, panics) = (random.below(6), random.below(8) == 0);
    let depth = random.below(20);
    let size = [SMALL, 40 << 10, 256 << 10][random.below(3)];
    let alive = Rc::clone(alive);
    let builder = Builder::new().name("random").stack_size(size);
    let coroutine = builder.create_in(pool, move |y| {
        let _alive = Alive::new(&alive);
        let filled = vec![depth; depth];
        for i in 0..yields {
            descend(y, depth, i);
        }
        if panics {
            std::panic::resume_unwind(Box::new(yields));
        }
        filled.len() + yields
    });
    Case { coroutine: coroutine.unwrap(), yields, panics, called: 0 }
}

/// Yields from some way down, with something to check on the way up.
#[inline(never)]
fn descend(y: &bast_coro::Yielder<'_>, depth: usize, mark: usize) {
    let here = std::hint::black_box([depth ^ mark; 8]);
    if depth == 0 {
        y.yield_now()
    } else {
        descend(y, depth - 1, mark)
    }
    assert!(std::hint::black_box(here).iter().all(|v| *v == depth ^ mark));
}

/// Calls once; false if it has ended.
fn call(case: &mut Case) -> bool {
    case.called += 1;
    let last = case.called > case.yields;
    match catch_unwind(AssertUnwindSafe(|| case.coroutine.call())) {
        Ok(State::Hold) => assert!(!last),
        Ok(State::Term) => {
            assert!(last && !case.panics);
            assert!(case.coroutine.take_result().unwrap() >= case.yields);
        }
        Ok(State::Exec) => unreachable!("not while we run"),
        Err(payload) => {
            assert!(last && case.panics);
            assert_eq!(payload.downcast_ref(), Some(&case.yields));
        }
    }
    !last
}
