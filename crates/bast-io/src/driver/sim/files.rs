//! Files in memory, named by their path.
//!
//! There are no directories: a path is a name, and every name may be created. Files live as long as
//! their world; `open`, `read`, `write` and `statx` behave as the system calls do on regular files,
//! except that some reads and writes are short.

use std::collections::BTreeMap;

use super::world::{Stop, Try};
use crate::sys::c;

/// An open file: which, where in it, and what for.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) inode: usize,
    position: u64,
    append: bool,
    readable: bool,
    writable: bool,
}

/// The file store of one world.
#[derive(Debug, Default)]
pub(super) struct Files {
    names: BTreeMap<Vec<u8>, usize>,
    contents: Vec<Vec<u8>>,
}

impl Files {
    /// `open(2)`.
    pub(super) fn open(&mut self, path: &[u8], flags: i32) -> Try<OpenFile> {
        let known = self.names.get(path).copied();
        let create = flags & c::O_CREAT != 0;
        let access = flags & c::O_ACCMODE;
        let inode = match known {
            Some(_) if create && flags & c::O_EXCL != 0 => {
                return Err(Stop::Errno(c::EEXIST));
            }
            Some(_) if flags & c::O_DIRECTORY != 0 => return Err(Stop::Errno(c::ENOTDIR)),
            Some(inode) => inode,
            None if create && !path.is_empty() => {
                self.contents.push(Vec::new());
                self.names.insert(path.to_vec(), self.contents.len() - 1);
                self.contents.len() - 1
            }
            None => return Err(Stop::Errno(c::ENOENT)),
        };
        let writable = access != c::O_RDONLY;
        if flags & c::O_TRUNC != 0 && writable {
            self.contents[inode].clear();
        }
        Ok(OpenFile {
            inode,
            position: 0,
            append: flags & c::O_APPEND != 0,
            readable: access != c::O_WRONLY,
            writable,
        })
    }

    /// Which file has this name.
    pub(super) fn find(&self, path: &[u8]) -> Try<usize> {
        self.names.get(path).copied().ok_or(Stop::Errno(c::ENOENT))
    }

    /// The length of a file.
    pub(super) fn len(&self, inode: usize) -> u64 {
        self.contents[inode].len() as u64
    }

    /// Up to `n` bytes at `offset` (or at the file's own position, which then moves).
    pub(super) fn read(&self, file: &mut OpenFile, n: usize, offset: Option<u64>) -> Try<Vec<u8>> {
        if !file.readable {
            return Err(Stop::Errno(c::EBADF));
        }
        let content = &self.contents[file.inode];
        let at = usize::try_from(offset.unwrap_or(file.position)).unwrap_or(usize::MAX);
        let from = at.min(content.len());
        let bytes = content[from..from.saturating_add(n).min(content.len())].to_vec();
        if offset.is_none() {
            file.position += bytes.len() as u64;
        }
        Ok(bytes)
    }

    /// Writes `bytes` at `offset` (or at the file's own position, which then moves), filling a gap
    /// with zeros.
    pub(super) fn write(
        &mut self,
        file: &mut OpenFile,
        bytes: &[u8],
        offset: Option<u64>,
    ) -> Try<usize> {
        if !file.writable {
            return Err(Stop::Errno(c::EBADF));
        }
        let content = &mut self.contents[file.inode];
        let end = content.len() as u64;
        let at = if file.append { end } else { offset.unwrap_or(file.position) };
        // A file of memory has an end: beyond it is the error a full disk's quota gives.
        const LIMIT: u64 = 1 << 31;
        let last = at.checked_add(bytes.len() as u64).filter(|&last| last <= LIMIT);
        let Some(last) = last else { return Err(Stop::Errno(c::EFBIG)) };
        if bytes.is_empty() {
            return Ok(0);
        }
        if last > end {
            content.resize(last as usize, 0);
        }
        content[at as usize..last as usize].copy_from_slice(bytes);
        if offset.is_none() {
            file.position = last;
        }
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Files, Stop};
    use crate::sys::c;

    #[test]
    fn positions_gaps_and_append() {
        let mut files = Files::default();
        let mut a = files.open(b"a", c::O_CREAT | c::O_RDWR).expect("created");
        assert!(matches!(files.write(&mut a, b"xy", Some(3)), Ok(2)));
        assert!(matches!(files.read(&mut a, 9, None), Ok(b) if b == b"\0\0\0xy"));
        assert!(matches!(files.read(&mut a, 9, None), Ok(b) if b.is_empty()));
        let mut b = files.open(b"a", c::O_WRONLY | c::O_APPEND).expect("there");
        assert!(matches!(files.write(&mut b, b"z", Some(0)), Ok(1)));
        assert_eq!(files.len(a.inode), 6);
        assert!(matches!(files.read(&mut b, 1, None), Err(Stop::Errno(c::EBADF))));
        let again = files.open(b"a", c::O_CREAT | c::O_EXCL | c::O_RDWR);
        assert!(matches!(again, Err(Stop::Errno(c::EEXIST))));
    }
}
