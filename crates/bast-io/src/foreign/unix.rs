//! Descriptors, which a call may ask not to wait.
//!
//! `O_NONBLOCK` belongs to the open file, and so to everybody who has it: a shell whose terminal were
//! set non-blocking would find its own reads failing. Linux lets a single call ask not to wait
//! (`RWF_NOWAIT`); what does not know that, terminals above all, is left to a thread that may block.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Tried;
use crate::op::Interest;
use crate::sys::{self, c};
use crate::{HandleRef, Stat};

/// What is read and written.
pub type Borrowed<'a> = BorrowedFd<'a>;

/// What is to be polled before a thread is given the call; `None`: nothing.
#[must_use]
pub fn pollable(fd: Borrowed<'_>) -> Option<HandleRef> {
    Some(HandleRef::foreign(fd))
}

/// Reads what is there, from the descriptor's own position.
#[must_use]
pub fn try_read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> Tried {
    let iov = c::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: the list of one is a local, and names a buffer that is borrowed for the call.
    tried(fd, || unsafe { c::preadv64v2(fd.as_raw_fd(), &raw const iov, 1, -1, c::RWF_NOWAIT) })
}

/// Writes what there is room for, at the descriptor's own position.
#[must_use]
pub fn try_write(fd: BorrowedFd<'_>, buf: &[u8]) -> Tried {
    let iov = c::iovec { iov_base: buf.as_ptr().cast_mut().cast(), iov_len: buf.len() };
    // SAFETY: as above; a write only reads the buffer.
    tried(fd, || unsafe { c::pwritev64v2(fd.as_raw_fd(), &raw const iov, 1, -1, c::RWF_NOWAIT) })
}

fn tried(fd: BorrowedFd<'_>, mut call: impl FnMut() -> isize) -> Tried {
    loop {
        let error = match usize::try_from(call()) {
            Ok(n) => return Tried::Done(Ok(n)),
            Err(_) => io::Error::last_os_error(),
        };
        return match error.raw_os_error() {
            Some(c::EINTR) => continue,
            // A file says so when it needs the disk, and is "ready" all the same.
            Some(c::EAGAIN) if is_file(fd) => Tried::MayBlock,
            Some(c::EAGAIN) => Tried::NotReady,
            // Not known to this kind of file, or to this kernel.
            Some(c::EOPNOTSUPP | c::ENOSYS) => Tried::MayBlock,
            _ => Tried::Done(Err(error)),
        };
    }
}

fn is_file(fd: BorrowedFd<'_>) -> bool {
    let stat = Stat::now(fd.as_raw_fd(), c"", Stat::KNOWN);
    stat.is_some_and(|stat| matches!(stat.mode & c::S_IFMT, c::S_IFREG | c::S_IFBLK))
}

/// Reads, and waits as long as it takes.
///
/// # Errors
/// The kernel's; [`Interrupted`](io::ErrorKind::Interrupted) by a signal.
pub fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is borrowed for the call.
    waiting(fd, Interest::Readable, || unsafe {
        c::read(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len())
    })
}

/// Writes, and waits as long as it takes. May write less than all.
///
/// # Errors
/// As [`read`].
pub fn write(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is borrowed for the call.
    waiting(fd, Interest::Writable, || unsafe {
        c::write(fd.as_raw_fd(), buf.as_ptr().cast(), buf.len())
    })
}

fn waiting(
    fd: BorrowedFd<'_>,
    interest: Interest,
    mut call: impl FnMut() -> isize,
) -> io::Result<usize> {
    loop {
        if let Ok(n) = usize::try_from(call()) {
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        // Somebody else has set it non-blocking.
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(error);
        }
        if sys::wait_fd(fd.as_raw_fd(), sys::events(interest), None) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
}

/// Writes all, as far as it can be written, on the calling thread.
pub fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Has `f` called when the process ends in the ordinary way: `main` returns, or somebody calls `exit`.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: a function that lives as long as the program. It fails only for want of memory, and then `f`
    // is not called.
    let _ = unsafe { c::atexit(f) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
        // SAFETY: the descriptor is open.
        unsafe { c::fcntl(fd.as_raw_fd(), c::F_GETFL) & c::O_NONBLOCK != 0 }
    }

    #[test]
    fn a_pipe_in_blocking_mode_is_asked_without_a_wait() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let mut buf = [0; 8];
        assert!(!matches!(try_read(reader.as_fd(), &mut buf), Tried::Done(_)));
        writer.write_all(b"hello").unwrap();
        if let Tried::Done(n) = try_read(reader.as_fd(), &mut buf) {
            assert_eq!(&buf[..n.unwrap()], b"hello");
        } else {
            // An old kernel.
            assert_eq!(read(reader.as_fd(), &mut buf).unwrap(), 5);
        }
        let mut sent = 0;
        let blob = vec![1; 1 << 16];
        while let Tried::Done(n) = try_write(writer.as_fd(), &blob) {
            sent += n.unwrap();
        }
        assert!(!is_nonblocking(reader.as_fd()) && !is_nonblocking(writer.as_fd()));
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), sent);
        assert!(matches!(try_read(reader.as_fd(), &mut buf), Tried::Done(Ok(0)) | Tried::MayBlock));
    }

    #[test]
    fn a_broken_pipe_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        // A child that is being started may have a copy of it for a moment.
        let mut written = (0..1_000).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            match try_write(writer.as_fd(), b"x") {
                Tried::Done(result) => result,
                _ => write(writer.as_fd(), b"x"),
            }
        });
        let error = written.find_map(io::Result::err).expect("somebody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_blocking_call_copes_with_the_other_mode() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert_eq!(sys::set_nonblocking(reader.as_raw_fd(), true).0, 0);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            writer.write_all(b"late").unwrap();
        });
        let mut buf = [0; 8];
        assert_eq!(read(reader.as_fd(), &mut buf).unwrap(), 4);
        thread.join().unwrap();
    }
}
