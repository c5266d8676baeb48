//! The watchdog, the places where a body is run, and counters.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bast_rt::{Cancelled, DriverKind, Runtime, sleep};
use bast_sync::CancelToken;

/// No test takes a tenth of this on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What never comes.
pub(crate) const EVER: Duration = Duration::from_secs(10_000);

/// Tests whose body runs as a fiber of one worker, of two, and on a plain thread.
macro_rules! everywhere {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$attribute])* #[test]
        fn $name() {
            let _dog =
                $crate::groups::support::watch(concat!(module_path!(), "::", stringify!($name)));
            $crate::groups::support::in_all_places(|| $body);
        })*
    };
}
pub(crate) use everywhere;

pub(crate) fn in_all_places(body: fn()) {
    body();
    for runtime in runtimes() {
        runtime.run(body);
    }
}

/// One worker, and two where that is possible.
pub(crate) fn runtimes() -> Vec<Runtime> {
    let one = Runtime::builder().workers(1).build().unwrap();
    if one.driver_name() == "sim" {
        return vec![one];
    }
    vec![one, Runtime::builder().workers(2).build().unwrap()]
}

/// A simulated world.
pub(crate) fn simulated() -> Runtime {
    Runtime::builder().workers(1).driver(DriverKind::Sim).build().unwrap()
}

/// Ends the process if it is not dropped in time.
pub(crate) struct Dog {
    _leash: mpsc::Sender<()>,
}

pub(crate) fn watch(name: &'static str) -> Dog {
    let (leash, end) = mpsc::channel();
    let dog = move || {
        if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("\n{name} hangs\n").as_bytes(),
            );
            std::process::abort();
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(dog).unwrap();
    Dog { _leash: leash }
}

/// Polls, from wherever, until `condition` holds. Not to be interrupted.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE / 3, "waited in vain: {what}");
        bast_rt::mask(|| sleep(Duration::from_micros(100)));
    }
}

/// Waits for ever, and not for a clock, which in a simulated world has no patience.
pub(crate) fn hang() {
    CancelToken::new().cancelled();
    unreachable!("nobody has this token");
}

/// The panic with which `f` ends.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> Box<dyn Any + Send> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it should have panicked"),
        Err(payload) => payload,
    }
}

/// A panic's message.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("not a text", |text| text),
    }
}

pub(crate) fn is_cancelled<T>(result: &std::thread::Result<T>) -> bool {
    matches!(result, Err(payload) if payload.is::<Cancelled>())
}

/// Counts who is there.
#[derive(Clone, Default, Debug)]
pub(crate) struct Live(Arc<AtomicUsize>);

impl Live {
    pub(crate) fn get(&self) -> usize {
        self.0.load(SeqCst)
    }

    pub(crate) fn enter(&self) -> Inside {
        self.0.fetch_add(1, SeqCst);
        Inside(self.clone())
    }
}

#[derive(Debug)]
pub(crate) struct Inside(Live);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
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
