//! Ctrl-C on Windows: pressed by children on consoles of their own, so that nobody else hears of it.

use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use bast::os::windows::process::CommandExt;
use bast::process::Command;
use bast::signal::CtrlC;
use bast::signal::windows::{SignalKind, signal};

use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, until};

const ROLE: &str = "BAST_TEST_SIGNALS";
/// A console, and no window for it.
const CREATE_NO_WINDOW: u32 = 0x800_0000;
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
/// How a process ends that Ctrl-C has ended.
const STATUS_CONTROL_C_EXIT: i32 = 0xC000_013A_u32.cast_signed();

const LIVES_ON: i32 = 9;

const CTRL_C: u32 = 0;

type Handler = unsafe extern "system" fn(u32) -> i32;

#[link(name = "kernel32")]
unsafe extern "system" {
    safe fn GenerateConsoleCtrlEvent(event: u32, group: u32) -> i32;
    safe fn SetConsoleCtrlHandler(handler: Option<Handler>, add: i32) -> i32;
}

fn press() {
    assert_ne!(GenerateConsoleCtrlEvent(CTRL_C, 0), 0, "{}", std::io::Error::last_os_error());
}

/// Events that have come, to whoever comes before bast.
static SEEN: AtomicU32 = AtomicU32::new(0);

unsafe extern "system" fn sees(_: u32) -> i32 {
    SEEN.fetch_add(1, SeqCst);
    0
}

/// What a child does.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match &*role {
        "nobody" => {
            press();
            std::thread::sleep(Duration::from_secs(60));
            std::process::exit(LIVES_ON);
        }
        "no_longer" => {
            drop(CtrlC::new().unwrap());
            assert_ne!(SetConsoleCtrlHandler(Some(sees), 1), 0);
            for n in 1..4 {
                press();
                until("the event has come", || SEEN.load(SeqCst) >= n);
            }
            // It would end now.
            std::thread::sleep(Duration::from_millis(300));
        }
        "everybody" => everybody(),
        "breaks" => {
            let listener = signal(SignalKind::ctrl_break()).unwrap();
            println!("\nready");
            listener.recv().unwrap();
            std::process::exit(7);
        }
        role => panic!("{role}"),
    }
    std::process::exit(0);
}

/// Fibers and a thread hear of each press.
fn everybody() {
    let fibers: Vec<_> = (0..3)
        .map(|_| {
            let listener = CtrlC::new().unwrap();
            bast::spawn(move || (0..2).for_each(|_| listener.wait().unwrap()))
        })
        .collect();
    let (probe, kept) = (CtrlC::new().unwrap(), signal(SignalKind::ctrl_c()).unwrap());
    // A wait that is given up takes none.
    assert!(
        bast::spawn(move || {
            let waited = bast::timeout(Duration::from_millis(10), || kept.recv());
            assert!(waited.is_err());
            press();
            kept.recv().unwrap();
        })
        .join()
        .is_ok()
    );
    probe.wait().unwrap();
    press();
    probe.wait().unwrap();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

fn of(role: &str, flags: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "windows_signals::role", "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::null()).creation_flags(flags);
    command
}

fn code(role: &str, flags: u32) -> Option<i32> {
    let output = of(role, flags).output().unwrap();
    println!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output.status.code()
}

#[test]
fn without_a_listener_ctrl_c_ends_the_process() {
    needs_kernel!();
    // (Wine says that it has ended well.)
    run(|| assert!(matches!(code("nobody", CREATE_NO_WINDOW), Some(STATUS_CONTROL_C_EXIT | 0))));
}

#[test]
fn after_the_first_listener_it_does_not() {
    needs_kernel!();
    run(|| assert_eq!(code("no_longer", CREATE_NO_WINDOW), Some(0)));
}

#[test]
fn every_listener_hears_it() {
    needs_kernel!();
    run(|| assert_eq!(code("everybody", CREATE_NO_WINDOW), Some(0)));
}

/// Windows has such processes ignore Ctrl-C. Who listens wants to hear it.
#[test]
fn also_in_a_process_group_of_its_own() {
    needs_kernel!();
    let flags = CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP;
    run(move || assert_eq!(code("everybody", flags), Some(0)));
}

#[cfg_attr(
    windows,
    ignore = "Wine: GenerateConsoleCtrlEvent knows no Ctrl-Break (ERROR_INVALID_HANDLE)"
)]
#[test]
fn who_is_asked_to_end_can_do_so_by_itself() {
    use std::io::{BufRead, BufReader};
    needs_kernel!();
    run(|| {
        let mut child = of("breaks", CREATE_NEW_PROCESS_GROUP);
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"));
        assert_eq!(child.terminate(Duration::from_secs(60)).unwrap().code(), Some(7));
    });
}
