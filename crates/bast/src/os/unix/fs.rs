//! Same as [`std::os::unix::fs`]. Its traits are bast's traits: bast's types implement them.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let path = std::env::temp_dir().join(format!("bast-unix-fs-{}", std::process::id()));
//! use bast::fs::OpenOptions;
//! use bast::os::unix::fs::{FileExt, OpenOptionsExt};
//!
//! let file = OpenOptions::new().read(true).write(true).create(true).mode(0o600).open(&path)?;
//! file.write_all_at(b"later", 10)?;
//! let mut five = [0; 5];
//! file.read_exact_at(&mut five, 10)?;
//! assert_eq!(&five, b"later");
//! # std::fs::remove_file(&path)?;
//! # Ok(()) }
//! ```

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use bast_io::{Handle, Kind};
use bast_rt::{ops, run_blocking};

use crate::fs::{DirBuilder, DirEntry, File, OpenOptions, c_path};

#[doc(no_inline)]
pub use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};

/// Opens what is at a path.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<Handle> {
    let flags = options.how.flags()?;
    ops::open(&c_path(path)?, flags, options.how.mode, Kind::File)
}

/// Has the names in a directory on its device.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Each is a suspension point.
impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ops::read(self.handle(), buf, Some(offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        ops::write(self.handle(), buf, Some(offset))
    }
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.how.mode = mode;
        self
    }

    fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.how.custom = flags;
        self
    }
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.std.mode(mode);
        self
    }
}

impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.std.ino()
    }
}

macro_rules! on_the_pool {
    ($($name:ident($($path:ident),+ $(; $uid:ident, $gid:ident)?);)*) => {$(
        #[doc = concat!("Same as [`std::os::unix::fs::", stringify!($name), "`].")]
        ///
        /// # Errors
        /// As std's.
        pub fn $name<P: AsRef<Path>>($($path: P),+ $(, $uid: Option<u32>, $gid: Option<u32>)?) -> io::Result<()> {
            $(let $path = $path.as_ref();)+
            run_blocking(|| std::os::unix::fs::$name($($path),+ $(, $uid, $gid)?))
        }
    )*};
}

on_the_pool! {
    chown(dir; uid, gid);
    chroot(dir);
    lchown(dir; uid, gid);
}

/// Same as [`std::os::unix::fs::fchown`].
///
/// # Errors
/// As std's.
pub fn fchown<F: AsFd>(fd: F, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let fd = fd.as_fd();
    run_blocking(|| std::os::unix::fs::fchown(fd, uid, gid))
}

/// Same as [`std::os::unix::fs::symlink`].
///
/// # Errors
/// As std's.
pub fn symlink<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    run_blocking(|| std::os::unix::fs::symlink(original, link))
}
