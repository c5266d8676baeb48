//! Files, pipes and everything else that `ReadFile` reads, on a thread that may wait.
//!
//! A handle may be synchronous, as std's are, or overlapped, and then perhaps associated with a driver's port. The
//! call here serves both: it has an event of its own, whose lowest bit is set, which asks that no packet be posted.

use std::fs::OpenOptions;
use std::mem::{size_of, zeroed};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::IntoRawHandle;
use std::ptr::{null, null_mut};

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_ACCESS_INFORMATION, FileAccessInformation, NtQueryInformationFile,
};
use windows_sys::Win32::Foundation::{CloseHandle, ERROR_IO_PENDING, HANDLE, TRUE};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_READONLY,
    FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_TYPE_CHAR, FILE_TYPE_DISK, FILE_TYPE_PIPE, FlushFileBuffers, GetFileInformationByHandle,
    GetFileType, ReadFile, WriteFile,
};
use windows_sys::Win32::System::IO::{
    CancelIoEx, GetOverlappedResult, IO_STATUS_BLOCK, OVERLAPPED,
};
use windows_sys::Win32::System::Pipes::PeekNamedPipe;
use windows_sys::Win32::System::Threading::CreateEventW;

use super::super::Mode;
use super::{MAX_RW, c, decode, end_is_zero, handle, last_error};
use crate::{Kind, Op, Outcome};

/// Seconds from 1601, when Windows' clock begins, to 1970.
const EPOCH: i64 = 11_644_473_600;

/// The code of an error of std's.
fn code(error: &std::io::Error) -> Outcome {
    Outcome::from_errno(error.raw_os_error().unwrap_or(c::EINVAL))
}

/// Which way bytes go, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transfer {
    Read(*mut u8, usize),
    Write(*const u8, usize),
}

impl Transfer {
    pub(crate) const fn len(self) -> usize {
        match self {
            Transfer::Read(_, len) | Transfer::Write(_, len) => len,
        }
    }

    /// Starts it. Success: it is done, or will complete through `overlapped`.
    ///
    /// # Safety
    /// io 1 for the memory and for `overlapped`, which may be null for a synchronous handle.
    pub(crate) unsafe fn start(self, file: HANDLE, overlapped: *mut OVERLAPPED) -> (bool, u32) {
        let mut n = 0u32;
        let len = self.len().min(MAX_RW) as u32;
        // SAFETY: the caller's promise.
        let started = unsafe {
            match self {
                Transfer::Read(buf, _) => ReadFile(file, buf, len, &raw mut n, overlapped),
                Transfer::Write(buf, _) => WriteFile(file, buf, len, &raw mut n, overlapped),
            }
        };
        (started != 0, n)
    }
}

/// An `OVERLAPPED` for a transfer at `offset`.
pub(crate) fn overlapped_at(offset: u64) -> OVERLAPPED {
    // SAFETY: numbers and a null handle.
    let mut overlapped: OVERLAPPED = unsafe { zeroed() };
    overlapped.Anonymous.Anonymous.Offset = offset as u32;
    overlapped.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
    overlapped
}

/// One transfer, waited for. If it must not wait it is cancelled: `EAGAIN`.
///
/// # Safety
/// io 1 for the memory.
unsafe fn one(
    file: i32,
    kind: Kind,
    transfer: Transfer,
    offset: Option<u64>,
    mode: Mode,
) -> Outcome {
    let file = handle(file);
    // SAFETY: the caller's promise for the memory; the `OVERLAPPED` and the event outlive the transfer.
    unsafe {
        if kind == Kind::File && offset.is_none() {
            // At the handle's own position, which only a synchronous one has.
            return match transfer.start(file, null_mut()) {
                (true, n) => Outcome(n as i32),
                _ => end_is_zero(last_error()),
            };
        }
        if mode == Mode::NoWait && matches!(transfer, Transfer::Read(..)) {
            let mut there = 0u32;
            let known = PeekNamedPipe(file, null_mut(), 0, null_mut(), &raw mut there, null_mut());
            if known != 0 && there == 0 {
                return Outcome::WOULD_BLOCK;
            }
        }
        let event = CreateEventW(null(), TRUE, 0, null());
        if event.is_null() {
            return last_error();
        }
        let mut overlapped = overlapped_at(offset.unwrap_or(0));
        overlapped.hEvent = (event as usize | 1) as HANDLE;
        let (done, _) = transfer.start(file, &raw mut overlapped);
        let started = if done { Outcome(0) } else { last_error() };
        let mut outcome = started;
        if done || started.is_errno(ERROR_IO_PENDING as i32) {
            if !done && mode == Mode::NoWait {
                CancelIoEx(file, &raw const overlapped);
            }
            let mut n = 0u32;
            outcome = match GetOverlappedResult(file, &raw const overlapped, &raw mut n, TRUE) {
                0 => last_error(),
                _ => Outcome(n as i32),
            };
            if mode == Mode::NoWait && outcome == Outcome::CANCELLED {
                outcome = Outcome::WOULD_BLOCK;
            }
        }
        CloseHandle(event);
        match transfer {
            Transfer::Read(..) => end_is_zero(outcome),
            Transfer::Write(..) => super::unread_is_broken(outcome),
        }
    }
}

