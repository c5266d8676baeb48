//! What lies beneath the root. No path leads out of it: the kernel sees to that where it can (Linux), elsewhere the
//! programs look where a path has led before they open it.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "other.rs")]
mod system;

pub(super) use system::{Dir, Root, name, read_cached};

use bast::fs::File;

/// What lies at a path.
pub(super) enum Opened {
    File(File, Facts),
    Dir(Dir),
}

/// What is said of a file.
pub(super) struct Facts {
    pub(super) len: u64,
    /// Seconds since 1970, and nanoseconds.
    pub(super) modified: (i64, u32),
    /// Tells it from another file, where anything does.
    pub(super) inode: u64,
}
