//! Outputs that are broken off after any file, and continued.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use rrd_export::job::{Block, Column, Device, FileJob, Layout, Shape};
use rrd_export::journal::{JournalError, Options, Skip};
use rrd_export::output::{Opened, Output, OutputError, Plan, Target, journal_of};
use rrd_file::Fetched;

const FILES: u64 = 60;

fn shape(layout: Layout) -> Shape {
    let columns = vec![Column::Time, Column::Device("id".into()), Column::Iface];
    let metrics = if layout == Layout::Wide { vec!["in".into(), "out".into()] } else { vec![] };
    Shape { columns, layout, metrics, exact: true, header: true, ..Shape::default() }
}

fn plan(path: &Path, layout: Layout, resume: bool) -> Plan {
    let options: Options = vec![("--cf".into(), "AVERAGE".into())];
    let target = Target::File(path.to_owned());
    // Every file is a checkpoint: the state on disk is what a kill at this moment would leave.
    Plan {
        target,
        shape: shape(layout),
        options,
        resume,
        every: Duration::ZERO,
        sync: true,
        restart: true,
    }
}

fn job(seq: u64) -> FileJob {
    let device = Device { id: format!("device, \"{}\"", seq / 4), ..Device::default() };
    FileJob { seq, path: format!("/rrd/if{seq}.rrd").into(), device: Arc::new(device) }
}

/// Every seventh file fails; some have no rows.
fn fetched(seq: u64) -> Option<Fetched> {
    if seq % 7 == 3 {
        return None;
    }
    let rows = seq * 37 % 50;
    let value = |n: u64| if n.is_multiple_of(11) { f64::NAN } else { (n * (seq + 1)) as f64 / 7.0 };
    let sources = vec!["in".into(), "out".into()];
    Some(Fetched {
        start: 300 * seq as i64,
        step: 300,
        sources,
        values: (0..rows * 2).map(value).collect(),
    })
}

fn open(plan: Plan) -> (Box<Output>, Skip) {
    match Output::open(plan) {
        Ok(Opened::Open(output, skip)) => (output, skip),
        Ok(Opened::Complete(_)) => panic!("complete"),
        Err(error) => panic!("{error}"),
    }
}

/// Exports up to a file.
fn feed(output: &mut Output, skip: &mut Skip, to: u64) -> io::Result<()> {
    let format = output.format();
    for seq in 0..to {
        let job = job(seq);
        if skip.passes(&job).unwrap() {
            continue;
        }
        match fetched(seq) {
            Some(fetched) => {
                let mut bytes = Vec::new();
                let rows = format.encode(&job, &fetched, &mut bytes).unwrap();
                output.put(&job, &Block { bytes: &bytes, rows })?;
            }
            None => output.failed(&job, "no RRD")?,
        }
    }
    Ok(())
}

/// The rows, as text.
fn rows(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let name = path.to_str().unwrap();
    let mut text = String::new();
    if name.ends_with(".gz") {
        flate2::read::MultiGzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    } else if name.ends_with(".zst") {
        text = String::from_utf8(zstd::decode_all(&*bytes).unwrap()).unwrap();
    } else if name.ends_with(".parquet") {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        return reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text.lines().map(str::to_owned).collect()
}

const NAMES: [&str; 4] = ["out.csv", "out.csv.gz", "out.csv.zst", "out.parquet"];

fn whole(path: &Path, layout: Layout) -> Vec<String> {
    let (mut output, mut skip) = open(plan(path, layout, false));
    feed(&mut output, &mut skip, FILES).unwrap();
    skip.end().unwrap();
    let done = output.finish().unwrap();
    assert_eq!((done.files, done.failed), (FILES, 9));
    let rows = rows(path);
    let header = usize::from(!path.to_str().unwrap().ends_with("parquet"));
    assert_eq!(rows.len() as u64, done.rows + header as u64);
    assert!(!journal_of(path).exists());
    rows
}

#[test]
fn every_output_has_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    for layout in [Layout::Wide, Layout::Long] {
        let [csv, gzip, zstd, parquet] = NAMES.map(|name| whole(&dir.path().join(name), layout));
        assert_eq!(csv, gzip);
        assert_eq!(csv, zstd);
        assert_eq!(csv.len(), parquet.len() + 1);
        // Values are those of the text, to the digit, whatever was read.
        for (line, row) in csv[1..].iter().zip(&parquet) {
            let value = line.rsplit(',').next().unwrap();
            let value = value.parse::<f64>().map_or("null".into(), |value| format!("{value}"));
            let theirs = row.rsplit(": ").next().unwrap().trim_end_matches('}');
            let theirs = theirs.parse::<f64>().map_or("null".into(), |value| format!("{value}"));
            assert_eq!(value, theirs, "{line} {row}");
        }
    }
}

