//! What holds on every system.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::child::Child;

pub(crate) type Case = (&'static str, fn());

pub(crate) const CASES: &[Case] = &[
    ("lines_from_a_pipe", lines_from_a_pipe),
    ("a_line_of_64_mib", a_line_of_64_mib),
    ("all_of_a_file", all_of_a_file),
    ("nothing_from_the_null_device", nothing_from_the_null_device),
    ("who_is_cancelled_loses_no_input", who_is_cancelled_loses_no_input),
    ("a_line_that_is_not_complete_is_written_at_the_end", written_at_the_end),
    ("a_broken_pipe_is_an_error", a_broken_pipe_is_an_error),
    ("lines_stay_whole_under_cancellation", lines_stay_whole),
    ("everybody_prints", everybody_prints),
    ("streams_go_to_a_child", streams_go_to_a_child),
    ("the_holder_may_lock_again", the_holder_may_lock_again),
    ("who_unwinds_prints", who_unwinds_prints),
];

fn lines_from_a_pipe() {
    for role in ["lines", "read_line"] {
        let mut child = Child::start(role, Stdio::piped());
        let mut stdin = child.stdin();
        for piece in ["fir", "st\nsec", "ond\n\nthi", "rd"] {
            stdin.write_all(piece.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(stdin);
        assert_eq!(child.output(), "<first><second><><third>\n");
    }
}

fn a_line_of_64_mib() {
    const LEN: usize = 64 << 20;
    for role in ["long_line_of_stdin", "long_line_by_lines", "long_line_by_buf_reader"] {
        let mut child = Child::start(role, Stdio::piped());
        let mut stdin = child.stdin();
        let writer = std::thread::spawn(move || {
            let blob = vec![b'x'; 1 << 20];
            (0..LEN >> 20).for_each(|_| stdin.write_all(&blob).unwrap());
            stdin.write_all(b"\nshort\n").unwrap();
        });
        assert_eq!(child.output(), format!("{LEN} short\n"), "{role}");
        writer.join().unwrap();
    }
}

fn all_of_a_file() {
    let mut file = scratch();
    let text = "line\n".repeat(100_000);
    file.write_all(text.as_bytes()).unwrap();
    file.seek(SeekFrom::Start(5)).unwrap();
    let child = Child::start("copy", file.try_clone().unwrap().into());
    assert!(child.output() == text[5..]);
    // To a file, at its end.
    let mut to = scratch();
    to.write_all(b"before\n").unwrap();
    let mut child = Child::start_with("lines", Stdio::piped(), to.try_clone().unwrap().into());
    child.stdin().write_all(b"a\nb\n").unwrap();
    child.end();
    to.seek(SeekFrom::Start(0)).unwrap();
    let mut all = String::new();
    to.read_to_string(&mut all).unwrap();
    assert_eq!(all, "before\n<a><b>\n");
}

fn nothing_from_the_null_device() {
    assert_eq!(Child::start("lines", Stdio::null()).output(), "\n");
    assert_eq!(Child::start("copy", Stdio::null()).output(), "");
}

fn who_is_cancelled_loses_no_input() {
    let mut child = Child::start("cancelled", Stdio::piped());
    let mut stdin = child.stdin();
    for part in ["one li", "ne", "\nfour", "exact", "all ", "of it"] {
        stdin.write_all(part.as_bytes()).unwrap();
        assert_eq!(child.line(), "interrupted");
    }
    stdin.write_all(b".").unwrap();
    drop(stdin);
    assert_eq!(child.output(), "<one line><four><exactall of it.>\n");
}

fn written_at_the_end() {
    // Wine does not tell a program that it ends (`TLS_CALLBACK`s hear of no DLL_PROCESS_DETACH).
    let exits: &[_] = if cfg!(windows) { &[] } else { &["exits", "exits_in_a_fiber"] };
    for role in exits.iter().chain(&["returns"]) {
        assert_eq!(Child::start(role, Stdio::null()).output(), "no end of line", "{role}");
    }
}

fn a_broken_pipe_is_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = Child::start_with("errors", Stdio::null(), writer.into());
    assert_eq!(child.stderr(), "BrokenPipe BrokenPipe panicked\n");
    child.end();
}

fn lines_stay_whole() {
    let mut child = Child::start("storm", Stdio::null());
    let mut lines = 0;
    let mut last = vec![None; 50];
    let mut end = String::new();
    while let Some(line) = child.maybe_line() {
        if let Some(acknowledged) = line.strip_prefix("acknowledged ") {
            end = acknowledged.to_owned();
            break;
        }
        let numbers: Vec<usize> =
            line.split(' ').map(|n| n.parse().expect("a whole line")).collect();
        assert_eq!(numbers.len(), 400, "a torn line");
        let (fiber, number) = (numbers[0], numbers[1]);
        assert!(numbers[2..].iter().all(|n| *n == number), "two lines in one");
        assert!(last[fiber].is_none_or(|last| last < number), "an older line after a newer one");
        last[fiber] = Some(number);
        lines += 1;
        if lines % 100 == 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    let acknowledged: usize = end.parse().unwrap();
    assert!(
        lines >= acknowledged && acknowledged > 0,
        "{lines} lines, {acknowledged} acknowledged"
    );
    child.end();
}

fn streams_go_to_a_child() {
    let mut child = Child::start("passes_on_crosswise", Stdio::null());
    assert_eq!(child.stderr(), "out\n");
    assert_eq!(child.output(), "err\n");
}

fn everybody_prints() {
    let child = Child::start("everybody", Stdio::null());
    let mut lines: Vec<_> = child.output().lines().map(str::to_owned).collect();
    lines.sort();
    let who = ["fiber of one", "fiber of two", "thread"];
    let mut expected: Vec<_> =
        who.iter().flat_map(|who| (0..500).map(move |n| format!("{who} {n}"))).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

fn the_holder_may_lock_again() {
    assert_eq!(Child::start("again", Stdio::null()).output(), "outer inner\nother\n");
}

fn who_unwinds_prints() {
    let output = Child::start("unwinds", Stdio::null()).output();
    let mut lines: Vec<_> = output.lines().collect();
    assert_eq!(lines.remove(0), "first");
    lines.sort_unstable();
    assert_eq!(lines, ["cancelled", "late", "panicked"]);
}

/// A file without a name.
fn scratch() -> File {
    let path = std::env::temp_dir().join(format!("bast-stdio-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    std::fs::remove_file(&path).unwrap();
    file.unwrap()
}
