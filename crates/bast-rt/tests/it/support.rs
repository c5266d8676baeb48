//! What the tests share: the watchdog, child processes, runtimes, counters, and the system's account of the process.

#[cfg_attr(windows, path = "support/account_windows.rs")]
mod account;

use std::any::Any;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bast_rt::{Cancelled, Runtime, RuntimeBuilder};

use account::{cpu_time, resident};
pub(crate) use account::{handles, threads};

/// No test takes a tenth of this on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Names the test that a child process is to run in earnest.
const CHILD: &str = "BAST_RT_TEST_CHILD";

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

/// As `tests`, each in a process of its own, because it reads or breaks what a process has only once.
macro_rules! process_tests {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $crate::support::tests! {
            $($(#[$attribute])* fn $name() {
                if $crate::support::in_child(concat!(module_path!(), "::", stringify!($name))) {
                    $body
                }
            })*
        }
    };
}
pub(crate) use process_tests;

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

/// Whether this process is the child that is to run the test `path`; otherwise runs the child.
pub(crate) fn in_child(path: &'static str) -> bool {
    let is_child = std::env::var(CHILD).is_ok_and(|wanted| wanted == path);
    if !is_child {
        let output = child(path).output().unwrap();
        assert!(
            output.status.success(),
            "{}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    is_child
}

/// A process that runs the test `path` in earnest.
pub(crate) fn child(path: &'static str) -> Command {
    let (_, name) = path.split_once("::").unwrap();
    let test = std::env::current_exe().unwrap();
    // What programs for this machine are run by, if the machine is only emulated (`cargo xtask cross`).
    let mut command = match std::env::var_os("BAST_TEST_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(test);
            command
        }
        None => Command::new(test),
    };
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, path);
    command
}

/// Whether this process was started by [`child`] for `path`.
pub(crate) fn is_child(path: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|wanted| wanted == path)
}

/// A runtime as the environment wants it.
pub(crate) fn runtime() -> Runtime {
    Runtime::builder().build().unwrap()
}

/// A runtime with this many workers.
pub(crate) fn workers(count: usize) -> Runtime {
    builder(count).build().unwrap()
}

pub(crate) fn builder(count: usize) -> RuntimeBuilder {
    Runtime::builder().workers(count)
}

/// Whether AddressSanitizer slows everything down and takes memory of its own.
pub(crate) fn slowed() -> bool {
    std::env::var_os("BAST_RT_TEST_SLOW").is_some()
}

/// `count`, or a tenth of it where everything is slow.
pub(crate) fn scaled(count: usize) -> usize {
    // Wine makes two of Linux's mappings of each stack, of which a process has 65,530. A panic takes it 10 ms.
    if slowed() || cfg!(windows) { count / 10 } else { count }
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

/// The panic with which `f` ends.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> Box<dyn Any + Send> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => panic!("it should have panicked"),
        Err(payload) => payload,
    }
}

/// Counts its drops.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn get(&self) -> usize {
        self.0.load(SeqCst)
    }

    pub(crate) fn token(&self) -> Dropped {
        Dropped(self.clone())
    }
}

pub(crate) struct Dropped(Drops);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, SeqCst);
    }
}

/// Runs something when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Polls, from a plain thread, until `condition` holds.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE / 3;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Polls, from a fiber, until `condition` holds.
pub(crate) fn yield_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE / 3;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        bast_rt::sleep(Duration::from_micros(200));
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

/// KiB of resident memory by which `work` makes the process grow: the least of three times. What is lost is lost each
/// time; on a busy machine more is alive at once, and the allocator keeps the room.
pub(crate) fn growth(most: usize, mut work: impl FnMut()) -> usize {
    let mut grown = usize::MAX;
    for _ in 0..3 {
        let before = resident();
        work();
        grown = grown.min(resident().saturating_sub(before));
        if grown < most {
            break;
        }
    }
    grown
}

/// Fails if the process uses processor time while it has nothing to do.
pub(crate) fn assert_idle() {
    // Work that was there comes to its end first; and a machine that stops counts that as time used. The best of ten.
    let share = if slowed() { 5 } else { 15 };
    let busy: Vec<_> = (0..10)
        .map(|_| {
            let (before, begin) = (cpu_time(), Instant::now());
            std::thread::sleep(Duration::from_millis(300));
            let took = begin.elapsed();
            (cpu_time().saturating_sub(before), took)
        })
        .take_while(|(used, took)| *used * share >= *took)
        .collect();
    assert!(busy.len() < 10, "CPU time used while so much time passed in idleness: {busy:?}");
}

/// Takes that long, without raising.
pub(crate) fn real_sleep(duration: Duration) {
    bast_rt::run_blocking(|| std::thread::sleep(duration));
}
