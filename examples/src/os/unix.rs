//! What the programs need of Unix beyond bast and std. `windows.rs` has the same functions.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use bast::fs::{File, Metadata};
use bast::net::TcpStream;
use bast::os::unix::fs::MetadataExt;
use bast::process::Command;
use bast::signal::unix::{SignalKind, Signals, signal};
use socket2::SockRef;

/// What a system says when it has no descriptors or no memory for one more.
pub const SHORTAGES: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];

/// What runs a line of a shell.
pub const SHELL: [&str; 2] = ["sh", "-c"];

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit, which the call fills in; it keeps no pointer.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (failed == 0).then_some(limit)
}

/// Raises the soft limit on open files to the hard one. A server with 10,000 connections needs as many descriptors, and
/// the usual soft limit of 1,024 is for programs that use `select`. Best effort: where it fails, the old limit stays,
/// and `accept` says so when it is reached.
pub fn raise_open_files() {
    if let Some(mut limit) = limit() {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is a valid rlimit, which the call only reads; it keeps no pointer.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// How many files may be open at once.
#[must_use]
pub fn open_files() -> u64 {
    limit().map_or(u64::MAX, |limit| limit.rlim_cur)
}

/// For how long no data has been received, and none sent. Data that waits until the peer has room is not sent. Zero if
/// the kernel does not say.
pub fn silence(stream: &TcpStream) -> Duration {
    // SAFETY: integers throughout.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, out) = (libc::IPPROTO_TCP, (&raw mut info).cast());
    // SAFETY: the kernel writes at most `len` bytes to `info`; the descriptor is open.
    let failed =
        unsafe { libc::getsockopt(stream.as_raw_fd(), level, libc::TCP_INFO, out, &raw mut len) };
    if failed != 0 {
        return Duration::ZERO;
    }
    let ms = info.tcpi_last_data_recv.min(info.tcpi_last_data_sent);
    Duration::from_millis(ms.into())
}

/// Looks at what a connection has received, without taking it and without waiting.
///
/// # Errors
/// `WouldBlock` if that is nothing.
pub fn peek(stream: &TcpStream) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    SockRef::from(stream).recv_with_flags(&mut [MaybeUninit::uninit()], flags)
}

/// Whether what lies at a path, of which this is the metadata, is this open file.
///
/// # Errors
/// As `metadata`.
pub fn is_same(_path: &Path, there: &Metadata, open: &File) -> io::Result<bool> {
    let open = open.metadata()?;
    Ok((there.dev(), there.ino()) == (open.dev(), open.ino()))
}

/// The child leads a group of its own, so that Ctrl-C does not reach it.
pub fn lead_a_group(command: &mut Command) {
    command.process_group(0);
}

/// The signal that ended a child.
#[must_use]
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Waits for what has been listened for.
///
/// # Errors
/// The system has no memory.
pub fn wait_for(signals: &Signals) -> io::Result<()> {
    signals.recv()
}

/// Listens for what asks a program to end: Ctrl-C, and SIGTERM.
///
/// # Errors
/// No more descriptors.
pub fn requests_to_end() -> io::Result<Vec<Signals>> {
    [SignalKind::interrupt(), SignalKind::terminate()].into_iter().map(signal).collect()
}

/// Listens for what asks a program for its figures, if the system has such a thing: SIGUSR1.
///
/// # Errors
/// No more descriptors.
pub fn requests_for_figures() -> io::Result<Option<Signals>> {
    signal(SignalKind::user_defined1()).map(Some)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        super::raise_open_files();
        let limit = super::limit().unwrap();
        assert_eq!(limit.rlim_cur, limit.rlim_max);
    }
}
