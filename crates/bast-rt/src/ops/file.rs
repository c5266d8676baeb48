//! Operations on files and pipes.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::time::Duration;

use bast_io::beneath::{self, Patience};
use bast_io::stat::Answer;
use bast_io::{Handle, Interest, Kind, Op, Stat, fifo, msg, warm};

use super::{at_once, opened, poll, waiting};
use crate::{mask, run_blocking, sleep, suspend};

/// `open(2)` with the flags of the same; close-on-exec. `kind` says what is behind the path:
/// [`Kind::File`], or [`Kind::Pipe`] together with `O_NONBLOCK`.
///
/// # Errors
/// The kernel's.
///
/// A pipe with a name waits for its other end, as it does in the kernel, and looks for it in turns of up to
/// 20 ms; no thread waits meanwhile. A reader sees a writer's data at once.
pub fn open(path: &CStr, flags: i32, mode: u32, kind: Kind) -> io::Result<Handle> {
    let flags = flags | kind.open_flags();
    let op = Op::Open { path: path.as_ptr(), flags, mode };
    // SAFETY: rt 5: the path is borrowed until the operation is over.
    let attempt = || unsafe { opened(op, kind, None) };
    if !fifo::may_wait(flags) || suspend::current().is_none() {
        return attempt();
    }
    let [mut pause, longest] = LOOKS;
    let handle = loop {
        match attempt() {
            Err(error) if fifo::is_alone(&error) && stat_path(path)?.is_fifo() => sleep(pause),
            result => break result?,
        }
        pause = (pause * 2).min(longest);
    };
    while fifo::awaits_writer(&handle, flags) && poll_briefly(&handle, pause)? {
        pause = (pause * 2).min(longest);
    }
    Ok(handle)
}

/// How long a pipe's open waits until it looks again, at first and at most.
const LOOKS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(20)];

/// Whether nothing has come.
fn poll_briefly(handle: &Handle, time: Duration) -> io::Result<bool> {
    match poll(handle, Interest::Readable, Some(time)) {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(true),
        Err(error) => Err(error),
    }
}

/// As [`open()`], of a relative path that cannot lead out of the directory `dir`. A pipe with a name does not wait for its
/// other end.
///
/// # Errors
/// As `bast_io`'s [`open_beneath`](beneath::open_beneath) with [`Patience::Disk`].
pub fn open_beneath(
    dir: &Handle,
    path: &CStr,
    flags: i32,
    mode: u32,
    kind: Kind,
) -> io::Result<Handle> {
    let flags = flags | kind.open_flags();
    let open = |patience| beneath::open_beneath(dir, path, flags, mode, patience);
    let fd = match open(Patience::None) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            run_blocking(|| open(Patience::Disk))
        }
        result => result,
    }?;
    Ok(Handle::from_owned(fd, kind))
}

/// Closes a handle, and says whether that went well, unlike a drop. Waits for nobody, and so raises
/// nothing: a fiber that has been cancelled closes all the same.
///
/// # Errors
/// The kernel's. The handle is closed all the same.
pub fn close(handle: Handle) -> io::Result<()> {
    let fd = handle.into_raw();
    // Masked: were it given up before it began, the descriptor would be lost.
    // SAFETY: no memory; the handle was ours.
    mask(|| unsafe { at_once(Op::Close { fd }) }).map(drop)
}

/// io_uring takes the largest number for "at the position".
fn check(offset: Option<u64>) -> io::Result<()> {
    match offset {
        Some(offset) if i64::try_from(offset).is_err() => Err(io::ErrorKind::InvalidInput.into()),
        _ => Ok(()),
    }
}

/// Reads at `offset`, or with `None` at the handle's own position. Zero is the end of the file.
///
/// io_uring keeps no order in the position of a regular file: two at once may use the same one, and it stays where it is
/// after a part that an error followed, and after direct I/O. So give those an offset.
///
/// # Errors
/// The kernel's. `InvalidInput` for an offset beyond what files can have.
pub fn read(handle: &Handle, buf: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
    check(offset)?;
    let op = Op::Read { handle: handle.as_ref(), buf: buf.as_mut_ptr(), len: buf.len(), offset };
    // SAFETY: rt 5: the buffer is borrowed until the operation is over.
    unsafe { waiting(op, None) }
}

