//! What is served: a directory, its rules, and what all connections share.
//!
//! ```text
//!   Target ─▶ beneath the root? ─no─▶ 404, as if it did not exist
//!               └─▶ file ─▶ Found::File     directory ─▶ its index.html, its listing, or a redirect
//! ```
//!
//! Nothing leads out of the root (see `disk`). With `--follow-links` the links are the owner's business.
//!
//! No open file is kept from one request to the next. What the kernel has in memory costs an open, a
//! stat and a close of about a microsecond each, without leaving the worker; a cache would save two
//! of them, and answer for as long as it lives what is no longer true.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bast::fs::File;

use super::conditions;
use super::disk::{Dir, Facts, Opened, Root};
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
    root: Root,
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
    File { file: File, facts: Facts, mime: &'static str },
    /// A directory to list.
    Directory(Dir),
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
        let root = Root::new(root).map_err(fault)?;
        let (clock, spare) = (Mutex::default(), Mutex::default());
        Ok(Site { root, rules, log, clock, spare })
    }

    /// Finds what a target names.
    pub(super) fn find(&self, target: &Target) -> Result<Found, Missing> {
        if target.is_hidden && !self.rules.hidden {
            return Err(Missing::NotFound);
        }
        let open = |path: &[u8]| self.root.open(path, self.rules.follow_links);
        let dir = match open(&target.path)? {
            Opened::File(file, facts) if !target.is_dir => {
                return Ok(found(file, facts, &target.path));
            }
            Opened::File(..) => return Err(Missing::NotFound),
            Opened::Dir(_) if !target.is_dir => return Ok(Found::Redirect),
            Opened::Dir(dir) => dir,
        };
        let path = [&target.path[..], b"/", INDEX].concat();
        match open(&path) {
            Ok(Opened::File(file, facts)) => return Ok(found(file, facts, &path)),
            Ok(Opened::Dir(_)) | Err(Missing::NotFound) => {}
            Err(other) => return Err(other),
        }
        if self.rules.listing { Ok(Found::Directory(dir)) } else { Err(Missing::Forbidden) }
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

fn found(file: File, facts: Facts, path: &[u8]) -> Found {
    let mime = mime_guess::from_path(&*String::from_utf8_lossy(path));
    Found::File { file, facts, mime: mime.first_raw().unwrap_or("application/octet-stream") }
}