/// Somebody else's overlapped call, waited for.
///
/// # Safety
/// `start` may be called with `data`.
pub(crate) unsafe fn overlapped(
    file: i32,
    start: unsafe extern "C" fn(*mut (), *mut c::c_void) -> i32,
    data: *mut (),
) -> Outcome {
    // SAFETY: the `OVERLAPPED` and the event outlive the call that is started.
    unsafe {
        let event = CreateEventW(null(), TRUE, 0, null());
        if event.is_null() {
            return last_error();
        }
        let mut overlapped = overlapped_at(0);
        overlapped.hEvent = (event as usize | 1) as HANDLE;
        let outcome = match start(data, (&raw mut overlapped).cast()) {
            0 | c::PENDING => {
                let mut n = 0u32;
                match GetOverlappedResult(handle(file), &raw const overlapped, &raw mut n, TRUE) {
                    0 => last_error(),
                    _ => Outcome(n as i32),
                }
            }
            code => Outcome::from_errno(code),
        };
        CloseHandle(event);
        outcome
    }
}

/// What a read or write transfers, piece after piece. A pipe's first piece only: the second could have to wait.
///
/// # Safety
/// io 1.
pub(crate) unsafe fn pieces(op: &Op) -> (i32, Kind, Option<u64>, impl Iterator<Item = Transfer>) {
    let single = |transfer| (Some(transfer), std::ptr::null::<c::iovec>(), 0);
    let (handle, offset, (one, iov, count), reads) = match *op {
        Op::Read { handle, buf, len, offset } => {
            (handle, offset, single(Transfer::Read(buf, len)), true)
        }
        Op::Write { handle, buf, len, offset } => {
            (handle, offset, single(Transfer::Write(buf, len)), false)
        }
        Op::ReadV { handle, iov, count, offset } => (handle, offset, (None, iov, count), true),
        Op::WriteV { handle, iov, count, offset } => (handle, offset, (None, iov, count), false),
        _ => unreachable!("only reads and writes transfer"),
    };
    let list = (0..count as usize).map(move |i| {
        // SAFETY: io 1: the list is lent.
        let piece = unsafe { *iov.add(i) };
        let (base, len) = (piece.iov_base.cast::<u8>(), piece.iov_len as usize);
        if reads { Transfer::Read(base, len) } else { Transfer::Write(base, len) }
    });
    let most = if handle.kind == Kind::File { usize::MAX } else { 1 };
    let list = list.filter(|piece| piece.len() > 0).take(most);
    (handle.raw, handle.kind, offset, one.into_iter().chain(list))
}

/// Reads or writes.
///
/// # Safety
/// io 1.
pub(super) unsafe fn transfer(op: &Op, mode: Mode) -> Outcome {
    // SAFETY: the caller's promise.
    let (file, kind, offset, pieces) = unsafe { pieces(op) };
    let mut moved = 0;
    for piece in pieces {
        let at = offset.map(|offset| offset.saturating_add(moved as u64));
        // SAFETY: the caller's promise.
        let outcome = unsafe { one(file, kind, piece, at, mode) };
        if outcome.0 < 0 {
            return if moved > 0 { Outcome(moved) } else { outcome };
        }
        moved = moved.saturating_add(outcome.0);
        if (outcome.0 as usize) < piece.len() {
            break;
        }
    }
    Outcome(moved)
}

/// Reads a file at an offset.
pub(super) fn read_at(file: i32, buf: &mut [u8], offset: u64) -> Outcome {
    let transfer = Transfer::Read(buf.as_mut_ptr(), buf.len());
    // SAFETY: the buffer is borrowed for the call.
    unsafe { one(file, Kind::File, transfer, Some(offset), Mode::Block) }
}

