//! The pool of rrdtool's daemons: what dies, what is stuck, and names that no line can say.
//!
//! What needs rrdtool itself is ignored where it may be missing; what a program in its place shows is not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rrd_export::reader::native::Native;
use rrd_export::reader::rrdtool::{Options, Rrdtool};
use rrd_export::reader::{ReadError, Reader};
use rrd_file::{Cf, Query};

use crate::fleet::{END, Fleet, signal};

fn query() -> Query {
    Query::new(Cf::Average, END - 4 * 3600, END)
}

fn reader(program: impl Into<PathBuf>, timeout: Duration) -> Rrdtool {
    Rrdtool::new(Options { program: program.into(), daemons: 2, timeout })
}

const LONG: Duration = Duration::from_secs(60);

/// A program in the place of rrdtool.
fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("rrdtool");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Answers as rrdtool does: `row` has the value that follows from the command.
const ANSWER: &str = "printf '  in\\n\\n300: 1.5000000000e+00\\nOK u:0.00 s:0.00 r:0.00\\n'";

fn fetch(reader: &Rrdtool, path: &str) -> Result<Vec<f64>, ReadError> {
    reader.fetch(Path::new(path), &query()).map(|fetched| fetched.values)
}

/// Many fibers fetch many files.
fn fetch_many(reader: Rrdtool, count: usize) -> Vec<Result<Vec<f64>, ReadError>> {
    let reader = std::sync::Arc::new(reader);
    let fibers: Vec<_> = (0..count)
        .map(|n| {
            let reader = std::sync::Arc::clone(&reader);
            bast::spawn(move || fetch(&reader, &format!("/file{n}.rrd")))
        })
        .collect();
    fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
}

#[test]
fn daemons_that_end_are_replaced_and_their_files_read() {
    let dir = tempfile::tempdir().unwrap();
    // Four times, so that no file can be unlucky too often.
    let text = format!(
        "cd {:?}; n=0; while read -r line; do n=$((n + 1)); \
         [ $n = 3 ] && for i in 1 2 3 4; do mkdir $i 2>/dev/null && exit 7; done; {ANSWER}; done",
        dir.path()
    );
    let reader = reader(script(dir.path(), &text), LONG);
    for fetched in fetch_many(reader, 40) {
        assert_eq!(fetched.unwrap(), [1.5]);
    }
    assert!(dir.path().join("4").exists());
}

#[test]
fn a_file_that_kills_every_daemon_is_told_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "while read -r line; do case $line in *file13.rrd*) echo 'bad luck' >&2; kill -SEGV $$;; *) {ANSWER};; esac; done"
    );
    let reader = reader(script(dir.path(), &text), LONG);
    for (n, fetched) in fetch_many(reader, 40).into_iter().enumerate() {
        match (n, fetched) {
            (13, Err(ReadError::Rrdtool(text))) => {
                assert!(
                    text.contains("signal: 11")
                        && text.contains("bad luck")
                        && text.contains("5 times"),
                    "{text}"
                );
            }
            (13, other) => panic!("{other:?}"),
            (_, fetched) => assert_eq!(fetched.unwrap(), [1.5]),
        }
    }
}

#[test]
fn a_stuck_daemon_is_killed_and_its_file_told() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "while read -r line; do case $line in *stuck*) printf '  in\\n\\n3'; exec sleep 1000;; *) {ANSWER};; esac; done"
    );
    let reader = reader(script(dir.path(), &text), Duration::from_millis(200));
    bast::spawn(move || {
        let error = fetch(&reader, "/stuck.rrd").unwrap_err().to_string();
        assert!(
            error.contains("has not answered for 0.2 s") && error.contains("5 times"),
            "{error}"
        );
        assert_eq!(reader.replaced(), 5);
    })
    .join()
    .unwrap();
}

#[test]
fn an_answer_that_is_none_is_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let text = "while read -r line; do echo 'in'; echo; echo '300: 1 2'; echo 'OK u:0'; done";
    let error = fetch(&reader(script(dir.path(), text), LONG), "/x.rrd").unwrap_err().to_string();
    assert!(error.contains("something odd") && error.contains("300: 1 2"), "{error}");
}

#[test]
fn a_cancelled_fetch_leaves_the_others_their_replies() {
    let dir = tempfile::tempdir().unwrap();
    // One that is slow enough to be cancelled in the middle of a reply, and answers with what it was asked for.
    let text = "while read -r a file b; do file=${file#*file}; printf '  in\\n\\n300: '; sleep 0.01; \
                printf '%s.0\\nOK u:0\\n' \"${file%.rrd*}\"; done";
    let reader = std::sync::Arc::new(reader(script(dir.path(), text), LONG));
    let fibers: Vec<_> = (0..60)
        .map(|n| {
            let reader = std::sync::Arc::clone(&reader);
            bast::spawn(move || fetch(&reader, &format!("/file{n}.rrd")))
        })
        .collect();
    for (n, fiber) in fibers.into_iter().enumerate() {
        if n % 5 == 1 {
            bast::sleep(Duration::from_millis(3));
            fiber.cancel();
        }
        if let Ok(fetched) = fiber.join() {
            assert_eq!(fetched.unwrap(), [n as f64]);
        } else {
            assert_eq!(n % 5, 1, "only those are cancelled");
        }
    }
}

