//! Directories: reading and making them.
//!
//! std's iterator asks the kernel now and then, so it is moved on by a job on the pool, for many entries
//! at once: one trip to the pool for every [`BATCH`].

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};

use bast_rt::run_blocking;

const BATCH: usize = 256;

/// Same as [`std::fs::read_dir`].
///
/// # Errors
/// As std's.
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let mut dir = ReadDir { rest: None, ahead: VecDeque::new() };
    dir.rest = Some(run_blocking(|| std::fs::read_dir(path))?);
    Ok(dir)
}

/// Same as [`std::fs::ReadDir`].
///
/// # Cancellation
/// `next` is a suspension point once in 256 entries.
pub struct ReadDir {
    rest: Option<std::fs::ReadDir>,
    ahead: VecDeque<io::Result<DirEntry>>,
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        if self.ahead.is_empty()
            && let Some(rest) = &mut self.rest
        {
            let ahead = &mut self.ahead;
            run_blocking(|| {
                ahead.extend(rest.by_ref().take(BATCH).map(|entry| entry.map(DirEntry::new)));
            });
            if self.ahead.len() < BATCH {
                self.rest = None;
            }
        }
        self.ahead.pop_front()
    }
}

// As std's. (An entry's error may hold anything, but a panic leaves none half made.)
impl UnwindSafe for ReadDir {}
impl RefUnwindSafe for ReadDir {}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&self.rest).finish()
    }
}

/// Same as [`std::fs::DirEntry`].
pub struct DirEntry {
    pub(crate) std: std::fs::DirEntry,
    /// Most file systems tell it with the name; asked for where it may have to be looked up.
    kind: Option<FileType>,
}

impl DirEntry {
    /// To be called on the pool.
    fn new(std: std::fs::DirEntry) -> DirEntry {
        let kind = std.file_type().ok();
        DirEntry { std, kind }
    }

    /// Same as [`std::fs::DirEntry::path`].
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Same as [`std::fs::DirEntry::file_name`].
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// Same as [`std::fs::DirEntry::metadata`].
    ///
    /// # Errors
    /// As std's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        run_blocking(|| self.std.metadata())
    }

    /// Same as [`std::fs::DirEntry::file_type`].
    ///
    /// # Errors
    /// As std's.
    pub fn file_type(&self) -> io::Result<FileType> {
        self.kind.map_or_else(|| run_blocking(|| self.std.file_type()), Ok)
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}

/// Same as [`std::fs::DirBuilder`].
#[derive(Debug)]
pub struct DirBuilder {
    pub(crate) std: std::fs::DirBuilder,
}

impl DirBuilder {
    /// Same as [`std::fs::DirBuilder::new`].
    #[must_use]
    pub fn new() -> DirBuilder {
        DirBuilder { std: std::fs::DirBuilder::new() }
    }

    /// Same as [`std::fs::DirBuilder::recursive`].
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.std.recursive(recursive);
        self
    }

    /// Same as [`std::fs::DirBuilder::create`].
    ///
    /// # Errors
    /// As std's.
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        run_blocking(|| self.std.create(path))
    }
}

impl Default for DirBuilder {
    fn default() -> DirBuilder {
        DirBuilder::new()
    }
}
