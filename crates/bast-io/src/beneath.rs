//! Opening what lies beneath a directory, and nothing else.
//!
//! ```text
//!   openat2: RESOLVE_BENEATH (+ RESOLVE_CACHED: only if no directory has to be read) ─▶ descriptor
//!     └─ no such call here ─▶ walk: openat(O_NOFOLLOW), name by name ─▶ descriptor
//! ```

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub use crate::open::Patience;
use crate::sys::{self, c, retry};
use crate::{Handle, Outcome, fifo};

/// Opens the relative `path` so that it cannot lead out of the directory `dir`: neither by `..`, nor
/// by a symbolic link, nor by a rename meanwhile. Links that stay within are followed. `openat2(2)`;
/// on a kernel that does not have it (before 5.6), or a sandbox that hides it, the path is walked name by
/// name, and every symbolic link is refused.
///
/// A pipe with a name is not waited for, and no other device: whoever made it could stop this thread. It is opened
/// as if with `O_NONBLOCK`, and has the mode that `flags` say afterwards.
///
/// # Errors
/// `ENXIO` for a pipe that is to be written and that nobody reads; `EXDEV` for a path that leads out,
/// `ELOOP` for a link that is refused, `EAGAIN` as [`Patience`] says; else as `open(2)`.
pub fn open_beneath(
    dir: &Handle,
    path: &CStr,
    flags: i32,
    mode: u32,
    patience: Patience,
) -> io::Result<OwnedFd> {
    let dir = dir.as_raw_fd();
    if !fifo::may_wait(flags) {
        return open(dir, path, flags, mode, patience);
    }
    let opened = match open(dir, path, flags | c::O_NONBLOCK, mode, patience) {
        // Somebody has a lease on the file, and gives it up for those who wait.
        Err(error) if patience == Patience::Disk && error.kind() == io::ErrorKind::WouldBlock => {
            return open(dir, path, flags, mode, patience);
        }
        opened => opened?,
    };
    sys::set_nonblocking(opened.as_raw_fd(), false).into_result()?;
    Ok(opened)
}

fn open(dir: i32, path: &CStr, flags: i32, mode: u32, patience: Patience) -> io::Result<OwnedFd> {
    /// Renames elsewhere in the tree make the kernel say EAGAIN; it asks to be asked again.
    const TRIES: usize = 64;
    let resolve = c::RESOLVE_BENEATH | c::RESOLVE_NO_MAGICLINKS;
    let mut outcome = Outcome::from_errno(c::EAGAIN);
    let tries = if patience == Patience::None { 1 } else { TRIES };
    for _ in 0..tries {
        outcome = match patience {
            Patience::None => sys::openat2(dir, path, flags, mode, resolve | c::RESOLVE_CACHED),
            Patience::Disk => sys::openat2(dir, path, flags, mode, resolve),
        };
        if !outcome.is_errno(c::EAGAIN) {
            break;
        }
    }
    let hidden = outcome.is_errno(c::ENOSYS) || outcome.is_errno(c::EPERM);
    match patience {
        Patience::None if hidden || outcome.is_errno(c::EINVAL) => {
            Err(io::Error::from_raw_os_error(c::EAGAIN)) // The other way tells.
        }
        Patience::Disk if hidden => walk(dir, path, flags, mode),
        // SAFETY: the kernel has just made it for us.
        _ => outcome.into_result().map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    }
}

