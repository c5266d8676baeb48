//! A program for `super`: several threads write to a log, which is rotated when it is long enough; a child
//! process counts the lines.

use super::std::fs::{self, File, OpenOptions, Permissions};
use super::std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use super::std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use super::std::process::{Command, Stdio};
use super::std::sync::{Arc, Mutex};
use super::std::thread;
use super::std::time::{Duration, SystemTime};
use std::path::{Path, PathBuf};

const LINES: usize = 10;
const KEPT: usize = 3;

struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    lines: usize,
}

impl Log {
    fn open(path: PathBuf) -> io::Result<Log> {
        let file = OpenOptions::new().append(true).create(true).mode(0o640).open(&path)?;
        file.set_permissions(Permissions::from_mode(0o640))?;
        file.try_lock().map_err(io::Error::other)?;
        Ok(Log { path, file: BufWriter::new(file), lines: 0 })
    }

    fn old(&self, n: usize) -> PathBuf {
        self.path.with_extension(n.to_string())
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.lines == LINES {
            self.rotate()?;
        }
        self.lines += 1;
        writeln!(self.file, "{line}")
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        if fs::exists(self.old(KEPT))? {
            fs::remove_file(self.old(KEPT))?;
        }
        for n in (1..KEPT).rev() {
            match fs::rename(self.old(n), self.old(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.old(1))?;
        *self = Log::open(self.path.clone())?;
        Ok(())
    }
}

/// What `wc -l` says of a file that it gets as its standard input.
fn count(path: &Path) -> io::Result<usize> {
    let child = Command::new("wc")
        .arg("-l")
        .stdin(File::open(path)?)
        .stdout(Stdio::piped())
        .env("LC_ALL", "C")
        .spawn()?;
    let output = child.wait_with_output()?;
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).map_err(io::Error::other)?;
    text.trim().parse().map_err(io::Error::other)
}

pub(crate) fn main(dir: &Path, out: &mut Vec<u8>) -> io::Result<()> {
    let log = Arc::new(Mutex::new(Log::open(dir.join("log"))?));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let log = Arc::clone(&log);
            // The same line from each, so that it does not matter who comes first.
            thread::spawn(move || {
                (0..18).try_for_each(|_| {
                    thread::sleep(Duration::from_micros(10));
                    log.lock().unwrap().write("something has happened")
                })
            })
        })
        .collect();
    threads.into_iter().try_for_each(|thread| thread.join().unwrap())?;
    let mut log = log.lock().unwrap();
    log.file.flush()?;
    assert!(File::open(&log.path)?.try_lock().is_err(), "the log is locked");
    for n in 0..=KEPT {
        let path = if n == 0 { log.path.clone() } else { log.old(n) };
        let metadata = fs::metadata(&path)?;
        assert!(metadata.modified()? <= SystemTime::now() + Duration::from_secs(60));
        let name = path.file_name().unwrap().display();
        writeln!(out, "{name}: {} lines, mode {:o}", count(&path)?, metadata.mode() & 0o777)?;
    }
    let mut file = File::open(log.old(1))?;
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 10)?;
    file.seek(SeekFrom::End(-9))?;
    let mut tail = String::new();
    file.read_to_string(&mut tail)?;
    file.rewind()?;
    let lines = BufReader::new(&file).lines().count();
    writeln!(out, "{:?} {tail:?} {lines}", String::from_utf8_lossy(&word))
}
