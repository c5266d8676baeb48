//! `MVar`, `oneshot`, `broadcast` and `watch`.

mod broadcast;
mod made_of_mvars;
mod mvar;
mod mvar_ends;
mod mvar_stress;
mod oneshot;
mod select;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use bast_rt::{Cancelled, DriverKind, JoinHandle, Runtime};

/// No test takes a tenth of this on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Long enough for everybody to be waiting, most of the time; nothing depends on it.
const SHORT: Duration = Duration::from_millis(5);
/// Never comes to pass.
const LONG: Duration = Duration::from_secs(1000);

/// Runs `body` and fails if it hangs.
fn watched(start: impl FnOnce(Box<dyn FnOnce() + Send>), body: impl FnOnce() + Send + 'static) {
    let (tx, rx) = std::sync::mpsc::channel();
    start(Box::new(move || {
        // If the test has failed already nobody listens.
        let _ = tx.send(catch_unwind(AssertUnwindSafe(body)));
    }));
    match rx.recv_timeout(PATIENCE) {
        Ok(Ok(())) => {}
        Ok(Err(payload)) => resume_unwind(payload),
        Err(_) => panic!("the test hangs"),
    }
}

/// On a fiber of a runtime of its own.
fn on_workers(workers: usize, body: impl FnOnce() + Send + 'static) {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    watched(|body| drop(runtime.spawn(body)), body);
}

/// On a plain thread, on a fiber of the default runtime (`BAST_DRIVER`, `BAST_WORKERS`), and on one of two workers.
fn everywhere(body: fn()) {
    watched(|body| drop(bast_rt::spawn(body)), body);
    // The simulator's clock jumps when its fibers wait, whatever a thread does.
    if !std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim") {
        watched(|body| drop(thread::spawn(body)), body);
        on_workers(2, body);
    }
}

/// On the simulator, with many seeds, of which one that fails is named.
fn simulated(seeds: u64, body: fn(u64)) {
    for seed in 0..seeds {
        let runtime =
            Runtime::builder().workers(1).driver(DriverKind::Sim).seed(seed).build().unwrap();
        let run = || watched(|body| drop(runtime.spawn(body)), move || body(seed));
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            eprintln!("seed {seed}");
            resume_unwind(payload);
        }
    }
}

/// Lets all fibers of this worker, the only one, run until each of them waits.
fn settle() {
    for _ in 0..100 {
        bast_rt::yield_now();
    }
}

/// Sleeps until `condition` holds.
fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE / 2;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        bast_rt::sleep(Duration::from_micros(200));
    }
}

fn is_cancelled<T>(result: &thread::Result<T>) -> bool {
    matches!(result, Err(payload) if payload.is::<Cancelled>())
}

/// Cancels a fiber that waits, most likely, and is not to return.
fn cancel<T: std::fmt::Debug>(fiber: JoinHandle<T>) {
    bast_rt::sleep(SHORT);
    assert!(!fiber.is_finished());
    fiber.cancel();
    let result = fiber.join();
    assert!(is_cancelled(&result), "{result:?}");
}

/// Counts the tokens that there are.
#[derive(Clone, Debug, Default)]
struct Alive(Arc<AtomicIsize>);

impl Alive {
    fn count(&self) -> isize {
        self.0.load(SeqCst)
    }

    fn token(&self, id: u64) -> Token {
        self.0.fetch_add(1, SeqCst);
        Token { id, alive: self.clone() }
    }
}

/// A value whose copies are counted.
#[derive(Debug)]
struct Token {
    id: u64,
    alive: Alive,
}

impl Clone for Token {
    fn clone(&self) -> Token {
        self.alive.token(self.id)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.alive.0.fetch_sub(1, SeqCst);
    }
}

/// A reproducible sequence.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}