#[test]
fn what_is_broken_off_is_continued_without_a_row_lost_or_doubled() {
    let dir = tempfile::tempdir().unwrap();
    for name in NAMES {
        let layout = if name == "out.csv" { Layout::Long } else { Layout::Wide };
        let path = dir.path().join(name);
        let expected = whole(&path, layout);
        std::fs::remove_file(&path).unwrap();
        for step in [1, 7, 23] {
            // The first one finds nothing to go on with.
            for to in (step..FILES).step_by(step as usize) {
                let (mut output, mut skip) = open(plan(&path, layout, true));
                feed(&mut output, &mut skip, to).unwrap();
                if to % 2 == 0 {
                    output.checkpoint().unwrap();
                    assert_eq!(output.done().files, to);
                }
                // What a killed writer may have begun to put down.
                drop(output);
                let partial = dir.path().join(format!("{name}.partial"));
                let mut file = std::fs::OpenOptions::new().append(true).open(partial).unwrap();
                io::Write::write_all(&mut file, b"half a row of what the journal does not know")
                    .unwrap();
                assert!(!path.exists(), "not complete");
            }
            let (mut output, mut skip) = open(plan(&path, layout, true));
            feed(&mut output, &mut skip, FILES).unwrap();
            skip.end().unwrap();
            let mut failed = Vec::new();
            output
                .failures(|seq, path, why| {
                    assert_eq!((path, why), (&*job(seq).path, "no RRD"));
                    failed.push(seq);
                    Ok(())
                })
                .unwrap();
            let done = output.finish().unwrap();
            assert_eq!((done.files, done.failed), (FILES, 9));
            assert!(rows(&path) == expected, "{name} by {step}");
            assert!(
                failed.is_sorted_by(|a, b| a < b) && failed.iter().all(|seq| seq % 7 == 3),
                "{failed:?}"
            );
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_run_that_ended_just_before_its_end_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    for (name, renamed) in [("a.csv", true), ("b.parquet", false)] {
        let path = dir.path().join(name);
        let expected = whole(&path, Layout::Wide);
        let (mut output, mut skip) = open(plan(&path, Layout::Wide, false));
        feed(&mut output, &mut skip, FILES).unwrap();
        output.checkpoint().unwrap();
        drop(output);
        // What `finish` does, and is killed.
        let complete = format!("complete\t{:08x}\n", crc32fast::hash(b"complete"));
        let mut journal = std::fs::OpenOptions::new().append(true).open(journal_of(&path)).unwrap();
        io::Write::write_all(&mut journal, complete.as_bytes()).unwrap();
        drop(journal);
        let partial = dir.path().join(format!("{name}.partial"));
        match renamed {
            true => std::fs::remove_file(&partial).unwrap(),
            false => std::fs::rename(&path, &partial).unwrap(),
        }
        match Output::open(plan(&path, Layout::Wide, true)) {
            Ok(Opened::Complete(done)) => assert_eq!(done.files, FILES),
            other => panic!("{:?}", other.err()),
        }
        assert!(rows(&path) == expected && !journal_of(&path).exists() && !partial.exists());
    }
}

#[test]
fn what_cannot_be_continued_is_told_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.csv");
    let partial = dir.path().join("out.csv.partial");
    let (mut output, mut skip) = open(plan(&path, Layout::Wide, false));
    feed(&mut output, &mut skip, 10).unwrap();
    assert!(matches!(
        Output::open(plan(&path, Layout::Wide, true)),
        Err(OutputError::Journal(JournalError::Busy(_)))
    ));
    drop(output);
    let other =
        Plan { options: vec![("--cf".into(), "MAX".into())], ..plan(&path, Layout::Wide, true) };
    let error = Output::open(other).err().unwrap().to_string();
    assert!(error.contains("another --cf: `AVERAGE` then, `MAX` now"), "{error}");

    let bytes = std::fs::read(&partial).unwrap();
    std::fs::write(&partial, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(Output::open(plan(&path, Layout::Wide, true)), Err(OutputError::Gone(_))));
    std::fs::remove_file(&partial).unwrap();
    assert!(matches!(Output::open(plan(&path, Layout::Wide, true)), Err(OutputError::Gone(_))));
    assert!(!partial.exists() && journal_of(&path).exists());

    let nowhere = plan(&dir.path().join("none/out.csv"), Layout::Wide, false);
    assert!(Output::open(nowhere).err().unwrap().to_string().contains("none/out.csv.journal"));
    assert!(Output::open(plan(dir.path(), Layout::Wide, false)).is_err());
    let stdout = Plan { target: Target::Stdout, ..plan(&path, Layout::Wide, true) };
    assert!(matches!(Output::open(stdout), Err(OutputError::Stream)));
    let twice = vec!["in".to_owned(), "in".into()];
    let twice = Shape { metrics: twice, ..shape(Layout::Wide) };
    let twice = Plan { shape: twice, ..plan(&dir.path().join("x.parquet"), Layout::Wide, false) };
    assert!(Output::open(twice).err().unwrap().to_string().contains("two columns"));
}

#[test]
fn nothing_at_all_is_a_good_file_too() {
    let dir = tempfile::tempdir().unwrap();
    for name in NAMES {
        let path = dir.path().join(name);
        let plan = plan(&path, Layout::Wide, false);
        let shape = Shape { header: false, ..plan.shape };
        let (output, _) = open(Plan { shape, ..plan });
        assert_eq!(output.finish().unwrap().rows, 0);
        assert_eq!(rows(&path), [""; 0], "{name}");
    }
}

#[test]
fn a_device_is_written_and_not_replaced() {
    let (mut output, mut skip) = open(plan(Path::new("/dev/full"), Layout::Wide, false));
    let fault = feed(&mut output, &mut skip, FILES).unwrap_err();
    assert_eq!(fault.kind(), io::ErrorKind::StorageFull);
    // And nothing more is taken: what follows would follow half a row.
    let mut again = output.checkpoint().unwrap_err().to_string();
    assert!(again.contains("failed before"), "{again}");
    again = output.finish().unwrap_err().to_string();
    assert!(again.contains("failed before"), "{again}");
    assert!(!PathBuf::from("/dev/full.journal").exists());
}

#[test]
fn a_link_stays_and_its_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("real.csv"), dir.path().join("link.csv"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    whole(&link, Layout::Wide);
    assert!(link.is_symlink() && rows(&file).len() > 100);
}
