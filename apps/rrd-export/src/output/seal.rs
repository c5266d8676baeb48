//! Chunks: what is compressed, or made a row group, in one piece.

use std::io;
use std::sync::Arc;

use super::compress;
use super::parquet::{RowGroup, Table};
use crate::job::FileJob;
use crate::journal::Done;

/// What becomes of a chunk.
#[derive(Clone)]
pub(super) enum Codec {
    Plain,
    Gzip,
    Zstd,
    Parquet(Arc<Table>),
}

impl Codec {
    /// How many bytes make a chunk: as little as compresses well. Uncompressed each is a
    /// trip to the kernel and back, and a trip costs more than the bytes. For Parquet a row group, which is read in one piece.
    pub(super) fn chunk(&self) -> usize {
        match self {
            Codec::Plain => 1 << 20,
            Codec::Gzip | Codec::Zstd => 512 << 10,
            Codec::Parquet(_) => 2 << 20,
        }
    }
}

/// Blocks, whole, and how far the export is behind them.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) done: Done,
    pub(super) failures: Vec<(FileJob, String)>,
}

/// A chunk as it goes into the output.
pub(super) struct Sealed {
    pub(super) chunk: Chunk,
    pub(super) group: Option<RowGroup>,
}

impl Chunk {
    /// Takes long: not for a fiber's worker.
    pub(super) fn seal(mut self, codec: &Codec) -> io::Result<Sealed> {
        let mut group = None;
        if !self.bytes.is_empty() {
            self.bytes = match codec {
                Codec::Plain => self.bytes,
                Codec::Gzip => compress::gzip(&self.bytes)?,
                Codec::Zstd => compress::zstd(&self.bytes)?,
                Codec::Parquet(table) => {
                    let (bytes, made) = table.row_group(&self.bytes)?;
                    group = Some(made);
                    bytes
                }
            };
        }
        Ok(Sealed { chunk: self, group })
    }
}
