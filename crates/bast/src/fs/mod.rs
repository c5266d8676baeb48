//! Same as [`std::fs`]: files and directories, without blocking the worker.
//!
//! ```text
//!   File: open, read, write, sync ─▶ operations: io_uring does them, other drivers give them to the pool
//!   everything else ──────────────▶ std's function, on the pool of threads for blocking calls
//! ```
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("bast-fs-{}", std::process::id()));
//! bast::fs::create_dir_all(&dir)?;
//! let path = dir.join("greeting");
//! bast::fs::write(&path, "hello")?;
//! assert_eq!(bast::fs::read_to_string(&path)?, "hello");
//! bast::fs::remove_dir_all(&dir)?;
//! # Ok(()) }
//! ```
//!
//! # Differences from std
//! * Everything that may wait for a disk is a suspension point. A function that has begun on the pool is
//!   finished before a cancellation is delivered.
//! * [`write_atomic`] has no counterpart.
//! * On the simulator, [`File`] opens the simulator's files; all else is the system's.

#[cfg(unix)]
mod copy;
mod dir;
mod file;
mod options;
mod paths;
mod position;

#[cfg(unix)]
pub use copy::copy;
pub use dir::{DirBuilder, DirEntry, ReadDir, read_dir};
pub use file::File;
pub use options::OpenOptions;
pub(crate) use options::c_path;
#[cfg(windows)]
pub use paths::copy;
pub use paths::{
    canonicalize, create_dir, create_dir_all, exists, hard_link, metadata, read, read_link,
    read_to_string, remove_dir, remove_dir_all, remove_file, rename, set_permissions,
    symlink_metadata, write, write_atomic,
};

#[doc(no_inline)]
pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};
