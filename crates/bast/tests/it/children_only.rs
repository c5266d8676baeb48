//! Child processes: what std has no counterpart for.

use std::time::{Duration, Instant};

use bast::process::{Command, Stdio};

use crate::harness::needs_kernel;

const PATIENCE: Duration = Duration::from_secs(30);

/// The state of a process in `/proc`, if it is there: `S`, `Z`, …
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_dropped_child_leaves_no_zombie() {
    needs_kernel!();
    let runtime = bast::Runtime::builder().workers(1).build().unwrap();
    let pids: Vec<u32> = runtime.run(|| {
        (0..20)
            .map(|_| {
                let child = Command::new("sleep").arg("0.05").spawn().unwrap();
                child.id()
            })
            .collect()
    });
    for pid in pids {
        until("reaped", || state(pid).is_none());
    }
}

#[test]
fn children_outlive_a_runtime_and_are_reaped_later() {
    needs_kernel!();
    let runtime = bast::Runtime::builder().workers(1).build().unwrap();
    let pid = runtime.run(|| Command::new("sleep").arg("0.2").spawn().unwrap().id());
    drop(runtime);
    until("ended", || matches!(state(pid), None | Some('Z')));
    Command::new("true").status().unwrap();
    assert_eq!(state(pid), None);
}

#[test]
fn cancelling_a_wait_leaves_the_child_or_kills_it() {
    needs_kernel!();
    for kill in [false, true] {
        let (tell, told) = std::sync::mpsc::channel();
        let fiber = bast::spawn(move || {
            let mut child = Command::new("sleep").arg("60").kill_on_drop(kill).spawn().unwrap();
            tell.send(child.id()).unwrap();
            child.wait().unwrap()
        });
        let pid = told.recv_timeout(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<bast::Cancelled>());
        if !kill {
            assert!(matches!(state(pid), Some('S' | 'R' | 'D')));
            let kill = format!("kill -9 {pid}");
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        }
        until("gone", || state(pid).is_none());
    }
}

#[test]
fn a_timeout_around_output() {
    needs_kernel!();
    bast::spawn(|| {
        let begun = Instant::now();
        let output = bast::timeout(Duration::from_millis(30), || {
            Command::new("sleep").arg("60").kill_on_drop(true).output()
        });
        assert!(output.is_err());
        assert!(begun.elapsed() < PATIENCE);
    })
    .join()
    .unwrap();
}

#[test]
fn a_thousand_children_thirty_two_at_a_time() {
    needs_kernel!();
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    bast::scope(|s| {
        for fiber in 0..32 {
            s.spawn(move || {
                for n in (fiber..1000).step_by(32) {
                    let output = Command::new("echo").arg(n.to_string()).output().unwrap();
                    assert_eq!(output.stdout, format!("{n}\n").into_bytes());
                }
            });
        }
    });
    // Other tests of this process have descriptors too; a leak here would be of a thousand.
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after < before + 500, "{before} {after}");
}

#[test]
fn waiting_for_children_holds_up_nobody() {
    needs_kernel!();
    let runtime = bast::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let mut child =
            Command::new("sh").args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let waiter = bast::spawn(move || child.wait().unwrap().code());
        for _ in 0..50 {
            bast::yield_now();
        }
        bast::sleep(Duration::from_millis(5));
        assert!(!waiter.is_finished());
        drop(stdin);
        assert_eq!(waiter.join().unwrap(), Some(1));
    });
}
