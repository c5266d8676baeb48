//! How far an export has come in the list of files, and whether that list is still the same.

use std::fmt;
use std::path::Path;

use crate::job::FileJob;

/// How far an export has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Files, from the first of the list, that are exported or have failed.
    pub files: u64,
    /// Rows of the output.
    pub rows: u64,
    /// Files that have failed.
    pub failed: u64,
    /// Bytes of the output.
    pub bytes: u64,
    list: Fingerprint,
}

impl Default for Done {
    fn default() -> Done {
        Done { files: 0, rows: 0, failed: 0, bytes: 0, list: Fingerprint::EMPTY }
    }
}

impl Done {
    pub(super) fn numbers(&self) -> [u64; 5] {
        [self.files, self.rows, self.failed, self.bytes, self.list.0]
    }

    pub(super) fn from_numbers([files, rows, failed, bytes, list]: [u64; 5]) -> Done {
        Done { files, rows, failed, bytes, list: Fingerprint(list) }
    }

    /// The same with another length of the output.
    pub(crate) fn with_bytes(self, bytes: u64) -> Done {
        Done { bytes, ..self }
    }

    /// Takes the next file of the list for done.
    pub(crate) fn advance(&mut self, job: &FileJob) {
        self.files += 1;
        self.list.add(&job.path);
    }
}

/// Of paths and their order: FNV-1a. It is to see changes, not to withstand forgery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint(u64);

impl Fingerprint {
    const EMPTY: Fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, path: &Path) {
        for byte in path.as_os_str().as_encoded_bytes().iter().chain(&[0]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// Tells which files an earlier run has done, while the list goes by.
#[derive(Debug)]
pub struct Skip {
    done: Done,
    seen: Done,
}

/// The list of files does not begin any more with those that were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    done: u64,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the list of files does not begin any more with the {} that were exported before (some are gone, new or in another \
             place), so the export cannot be continued; nothing was changed. Begin afresh by --restart",
            self.done
        )
    }
}

impl std::error::Error for Changed {}

impl Skip {
    pub(crate) fn new(done: Done) -> Skip {
        Skip { done, seen: Done::default() }
    }

    /// Whether this file, the next of the list, is done.
    ///
    /// # Errors
    /// It is the first that is not, and those before it are not those that were done.
    pub fn passes(&mut self, job: &FileJob) -> Result<bool, Changed> {
        if self.seen.files == self.done.files {
            self.end()?;
            return Ok(false);
        }
        self.seen.advance(job);
        Ok(true)
    }

    /// The list has ended.
    ///
    /// # Errors
    /// It is not as long as what was done, or not the same.
    pub fn end(&self) -> Result<(), Changed> {
        let same = self.seen.files == self.done.files && self.seen.list == self.done.list;
        if same { Ok(()) } else { Err(Changed { done: self.done.files }) }
    }
}
