//! The job from its beginning to its end: what users give, what they get, and how they are told.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::fleet::{END, Fleet};

/// When the first row of every file begins.
const BEGIN: i64 = END - 48 * 300;

/// Runs the program on a fleet: exit status, standard error.
fn run(fleet: &Fleet, output: &str, more: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = loudly(fleet, output, more).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

/// Not `--quiet`, with which the harness begins.
fn loudly(fleet: &Fleet, output: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
    command
        .args(["--from", &BEGIN.to_string(), "--to", &(END - 1).to_string()])
        .arg("--devices")
        .arg(fleet.path("devices.sqlite"))
        .arg("--base")
        .arg(fleet.dir.path())
        .arg("--output")
        .arg(if output == "-" { output.into() } else { fleet.path(output) })
        .args(more)
        .stdin(Stdio::null());
    command
}

fn read(fleet: &Fleet, name: &str) -> String {
    fs::read_to_string(fleet.path(name)).unwrap()
}

#[test]
fn every_file_is_there_in_order_and_the_same_each_time() {
    let fleet = Fleet::new(20);
    let (status, told) = run(&fleet, "a.csv", &[]);
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("20 files, 960 rows"), "{told}");
    let text = read(&fleet, "a.csv");
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), "time,dc,id,iface,traffic_in,traffic_out");
    // 48 lines of a file, then those of the next; devices by data centre.
    let heads: Vec<String> =
        lines.map(|line| line.split(',').skip(1).take(3).collect::<Vec<_>>().join(",")).collect();
    let mut files = heads.clone();
    files.dedup();
    assert_eq!((heads.len(), files.len()), (960, 20));
    assert_eq!(files[..2], ["dc01,1,eth0", "dc01,1,eth1"]);
    for readers in ["1", "3", "100"] {
        assert_eq!(run(&fleet, "b.csv", &["--readers", readers, "--reader", "native"]).0, 0);
        assert_eq!(read(&fleet, "b.csv"), text);
    }
}

#[test]
fn rows_and_columns_can_be_chosen() {
    let fleet = Fleet::new(20);
    fs::write(fleet.path("names.tsv"), "traffic_in\tInbound, all\neth1/traffic_out\tup\n").unwrap();
    let names = fleet.path("names.tsv");
    let names = names.to_str().unwrap();
    let head = |more: &[&str]| {
        let (status, told) = run(&fleet, "x.csv", more);
        assert_eq!(status, 0, "{told}");
        let text = read(&fleet, "x.csv");
        (text.lines().next().unwrap().to_owned(), text.lines().count() - 1)
    };
    let (header, rows) =
        head(&["--names", names, "--ifaces", "eth1,xe-*", "--columns", "name,time"]);
    assert_eq!((&*header, rows), ("name,time,\"Inbound, all\",traffic_out", 4 * 48));
    let (header, rows) = head(&["--metrics", "traffic_out", "--resolution", "1h"]);
    assert_eq!((&*header, rows), ("time,dc,id,iface,traffic_out", 20 * 48));
    let (header, rows) = head(&["--layout", "long", "--names", names]);
    assert_eq!((&*header, rows), ("time,dc,id,iface,metric,value", 20 * 48 * 2));
    assert!(read(&fleet, "x.csv").contains(",eth1,up,"));
    let (header, rows) =
        head(&["--no-header", "--query", "SELECT id, dc FROM devices WHERE id = 2"]);
    assert!(header.contains(",dc02,2,eth0,"), "{header}");
    assert_eq!(rows + 1, 5 * 48);
}

#[test]
fn files_that_fail_are_reported_and_the_others_are_there() {
    let fleet = Fleet::new(20);
    let at = |name: &str| fleet.path("dc01/1").join(name);
    let whole = fs::read(at("eth0.rrd")).unwrap();
    fs::write(at("eth1.rrd"), &whole[..whole.len() - 8]).unwrap();
    fs::write(at("eth2.rrd"), "").unwrap();
    fs::write(at("eth3.rrd"), &whole[1..]).unwrap();
    // One that vanishes between the list and the read, to all appearances.
    fs::remove_file(at("eth4.rrd")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("eth4.rrd")).unwrap();
    fs::create_dir(at("eth5.rrd")).unwrap();
    // A name that is none, and one that is no text; both are files like any other.
    let odd = fleet.path("dc01/1").join(std::ffi::OsStr::from_bytes(b"it's \"a\"\n\xff.rrd"));
    fs::write(&odd, &whole).unwrap();
    // Longer than it has to be, as one that grows.
    fs::write(at("grown.rrd"), [&whole[..], &[0; 100]].concat()).unwrap();
    let report = fleet.path("errors.tsv");
    let (status, told) = run(&fleet, "x.csv", &["--report", report.to_str().unwrap()]);
    assert_eq!(status, 3, "{told}");
    assert!(told.contains("18 files, 864 rows") && told.contains("5 failed"), "{told}");
    let report = read(&fleet, "errors.tsv");
    let lines: Vec<_> = report.lines().collect();
    assert_eq!(lines.len(), 6, "{report}");
    for (line, file, why) in [
        (1, "eth1.rrd\t1\t", "truncated"),
        (2, "eth2.rrd\t1\t", "truncated"),
        (3, "eth3.rrd\t1\t", "not an RRD file"),
        (4, "eth4.rrd\t1\t", "No such file"),
        (5, "eth5.rrd\t1\t", "directory"),
    ] {
        assert!(lines[line].contains(file) && lines[line].contains(why), "{}", lines[line]);
    }
    let output = fs::read(fleet.path("x.csv")).unwrap();
    let count = |wanted: &[u8]| output.windows(wanted.len()).filter(|seen| *seen == wanted).count();
    assert_eq!(count(b",1,\"it's \"\"a\"\"\n\xff\","), 48);
    assert_eq!(count(b",1,grown,"), 48);
}

