//! Why there can be no output.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::journal::JournalError;

/// Why an output cannot be opened.
#[derive(Debug)]
pub enum OutputError {
    /// The system's.
    Io(PathBuf, io::Error),
    /// What was done before cannot be continued.
    Journal(JournalError),
    /// The unfinished output is not there, or shorter than the journal says.
    Gone(PathBuf),
    /// What is no file cannot be resumed.
    Stream,
    /// The format has no room for such rows.
    Shape(String),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            OutputError::Journal(error) => error.fmt(f),
            OutputError::Gone(path) => write!(
                f,
                "{} is gone, or shorter than its journal says: what was exported cannot be continued. Begin afresh by --restart",
                path.display()
            ),
            OutputError::Stream => f.write_str("only an output that is a file can be resumed: give one by --output, or leave out --resume"),
            OutputError::Shape(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for OutputError {}

impl From<JournalError> for OutputError {
    fn from(error: JournalError) -> OutputError {
        OutputError::Journal(error)
    }
}
