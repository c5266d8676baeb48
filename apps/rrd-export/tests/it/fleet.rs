//! A data set and the program that exports it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rrd_export::generate::{Plan, generate};

/// When the last row of every file ends.
pub(crate) const END: i64 = 1_700_000_100;

/// Longer than anything here takes, on any machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Fleet {
    pub(crate) dir: tempfile::TempDir,
}

impl Fleet {
    pub(crate) fn new(files: u64) -> Fleet {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan {
            dir: dir.path().to_owned(),
            devices: files.div_ceil(5),
            files,
            dcs: 2,
            rows: 48,
            sources: 2,
            step: 300,
            end: END,
            seed: 7,
        };
        generate(&plan, |_| {}).unwrap();
        Fleet { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, with the options that every export here has.
    pub(crate) fn command(&self, output: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
        self.options(&mut command, output, more);
        command
    }

    pub(crate) fn options(&self, command: &mut Command, output: &Path, more: &[&str]) {
        command
            .args(["--from", "end-4h", "--to", &END.to_string(), "--quiet"])
            .arg("--devices")
            .arg(self.path("devices.sqlite"))
            .arg("--base")
            .arg(self.dir.path())
            .arg("--output")
            .arg(output)
            .args(more)
            .stdin(Stdio::null());
    }

    /// Runs it to its end, which is a good one.
    pub(crate) fn export(&self, name: &str, more: &[&str]) -> Vec<u8> {
        let output = self.path(name);
        let Output { status, stderr, .. } = self.command(&output, more).output().unwrap();
        assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
        std::fs::read(output).unwrap()
    }
}

/// Looks again and again until something is so, or the process has ended.
pub(crate) fn until(child: &mut Child, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() && child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < LIMIT, "it takes for ever");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal to a process that has not been waited for.
pub(crate) fn signal(pid: u32, name: &str) {
    // It may have ended by now.
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid} 2>&1")]).output();
    assert!(sent.is_ok());
}
