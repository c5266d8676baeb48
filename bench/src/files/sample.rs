//! What is read. Each word of eight bytes is its own offset, with the number of the file above it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::BLOCK;

/// Bytes of the big file: 32,768 blocks.
pub(super) const BIG: u64 = 128 << 20;
/// How many small files.
pub(super) const SMALL: u64 = 10_000;

/// A directory that goes with it.
pub(super) struct Sample {
    dir: PathBuf,
}

impl Sample {
    fn new() -> io::Result<Sample> {
        let dir = std::env::temp_dir().join(format!("bast-bench-files-{}", std::process::id()));
        fs::create_dir(&dir)?;
        Ok(Sample { dir })
    }

    /// One big file.
    pub(super) fn big() -> io::Result<Sample> {
        let sample = Sample::new()?;
        // To the disk: what is dirty is not to be written back while somebody measures.
        fill(&sample.big_file(), 0, BIG)?.sync_all()?;
        Ok(sample)
    }

    /// Many small files, of 1 to 8 KiB.
    pub(super) fn small() -> io::Result<Sample> {
        let sample = Sample::new()?;
        for n in 0..SMALL {
            fill(&sample.small_file(n), n, size(n))?;
        }
        Ok(sample)
    }

    pub(super) fn big_file(&self) -> PathBuf {
        self.dir.join("big")
    }

    pub(super) fn small_file(&self, n: u64) -> PathBuf {
        self.dir.join(n.to_string())
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.dir) {
            eprintln!("{}: {e}", self.dir.display());
        }
    }
}

/// The size of small file `n`.
pub(super) fn size(n: u64) -> u64 {
    (n % 8 + 1) * 1024
}

fn word(file: u64, offset: u64) -> [u8; 8] {
    (file << 32 | offset).to_le_bytes()
}

fn fill(path: &Path, file: u64, size: u64) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for offset in (0..size).step_by(8) {
        out.write_all(&word(file, offset))?;
    }
    Ok(out.into_inner()?)
}

/// Whether `bytes` are what stands at `offset` of a file: its first word and its last.
pub(super) fn check(bytes: &[u8], file: u64, offset: u64) -> io::Result<()> {
    let last = offset + bytes.len() as u64 - 8;
    if bytes[..8] == word(file, offset) && bytes[bytes.len() - 8..] == word(file, last) {
        return Ok(());
    }
    Err(io::Error::other(format!("file {file} has something else at {offset}")))
}

/// Offsets of blocks of the big file, without end.
pub(super) struct Offsets(pub(super) u64);

impl Offsets {
    pub(super) fn next(&mut self) -> u64 {
        // xorshift64, Marsaglia 2003.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % (BIG / BLOCK as u64) * BLOCK as u64
    }
}
