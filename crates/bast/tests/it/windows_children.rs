//! Children on Windows: this test binary, run again for a role.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::windows::io::{AsHandle, HandleOrNull, OwnedHandle};
use std::process::Stdio;
use std::time::Duration;

use bast::os::windows::process::CommandExt;
use bast::process::{Child, Command};

use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, until};

const ROLE: &str = "BAST_TEST_ROLE";
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
const STATUS_CONTROL_C_EXIT: i32 = 0xC000_013A_u32 as i32;

/// What a child does.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    println!();
    match &*role {
        "copy" => drop(std::io::copy(&mut std::io::stdin(), &mut std::io::stdout())),
        "three" => {
            println!("out");
            eprintln!("err");
            std::process::exit(3);
        }
        "much" => {
            let line = "x".repeat(100);
            for _ in 0..3000 {
                println!("{line}");
                eprintln!("{line}");
            }
        }
        // What stands behind `--`, one in a line, without what would end it.
        "says" => {
            let all: Vec<_> = std::env::args_os().collect();
            let own = all.iter().position(|arg| arg == "--").map_or(all.len(), |at| at + 1);
            all[own..].iter().for_each(|arg| println!("arg {arg:?}"));
            for name in ["BAST_TEST_A", "BAST_TEST_B", "BAST_TEST_C"] {
                println!("env {name} {:?}", std::env::var_os(name));
            }
            println!("dir {:?}", std::env::current_dir().unwrap());
        }
        "exit" => std::process::exit(std::env::var("BAST_TEST_A").unwrap().parse().unwrap()),
        // Starts one that is to outlive it.
        "parent" => {
            let child = bast::spawn(|| {
                of("sleep")
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            });
            println!("grandchild {}", child.join().unwrap().id());
        }
        "tree" => {
            let mut child = std_of("sleep").stdout(Stdio::inherit()).spawn().unwrap();
            println!("grandchild {}", child.id());
            child.wait().unwrap();
        }
        _ => std::thread::sleep(Duration::from_secs(600)),
    }
    std::process::exit(0);
}

fn std_of(role: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "windows_children::role", "--nocapture"]).env(ROLE, role);
    command
}

pub(crate) fn of(role: &str) -> Command {
    std_of(role).into()
}

/// A child that has started one of its own, and a handle of that.
pub(crate) fn tree(command: &mut Command) -> (Child, OwnedHandle) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let id: u32 = loop {
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "it says its child's number");
        if let Some(id) = line.strip_prefix("grandchild ") {
            break id.trim_end().parse().unwrap();
        }
    };
    // The grandchild writes there too when it begins, which may be later, and ends if nobody reads; and then so does all.
    child.stdout = Some(out.into_inner());
    (child, open(id).expect("it lives"))
}

/// To wait for it, and to end it.
const ACCESS: u32 = 0x10_0001;

#[link(name = "kernel32")]
unsafe extern "system" {
    #[allow(unsafe_code)]
    safe fn OpenProcess(access: u32, inherit: i32, id: u32) -> HandleOrNull;
}

pub(crate) fn open(id: u32) -> Option<OwnedHandle> {
    OpenProcess(ACCESS, 0, id).try_into().ok()
}

pub(crate) fn end(process: &OwnedHandle) -> bool {
    bast_io::child::terminate(process.as_handle(), 1).is_ok()
}

pub(crate) fn has_ended(process: &OwnedHandle) -> bool {
    bast_io::child::has_ended(process.as_handle())
}

#[test]
fn output_and_status() {
    needs_kernel!();
    run(|| {
        let output = of("three").output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&output.stdout).contains("out"));
        assert!(String::from_utf8_lossy(&output.stderr).contains("err"));
        // Both pipes are emptied.
        let output = of("much").output().unwrap();
        assert!(output.status.success());
        assert!(output.stdout.len() > 300_000 && output.stderr.len() > 300_000);
        let none = Command::new("bast-no-such-program").spawn().unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_conversation() {
    needs_kernel!();
    run(|| {
        let mut child = of("copy").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(stdout).lines();
        for n in 0..20 {
            writeln!(stdin, "line {n}").unwrap();
            let said = format!("line {n}");
            assert!(lines.by_ref().any(|line| line.unwrap() == said), "{said}");
        }
        assert!(child.try_wait().unwrap().is_none());
        // The end of its input is the end of it.
        drop(stdin);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn pipes_of_our_own_are_a_childs_streams() {
    needs_kernel!();
    run(|| {
        let ((theirs, mut ours), (mut out, into)) =
            (bast::io::pipe().unwrap(), bast::io::pipe().unwrap());
        let mut child = of("copy").stdin(theirs).stdout(into).spawn().unwrap();
        ours.write_all(b"through two pipes\n").unwrap();
        drop(ours);
        let mut all = String::new();
        out.read_to_string(&mut all).unwrap();
        assert!(all.contains("through two pipes"), "{all}");
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn a_wait_is_cancelled_and_the_child_goes_on_or_is_killed() {
    needs_kernel!();
    run(|| {
        for kill in [false, true] {
            let mut child = of("sleep").stdout(Stdio::null()).kill_on_drop(kill).spawn().unwrap();
            let process = open(child.id()).unwrap();
            let waiter = bast::spawn(move || child.wait().map(drop));
            bast::sleep(Duration::from_millis(30));
            waiter.cancel();
            assert!(waiter.join().unwrap_err().is::<bast::Cancelled>());
            if kill {
                until("it is killed", || has_ended(&process));
            } else {
                assert!(!has_ended(&process));
                assert!(end(&process));
            }
        }
    });
}

#[test]
fn a_tree_ends_as_a_whole() {
    needs_kernel!();
    run(|| {
        // Dropped.
        let (child, grandchild) = tree(of("tree").kill_on_drop(true));
        assert!(!has_ended(&grandchild));
        drop(child);
        until("the grandchild has ended", || has_ended(&grandchild));
        // Cancelled.
        let (mut child, grandchild) = tree(of("tree").kill_on_drop(true));
        let waiter = bast::spawn(move || child.wait().map(drop));
        bast::sleep(Duration::from_millis(10));
        waiter.cancel();
        assert!(waiter.join().unwrap_err().is::<bast::Cancelled>());
        until("the grandchild has ended", || has_ended(&grandchild));
        // Terminated.
        let (mut child, grandchild) = tree(of("tree").creation_flags(CREATE_NEW_PROCESS_GROUP));
        let status = child.terminate(Duration::from_millis(50)).unwrap();
        // By Ctrl-Break, of which Wine makes 0, or by force. Of itself it would end in ten minutes.
        let codes = [STATUS_CONTROL_C_EXIT, bast_io::job::KILLED as i32, 0];
        assert!(codes.contains(&status.code().unwrap()), "{status}");
        until("the grandchild has ended", || has_ended(&grandchild));
        // Killed by itself, as in std: what it has started goes on.
        let (mut child, grandchild) = tree(&mut of("tree"));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!has_ended(&grandchild));
        // Somebody has to.
        assert!(end(&grandchild));
    });
}
