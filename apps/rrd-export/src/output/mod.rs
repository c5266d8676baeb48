//! Where rows go: formats, and the one writer.
//!
//! ```text
//!   fibers: Format::encode (in parallel) ─▶ Block ─▶ one fiber: Writer::put, checkpoint, finish
//! ```

use std::io;

use rrd_file::Fetched;

use crate::job::{Block, FileJob};

/// Makes bytes of what was read. Called by many fibers at once.
pub trait Format: Send + Sync {
    /// Appends the file's rows to `out`, and says how many they are.
    ///
    /// # Errors
    /// The file does not fit the output; its text goes to the report.
    fn encode(&self, job: &FileJob, fetched: &Fetched, out: &mut Vec<u8>) -> Result<u64, String>;
}

/// How far an output has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes that are on disk.
    pub bytes: u64,
    /// Rows in them.
    pub rows: u64,
}

/// Puts blocks down, one after the other. Used by one fiber.
pub trait Writer: Send {
    /// Takes a block. It is for the writer when it becomes lasting.
    ///
    /// # Errors
    /// The system's: the run ends.
    fn put(&mut self, job: &FileJob, block: &Block) -> io::Result<()>;

    /// Makes everything so far last.
    ///
    /// # Errors
    /// The system's.
    fn checkpoint(&mut self) -> io::Result<Position>;

    /// Completes the output and gives it its name.
    ///
    /// # Errors
    /// The system's.
    fn finish(self: Box<Self>) -> io::Result<Position>;
}
