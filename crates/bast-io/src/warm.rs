//! What the kernel has in memory, and can do at once: sending, reading and describing files without
//! waiting for a disk.
//!
//! ```text
//!   Op::SendFile ─▶ in memory? ─yes─▶ sendfile(2), here and now ─▶ done, or EAGAIN: the socket is full
//!                       └─no─▶ the pool, where the disk may take its time
//! ```
//!
//! `sendfile` can be told not to wait for the socket (by the socket's mode), and not to leave the disk
//! alone. io_uring has no such operation; its `splice` goes to a thread of the kernel's in every case,
//! and takes two turns, by a pipe. So the call is made on the driver's own thread, if all that it will
//! send is in the page cache. `cachestat(2)` (Linux 6.5) tells that of a whole range at once, to those
//! who may write the file. Everybody may ask for one byte with `RWF_NOWAIT`; that is done for each page of
//! a shorter range where `cachestat` is refused, and for the last page where it is not: a page that is
//! being read ahead is in the cache already, and its end comes last.
//!
//! Between question and call the page may be evicted, and the call waits for the disk after all. That
//! takes a machine out of memory, on which nothing is quick; a page that was just looked at goes last.
//!
//! A call of `WINDOW` bytes takes some 150 µs. That is long, but a window of a quarter costs four questions and
//! four calls, a sixth more for a file of 1 MiB.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::stat::Answer;
use crate::sys::{self, Mode, c, retry};
use crate::{Handle, HandleRef, Kind, Op, Outcome, Stat};

/// The most that is sent on the driver's thread at a time.
const WINDOW: usize = 1 << 20;

/// Where each page is asked for by itself, the most that are.
const PAGES: usize = 16;

/// Sends what is in memory: `EAGAIN` if the socket has no room, `None` if the disk may be needed, or if
/// `op` is no `SendFile`. The socket is set non-blocking for each: whoever has got a clone may have set both blocking.
pub(crate) fn send_file(op: &Op) -> Option<Outcome> {
    let Op::SendFile { to, file, offset, len } = *op else { return None };
    if file.kind != Kind::File {
        return None;
    }
    let len = in_memory(file.raw, offset, len.min(WINDOW));
    let op = Op::SendFile { to, file, offset, len };
    (len > 0).then(|| {
        op.unblock_ends();
        // SAFETY: the operation names no memory.
        unsafe { sys::call(&op, Mode::NoWait) }
    })
}

/// How many of the `len` bytes at `offset` are known to be in memory. All of them, if the file ends before.
fn in_memory(fd: i32, offset: u64, len: usize) -> usize {
    let page = page_size();
    if len == 0 || offset > i64::MAX as u64 - WINDOW as u64 {
        return 0;
    }
    let pages = |len: usize| ((offset + len as u64 - 1) / page - offset / page + 1) as usize;
    if let Some(cached) = sys::cached_pages(fd, offset, len) {
        let mut last = len;
        if cached < pages(len) {
            // Either something is missing, or the file is shorter.
            let left = size(fd).saturating_sub(offset);
            last = len.min(usize::try_from(left).unwrap_or(len));
            if last > 0 && cached < pages(last) {
                return 0;
            }
        }
        let reading = last > 0 && probe(fd, offset + last as u64 - 1).is_errno(c::EAGAIN);
        return if reading { 0 } else { len };
    }
    let mut known = 0;
    for _ in 0..PAGES {
        let at = offset + known as u64;
        if known >= len || probe(fd, at).0 < 0 {
            break;
        }
        known += (page - at % page) as usize;
    }
    known.min(len)
}

fn page_size() -> u64 {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let mut size = SIZE.load(Relaxed); // It guards nothing, and everybody finds the same.
    if size == 0 {
        // SAFETY: no memory is involved.
        size = usize::try_from(unsafe { c::sysconf(c::_SC_PAGESIZE) }).unwrap_or(4096);
        SIZE.store(size, Relaxed);
    }
    size as u64
}

/// Reads one byte without waiting: `EAGAIN` if the disk is needed, `EOPNOTSUPP` if the file system cannot tell.
fn probe(fd: i32, offset: u64) -> Outcome {
    let mut byte = 0u8;
    pread_now(fd, &raw mut byte, 1, offset)
}

fn pread_now(fd: i32, buf: *mut u8, len: usize, offset: u64) -> Outcome {
    let iov = c::iovec { iov_base: buf.cast(), iov_len: len };
    let at = i64::try_from(offset).unwrap_or(i64::MAX);
    // SAFETY: the callers' `buf` has `len` bytes; the list of one is a local.
    retry(|| unsafe { c::preadv64v2(fd, &raw const iov, 1, at, c::RWF_NOWAIT) })
}

fn size(fd: i32) -> u64 {
    let mut answer = Answer::new();
    let op = Stat::known_of(HandleRef { raw: fd, kind: Kind::File, id: 0 }, &mut answer);
    // SAFETY: path and answer outlive the call; what it could not tell is a length of zero.
    let _ = unsafe { sys::call(&op, Mode::NoWait) };
    answer.get().len
}

/// Reads at `offset` what is in memory; `None` if that is nothing, or the file system cannot tell.
///
/// # Errors
/// The kernel's.
pub fn read(file: &Handle, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    if file.is_simulated() {
        return Ok(None);
    }
    match pread_now(file.as_raw_fd(), buf.as_mut_ptr(), buf.len(), offset) {
        o if o.is_errno(c::EAGAIN) || o.is_errno(c::EOPNOTSUPP) => Ok(None),
        o => o.into_result().map(Some),
    }
}

#[cfg(all(test, target_os = "linux", not(bast_kqueue)))]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    /// A file whose pages are on the disk and in memory, in a directory that is (mostly) on a disk.
    fn file(len: usize) -> std::fs::File {
        use std::sync::atomic::AtomicU32;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("warm-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::current_exe().unwrap().with_file_name(name);
        let mut file =
            std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all(&vec![7; len]).unwrap();
        file.sync_all().unwrap();
        file
    }

    #[test]
    fn what_was_just_written_is_in_memory() {
        let file = file(200_000);
        let fd = file.as_raw_fd();
        assert_eq!(in_memory(fd, 0, 200_000), 200_000);
        assert_eq!(in_memory(fd, 4095, 2), 2);
        assert_eq!(in_memory(fd, 100_000, WINDOW), WINDOW, "up to its end, and nothing is there");
        assert_eq!(in_memory(fd, 200_000, 10), 10);
        assert_eq!(in_memory(fd, 1 << 40, 10), 10);
        assert_eq!(in_memory(fd, u64::MAX, 10), 0);
    }

    #[test]
    fn what_was_dropped_is_not() {
        // A new one for each question: some kernels read ahead what they are asked for.
        let dropped = || {
            let file = file(300_000);
            // SAFETY: no memory is involved.
            unsafe { c::posix_fadvise(file.as_raw_fd(), 0, 0, c::POSIX_FADV_DONTNEED) };
            file
        };
        if !probe(dropped().as_raw_fd(), 0).is_errno(c::EAGAIN) {
            eprintln!("skipped: this file system keeps everything in memory, or cannot tell");
            return;
        }
        assert_eq!(in_memory(dropped().as_raw_fd(), 0, 300_000), 0);
        let file = dropped();
        let fd = file.as_raw_fd();
        assert_eq!(in_memory(fd, 0, 1), 0);
        let mut some = [0; 4096];
        std::os::unix::fs::FileExt::read_at(&file, &mut some, 0).unwrap();
        assert!(in_memory(fd, 0, 4096) == 4096, "it was read");
    }
}