#[test]
fn without_rrdtool_nothing_can_be_read_and_it_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("rrdtool");
    match fetch(&reader(&missing, LONG), "/x.rrd") {
        Err(ReadError::Fatal(text)) => assert!(text.contains("apt-get install rrdtool"), "{text}"),
        other => panic!("{other:?}"),
    }
    match fetch(&reader(&missing, LONG), "/two\nlines.rrd") {
        Err(ReadError::Fatal(_)) => {}
        other => panic!("{other:?}"),
    }
    // One that never works is given up for all files.
    let broken = script(dir.path(), "echo 'librrd.so.8: not found' >&2; exit 127");
    let errors: Vec<_> =
        fetch_many(reader(broken, LONG), 40).into_iter().map(Result::unwrap_err).collect();
    let fatal =
        errors.iter().find(|error| matches!(error, ReadError::Fatal(_))).unwrap().to_string();
    assert!(fatal.contains("again and again") && fatal.contains("librrd.so.8"), "{fatal}");
}

/// It is no use to go on, but what has been read is kept for the run that does.
#[test]
fn rrdtool_that_is_gone_costs_no_file_that_was_read() {
    let fleet = Fleet::new(60);
    let asked = fleet.path("asked");
    // Answers as many as it is told to, and then takes itself away.
    let answers = |count: u32| {
        let asked = asked.display();
        let answer = format!("echo x >>{asked}; {ANSWER}");
        let text = format!(
            "n=0; while read -r line; do n=$((n+1)); [ $n -gt {count} ] && rm $0 && exit; {answer}; done"
        );
        script(fleet.dir.path(), &text)
    };
    let rrdtool = answers(u32::MAX).display().to_string();
    let one = ["--daemons", "1", "--readers", "1", "--checkpoint", "1h", "--reader", "rrdtool"];
    let all = [&one[..], &["--rrdtool", &rrdtool]].concat();
    let expected = fleet.export("whole.csv", &all);

    let path = fleet.path("out.csv");
    answers(21);
    let Output { status, stderr, .. } = fleet.command(&path, &all).output().unwrap();
    let told = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("is not installed") && !path.exists(), "{told}");
    std::fs::remove_file(&asked).unwrap();
    answers(u32::MAX);
    let resumed = fleet.export("out.csv", &[&all[..], &["--resume"]].concat());
    assert_eq!(String::from_utf8_lossy(&resumed), String::from_utf8_lossy(&expected));
    // The first answer of the 21 was for the columns.
    assert_eq!(std::fs::read_to_string(&asked).unwrap().lines().count(), 40);
}

#[test]
#[ignore = "needs rrdtool: cargo xtask rrd"]
fn whatever_a_file_is_called_it_is_read() {
    let fleet = Fleet::new(1);
    let source = std::fs::read(fleet.path("dc01/1/eth0.rrd")).or_else(|_| {
        let found = walk(fleet.dir.path());
        std::fs::read(&found[0])
    });
    let source = source.unwrap();
    let native = |path: &Path| Native.fetch(path, &query()).unwrap();
    let reader = reader("rrdtool", LONG);
    let names: [&[u8]; 10] = [
        b"plain.rrd",
        b"with space.rrd",
        b"it's.rrd",
        b"say \"hi\".rrd",
        b"'\"'.rrd",
        b"two\nlines.rrd",
        b"-s.rrd",
        b"\xff\xfe.rrd",
        "gr\u{fc}n \u{1f389}.rrd".as_bytes(),
        b" $HOME `id` \\ .rrd",
    ];
    for name in names {
        let path = fleet.path("").join(OsStr::from_bytes(name));
        std::fs::write(&path, &source).unwrap();
        let ours = native(&path);
        let theirs =
            reader.fetch(&path, &query()).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert_eq!(
            (ours.start, ours.step, &ours.sources),
            (theirs.start, theirs.step, &theirs.sources)
        );
        assert_eq!(ours.len(), theirs.len());
        std::fs::remove_file(&path).unwrap();
        let error = reader.fetch(&path, &query()).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else if path.extension().is_some_and(|extension| extension == "rrd") {
            found.push(path);
        }
    }
    found
}

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    all
}

#[test]
#[ignore = "needs rrdtool: cargo xtask rrd"]
fn daemons_that_are_killed_lose_no_row() {
    let fleet = Fleet::new(1500);
    let expected = fleet.export("native.csv", &["--reader", "native"]);
    let (mut killed, mut stopped) = (0, 0);
    for (turn, name) in ["one.csv", "half.csv", "stuck.csv"].into_iter().enumerate() {
        let more = ["--reader", "rrdtool", "--daemons", "4", "--rrdtool-timeout", "1"];
        let path = fleet.path(name);
        let mut child = fleet.command(&path, &more).stderr(Stdio::piped()).spawn().unwrap();
        let begun = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < crate::fleet::LIMIT);
            let daemons = children(child.id());
            // As long as no file loses three daemons none may be reported.
            let (victims, how) = [(1, "KILL"), (2, "KILL"), (1, "STOP")][turn];
            if killed + stopped < 20 * (turn + 1) {
                for pid in daemons.iter().take(victims) {
                    signal(*pid, how);
                    *(if how == "KILL" { &mut killed } else { &mut stopped }) += 1;
                }
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(std::fs::read(path).unwrap() == expected, "{name}");
    }
    assert!(killed > 0 && stopped > 0, "{killed} killed, {stopped} stopped");
}
