//! Terminals, descriptors that are closed or not to be waited for, a full device.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::cases::Case;
use crate::child::{Child, ROLE, runner};

/// Longer than a line takes to come, shorter than patience.
const SHORT: Duration = Duration::from_millis(50);

pub(crate) const CASES: &[Case] = &[
    ("a_terminal", a_terminal),
    ("waiting_for_input_holds_up_nobody", waiting_for_input_holds_up_nobody),
    ("a_full_device_is_an_error", a_full_device_is_an_error),
    ("streams_that_were_closed", streams_that_were_closed),
    ("the_mode_is_left_as_it_was", the_mode_is_left_as_it_was),
];

fn a_terminal() {
    let (ours, theirs) = terminal();
    let stdin = theirs.try_clone().unwrap();
    let mut child = Child::start_with("conversation", stdin.into(), theirs.into());
    let mut seen = BufReader::new(ours.try_clone().unwrap());
    let mut expect = |what: &str| {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            seen.read_line(&mut line).expect("a terminal at its other end");
        }
    };
    expect("terminals: true true");
    // The question was flushed, the answer is echoed.
    (&ours).write_all(b"me\n").unwrap();
    expect("hello me");
    (&ours).write_all(&[4]).unwrap();
    expect("the end");
    child.end();
}

fn waiting_for_input_holds_up_nobody() {
    let (ours, theirs) = terminal();
    let (reader, writer) = std::io::pipe().unwrap();
    for stdin in [Stdio::from(theirs), reader.into()] {
        let mut child = Child::start("ticks", stdin);
        assert_eq!(child.line(), "100 ticks");
        child.kill();
    }
    drop((ours, writer));
}

fn a_full_device_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = Child::start_with("errors", Stdio::null(), full.into());
    assert_eq!(child.stderr(), "StorageFull StorageFull panicked\n");
    child.end();
}

fn streams_that_were_closed() {
    // Open for the wrong direction is all that Rust's start-up leaves of "closed".
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = Child::start_with("lines", writer.into(), reader.into());
    child.end();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" <&- >&-"]).args(runner());
    command.arg(std::env::current_exe().unwrap());
    Child::spawn(command.env(ROLE, "lines")).end();
}

fn the_mode_is_left_as_it_was() {
    for nonblocking in [false, true] {
        let (their_in, mut in_end) = std::io::pipe().unwrap();
        let (mut out_end, their_out) = std::io::pipe().unwrap();
        let mode = if nonblocking { OFlags::NONBLOCK } else { OFlags::empty() };
        for end in [their_in.as_fd(), their_out.as_fd()] {
            let flags = rustix::fs::fcntl_getfl(end).unwrap();
            rustix::fs::fcntl_setfl(end, flags | mode).unwrap();
        }
        let (keep_in, keep_out) = (their_in.try_clone().unwrap(), their_out.try_clone().unwrap());
        let mut child = Child::start_with("lines", their_in.into(), their_out.into());
        std::thread::sleep(SHORT);
        in_end.write_all(b"a\nb").unwrap();
        drop(in_end);
        child.end();
        for end in [keep_in.as_fd(), keep_out.as_fd()] {
            let flags = rustix::fs::fcntl_getfl(end).unwrap();
            assert_eq!(flags.contains(OFlags::NONBLOCK), nonblocking);
        }
        drop(keep_out);
        let mut text = String::new();
        out_end.read_to_string(&mut text).unwrap();
        assert_eq!(text, "<a><b>\n");
    }
}

/// Both ends of a new terminal.
fn terminal() -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let theirs = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    (File::from(ours), File::from(theirs))
}