/// Opens by std's own rules. `flags` are the bits of `c`; of `mode` the upper half counts: `FILE_FLAG_…`.
///
/// # Safety
/// `path` is one.
pub(super) unsafe fn open(path: *const c::c_char, flags: i32, mode: u32) -> Outcome {
    // SAFETY: the caller's promise.
    let Some(path) = (unsafe { decode(path) }) else { return Outcome::from_errno(c::ENOENT) };
    let is = |bit| flags & bit != 0;
    let access = flags & c::O_ACCMODE;
    let mut custom = mode & 0xffff_0000;
    if is(c::O_DIRECTORY) {
        custom |= FILE_FLAG_BACKUP_SEMANTICS;
    }
    let (reads, writes) = (access != c::O_WRONLY, access != c::O_RDONLY);
    let mut options = OpenOptions::new();
    options.read(reads).write(writes && !is(c::O_APPEND)).append(writes && is(c::O_APPEND));
    options.create(is(c::O_CREAT)).truncate(is(c::O_TRUNC));
    options.create_new(is(c::O_CREAT) && is(c::O_EXCL)).custom_flags(custom);
    match options.open(path) {
        Ok(file) if is(c::O_DIRECTORY) && !file.metadata().is_ok_and(|m| m.is_dir()) => {
            Outcome::from_errno(c::ENOTDIR)
        }
        Ok(file) => Outcome(super::raw(file.into_raw_handle())),
        Err(error) => code(&error),
    }
}

/// Flushes what was written.
pub(super) fn flush(file: i32) -> Outcome {
    // SAFETY: no memory is involved.
    if unsafe { FlushFileBuffers(handle(file)) } == 0 { last_error() } else { Outcome(0) }
}

/// What an open handle is, or what is at a path.
///
/// # Safety
/// io 1 for `path` and `out`.
pub(super) unsafe fn stat(
    dir: i32,
    path: *const c::c_char,
    flags: i32,
    out: *mut c::statx,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        if *path == 0 && flags & c::AT_EMPTY_PATH != 0 {
            return describe(handle(dir), out);
        }
        let Some(path) = decode(path) else { return Outcome::from_errno(c::ENOENT) };
        let follow = flags & c::AT_SYMLINK_NOFOLLOW == 0;
        let link = if follow { 0 } else { FILE_FLAG_OPEN_REPARSE_POINT };
        let mut options = OpenOptions::new();
        options.access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS | link);
        match options.open(path) {
            Ok(file) => {
                let file = file.into_raw_handle();
                let outcome = describe(file, out);
                CloseHandle(file);
                outcome
            }
            Err(error) => code(&error),
        }
    }
}

/// # Safety
/// `out` may be written.
unsafe fn describe(file: HANDLE, out: *mut c::statx) -> Outcome {
    // SAFETY: numbers, for which zero is a value.
    let (mut stat, mut info): (c::statx, BY_HANDLE_FILE_INFORMATION) = unsafe { zeroed() };
    // SAFETY: no memory is involved.
    let mode = match unsafe { GetFileType(file) } {
        FILE_TYPE_CHAR => c::S_IFCHR | 0o666,
        FILE_TYPE_PIPE => c::S_IFIFO | 0o666,
        FILE_TYPE_DISK => {
            // SAFETY: room for the answer.
            if unsafe { GetFileInformationByHandle(file, &raw mut info) } == 0 {
                return last_error();
            }
            let is = |bit| info.dwFileAttributes & bit != 0;
            let write = if is(FILE_ATTRIBUTE_READONLY) { 0o444 } else { 0o666 };
            match () {
                () if is(FILE_ATTRIBUTE_REPARSE_POINT) => c::S_IFLNK | 0o777,
                () if is(FILE_ATTRIBUTE_DIRECTORY) => c::S_IFDIR | 0o111 | write,
                () => c::S_IFREG | write,
            }
        }
        _ => return last_error(),
    };
    let join = |high: u32, low: u32| (u64::from(high) << 32) | u64::from(low);
    stat.stx_mask = c::STATX_BASIC_STATS;
    stat.stx_mode = mode as u16;
    stat.stx_nlink = info.nNumberOfLinks;
    stat.stx_ino = join(info.nFileIndexHigh, info.nFileIndexLow);
    stat.stx_size = join(info.nFileSizeHigh, info.nFileSizeLow);
    let written = info.ftLastWriteTime;
    let ticks = join(written.dwHighDateTime, written.dwLowDateTime); // of 100 ns
    stat.stx_mtime.tv_sec = (ticks / 10_000_000) as i64 - EPOCH;
    stat.stx_mtime.tv_nsec = (ticks % 10_000_000) as u32 * 100;
    // SAFETY: the caller's promise.
    unsafe { out.write(stat) };
    Outcome(0)
}

/// The rights that a handle was opened with; none if it does not say.
pub(crate) fn access(file: HANDLE) -> u32 {
    // SAFETY: numbers, for which zero is a value; the answer is as long as it says.
    unsafe {
        let (mut status, mut info): (IO_STATUS_BLOCK, FILE_ACCESS_INFORMATION) = zeroed();
        let (room, len) = ((&raw mut info).cast(), size_of::<FILE_ACCESS_INFORMATION>() as u32);
        NtQueryInformationFile(file, &raw mut status, room, len, FileAccessInformation);
        info.AccessFlags
    }
}
