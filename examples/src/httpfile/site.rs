//! What is served: a directory, its rules, and what all connections share.
//!
//! ```text
//!   Target ─▶ beneath the root? ─no─▶ 404, as if it did not exist
//!               └─▶ file ─▶ Found::File     directory ─▶ its index.html, its listing, or a redirect
//! ```
//!
//! The path is opened beneath the root by the kernel (`openat2`), so that nothing leads out: no `..` that
//! slipped through, no symbolic link, no rename in the middle of it. With `--follow-links` the links are
//! the owner's business.
//!
//! No open file is kept from one request to the next. What the kernel has in memory costs an open, a
//! stat and a close of about a microsecond each, without leaving the worker; a cache would save two
//! of them, and answer for as long as it lives what is no longer true.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bast::fs::{File, OpenOptions};
use bast::os::linux::fs::{FileExt, Stat, open_beneath};

use super::conditions;
use super::log::Log;
use super::target::Target;

/// The file that stands for its directory.
const INDEX: &[u8] = b"index.html";

/// What may be asked for, and how fast.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Directories without an `index.html` are listed.
    pub listing: bool,
    /// Names that begin with a dot are served.
    pub hidden: bool,
    /// Symbolic links may lead out of the root.
    pub follow_links: bool,
    /// How long the head of a request may take.
    pub head: Duration,
    /// The least bytes a second that a client has to take.
    pub least_rate: u64,
}

/// A directory that is served.
#[derive(Debug)]
pub struct Site {
    root: File,
    root_path: PathBuf,
    pub(super) rules: Rules,
    pub(super) log: Option<Log>,
    /// The second that was last asked for, and how HTTP writes it.
    clock: Mutex<(u64, String)>,
    /// Buffers for answers that are under way. Between requests a connection has none.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// What lies at a path.
pub(super) enum Found {
    /// A regular file, and its type.
    File { file: File, stat: Stat, mime: &'static str },
    /// A directory to list.
    Directory(File),
    /// A directory, asked for without the slash at its end.
    Redirect,
}

/// Why nothing is found, as HTTP's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    NotFound,
    Forbidden,
    /// No descriptors, or no memory: it may pass.
    Busy,
    Broken,
}

impl Site {
    /// Opens the root.
    ///
    /// # Errors
    /// It is no directory, or may not be read.
    pub fn new(root: &Path, rules: Rules, log: Option<Log>) -> io::Result<Site> {
        let fault = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", root.display()));
        let dir = File::open(root).map_err(fault)?;
        if !dir.cached_stat().map_err(fault)?.is_dir() {
            return Err(fault(io::ErrorKind::NotADirectory.into()));
        }
        let (clock, spare) = (Mutex::default(), Mutex::default());
        Ok(Site { root: dir, root_path: root.to_owned(), rules, log, clock, spare })
    }

    /// Finds what a target names.
    pub(super) fn find(&self, target: &Target) -> Result<Found, Missing> {
        if target.is_hidden && !self.rules.hidden {
            return Err(Missing::NotFound);
        }
        let file = self.open(&target.path)?;
        let stat = file.cached_stat().map_err(missing)?;
        if stat.is_file() && !target.is_dir {
            return Ok(found(file, stat, &target.path));
        }
        if !stat.is_dir() {
            return Err(Missing::NotFound);
        }
        if !target.is_dir {
            return Ok(Found::Redirect);
        }
        let path = [&target.path[..], b"/", INDEX].concat();
        match self.open(&path) {
            Ok(index) => {
                let stat = index.cached_stat().map_err(missing)?;
                if stat.is_file() {
                    return Ok(found(index, stat, &path));
                }
            }
            Err(Missing::NotFound) => {}
            Err(other) => return Err(other),
        }
        if self.rules.listing { Ok(Found::Directory(file)) } else { Err(Missing::Forbidden) }
    }

    /// Opens for reading. A FIFO or a device is not waited for: it is refused afterwards.
    fn open(&self, path: &[u8]) -> Result<File, Missing> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let path = Path::new(OsStr::from_bytes(path));
        if self.rules.follow_links {
            return options.open(self.root_path.join(path)).map_err(missing);
        }
        open_beneath(&self.root, path, &options).map_err(missing)
    }

    /// The time in seconds since 1970, and as HTTP writes it, at the end of `out`.
    pub(super) fn now(&self, out: &mut Vec<u8>) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if clock.0 != now || clock.1.is_empty() {
            *clock = (now, conditions::date(now));
        }
        out.extend_from_slice(clock.1.as_bytes());
        now
    }

    /// An empty buffer.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Takes a buffer back, unless enough are there or it has grown large.
    pub(super) fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < 64 && buffer.capacity() <= 64 << 10 {
            spare.push(buffer);
        }
    }
}

fn found(file: File, stat: Stat, path: &[u8]) -> Found {
    let mime = mime_guess::from_path(Path::new(OsStr::from_bytes(path)));
    Found::File { file, stat, mime: mime.first_raw().unwrap_or("application/octet-stream") }
}

fn missing(fault: io::Error) -> Missing {
    match fault.raw_os_error() {
        Some(
            libc::ENOENT
            | libc::ENOTDIR
            | libc::ENAMETOOLONG
            | libc::EXDEV
            | libc::ELOOP
            | libc::ENXIO
            | libc::EINVAL
            | libc::EILSEQ,
        ) => Missing::NotFound,
        Some(libc::EACCES | libc::EPERM) => Missing::Forbidden,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Missing::Busy,
        _ => Missing::Broken,
    }
}
