//! Same as [`std::os::windows::fs`]. Its traits are bast's traits: bast's types implement them.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let path = std::env::temp_dir().join(format!("bast-windows-fs-{}", std::process::id()));
//! use bast::fs::OpenOptions;
//! use bast::os::windows::fs::{FileExt, OpenOptionsExt};
//!
//! let file = OpenOptions::new().read(true).write(true).create(true).share_mode(0).open(&path)?;
//! file.seek_write(b"later", 10)?;
//! let mut five = [0; 5];
//! assert_eq!(file.seek_read(&mut five, 10)?, 5);
//! assert_eq!(&five, b"later");
//! # drop(file);
//! # std::fs::remove_file(&path)?;
//! # Ok(()) }
//! ```

use std::io;
use std::path::Path;

use bast_io::{Handle, Kind};
use bast_rt::{ops, run_blocking};

use super::take_handle;
use crate::fs::{File, OpenOptions, c_path};

#[doc(no_inline)]
pub use std::os::windows::fs::{FileExt, FileTimesExt, FileTypeExt, MetadataExt, OpenOptionsExt};

/// What [`OpenOptionsExt`] sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    access: Option<u32>,
    share: Option<u32>,
    flags: u32,
    attributes: u32,
    security: Option<u32>,
}

impl More {
    fn is_empty(&self) -> bool {
        let More { access, share, flags, attributes, security } = self;
        access.is_none() && share.is_none() && (*flags, *attributes) == (0, 0) && security.is_none()
    }
}

/// Opens what is at a path: by an operation, or by std if that would not say all.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<Handle> {
    let (how, more) = (&options.how, &options.more);
    if more.is_empty() {
        return ops::open(&c_path(path)?, how.flags()?, how.mode, Kind::File);
    }
    let mut std = std::fs::OpenOptions::new();
    std.read(how.read).write(how.write).append(how.append);
    std.truncate(how.truncate).create(how.create).create_new(how.create_new);
    std.custom_flags(more.flags).attributes(more.attributes);
    more.access.map(|access| std.access_mode(access));
    more.share.map(|share| std.share_mode(share));
    more.security.map(|flags| std.security_qos_flags(flags));
    let file = run_blocking(|| std.open(path))?;
    Ok(take_handle(file.into(), Kind::File))
}

/// NTFS has the names in a directory on its device by its journal, and gives programs no way to wait for that.
#[allow(clippy::unnecessary_wraps)] // as on Unix
pub(crate) fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Each is a suspension point.
impl FileExt for File {
    fn seek_read(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ops::read(self.handle(), buf, Some(offset))
    }

    fn seek_write(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        ops::write(self.handle(), buf, Some(offset))
    }
}

impl OpenOptionsExt for OpenOptions {
    fn access_mode(&mut self, access: u32) -> &mut OpenOptions {
        self.more.access = Some(access);
        self
    }

    fn share_mode(&mut self, share: u32) -> &mut OpenOptions {
        self.more.share = Some(share);
        self
    }

    fn custom_flags(&mut self, flags: u32) -> &mut OpenOptions {
        self.more.flags = flags;
        self
    }

    fn attributes(&mut self, attributes: u32) -> &mut OpenOptions {
        self.more.attributes = attributes;
        self
    }

    fn security_qos_flags(&mut self, flags: u32) -> &mut OpenOptions {
        self.more.security = Some(flags);
        self
    }
}

macro_rules! on_the_pool {
    ($($name:ident),*) => {$(
        #[doc = concat!("Same as [`std::os::windows::fs::", stringify!($name), "`].")]
        ///
        /// # Errors
        /// As std's.
        pub fn $name<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
            let (original, link) = (original.as_ref(), link.as_ref());
            run_blocking(|| std::os::windows::fs::$name(original, link))
        }
    )*};
}

on_the_pool!(symlink_dir, symlink_file);
