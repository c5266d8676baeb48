//! Compression: each chunk of the output becomes a gzip member or a zstd frame of its own.
//!
//! Both formats say that members (frames) one after the other are what their contents are one after the other, and every
//! program that reads them takes it so. So chunks are compressed at the same time, and an output that is cut between two
//! of them is whole up to there.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};

/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;

/// A gzip member.
pub(super) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// A zstd frame, with its content's size and checksum.
pub(super) fn zstd(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(bytes)
}
