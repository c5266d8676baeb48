//! What of an export is complete, on disk, so that another run can go on with it.
//!
//! Files are exported in the order of the list, so what is complete is always *the first so many*. The journal need not
//! name them; a fingerprint tells whether the list still begins with the same.
//!
//! ```text
//!   rrd-export journal 1
//!   option   columns   time,id            what was asked for; a resume with anything else is refused
//!   failed   17   /rrd/a.rrd   no RRD     a file that could not be exported, for the report
//!   note     group   %00%15…              what the output needs to be continued (Parquet's row groups)
//!   done     files  rows  failed  bytes  fingerprint
//!   …
//!   complete                              all is done but the output's last name
//! ```
//!
//! Lines end with a checksum. What comes after the last good `done` is as if it had never been written: the journal is cut
//! there, and the output at `bytes`. A `done` is written when the output is on disk up to there, and is itself on disk
//! before the next one; so a kill or a loss of power at any moment leaves one that is true.

mod error;
mod list;
mod text;

use std::fs::TryLockError;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bast::fs::{File, OpenOptions};

use crate::job::FileJob;
use crate::output::Plan;
pub use error::JournalError;
pub use list::{Changed, Done, Skip};
use text::{HEAD, Line, lines};

/// Options with names that begin so are kept for the next run, and are not compared.
pub const RESOLVED: &str = "resolved.";

/// Lines that no checkpoint follows yet are kept up to as many bytes.
const PENDING: usize = 1 << 16;

/// Names and values of what was asked for.
pub type Options = Vec<(String, String)>;

/// What a journal has to tell when it is read again.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file failed.
    Failed {
        /// Its place in the list.
        seq: u64,
        /// Where it is.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A note of the output's.
    Note(Vec<u8>),
}

/// Writes a journal.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    pending: Vec<u8>,
    /// Whether the disk is waited for.
    sync: bool,
}

/// A journal that has been read up to its last `done`.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) journal: Journal,
    pub(crate) done: Done,
    pub(crate) complete: bool,
}

/// A lock outlives its owner for a moment: in a child that has been forked and has not closed its files yet.
const LOCK_TRIES: u32 = 20;

const LOCK_PAUSE: Duration = Duration::from_millis(50);

impl Journal {
    /// Opens it for this run alone.
    fn open(path: &Path, create: bool) -> Result<File, JournalError> {
        let io = |error| JournalError::Io(path.to_owned(), error);
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(create);
        for _ in 0..LOCK_TRIES {
            let file = how.open(path).map_err(io)?;
            match file.try_lock() {
                // Whoever had it may have removed it since it was opened: then another run can make one of this name.
                Ok(()) if is_still(&file, path).map_err(io)? => return Ok(file),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => bast::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
        Err(JournalError::Busy(path.to_owned()))
    }

    /// Begins one. What was there is gone, if it was a journal that says of nothing done, or is given up by `restart`.
    pub(crate) fn create(path: &Path, plan: &Plan) -> Result<Journal, JournalError> {
        let Plan { options, sync, restart, .. } = plan;
        let file = Journal::open(path, true)?;
        if file.metadata().is_ok_and(|it| it.len() > 0) {
            let io = |error| JournalError::Io(path.to_owned(), error);
            let mut files = 0;
            let headed = lines(File::open(path).map_err(io)?, u64::MAX, |line, _| {
                if let Line::Done(done) = line {
                    files = done.files;
                }
                Ok(())
            });
            match headed.map_err(io)? {
                false => return Err(JournalError::Foreign(path.to_owned())),
                true if files > 0 && !restart => {
                    return Err(JournalError::Unfinished(path.to_owned()));
                }
                true => {}
            }
        }
        let mut journal = Journal { file, path: path.to_owned(), pending: Vec::new(), sync: *sync };
        journal.line(&[HEAD.as_bytes()]);
        for (name, value) in options {
            journal.line(&[b"option", name.as_bytes(), value.as_bytes()]);
        }
        let begun = journal.file.set_len(0).and_then(|()| journal.checkpoint(&Done::default()));
        begun.map_err(|error| JournalError::Io(path.to_owned(), error))?;
        Ok(journal)
    }

    /// Goes on with one; `None` if there is none.
    pub(crate) fn resume(
        path: &Path,
        options: &Options,
        sync: bool,
    ) -> Result<Option<Found>, JournalError> {
        let file = match Journal::open(path, false) {
            Err(JournalError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            file => file?,
        };
        let mut journal = Journal { file, path: path.to_owned(), pending: Vec::new(), sync };
        let io = |error| JournalError::Io(path.to_owned(), error);
        let mut before = Options::new();
        let (mut last, mut complete) = (None, false);
        let headed = journal.read(u64::MAX, |line, end| {
            match line {
                Line::Option(name, value) => before.push((name, value)),
                Line::Done(done) => last = Some((done, end)),
                Line::Complete => complete = true,
                Line::Entry(_) => {}
            }
            Ok(())
        });
        let (true, Some((done, end))) = (headed.map_err(io)?, last) else {
            return Err(JournalError::Foreign(path.to_owned()));
        };
        compare(&before, options)?;
        let cut = if complete {
            Ok(0)
        } else {
            journal.file.set_len(end).and_then(|()| journal.file.seek(SeekFrom::End(0)))
        };
        cut.map_err(io)?;
        Ok(Some(Found { journal, done, complete }))
    }

    /// The options of the run that left a journal, if there is one.
    ///
    /// # Errors
    /// The system's, or it is no journal.
    pub fn options(path: &Path) -> Result<Option<Options>, JournalError> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| JournalError::Io(path.to_owned(), error))?,
        };
        let mut options = Options::new();
        let headed = lines(file, u64::MAX, |line, _| {
            if let Line::Option(name, value) = line {
                options.push((name, value));
            }
            Ok(())
        });
        match headed {
            Ok(true) => Ok(Some(options)),
            Ok(false) => Err(JournalError::Foreign(path.to_owned())),
            Err(error) => Err(JournalError::Io(path.to_owned(), error)),
        }
    }

