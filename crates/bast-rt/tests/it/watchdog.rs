//! The watchdog: the right fiber, the right line, and silence otherwise. Each in a process of its own, whose
//! stderr is read.

use std::time::{Duration, Instant};

use bast_rt::{Builder, sleep};

use crate::support::{builder, child, is_child, tests};

/// What a child that plays `path` says on stderr.
fn said(path: &'static str) -> String {
    let output = child(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{text}", output.status);
    text
}

/// The number behind `LINE=` in what the child has said.
fn line_in(text: &str) -> u32 {
    let line = text.lines().find_map(|line| line.split_once("LINE=")).unwrap().1;
    line.parse().unwrap()
}

fn reports(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("has held worker")).collect()
}

tests! {
    fn a_hog_is_reported_with_its_line() {
        const PATH: &str = concat!(module_path!(), "::a_hog_is_reported_with_its_line");
        if is_child(PATH) {
            let runtime = builder(2).watchdog(Duration::from_millis(100)).build().unwrap();
            // The first look-up of a name takes long in a debug build.
            std::thread::sleep(Duration::from_secs(2));
            let end = Instant::now() + Duration::from_secs(4);
            let hog = runtime.spawn(move || {
                Builder::new().name("greedy".into()).spawn(move || {
                    eprintln!("LINE={}", line!() + 1);
                    while Instant::now() < end {}
                }).unwrap().join().unwrap();
            });
            return hog.join().unwrap();
        }
        let text = said(PATH);
        let reports = reports(&text);
        // At 100 ms, 200, 400, 800, …: a few, and not forty.
        assert!((1..=7).contains(&reports.len()), "{text}");
        let expected = format!("it/watchdog.rs:{}", line_in(&text));
        for report in reports {
            assert!(report.contains("'greedy'") && report.contains(&expected), "{text}");
        }
    }

    fn calls_of_std_that_block_are_recognised() {
        const PATH: &str = concat!(module_path!(), "::calls_of_std_that_block_are_recognised");
        if is_child(PATH) {
            let runtime = builder(1).watchdog(Duration::from_millis(100)).build().unwrap();
            std::thread::sleep(Duration::from_secs(2));
            let mutex = std::sync::Arc::new(std::sync::Mutex::new(()));
            let held = mutex.lock().unwrap();
            let theirs = std::sync::Arc::clone(&mutex);
            let fiber = runtime.spawn(move || {
                eprintln!("LINE={}", line!() + 1);
                drop(theirs.lock().unwrap());
                std::thread::sleep(Duration::from_secs(2));
            });
            std::thread::sleep(Duration::from_secs(2));
            drop(held);
            return fiber.join().unwrap();
        }
        let text = said(PATH);
        assert!(text.contains("std::sync::Mutex blocks") && text.contains("bast::sync::Mutex"), "{text}");
        assert!(text.contains("std::thread::sleep blocks") && text.contains("use bast::sleep"), "{text}");
        assert!(reports(&text)[0].contains(&format!("it/watchdog.rs:{}", line_in(&text))), "{text}");
    }

    fn waiting_is_no_hogging() {
        const PATH: &str = concat!(module_path!(), "::waiting_is_no_hogging");
        if is_child(PATH) {
            let runtime = builder(2).watchdog(Duration::from_millis(500)).build().unwrap();
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
        let text = said(PATH);
        assert!(reports(&text).is_empty(), "{text}");
    }
}
