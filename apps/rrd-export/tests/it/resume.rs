//! Runs of the program that end before their time, and those that go on with them.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::fleet::{Fleet, signal, until};

/// Enough that a checkpoint after every file takes a while.
const FILES: u64 = 300;

const OFTEN: [&str; 3] = ["--resume", "--checkpoint", "0"];

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn decoded(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().unwrap() == "zst" { zstd::decode_all(&*bytes).unwrap() } else { bytes }
}

/// Ends runs by a signal, each further than the one before, until one is through.
fn interrupted(name: &str, number: &str) {
    let fleet = Fleet::new(FILES);
    let expected = fleet.export("whole.csv", &[]);
    let path = fleet.path(name);
    let journal = fleet.path(&format!("{name}.journal"));
    let (mut target, mut broken_off) = (0, 0);
    loop {
        let mut child = fleet.command(&path, &OFTEN).stderr(Stdio::null()).spawn().unwrap();
        target = length(&journal).max(target) + 2000;
        until(&mut child, || length(&journal) > target);
        signal(child.id(), number);
        let status = child.wait().unwrap();
        if status.success() {
            break;
        }
        let as_told =
            if number == "KILL" { status.signal() == Some(9) } else { status.code() == Some(130) };
        assert!(as_told, "{status}");
        // It has its name only when it is complete; a kill may come between that and the end.
        match path.exists() {
            true => assert!(number == "KILL" && decoded(&path) == expected),
            false => assert!(journal.exists()),
        }
        broken_off += 1;
        assert!(broken_off < 1000, "it gets no further");
    }
    assert!(decoded(&path) == expected, "after {broken_off} interruptions");
    assert!(!journal.exists() && !fleet.path(&format!("{name}.partial")).exists());
}

#[test]
fn a_killed_export_is_continued() {
    interrupted("out.csv", "KILL");
}

#[test]
fn a_killed_export_is_continued_where_it_is_compressed() {
    interrupted("out.csv.zst", "KILL");
}

#[test]
fn ctrl_c_leaves_what_can_be_continued() {
    interrupted("out.csv", "INT");
}

/// The program with a limit for files, in blocks of 512 bytes: a disk that gets full, for those who are not root.
fn limited(fleet: &Fleet, path: &Path, blocks: u32, more: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f $1; shift; exec \"$@\"";
    command.args(["-c", script, "sh", &blocks.to_string(), env!("CARGO_BIN_EXE_rrd-export")]);
    fleet.options(&mut command, path, more);
    command.output().unwrap()
}

/// A run that ended in the middle.
fn half(fleet: &Fleet) {
    let path = fleet.path("out.csv");
    let broken_off = limited(fleet, &path, 400, &OFTEN);
    assert_eq!(broken_off.status.code(), Some(1));
    assert!(length(&fleet.path("out.csv.journal")) > 1000);
}

#[test]
fn other_devices_are_told_and_new_ones_at_the_end_are_exported() {
    let fleet = Fleet::new(FILES);
    let path = fleet.path("out.csv");
    let expected = fleet.export("whole.csv", &[]);
    half(&fleet);
    // The first device gets a file: the list begins in another way.
    let first =
        String::from_utf8(expected.split(|byte| *byte == b'\n').nth(1).unwrap().to_vec()).unwrap();
    let words: Vec<&str> = first.split(',').collect();
    let (dc, id) = (words[1], words[2]);
    let old = fleet.path(&format!("{dc}/{id}/{}.rrd", words[3]));
    let new = fleet.path(&format!("{dc}/{id}/aaa.rrd"));
    std::fs::copy(&old, &new).unwrap();
    let refused = fleet.command(&path, &OFTEN).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && text.contains("does not begin any more with the"),
        "{text}"
    );
    assert!(!path.exists());
    std::fs::remove_file(&new).unwrap();

    // A file of the last device comes after all that was done.
    let last = expected.split(|byte| *byte == b'\n').rev().nth(1).unwrap();
    let last = String::from_utf8(last.to_vec()).unwrap();
    let words: Vec<&str> = last.split(',').collect();
    let folder = format!("{}/{}", words[1], words[2]);
    std::fs::copy(
        fleet.path(&format!("{folder}/{}.rrd", words[3])),
        fleet.path(&format!("{folder}/zzz.rrd")),
    )
    .unwrap();
    let all = fleet.export("out.csv", &OFTEN);
    assert!(all.starts_with(&expected));
    let more = String::from_utf8(all[expected.len()..].to_vec()).unwrap();
    let copied = format!(",{},{},{},", words[1], words[2], words[3]);
    let expected = String::from_utf8(expected).unwrap();
    let copied = expected.lines().filter(|line| line.contains(&copied));
    assert_eq!(more.lines().count(), copied.count());
    assert!(more.lines().all(|line| line.contains(",zzz,")));
}

#[test]
fn another_question_is_refused() {
    let fleet = Fleet::new(FILES);
    half(&fleet);
    let other = [&OFTEN[..], &["--cf", "MAX"]].concat();
    let refused = fleet.command(&fleet.path("out.csv"), &other).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && text.contains("another --cf"), "{text}");
    // The right one still goes on.
    assert!(fleet.export("out.csv", &OFTEN) == fleet.export("whole.csv", &[]));
}

#[test]
fn a_full_disk_is_told_and_the_export_goes_on_when_there_is_room() {
    let fleet = Fleet::new(FILES);
    let expected = fleet.export("whole.csv", &[]);
    for name in ["out.csv", "out.csv.gz"] {
        let path = fleet.path(name);
        let full = limited(&fleet, &path, if name == "out.csv" { 400 } else { 100 }, &[]);
        let text = String::from_utf8_lossy(&full.stderr);
        assert!(
            full.status.code() == Some(1) && text.contains("too large"),
            "{}: {text}",
            full.status
        );
        assert!(!path.exists());
        let all = fleet.export(name, &["--resume"]);
        if name == "out.csv" {
            assert!(all == expected);
        } else {
            let mut text = Vec::new();
            flate2::read::MultiGzDecoder::new(&*all).read_to_end(&mut text).unwrap();
            assert!(text == expected);
        }
    }
    let full = fleet.command(Path::new("/dev/full"), &[]).output().unwrap();
    let text = String::from_utf8_lossy(&full.stderr);
    assert!(full.status.code() == Some(1) && text.contains("No space left"), "{text}");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let fleet = Fleet::new(FILES);
    let mut child = fleet
        .command(Path::new("-"), &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    drop(stdout);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*text), (Some(141), ""));
}
