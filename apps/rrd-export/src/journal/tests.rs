//! Journals that were left in every state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("rrd-journal-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn journal(&self) -> PathBuf {
        self.0.join("out.csv.journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn job(seq: u64, path: impl Into<PathBuf>) -> FileJob {
    FileJob { seq, path: path.into(), device: Arc::default() }
}

fn options() -> Options {
    [("query", "cf AVERAGE"), ("from", "yesterday"), ("resolved.from", "1000")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn plan(restart: bool) -> Plan {
    Plan {
        target: crate::output::Target::Stdout,
        shape: crate::job::Shape::default(),
        options: options(),
        resume: false,
        every: Duration::ZERO,
        sync: true,
        restart,
    }
}

fn entries(journal: &Journal) -> Vec<Entry> {
    let mut all = Vec::new();
    journal
        .entries(|entry| {
            all.push(entry);
            Ok(())
        })
        .unwrap();
    all
}

/// A journal with two checkpoints, and what it was behind each.
fn example(path: &Path) -> [Done; 3] {
    let mut journal = Journal::create(path, &plan(true)).unwrap();
    let mut done = Done::default();
    let mut states = [done; 3];
    for (turn, state) in states.iter_mut().enumerate().skip(1) {
        let failed = job(turn as u64, format!("/odd\tname\n%{turn}"));
        journal.failed(&failed, "no RRD: 100% wrong");
        journal.note(&[0, 9, 10, 255, b'%', turn as u8]);
        done.advance(&failed);
        done.failed += 1;
        done.rows += 10;
        *state = done.with_bytes(100 * turn as u64);
        journal.checkpoint(state).unwrap();
    }
    states
}

#[test]
fn a_journal_that_is_cut_anywhere_tells_the_last_state_that_is_whole() {
    let folder = Folder::new();
    let states = example(&folder.journal());
    let whole = std::fs::read(folder.journal()).unwrap();
    let mut seen = [0; 4];
    for length in 0..=whole.len() {
        std::fs::write(folder.journal(), &whole[..length]).unwrap();
        let ends = |line: &[u8]| line.starts_with(b"done\t");
        let complete = whole[..length].split_inclusive(|byte| *byte == b'\n');
        let expected = complete.filter(|line| line.ends_with(b"\n") && ends(line)).count();
        seen[expected] += 1;
        match Journal::resume(&folder.journal(), &options(), true) {
            Err(JournalError::Foreign(_)) => assert_eq!(expected, 0, "{length}"),
            found => {
                let found = found.unwrap().unwrap();
                assert_eq!(found.done, states[expected - 1], "{length}");
                assert_eq!(entries(&found.journal).len(), 2 * (expected - 1), "{length}");
                assert!(!found.complete);
            }
        }
    }
    assert!(seen[..3].iter().all(|count| *count > 10) && seen[3] == 1, "{seen:?}");
}

#[test]
fn what_was_written_is_read() {
    let folder = Folder::new();
    let states = example(&folder.journal());
    let found = Journal::resume(&folder.journal(), &options(), true).unwrap().unwrap();
    assert_eq!(found.done, states[2]);
    let failed =
        Entry::Failed { seq: 2, path: "/odd\tname\n%2".into(), why: "no RRD: 100% wrong".into() };
    let read = entries(&found.journal);
    assert_eq!(read[2..], [failed, Entry::Note(vec![0, 9, 10, 255, b'%', 2])]);
    assert_eq!(Journal::options(&folder.journal()).unwrap(), Some(options()));
    assert_eq!(Journal::options(&folder.0.join("none")).unwrap(), None);
}

#[test]
fn a_damaged_line_ends_what_is_believed() {
    let folder = Folder::new();
    let states = example(&folder.journal());
    let mut bytes = std::fs::read(folder.journal()).unwrap();
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    std::fs::write(folder.journal(), &bytes).unwrap();
    let mut found = Journal::resume(&folder.journal(), &options(), true).unwrap().unwrap();
    assert_eq!(found.done, states[1]);
    // And what is written now follows the last good line.
    found.journal.checkpoint(&states[2]).unwrap();
    found.journal.complete().unwrap();
    drop(found);
    let found = Journal::resume(&folder.journal(), &options(), true).unwrap().unwrap();
    assert_eq!((found.done, found.complete), (states[2], true));
}

#[test]
fn other_options_are_refused_by_name() {
    let folder = Folder::new();
    example(&folder.journal());
    let mut other = options();
    other[2].1 = "2000".into();
    assert!(
        Journal::resume(&folder.journal(), &other, true).is_ok(),
        "what is resolved is not compared"
    );
    other[1].1 = "today".into();
    let error = Journal::resume(&folder.journal(), &other, true).unwrap_err().to_string();
    assert!(error.contains("another from: `yesterday` then, `today` now"), "{error}");
    other.remove(1);
    let error = Journal::resume(&folder.journal(), &other, true).unwrap_err().to_string();
    assert!(error.contains("`yesterday` then, not given now"), "{error}");
    let more = [options(), vec![("cf".into(), "MAX".into())]].concat();
    let error = Journal::resume(&folder.journal(), &more, true).unwrap_err().to_string();
    assert!(error.contains("another cf: not given then, `MAX` now"), "{error}");
}

#[test]
fn one_run_has_it() {
    let folder = Folder::new();
    let first = Journal::create(&folder.journal(), &plan(true)).unwrap();
    assert!(matches!(Journal::create(&folder.journal(), &plan(true)), Err(JournalError::Busy(_))));
    assert!(matches!(
        Journal::resume(&folder.journal(), &options(), true),
        Err(JournalError::Busy(_))
    ));
    drop(first);
    assert!(Journal::resume(&folder.journal(), &options(), true).unwrap().is_some());
}

#[test]
fn what_a_run_has_left_is_not_lost_unasked() {
    let folder = Folder::new();
    drop(Journal::create(&folder.journal(), &plan(false)).unwrap());
    // Nothing had been done.
    let mut journal = Journal::create(&folder.journal(), &plan(false)).unwrap();
    let mut done = Done::default();
    done.files = 1;
    journal.checkpoint(&done).unwrap();
    drop(journal);
    let error = Journal::create(&folder.journal(), &plan(false)).unwrap_err().to_string();
    assert!(error.contains("--resume goes on with it, --restart begins afresh"), "{error}");
    drop(Journal::create(&folder.journal(), &plan(true)).unwrap());
    std::fs::write(folder.journal(), "my diary\n").unwrap();
    let error = Journal::create(&folder.journal(), &plan(true)).unwrap_err().to_string();
    assert!(error.contains("is no journal"), "{error}");
    assert_eq!(std::fs::read(folder.journal()).unwrap(), b"my diary\n");
}

#[test]
fn what_is_no_journal_is_left_alone() {
    let folder = Folder::new();
    for text in ["", "my diary\n", "rrd-export journal 1\n"] {
        std::fs::write(folder.journal(), text).unwrap();
        let error = Journal::resume(&folder.journal(), &options(), true).unwrap_err();
        assert!(matches!(error, JournalError::Foreign(_)), "{text:?}: {error}");
        assert_eq!(std::fs::read_to_string(folder.journal()).unwrap(), text);
    }
    std::fs::remove_file(folder.journal()).unwrap();
    assert!(Journal::resume(&folder.journal(), &options(), true).unwrap().is_none());
}

#[test]
fn a_list_that_has_changed_is_seen_wherever_it_has() {
    let paths = ["/a", "/b", "/c", "/d"];
    let mut done = Done::default();
    for (seq, path) in paths.iter().enumerate().take(3) {
        done.advance(&job(seq as u64, *path));
    }
    let run = |list: &[&str]| {
        let mut skip = Skip::new(done);
        let mut left = Vec::new();
        for (seq, path) in list.iter().enumerate() {
            if !skip.passes(&job(seq as u64, *path))? {
                left.push((*path).to_owned());
            }
        }
        skip.end().map(|()| left)
    };
    assert_eq!(run(&paths).unwrap(), ["/d"]);
    assert_eq!(run(&paths[..3]).unwrap(), [""; 0]);
    // What is new at the end, or gone there, is exported, or is not.
    assert_eq!(run(&["/a", "/b", "/c", "/new", "/d"]).unwrap(), ["/new", "/d"]);
    for other in [
        &["/new", "/a", "/b", "/c", "/d"][..],
        &["/b", "/c", "/d"],
        &["/a", "/c", "/b"],
        &["/a", "/b"],
        &[],
    ] {
        assert!(run(other).unwrap_err().to_string().contains("the 3 that"), "{other:?}");
    }
    assert_eq!(Skip::new(Done::default()).end(), Ok(()));
}