#[test]
fn a_file_that_may_not_be_read_is_reported() {
    let fleet = Fleet::new(10);
    let locked = fleet.path("dc01/1/eth0.rrd");
    fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    if fs::File::open(&locked).is_ok() {
        // Root may read everything; so somebody else looks.
        let all = Command::new("chmod").args(["-R", "o+rX"]).arg(fleet.dir.path()).status();
        assert!(all.unwrap().success());
        fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        let mut nobody = loudly(&fleet, "-", &[]);
        std::os::unix::process::CommandExt::uid(&mut nobody, 65534);
        let Ok(Output { status, stderr, stdout }) = nobody.output() else {
            println!("skipped: nobody may not run {}", env!("CARGO_BIN_EXE_rrd-export"));
            return;
        };
        let told = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(3), "{told}");
        assert!(told.contains("dc01/1/eth0.rrd: Permission denied"), "{told}");
        assert_eq!(stdout.split(|byte| *byte == b'\n').count(), 9 * 48 + 2);
        return;
    }
    let (status, told) = run(&fleet, "x.csv", &[]);
    assert_eq!(status, 3, "{told}");
    assert!(told.contains("Permission denied"), "{told}");
}

#[test]
fn other_sources_than_the_columns_are_an_error_of_that_file() {
    let fleet = Fleet::new(10);
    let plan = rrd_export::generate::Plan {
        dir: fleet.path("other"),
        devices: 1,
        files: 1,
        dcs: 1,
        rows: 48,
        sources: 3,
        step: 300,
        end: END,
        seed: 1,
    };
    rrd_export::generate::generate(&plan, |_| {}).unwrap();
    fs::copy(fleet.path("other/dc01/1/eth0.rrd"), fleet.path("dc01/1/eth9.rrd")).unwrap();
    let (status, told) = run(&fleet, "x.csv", &[]);
    assert_eq!(status, 3, "{told}");
    assert!(told.contains("errors_in") && told.contains("1 failed"), "{told}");
    assert_eq!(run(&fleet, "x.csv", &["--metrics", "traffic_in,traffic_out"]).0, 0);
    assert_eq!(run(&fleet, "x.csv", &["--layout", "long"]).0, 0);
    // There a file may lack some of what is wanted, but not all: somebody has mistyped a name.
    let long = |metrics| run(&fleet, "x.csv", &["--layout", "long", "--metrics", metrics]);
    assert_eq!(long("traffic_in,errors_in").0, 0);
    let (status, told) = long("traffic");
    assert_eq!(status, 3, "{told}");
    assert!(told.contains("none of the sources traffic (it has traffic_in"), "{told}");
}

