//! Channels and `select`. What `mpsc` has in common with std is in the face's twin tests.

mod mpmc;
mod select;
mod select_stress;
mod waits;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use bast_rt::Cancelled;

/// No test takes a tenth of this on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Long enough for everybody to be waiting, most of the time; nothing depends on it.
const SHORT: Duration = Duration::from_millis(10);
/// Never comes to pass.
const LONG: Duration = Duration::from_secs(1000);

/// Runs a body in a fiber, and fails if it hangs.
fn on_fiber(body: impl FnOnce() + Send + 'static) {
    watched(|body| drop(bast_rt::spawn(body)), body);
}

/// Runs a body on a plain thread.
fn on_thread(body: impl FnOnce() + Send + 'static) {
    watched(|body| drop(thread::spawn(body)), body);
}

/// Both.
fn on_both(body: impl FnOnce() + Send + Clone + 'static) {
    on_thread(body.clone());
    on_fiber(body);
}

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

/// A value whose copies are counted.
#[derive(Clone, Default)]
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

#[derive(Debug)]
struct Token {
    id: u64,
    alive: Alive,
}

impl std::fmt::Debug for Alive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.count().fmt(f)
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
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
