//! Our own reader: the head of a file and the rows that are asked for, without rrdtool.
//!
//! ```text
//!   open ─▶ length ─▶ read the first 16 KiB, as far as it is cached ─▶ head, ranges ─▶ read what is still missing
//!                       └ else: read_at, the fiber waits (io_uring, or the blocking pool)
//! ```
//!
//! What the kernel has in memory is copied on the spot (`RWF_NOWAIT`), which costs a system call and no switch; only a
//! read that needs the disk makes the fiber wait, and its worker goes on with others. Files are not mapped: whoever
//! truncates one at that moment would kill the whole program by SIGBUS, and mapping costs more: to open, read or map, and
//! close a cached file of 5.5 KB takes 8 us or 16 us of a core. Of a large file just the head and the rows that are asked for are read.

use std::io;
use std::path::Path;

use bast::fs::{File, OpenOptions};
use bast::os::linux::fs::FileExt as _;
use bast::os::unix::fs::FileExt as _;
use bast::os::unix::fs::OpenOptionsExt as _;
use rrd_file::{Error, Fetched, Header, Query};
use rustix::fs::OFlags;

use super::{ReadError, Reader};
use crate::fd_limit;

/// As much is read at once: the head of most files, and all of small ones.
const FIRST: usize = 16 << 10;

/// Reads files of the format that `rrd-file` knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Reader for Native {
    fn fetch(&self, path: &Path, query: &Query) -> Result<Fetched, ReadError> {
        let file = open(path)?;
        let stat = file.cached_stat()?;
        if !stat.is_file() {
            let what = if stat.is_dir() { "is a directory" } else { "is no regular file" };
            return Err(ReadError::Io(io::Error::other(what)));
        }
        let length = stat.len;
        let mut bytes = Vec::new();
        read(&file, &mut bytes, 0, length.min(FIRST as u64))?;
        let header = match Header::parse(&bytes) {
            Err(Error::Truncated { need, .. }) if need <= length => {
                let has = bytes.len() as u64;
                read(&file, &mut bytes, has, need - has)?;
                Header::parse(&bytes)?
            }
            header => header?,
        };
        header.check_len(length)?;
        let selection = header.select(query)?;
        let mut rest = [Vec::new(), Vec::new()];
        let ranges = selection.ranges().iter();
        for (rest, range) in rest.iter_mut().zip(ranges.clone()) {
            if range.end > bytes.len() as u64 {
                read(&file, rest, range.start, range.end - range.start)?;
            }
        }
        let mut parts = [&[][..]; 2];
        let pieces = selection.ranges().len();
        for ((part, rest), range) in parts.iter_mut().zip(&rest).zip(ranges) {
            *part = if range.end > bytes.len() as u64 {
                rest
            } else {
                &bytes[range.start as usize..range.end as usize]
            };
        }
        Ok(selection.decode(&parts[..pieces])?)
    }
}

/// Without waiting for a writer of what is a named pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    fd_limit::open(bast::sleep, || how.open(path))
}

/// Appends `count` bytes from `offset`, or fewer if the file has become shorter.
fn read(file: &File, bytes: &mut Vec<u8>, offset: u64, count: u64) -> io::Result<()> {
    let begin = bytes.len();
    bytes.resize(begin + count as usize, 0);
    let mut at = begin;
    while at < bytes.len() {
        let (into, from) = (&mut bytes[at..], offset + (at - begin) as u64);
        let count = match file.read_cached_at(into, from)? {
            Some(count) => count,
            None => file.read_at(into, from)?,
        };
        if count == 0 {
            break;
        }
        at += count;
    }
    bytes.truncate(at);
    Ok(())
}