/// Reads at `offset` what is in memory; `None` if that is nothing, or the file system cannot tell.
///
/// # Errors
/// The kernel's.
pub fn read_cached(handle: &Handle, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    warm::read(handle, buf, offset)
}

/// Writes at `offset`, or with `None` at the handle's own position, for which see [`read`]. May write less than all.
///
/// # Errors
/// As [`read`].
pub fn write(handle: &Handle, buf: &[u8], offset: Option<u64>) -> io::Result<usize> {
    check(offset)?;
    let op = Op::Write { handle: handle.as_ref(), buf: buf.as_ptr(), len: buf.len(), offset };
    // SAFETY: rt 5: the buffer is borrowed until the operation is over.
    unsafe { waiting(op, None) }
}

/// [`read`] into several buffers, one after the other.
///
/// # Errors
/// As [`read`].
pub fn read_vectored(
    handle: &Handle,
    bufs: &mut [IoSliceMut<'_>],
    offset: Option<u64>,
) -> io::Result<usize> {
    check(offset)?;
    let (iov, count) = msg::pieces_mut(bufs);
    // SAFETY: rt 5: the buffers and their list are borrowed until the operation is over.
    unsafe { waiting(Op::ReadV { handle: handle.as_ref(), iov, count, offset }, None) }
}

/// [`write()`] from several buffers, one after the other.
///
/// # Errors
/// As [`write()`].
pub fn write_vectored(
    handle: &Handle,
    bufs: &[IoSlice<'_>],
    offset: Option<u64>,
) -> io::Result<usize> {
    check(offset)?;
    let (iov, count) = msg::pieces(bufs);
    // SAFETY: rt 5: the buffers and their list are borrowed until the operation is over.
    unsafe { waiting(Op::WriteV { handle: handle.as_ref(), iov, count, offset }, None) }
}

/// `fsync(2)`, or `fdatasync(2)`.
///
/// # Errors
/// The kernel's.
pub fn fsync(handle: &Handle, data_only: bool) -> io::Result<()> {
    // SAFETY: no memory.
    unsafe { waiting(Op::Fsync { handle: handle.as_ref(), data_only }, None) }.map(drop)
}

/// What a handle is, and how long.
///
/// # Errors
/// The kernel's.
pub fn stat(handle: &Handle) -> io::Result<Stat> {
    let mut answer = Answer::new();
    // SAFETY: rt 5: the answer outlives the operation.
    unsafe { waiting(Stat::of(handle.as_ref(), &mut answer), None) }?;
    Ok(answer.get())
}

/// As [`stat()`], as far as it is known without asking a server: every driver answers on the spot.
///
/// # Errors
/// The kernel's.
pub fn stat_cached(handle: &Handle) -> io::Result<Stat> {
    let mut answer = Answer::new();
    // SAFETY: rt 5: the answer outlives the operation.
    unsafe { waiting(Stat::known_of(handle.as_ref(), &mut answer), None) }?;
    Ok(answer.get())
}

/// What is at a path, and how long. Follows symbolic links.
///
/// # Errors
/// The kernel's.
pub fn stat_path(path: &CStr) -> io::Result<Stat> {
    let mut answer = Answer::new();
    // SAFETY: rt 5: path and answer outlive the operation.
    unsafe { waiting(Stat::of_path(path, &mut answer), None) }?;
    Ok(answer.get())
}

/// Moves up to `len` bytes between two handles of which one is a pipe. Zero is the end of `from`.
///
/// # Errors
/// The kernel's; `OVERDUE` when the time is up.
pub fn splice(
    from: &Handle,
    from_offset: Option<u64>,
    to: &Handle,
    to_offset: Option<u64>,
    len: u32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    check(from_offset)?;
    check(to_offset)?;
    let (from, to) = (from.as_ref(), to.as_ref());
    // SAFETY: no memory.
    unsafe { waiting(Op::Splice { from, from_offset, to, to_offset, len }, timeout) }
}

/// Sends up to `len` bytes of a file, from `offset`, to a socket. Zero is the end of the file.
///
/// # Errors
/// The kernel's; `OVERDUE` when the time is up.
pub fn sendfile(
    to: &Handle,
    file: &Handle,
    offset: u64,
    len: usize,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let op = Op::SendFile { to: to.as_ref(), file: file.as_ref(), offset, len };
    // SAFETY: no memory.
    unsafe { waiting(op, timeout) }
}
