//! What can be wrong with a file, a query or a description of a new file.

use std::fmt;

use crate::Cf;

/// Why a file could not be read, a query not be answered, or a file not be made.
///
/// The messages do not name the file: who has opened it knows its name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The file does not begin as RRD files do.
    NotRrd,
    /// A version that nobody knew when this was written.
    UnknownVersion(String),
    /// The numbers in the file are of no kind of machine that is known.
    UnknownMachine,
    /// There are fewer bytes than are needed. If there are more in the file, read these and try again.
    ///
    /// In a corrupted file `need` may be any number: compare it with the length of the file before
    /// allocating anything.
    Truncated {
        /// So many bytes, from the beginning of the file.
        need: u64,
        /// So many were given.
        has: u64,
    },
    /// The file contradicts itself.
    Corrupt(String),
    /// No consolidation function has this name.
    UnknownCf(String),
    /// The file has no archive that could answer for this consolidation function.
    NoArchive(Cf),
    /// The query asks for what cannot be.
    BadQuery(String),
    /// The description of a new file, or an update of it, asks for what cannot be.
    BadSpec(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotRrd => f.write_str("not an RRD file"),
            Error::UnknownVersion(version) => {
                write!(f, "RRD version {version} is not known (0001 to 0005 are)")
            }
            Error::UnknownMachine => f.write_str(
                "an RRD file of a machine whose numbers are not known \
                 (rrdtool dump on that machine and rrdtool restore here can help)",
            ),
            Error::Truncated { need, has } => {
                write!(f, "truncated: needs {need} bytes, has {has}")
            }
            Error::Corrupt(what) => write!(f, "corrupt: {what}"),
            Error::UnknownCf(name) => write!(f, "unknown consolidation function {name:?}"),
            Error::NoArchive(cf) => {
                write!(f, "the RRD does not contain an RRA matching the chosen CF {cf}")
            }
            Error::BadQuery(what) | Error::BadSpec(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