#[test]
fn what_makes_no_sense_is_told_before_anything_is_written() {
    let fleet = Fleet::new(5);
    fs::write(fleet.path("bad.tsv"), "host\tdc\na\tb\n").unwrap();
    fs::write(fleet.path("none.tsv"), "id\tdc\n").unwrap();
    fs::write(fleet.path("bad.sqlite"), "no database").unwrap();
    let at = |name: &str| fleet.path(name).to_str().unwrap().to_owned();
    let (bad, none, broken, gone) = (at("bad.tsv"), at("none.tsv"), at("bad.sqlite"), at("gone"));
    let (database, report) = (at("devices.sqlite"), at("r.tsv"));
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--from", "now", "--to", "yesterday"], 2, "is after --to"),
        (&["--output", &database], 2, "--output and --devices are the same file"),
        (&["--report", &database], 2, "--report and --devices are the same file"),
        (&["--output", &report, "--report", &report], 2, "--output and --report are"),
        (&["--from", "soon"], 2, "is no moment"),
        (&["--pattern", "{base}/{"], 2, "a { without its }"),
        (&["--columns", "time,rack"], 2, "\"rack\" is none of time, iface, path, id, name, dc"),
        (&["--cf", "MEDIAN"], 2, "MEDIAN"),
        (&["--ifaces", "[a"], 2, "ifaces: "),
        (&["--pattern", "{base}/{rack}/*"], 1, "needs a column \"rack\""),
        (&["--pattern", "{base}/nowhere/{id}"], 4, "none of 1 devices has a file"),
        (&["--ifaces", "xe*"], 4, "nothing to export"),
        (&["--devices", &none], 4, "has no devices"),
        (&["--devices", &bad], 1, "no column is called id, only: host, dc"),
        (&["--devices", &broken], 1, "not a database"),
        (&["--devices", &gone], 1, "No such file"),
        (&["--query", "SELECT id FROM hosts"], 1, "no such table: hosts"),
        (&["--query", "SELECT name FROM devices"], 1, "no column is called id"),
        (&["--query", "DELETE FROM devices"], 1, "would change the database"),
        (&["--names", &gone], 1, "No such file"),
        (&["--report", "/nowhere/x.tsv"], 1, "/nowhere/x.tsv"),
        (&["--reader", "rrdtool", "--rrdtool", "/nowhere/rrdtool"], 1, "rrdtool"),
        (&["--from", "0", "--to", "1000"], 1, "1980"),
        (&["--output", "x.csv.bz2"], 2, ".bz2 cannot be written; .csv, .csv.gz, .csv.zst and"),
        (&["--output", "/nowhere/x.csv"], 1, "/nowhere/x.csv"),
        (&["--output", "/dev/full"], 1, "No space left"),
        (&["--output", "-", "--resume"], 1, "--output"),
        #[cfg(feature = "servers")]
        (&["--devices", "mysql://me:secret@127.0.0.1:1/db"], 1, "mysql://me:***@127.0.0.1:1/db"),
        #[cfg(feature = "servers")]
        (&["--devices", "postgres://me@127.0.0.1:1/db"], 1, "does the server run?"),
    ];
    for (options, status, text) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
        // An option can be given once.
        for (option, value) in [
            ("--devices", at("devices.sqlite")),
            ("--base", at("")),
            ("--output", at("x.csv")),
            ("--from", "end-4h".into()),
            ("--to", (END - 1).to_string()),
        ] {
            if !options.contains(&option) {
                command.arg(option).arg(value);
            }
        }
        let output = command.args(*options).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(*status), "{options:?}: {told}");
        assert!(told.contains(text), "{options:?}: {told}");
        assert!(!told.contains("panicked") && !told.contains("secret"), "{options:?}: {told}");
        assert!(!fleet.path("x.csv").exists(), "{options:?}");
    }
}

#[test]
fn an_output_pipe_that_is_closed_ends_it_quietly() {
    let fleet = Fleet::new(200);
    let mut child =
        loudly(&fleet, "-", &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn devices_from_standard_input_rows_to_standard_output() {
    let fleet = Fleet::new(10);
    let table = fleet.path("d");
    fs::write(&table, "id\tdc\n2\tdc02\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
    command.args(["--devices", "-", "-o", "-", "--quiet", "--from", &BEGIN.to_string()]);
    command.args(["--to", &(END - 1).to_string(), "--base"]).arg(fleet.dir.path());
    let output = command.stdin(fs::File::open(&table).unwrap()).output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').count(), 5 * 48 + 2);
}

#[test]
fn the_same_seed_is_the_same_data_set() {
    let (one, two) = (Fleet::new(10), Fleet::new(10));
    let read = |fleet: &Fleet, name: &str| fs::read(fleet.path(name)).unwrap();
    assert_eq!(read(&one, "dc02/2/eth4.rrd"), read(&two, "dc02/2/eth4.rrd"));
    assert_ne!(read(&one, "dc02/2/eth4.rrd"), read(&one, "dc02/2/eth3.rrd"));
}

#[test]
fn generate_says_how_to_export_and_the_man_page_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = dir.path().join("fleet");
    let program = || Command::new(env!("CARGO_BIN_EXE_rrd-export"));
    let made =
        program().arg("generate").arg(&fleet).args(["--devices", "3", "--files", "7"]).output();
    let told = String::from_utf8(made.unwrap().stderr).unwrap();
    let line = told.lines().find(|line| line.contains("--base")).expect(&told);
    let exported =
        program().args(line.split_whitespace().skip(1)).args(["-o", "-"]).output().unwrap();
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    assert_eq!(exported.stdout.split(|byte| *byte == b'\n').count(), 7 * 288 + 2);
    let page = program().arg("man").output().unwrap().stdout;
    assert!(page.starts_with(b".ie") || page.starts_with(b".TH"));
    let wrong = program().arg("generate").arg(Path::new("/dev/null/x")).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
}

#[test]
fn generate_replaces_its_own_devices_and_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let generate = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
        command.arg("generate").arg(dir.path()).args(["--devices", "1", "--files", "1"]);
        command.output().unwrap()
    };
    assert!(generate().status.success());
    assert!(generate().status.success());
    let devices = dir.path().join("devices.sqlite");
    fs::remove_file(&devices).unwrap();
    for others in [&b"no database"[..], b""] {
        fs::write(&devices, others).unwrap();
        let Output { status, stderr, .. } = generate();
        let told = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{told}");
        assert!(told.contains("was not made by `generate`"), "{told}");
        assert_eq!(fs::read(&devices).unwrap(), others);
    }
}
