//! What the tests share: the watchdog, runtimes, and readings of panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use bast_rt::{Cancelled, Runtime};

/// No test takes a tenth of this on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Tests with a watchdog.
macro_rules! tests {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$attribute])* #[test]
        fn $name() {
            let _dog = $crate::support::watch(concat!(module_path!(), "::", stringify!($name)));
            $body
        })*
    };
}
pub(crate) use tests;

/// Ends the process if it is not dropped in time.
pub(crate) struct Dog {
    _leash: mpsc::Sender<()>,
}

pub(crate) fn watch(name: &'static str) -> Dog {
    let (leash, end) = mpsc::channel();
    std::thread::spawn(move || {
        if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("\n{name} hangs");
            std::process::abort();
        }
    });
    Dog { _leash: leash }
}

/// Whether fibers run on the simulator: on one worker, with a clock of its own.
pub(crate) fn simulated() -> bool {
    std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim")
}

/// Runs `f` in a fiber of a runtime with one worker; so do the fibers that it spawns.
pub(crate) fn on_one<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    match runtime.spawn(f).join() {
        Ok(value) => value,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// As [`on_one`], on as many workers as `BAST_WORKERS` says, else four; on one if it is simulated.
pub(crate) fn on_many<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let workers = std::env::var("BAST_WORKERS").map_or(4, |n| n.parse().unwrap());
    let workers = if simulated() { 1 } else { workers };
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    match runtime.spawn(f).join() {
        Ok(value) => value,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Lets the other fibers of this worker run until they wait.
pub(crate) fn settle() {
    for _ in 0..10 {
        bast_rt::yield_now();
    }
}

/// Whether `result` says that the fiber was cancelled.
pub(crate) fn is_cancelled<T>(result: &std::thread::Result<T>) -> bool {
    matches!(result, Err(payload) if payload.is::<Cancelled>())
}

/// A panic's message.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("not a text", |text| text),
    }
}

/// The message of the panic with which `f` ends.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it should have panicked"),
        Err(payload) => message(&*payload).to_owned(),
    }
}

/// Runs something when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A reproducible sequence.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