/// Opens name by name, and follows no link.
fn walk(dir: i32, path: &CStr, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    let open = |dir: i32, name: &[u8], flags: i32| {
        let name = CString::new(name)?;
        let flags = flags | c::O_NOFOLLOW | c::O_CLOEXEC;
        // SAFETY: the name outlives the call; the descriptor that it gives is new.
        unsafe {
            retry(|| c::openat(dir, name.as_ptr(), flags, mode) as isize)
                .into_result()
                .map(|fd| OwnedFd::from_raw_fd(fd as i32))
        }
    };
    let bytes = path.to_bytes();
    if bytes.first() == Some(&b'/') {
        return Err(io::Error::from_raw_os_error(c::EXDEV));
    }
    let names = bytes.split(|b| *b == b'/');
    let mut names = names.filter(|name| !name.is_empty() && *name != b".").peekable();
    let mut at = open(dir, b".", c::O_PATH | c::O_DIRECTORY)?;
    while let Some(name) = names.next() {
        if name == b".." {
            return Err(io::Error::from_raw_os_error(c::EXDEV));
        }
        let is_last = names.peek().is_none();
        if is_last && bytes.last() != Some(&b'/') {
            return open(at.as_raw_fd(), name, flags);
        }
        at = open(at.as_raw_fd(), name, c::O_PATH | c::O_DIRECTORY)?;
    }
    open(at.as_raw_fd(), b".", flags)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::Kind;

    #[test]
    fn nothing_leads_out() {
        let base = std::env::temp_dir().join(format!("bast-beneath-{}", std::process::id()));
        fs::create_dir_all(base.join("root/sub")).unwrap();
        fs::write(base.join("root/sub/file"), "in").unwrap();
        fs::write(base.join("secret"), "out").unwrap();
        symlink("sub/file", base.join("root/within")).unwrap();
        symlink("../secret", base.join("root/out")).unwrap();
        symlink(base.join("secret"), base.join("root/absolute")).unwrap();
        symlink(&base, base.join("root/sub/up")).unwrap();
        let root = fs::File::open(base.join("root")).unwrap();
        let root = Handle::from_owned(root.into(), Kind::File);
        type Way<'a> = &'a dyn Fn(&CStr) -> io::Result<OwnedFd>;
        let ways: [Way<'_>; 2] =
            [&|path| open_beneath(&root, path, c::O_RDONLY, 0, Patience::Disk), &|path| {
                walk(root.as_raw_fd(), path, c::O_RDONLY, 0)
            }];
        for (i, open) in ways.iter().enumerate() {
            for path in [c"sub/file", c"./sub//file", c"sub", c".", c"sub/"] {
                open(path).unwrap_or_else(|e| panic!("way {i}, {path:?}: {e}"));
            }
            let out =
                [c"..", c"../secret", c"sub/../../secret", c"out", c"absolute", c"sub/up/secret"];
            let file = base.join("secret");
            let absolute = CString::new(file.to_str().unwrap()).unwrap();
            for path in out.into_iter().chain([absolute.as_c_str()]) {
                let errno = open(path).expect_err("it leads out").raw_os_error();
                let refused = [Some(c::EXDEV), Some(c::ELOOP), Some(c::ENOTDIR)];
                assert!(refused.contains(&errno), "way {i}, {path:?}: {errno:?}");
            }
            let missing = open(c"sub/none").expect_err("it does not exist").raw_os_error();
            assert_eq!(missing, Some(c::ENOENT));
        }
        assert!(ways[1](c"within").is_err(), "the walk refuses all links");
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_pipe_with_a_name_is_not_waited_for() {
        let base = std::env::temp_dir().join(format!("bast-beneath-fifo-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let path = CString::new(base.join("fifo").to_str().unwrap()).unwrap();
        // SAFETY: a path.
        assert_eq!(unsafe { c::mkfifo(path.as_ptr(), 0o600) }, 0);
        let (tell, told) = std::sync::mpsc::channel();
        let dir = base.clone();
        std::thread::spawn(move || {
            let root = fs::File::open(dir).unwrap();
            let root = Handle::from_owned(root.into(), Kind::File);
            for flags in [c::O_RDONLY, c::O_WRONLY] {
                for patience in [Patience::None, Patience::Disk] {
                    let result = open_beneath(&root, c"fifo", flags, 0, patience);
                    tell.send(result.map(|fd| mode_of(&fd))).unwrap();
                }
            }
        });
        for i in 0..4 {
            let opened = told
                .recv_timeout(std::time::Duration::from_secs(100))
                .unwrap_or_else(|e| panic!("{i} waits: {e}"));
            match opened {
                Ok(mode) => assert_eq!((i < 2, mode & c::O_NONBLOCK), (true, 0)),
                // Nobody reads; or no directory is to be read, on an old kernel.
                Err(error) => assert!(
                    i >= 2 && error.raw_os_error() == Some(c::ENXIO)
                        || i % 2 == 0 && error.raw_os_error() == Some(c::EAGAIN),
                    "{i}: {error}"
                ),
            }
        }
        fs::remove_dir_all(base).unwrap();
    }

    fn mode_of(fd: &OwnedFd) -> i32 {
        // SAFETY: no memory is involved.
        unsafe { c::fcntl(fd.as_raw_fd(), c::F_GETFL) }
    }

    #[test]
    fn what_was_just_opened_needs_no_disk() {
        let dir = fs::File::open(std::env::temp_dir()).unwrap();
        let dir = Handle::from_owned(dir.into(), Kind::File);
        let flags = c::O_RDONLY;
        open_beneath(&dir, c".", flags, 0, Patience::Disk).unwrap();
        match open_beneath(&dir, c".", flags, 0, Patience::None) {
            Ok(_) => {}
            // A kernel before 5.12, or a sandbox.
            Err(error) => assert_eq!(error.raw_os_error(), Some(c::EAGAIN)),
        }
    }
}
