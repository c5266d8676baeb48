//! Who reads an RRD file: a daemon of rrdtool's, or our own reader of the format.

pub mod auto;
pub mod native;
pub mod rrdtool;

use std::fmt;
use std::io;
use std::path::Path;

use rrd_file::{Fetched, Query};

/// Reads one file. Called by many fibers at once; may suspend.
pub trait Reader: Send + Sync {
    /// What `rrdtool fetch` gives for this file.
    ///
    /// # Errors
    /// See [`ReadError`]. A reader that lost its means (a daemon that died) has tried again before it says so.
    fn fetch(&self, path: &Path, query: &Query) -> Result<Fetched, ReadError>;
}

/// Why a file could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The system's: it is not there, may not be read, …
    Io(io::Error),
    /// It is no RRD file, a damaged one, or does not have what is asked for.
    Format(rrd_file::Error),
    /// rrdtool's own words, or what happened to it.
    Rrdtool(String),
    /// No file can be read this way: rrdtool is not installed, say. Ends the run.
    Fatal(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::Format(error) => error.fmt(f),
            ReadError::Rrdtool(text) | ReadError::Fatal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

impl From<rrd_file::Error> for ReadError {
    fn from(error: rrd_file::Error) -> ReadError {
        ReadError::Format(error)
    }
}
