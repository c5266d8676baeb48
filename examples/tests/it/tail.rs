//! `tail`: the last lines, several files that grow, are truncated, replaced and removed; and its errors.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Receiver;

use bast_examples::tail::{Options, Output, tail};

use crate::process::{DRIVERS, PATIENCE, lines_of};

/// A directory that goes when the test does.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bast-tail-{}-{n}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Temp(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The program; killed when it is dropped.
struct Tail {
    child: Child,
    out: Receiver<String>,
    news: Receiver<String>,
}

impl Tail {
    fn start(driver: &str, args: &[&str], files: &[&Path]) -> Tail {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tail"))
            .env("BAST_DRIVER", driver)
            .args(args)
            .args(files)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = lines_of(child.stdout.take().unwrap());
        let news = lines_of(child.stderr.take().unwrap());
        Tail { child, out, news }
    }

    #[track_caller]
    fn expect(&self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.out.recv_timeout(PATIENCE).as_deref(), Ok(*line));
        }
    }

    /// Something is said about a file.
    #[track_caller]
    fn expect_news(&self, what: &str) {
        let news = self.news.recv_timeout(PATIENCE).unwrap();
        assert!(news.contains(what), "{news}");
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn last_lines(path: &Path, lines: usize) -> String {
    let out = Output::new(Vec::new(), false);
    tail(path, Options { lines, follow: false }, &out).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

#[test]
fn the_last_lines() {
    let temp = Temp::new();
    let text = "one\ntwo\n\nfour";
    let file = temp.file("f", text);
    for (lines, expected) in [(0, ""), (1, "four"), (2, "\nfour"), (3, "two\n\nfour"), (9, text)] {
        assert_eq!(last_lines(&file, lines), expected);
    }
    assert_eq!(last_lines(&temp.file("empty", ""), 3), "");
    assert_eq!(last_lines(&temp.file("ended", "a\nb\n"), 1), "b\n");
    // Over the borders of blocks.
    let many: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
    let file = temp.file("many", &many);
    for lines in [1, 6000, 49_999, 50_000] {
        let expected: String = (50_000 - lines..50_000).map(|n| format!("line {n}\n")).collect();
        assert!(last_lines(&file, lines) == expected, "{lines}");
    }
}

#[test]
fn of_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tail"))
        .args(["-n", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb\nc\nd").unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "c\nd");
    assert!(child.wait().unwrap().success());
}

#[test]
fn several_files_are_followed() {
    for driver in DRIVERS {
        let temp = Temp::new();
        let (a, b) = (temp.file("a", "1\n2\n3\n"), temp.0.join("b"));
        let mut tail = Tail::start(driver, &["-q", "-f", "-n", "2"], &[&a, &b]);
        tail.expect(&["2", "3"]);
        tail.expect_news("does not exist");
        append(&a, "4\n");
        tail.expect(&["4"]);
        append(&b, "b1\n");
        tail.expect_news("has come");
        tail.expect(&["b1"]);
        append(&a, "5\n");
        tail.expect(&["5"]);
        append(&b, "b2\n");
        tail.expect(&["b2"]);
        let kill = format!("kill -INT {}", tail.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        // Ended by itself, and not by the signal.
        assert_eq!(tail.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn headers_say_which_file_it_is() {
    let temp = Temp::new();
    let (a, b) = (temp.file("a", "1\n"), temp.file("b", ""));
    let tail = Tail::start("auto", &["-f"], &[&a, &b]);
    let header = |path: &Path| format!("==> {} <==", path.display());
    tail.expect(&[&header(&a), "1"]);
    append(&b, "2\n");
    tail.expect(&["", &header(&b), "2"]);
    append(&b, "3\n");
    tail.expect(&["3"]);
}

#[test]
fn truncation_and_rotation() {
    for driver in DRIVERS {
        let temp = Temp::new();
        let log = temp.file("log", "before, and longer than what comes\n");
        let tail = Tail::start(driver, &["-f"], &[&log]);
        tail.expect(&["before, and longer than what comes"]);
        let mut truncated = File::create(&log).unwrap();
        tail.expect_news("was truncated");
        truncated.write_all(b"after\n").unwrap();
        tail.expect(&["after"]);
        // By another name, a last line to the old file, and a new one.
        std::fs::rename(&log, temp.0.join("log.1")).unwrap();
        tail.expect_news("is gone");
        append(&log, "new\n");
        tail.expect_news("has come");
        tail.expect(&["new"]);
        // All at once.
        std::fs::rename(temp.file("other", "replaced\n"), &log).unwrap();
        tail.expect_news("was replaced");
        tail.expect(&["replaced"]);
        std::fs::remove_file(&log).unwrap();
        tail.expect_news("is gone");
    }
}

#[test]
fn errors_are_clear() {
    let temp = Temp::new();
    let missing = temp.0.join("missing");
    let mut tail = Tail::start("auto", &[], &[&missing, &temp.file("there", "text\n")]);
    tail.expect_news("missing: ");
    assert_eq!(tail.child.wait().unwrap().code(), Some(1));
    let mut tail = Tail::start("auto", &["-f"], &[&temp.0]);
    tail.expect_news("directory");
    assert_eq!(tail.child.wait().unwrap().code(), Some(1));
    let mut tail = Tail::start("auto", &["-f"], &[&missing.join("deeper")]);
    tail.expect_news("cannot be watched");
    assert_eq!(tail.child.wait().unwrap().code(), Some(1));
    // Nobody reads what it writes.
    let mut tail = Tail::start_unread(&temp.file("big", &"line\n".repeat(100_000)));
    tail.expect_news("standard output: Broken pipe");
    assert_eq!(tail.child.wait().unwrap().code(), Some(1));
}

impl Tail {
    fn start_unread(file: &Path) -> Tail {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tail"))
            .args(["-f", "-n", "1000000"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let news = lines_of(child.stderr.take().unwrap());
        Tail { child, out: std::sync::mpsc::channel().1, news }
    }
}
