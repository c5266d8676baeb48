//! Linux: the path is opened beneath the root by the kernel (`openat2`), so that nothing leads out: no `..` that
//! slipped through, no symbolic link, no rename in the middle of it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bast::fs::{File, OpenOptions};
use bast::os::linux::fs::{FileExt, open_beneath};
use bast::os::unix::fs::OpenOptionsExt;

use super::super::site::Missing;
use super::{Facts, Opened};

#[derive(Debug)]
pub(crate) struct Root {
    dir: File,
    path: PathBuf,
}

/// An open directory: this one, whatever has been renamed since.
pub(crate) struct Dir(File);

impl Dir {
    /// Where its entries can be read.
    pub(crate) fn place(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

impl Root {
    pub(crate) fn new(path: &Path) -> io::Result<Root> {
        let dir = File::open(path)?;
        match dir.cached_stat()?.is_dir() {
            true => Ok(Root { dir, path: path.to_owned() }),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Opens for reading. A FIFO or a device is not waited for: it is refused afterwards.
    pub(crate) fn open(&self, path: &[u8], follow_links: bool) -> Result<Opened, Missing> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let path = Path::new(OsStr::from_bytes(path));
        let opened = match follow_links {
            true => options.open(self.path.join(path)),
            false => open_beneath(&self.dir, path, &options),
        };
        let file = opened.map_err(missing)?;
        let stat = file.cached_stat().map_err(missing)?;
        match (stat.is_file(), stat.is_dir()) {
            (true, _) => {
                let facts = Facts { len: stat.len, modified: stat.modified, inode: stat.inode };
                Ok(Opened::File(file, facts))
            }
            (_, true) => Ok(Opened::Dir(Dir(file))),
            _ => Err(Missing::NotFound),
        }
    }
}

/// Reads what the kernel has in memory; `None` if that is nothing.
pub(crate) fn read_cached(file: &File, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    file.read_cached_at(buf, offset)
}

/// A name as the bytes that it has in a path.
pub(crate) fn name(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

fn missing(fault: io::Error) -> Missing {
    match fault.raw_os_error() {
        Some(
            libc::ENOENT
            | libc::ENOTDIR
            | libc::ENAMETOOLONG
            | libc::EXDEV
            | libc::ELOOP
            | libc::ENXIO
            | libc::EINVAL
            | libc::EILSEQ,
        ) => Missing::NotFound,
        Some(libc::EACCES | libc::EPERM) => Missing::Forbidden,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Missing::Busy,
        _ => Missing::Broken,
    }
}
