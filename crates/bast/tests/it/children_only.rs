//! Child processes: what std has no counterpart for.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use bast::os::unix::process::ChildExt;
use bast::process::{Child, Command, Stdio};

use crate::harness::{needs_kernel, until};

const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a process in `/proc`, if it is there: `S`, `Z`, …
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
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
            let mut child = Command::new("sleep").arg("600").kill_on_drop(kill).spawn().unwrap();
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
            Command::new("sleep").arg("600").kill_on_drop(true).output()
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
    // Other tests of this process have descriptors too, for a while; a leak here would be of a thousand.
    until("few descriptors", || std::fs::read_dir("/proc/self/fd").unwrap().count() < before + 500);
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

/// Starts a shell script, and waits until it says that it is ready. Gives what else it says on that line.
fn script(text: &str, group: bool) -> (Child, String) {
    let mut command = Command::new("sh");
    command.args(["-c", text]).stdout(Stdio::piped()).kill_on_drop(true);
    if group {
        command.process_group(0);
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let rest = line.strip_prefix("ready").unwrap().trim().to_owned();
    (child, rest)
}

const DEAF: &str = "trap '' TERM; echo ready; while :; do sleep 1; done";
/// A group of which every member ignores SIGTERM; tells the other one's number.
const DEAF_GROUP: &str = "trap '' TERM; sh -c 'while :; do sleep 1; done' & echo ready $!; wait";

fn terminating() {
    let (mut child, _) =
        script("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done", false);
    let status = child.terminate(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(7));
    assert_eq!(child.terminate(PATIENCE).unwrap(), status, "it has ended long ago");
    child.send_signal(9).unwrap();

    let (mut child, _) = script(DEAF, true);
    let begun = Instant::now();
    assert_eq!(child.terminate(Duration::from_millis(20)).unwrap().signal(), Some(9));
    assert!(begun.elapsed() >= Duration::from_millis(20) && begun.elapsed() < PATIENCE);

    let (mut child, other) = script(DEAF_GROUP, true);
    let other = other.parse().unwrap();
    assert!(state(other).is_some());
    assert_eq!(child.terminate(Duration::from_millis(20)).unwrap().signal(), Some(9));
    until("the other is gone as well", || matches!(state(other), None | Some('Z')));

    let (child, other) = script(DEAF_GROUP, true);
    let (pid, other) = (child.id(), other.parse().unwrap());
    drop(child);
    until("both are gone", || state(pid).is_none() && matches!(state(other), None | Some('Z')));

    let (mut child, other) = script(DEAF_GROUP, true);
    let other = other.parse().unwrap();
    child.send_process_group_signal(9).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    until("the other is gone as well", || matches!(state(other), None | Some('Z')));
}

#[test]
fn children_that_are_to_end() {
    needs_kernel!();
    terminating();
    bast::spawn(terminating).join().unwrap();
}

#[test]
fn cancelled_at_any_moment_no_child_is_left() {
    needs_kernel!();
    // In spawn, in wait, in the middle of the output.
    for round in 0..60 {
        let (tell, told) = std::sync::mpsc::channel();
        let fiber = bast::spawn(move || {
            tell.send(()).unwrap();
            let mut command = Command::new("sh");
            // Found by its name, as nobody is told its number.
            command.args(["-c", "echo out; exec sleep 98765"]).kill_on_drop(true);
            command.output().map(drop)
        });
        told.recv_timeout(PATIENCE).unwrap();
        std::thread::sleep(Duration::from_micros(100 * round));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<bast::Cancelled>());
    }
    until("all are gone", || {
        !children().iter().any(|(pid, _)| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(5).any(|part| part == b"98765")
        })
    });
}

/// The children of this process, with their states.
pub(crate) fn children() -> Vec<(u32, char)> {
    let me = std::process::id();
    let numbers = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit(") ").next()?.split(' ');
        let state = fields.next()?.chars().next()?;
        (fields.next()?.parse() == Ok(me)).then_some((pid, state))
    });
    numbers.collect()
}

#[test]
fn reading_both_outputs_is_given_up_in_time() {
    needs_kernel!();
    // Whichever of the two is the one that does not end.
    for closed in ["exec 1>&-", "exec 2>&-", ":"] {
        let begun = Instant::now();
        let runtime = bast::Runtime::builder().workers(1).build().unwrap();
        runtime.run(move || {
            let output = bast::timeout(Duration::from_millis(100), || {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("{closed}; exec sleep 600")]);
                command.kill_on_drop(true).output()
            });
            assert!(output.is_err());
        });
        assert!(begun.elapsed() < PATIENCE, "{closed}: waited for the child");
    }
}
