//! Files, as far as Linux has them in memory, and paths that cannot lead out of a directory. For programs
//! that serve many files to many: nothing here goes to another thread unless the disk is needed.

use std::io;
use std::path::Path;

use bast_io::Kind;
use bast_rt::ops;

use crate::fs::{File, OpenOptions, c_path};

pub use bast_rt::ops::Stat;
#[doc(no_inline)]
pub use std::os::linux::fs::MetadataExt;

mod private {
    pub trait Sealed {}
    impl Sealed for crate::fs::File {}
}

/// Opens `path`, which is relative to the open directory `dir` and cannot lead out of it: neither by `..`,
/// nor by a symbolic link, nor because somebody renames something meanwhile. Links that stay beneath
/// `dir` are followed. (`openat2(2)` with `RESOLVE_BENEATH`. Where that is missing, before Linux 5.6 or in a
/// sandbox, every path with a symbolic link is refused.) A pipe with a name does not wait for its other end.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use bast::fs::{File, OpenOptions};
/// use bast::os::linux::fs::open_beneath;
///
/// let dir = File::open(".")?;
/// let options = OpenOptions::new().read(true).clone();
/// assert!(open_beneath(&dir, "Cargo.toml", &options)?.metadata()?.is_file());
/// assert!(open_beneath(&dir, "../Cargo.toml", &options).is_err());
/// # Ok(()) }
/// ```
///
/// # Errors
/// `EXDEV` for a path that leads out, `ELOOP` for a link that is refused; else as [`OpenOptions::open`].
///
/// # Cancellation
/// A suspension point if the disk is needed.
pub fn open_beneath<P: AsRef<Path>>(
    dir: &File,
    path: P,
    options: &OpenOptions,
) -> io::Result<File> {
    let (flags, path) = (options.how.flags()?, c_path(path.as_ref())?);
    ops::open_beneath(dir.handle(), &path, flags, options.how.mode, Kind::File)
        .map(File::from_handle)
}

/// What can be had of an open file without waiting.
pub trait FileExt: private::Sealed {
    /// Reads at `offset` what is in memory. `None`: nothing is, or the file system cannot tell; then
    /// [`read_at`](crate::os::unix::fs::FileExt::read_at) reads it. (`RWF_NOWAIT`.)
    ///
    /// # Errors
    /// As [`read_at`](crate::os::unix::fs::FileExt::read_at).
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>>;

    /// What the file is, as far as this machine knows: of a file on another one that may be some seconds
    /// old. (`AT_STATX_DONT_SYNC`.)
    ///
    /// # Errors
    /// The kernel's.
    fn cached_stat(&self) -> io::Result<Stat>;
}

impl FileExt for File {
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        ops::read_cached(self.handle(), buf, offset)
    }

    fn cached_stat(&self) -> io::Result<Stat> {
        ops::stat_cached(self.handle())
    }
}
