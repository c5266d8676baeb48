//! What the machine does to a run: names that are no files, too few files to open, nobody at standard error, another run.

use std::process::{Command, Output, Stdio};

use crate::fleet::{END, Fleet};

/// Through a shell that does something first.
fn after(fleet: &Fleet, first: &str, output: &str, more: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{first}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_rrd-export")]);
    fleet.options(&mut command, &fleet.path(output), more);
    command.output().unwrap()
}

#[test]
fn a_named_pipe_is_no_file_and_holds_up_nothing() {
    let fleet = Fleet::new(10);
    let pipe = fleet.path("dc01/1/pipe.rrd");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", fleet.path("dc01/1/zero.rrd")).unwrap();
    for reader in ["native", "auto"] {
        let (report, output) = (fleet.path("errors.tsv"), fleet.path("out.csv"));
        let more = ["--reader", reader, "--report", report.to_str().unwrap()];
        // What hangs must not outlive the test.
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_rrd-export")]);
        fleet.options(&mut command, &output, &more);
        assert_eq!(command.status().unwrap().code(), Some(3), "{reader}");
        let report = std::fs::read_to_string(report).unwrap();
        let lines: Vec<_> = report.lines().skip(1).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("no regular file")));
    }
}

#[test]
fn no_file_fails_because_too_many_are_open() {
    let fleet = Fleet::new(1000);
    let expected = fleet.export("whole.csv", &["--readers", "1"]);
    let more = ["--readers", "1000", "--reader", "native"];
    // Each worker has some files of its own.
    let limited = after(&fleet, "export BAST_WORKERS=2; ulimit -n 40", "out.csv", &more);
    let told = String::from_utf8_lossy(&limited.stderr);
    assert_eq!((limited.status.code(), &*told), (Some(0), ""));
    assert!(std::fs::read(fleet.path("out.csv")).unwrap() == expected);
}

#[test]
fn nobody_at_standard_error_is_no_reason_to_end() {
    let fleet = Fleet::new(20);
    let expected = fleet.export("whole.csv", &[]);
    std::fs::write(fleet.path("dc01/1/broken.rrd"), "no RRD").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
    command.args(["--from", "end-4h", "--to", &END.to_string(), "-d"]);
    command.arg(fleet.path("devices.sqlite")).arg("-b").arg(fleet.dir.path());
    command.arg("-o").arg(fleet.path("out.csv"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdin(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(std::fs::read(fleet.path("out.csv")).unwrap() == expected);
}

/// One of them has the output at a time: the others wait a little, begin when it is done, or say that it is taken.
#[test]
fn runs_for_the_same_output_do_not_meet() {
    let fleet = Fleet::new(100);
    let expected = fleet.export("whole.csv", &[]);
    let path = fleet.path("out.csv");
    for _ in 0..10 {
        let run = || fleet.command(&path, &[]).stderr(Stdio::piped()).spawn().unwrap();
        let runs: Vec<_> = (0..4).map(|_| run()).collect();
        let ended = runs.into_iter().map(|run| run.wait_with_output().unwrap());
        for Output { status, stderr, .. } in ended {
            let told = String::from_utf8_lossy(&stderr);
            assert!(status.success() || told.contains("another run is at work"), "{told}");
        }
        assert!(std::fs::read(&path).unwrap() == expected);
        assert!(!fleet.path("out.csv.partial").exists());
    }
}
