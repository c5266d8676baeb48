//! How a file is opened: std's `OpenOptions` as the flags of `open(2)`, with std's rules about which go
//! together. On Windows the flags are bits of our own with the same names.

use std::io;

use crate::sys::c;

/// What was asked for. Same as [`std::fs::OpenOptions`], with its extensions.
#[derive(Clone, Debug)]
#[allow(missing_docs, clippy::struct_excessive_bools)]
pub struct OpenHow {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub truncate: bool,
    pub create: bool,
    pub create_new: bool,
    /// Permissions of a file that is created, before the umask. On Windows: `FILE_FLAG_…`, and no permissions.
    pub mode: u32,
    /// Further flags of `open(2)`; the access mode in them does not count.
    pub custom: i32,
}

impl OpenHow {
    /// Nothing set; `mode` is 0o666.
    #[must_use]
    pub const fn new() -> OpenHow {
        OpenHow {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom: 0,
        }
    }

    /// The flags.
    ///
    /// # Errors
    /// `InvalidInput` for what makes no sense: neither reading nor writing, truncating or creating
    /// without writing, truncating what is appended to.
    pub fn flags(&self) -> io::Result<i32> {
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => c::O_RDONLY,
            (false, true, false) => c::O_WRONLY,
            (true, true, false) => c::O_RDWR,
            (false, _, true) => c::O_WRONLY | c::O_APPEND,
            (true, _, true) => c::O_RDWR | c::O_APPEND,
            (false, false, false) => {
                return invalid("a file is opened to read, to write or to append: set one of them");
            }
        };
        if !self.write && !self.append && (self.truncate || self.create || self.create_new) {
            return invalid("creating or truncating a file needs write or append access");
        }
        if self.append && self.truncate && !self.create_new {
            return invalid("a file cannot be truncated and appended to at once");
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => 0,
            (true, false, false) => c::O_CREAT,
            (false, true, false) => c::O_TRUNC,
            (true, true, false) => c::O_CREAT | c::O_TRUNC,
            (_, _, true) => c::O_CREAT | c::O_EXCL,
        };
        Ok(access | creation | (self.custom & !c::O_ACCMODE))
    }
}

impl Default for OpenHow {
    fn default() -> OpenHow {
        OpenHow::new()
    }
}

/// What [`open_beneath`](crate::beneath::open_beneath) is to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// For nothing: `EAGAIN` if a directory has to be read.
    None,
    /// For the disk.
    Disk,
}