    /// Tells what was written before the last `done`, which is where the journal ends now.
    pub(crate) fn entries(&self, mut each: impl FnMut(Entry) -> io::Result<()>) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        let read = self.read(end, |line, _| match line {
            Line::Entry(entry) => each(entry),
            _ => Ok(()),
        });
        read.map(drop)
    }

    fn read(&self, end: u64, each: impl FnMut(Line, u64) -> io::Result<()>) -> io::Result<bool> {
        // Another description of the same file: it has a position of its own.
        lines(File::open(&self.path)?, end, each)
    }

    /// A file has failed. Counts from the next checkpoint on.
    pub(crate) fn failed(&mut self, job: &FileJob, why: &str) {
        let path = job.path.as_os_str().as_encoded_bytes();
        self.line(&[b"failed", job.seq.to_string().as_bytes(), path, why.as_bytes()]);
    }

    /// The output has something to remember. Counts from the next checkpoint on.
    pub(crate) fn note(&mut self, bytes: &[u8]) {
        self.line(&[b"note", bytes]);
    }

    /// Makes what is not on disk yet no burden of the memory's.
    pub(crate) fn relieve(&mut self) -> io::Result<()> {
        if self.pending.len() < PENDING { Ok(()) } else { self.flush() }
    }

    /// The output is on disk as far as this says.
    pub(crate) fn checkpoint(&mut self, done: &Done) -> io::Result<()> {
        let words = done.numbers().map(|number| number.to_string());
        let [a, b, c, d, e] = words.each_ref().map(|word| word.as_bytes());
        self.line(&[b"done", a, b, c, d, e]);
        self.flush()?;
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }

    /// The output has all, and gets its name next.
    pub(crate) fn complete(&mut self) -> io::Result<()> {
        self.line(&[b"complete"]);
        self.flush()?;
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }

    /// It has served.
    pub(crate) fn remove(self) -> io::Result<()> {
        bast::fs::remove_file(&self.path)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    fn line(&mut self, words: &[&[u8]]) {
        text::put(words, &mut self.pending);
    }
}

/// Whether a path leads to this open file.
fn is_still(file: &File, path: &Path) -> io::Result<bool> {
    let inode = |metadata: bast::fs::Metadata| (metadata.dev(), metadata.ino());
    match bast::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(inode(found?) == inode(file.metadata()?)),
    }
}

/// Whether the options are those from before.
fn compare(before: &Options, now: &Options) -> Result<(), JournalError> {
    let value = |of: &Options, name: &str| {
        of.iter().find(|option| option.0 == name).map(|option| option.1.clone())
    };
    for (name, _) in before.iter().chain(now).filter(|(name, _)| !name.starts_with(RESOLVED)) {
        let (before, now) = (value(before, name), value(now, name));
        if before != now {
            return Err(JournalError::Differs { option: name.clone(), before, now });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
