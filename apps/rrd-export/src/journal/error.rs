//! Why a journal cannot be continued.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is nothing to continue.
#[derive(Debug)]
pub enum JournalError {
    /// The system's.
    Io(PathBuf, io::Error),
    /// Another run has it.
    Busy(PathBuf),
    /// It is no journal, or of another version.
    Foreign(PathBuf),
    /// An earlier run has left it, and this one has not been told what to do about that.
    Unfinished(PathBuf),
    /// An option is not what it was.
    Differs {
        /// Its name.
        option: String,
        /// What it was.
        before: Option<String>,
        /// What it is.
        now: Option<String>,
    },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| {
            value.as_ref().map_or("not given".into(), |v| format!("`{v}`"))
        };
        match self {
            JournalError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            JournalError::Busy(path) => {
                write!(f, "{}: another run is at work on this output", path.display())
            }
            JournalError::Unfinished(path) => write!(
                f,
                "{} is of a run that was not finished: --resume goes on with it, --restart begins afresh",
                path.display()
            ),
            JournalError::Foreign(path) => write!(
                f,
                "{} is no journal of this version of rrd-export: move it away, and start again",
                path.display()
            ),
            JournalError::Differs { option, before, now } => write!(
                f,
                "the export that is to be resumed was begun with another {option}: {} then, {} now. Give the same, or begin \
                 afresh by --restart instead of --resume",
                value(before),
                value(now)
            ),
        }
    }
}

impl std::error::Error for JournalError {}
