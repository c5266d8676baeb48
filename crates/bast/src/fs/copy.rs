//! Copying a file, part by part: no part holds a thread of the pool for long, and a cancelled fiber gets away between two.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use bast_rt::run_blocking;

/// Same as [`std::fs::copy`]. The kernel copies, and where the file system can it shares the blocks.
///
/// # Errors
/// As std's.
///
/// # Cancellation
/// A suspension point, also between two parts of 16 MiB: `to` then has the first of them.
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let (from, to) = run_blocking(|| open(from, to))?;
    let mut copied = 0;
    crate::io::copy_files(&from, &to, u64::MAX, &mut copied)?;
    Ok(copied)
}

/// Opens both as std does.
fn open(from: &Path, to: &Path) -> io::Result<(fs::File, fs::File)> {
    let from = fs::File::open(from)?;
    let metadata = from.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the source path is neither a regular file nor a symlink to a regular file",
        ));
    }
    let permissions = metadata.permissions();
    let mut options = OpenOptions::new();
    let to = options.mode(permissions.mode()).write(true).create(true).truncate(true).open(to)?;
    // The mode above was masked; and what is no file keeps its own.
    if to.metadata()?.is_file() {
        to.set_permissions(permissions)?;
    }
    Ok((from, to))
}
