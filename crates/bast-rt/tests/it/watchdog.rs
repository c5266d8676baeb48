//! The watchdog: the right fiber, the right line, and silence otherwise. Each in a process of its own, whose
//! stderr is read.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bast_rt::{Builder, sleep};

use crate::support::{builder, child, is_child, tests};

/// A child that plays a test, and the lines of its stderr; killed when it is dropped.
struct Play {
    child: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Play {
    fn start(path: &'static str) -> Play {
        let mut command = child(path);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        Play { child, lines: Box::new(lines) }
    }

    /// The next line that contains `text`.
    fn next(&mut self, text: &str) -> String {
        let line = self.lines.find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("the child has ended without saying {text:?}"))
    }

    /// The place behind the next `LINE=`.
    fn place(&mut self) -> String {
        let line = self.next("LINE=");
        format!("it/watchdog.rs:{}", line.split_once("LINE=").unwrap().1)
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(200);

tests! {
    fn a_hog_is_reported_with_its_line() {
        const PATH: &str = concat!(module_path!(), "::a_hog_is_reported_with_its_line");
        if is_child(PATH) {
            let runtime = builder(2).watchdog(Duration::from_millis(100)).build().unwrap();
            let hog = runtime.spawn(|| {
                Builder::new().name("greedy".into()).spawn(|| {
                    let end = Instant::now() + LONG;
                    // (Seldom in the clock, which is the C library's: musl's functions have no unwind information.)
                    eprintln!("LINE={}", line!() + 1);
                    while Instant::now() < end { (0..10_000).for_each(|_| std::hint::spin_loop()); }
                }).unwrap().join().unwrap();
            });
            return hog.join().unwrap();
        }
        let mut play = Play::start(PATH);
        let place = play.place();
        // More than once, as it goes on. (If the machine stopped it on its way there, that has been reported, too.)
        let mut reports = 0;
        while reports < 2 {
            let report = play.next("has held worker");
            let spawned = play.next("spawned at");
            if report.contains(&place) {
                assert!(report.contains("'greedy'") && spawned.contains("it/watchdog.rs:"), "{report}");
                reports += 1;
            }
        }
    }

    #[cfg_attr(target_env = "musl", ignore = "musl's system calls have no unwind information: who made them is not known")]
    fn calls_of_std_that_block_are_recognised() {
        const PATH: &str = concat!(module_path!(), "::calls_of_std_that_block_are_recognised");
        if is_child(PATH) {
            let runtime = builder(2).watchdog(Duration::from_millis(100)).build().unwrap();
            let mutex = std::sync::Mutex::new(());
            let _held = mutex.lock().unwrap();
            return bast_rt::scope(|scope| {
                let first = scope.spawn(|| runtime.run(|| {
                    eprintln!("LINE={}", line!() + 1);
                    drop(mutex.lock().unwrap());
                }));
                let second = scope.spawn(|| runtime.run(|| std::thread::sleep(LONG)));
                first.join().unwrap();
                second.join().unwrap();
            });
        }
        let mut play = Play::start(PATH);
        let place = play.place();
        let (mut lock, mut nap) = (false, false);
        let mut report = String::new();
        while !(lock && nap) {
            // If the machine stopped one of them on its way, that has been reported without advice.
            let line = play.next("worker");
            if line.contains("has held worker") {
                report = line;
            } else if !line.contains("blocks the worker's thread") {
                continue;
            } else if report.contains(&place) {
                lock = true;
                assert!(line.contains("std::sync::Mutex ") && line.contains("bast::sync::Mutex"));
            } else {
                nap |= line.contains("std::thread::sleep ") && line.contains("bast::sleep");
            }
        }
    }

    fn waiting_is_no_hogging() {
        const PATH: &str = concat!(module_path!(), "::waiting_is_no_hogging");
        if is_child(PATH) {
            let runtime = builder(2).watchdog(Duration::from_secs(1)).build().unwrap();
            let fibers: Vec<_> = (0..10)
                .map(|n| runtime.spawn(move || {
                    let end = Instant::now() + Duration::from_secs(2);
                    while Instant::now() < end {
                        if n % 2 == 0 { bast_rt::yield_now() } else { sleep(Duration::from_millis(700)) }
                    }
                }))
                .collect();
            return fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        }
        // A machine that stops a worker's thread for a second has it reported, and rightly: the best of ten. If waiting
        // were hogging, each would report it.
        let reported = (0..10).all(|_| {
            let output = child(PATH).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}");
            text.contains("has held worker")
        });
        assert!(!reported);
    }
}
