//! System calls that wait, and are not tried again when they are interrupted.

use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::LONG;

/// The result of a system call, and nothing tried again.
fn checked(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

pub(super) fn nap(duration: Duration) -> io::Result<usize> {
    // (By `as`, as both have names of their own in each C library, and libc's for musl's seconds is deprecated.)
    let span =
        libc::timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos().into() };
    // SAFETY: a time of ours, and nothing wanted back.
    checked(unsafe { libc::nanosleep(&raw const span, std::ptr::null_mut()) } as isize)
}

pub(super) fn accept(listener: &TcpListener) -> io::Result<OwnedFd> {
    let null = std::ptr::null_mut();
    // SAFETY: no address is wanted; the new descriptor is ours.
    unsafe {
        let fd = libc::accept(listener.as_raw_fd(), null, null.cast());
        checked(fd as isize).map(|_| OwnedFd::from_raw_fd(fd))
    }
}

type Call = Box<dyn FnOnce() -> io::Result<usize> + Send>;

/// System calls that would not return within a test.
pub(super) fn calls() -> Vec<(&'static str, Call)> {
    let (mut reader, writer) = io::pipe().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let locks = [0, 1].map(|_| std::fs::File::open("/proc/self/exe").unwrap());
    // SAFETY: descriptors of ours.
    assert_eq!(unsafe { libc::flock(locks[0].as_raw_fd(), libc::LOCK_EX) }, 0);
    vec![
        ("nanosleep", Box::new(|| nap(LONG))),
        (
            "read",
            Box::new(move || {
                let _writer = &writer;
                reader.read(&mut [0; 8])
            }),
        ),
        ("accept", Box::new(move || accept(&listener).map(|_| 1))),
        // SAFETY: as above.
        (
            "flock",
            Box::new(move || {
                let _held = &locks[0];
                // SAFETY: as above.
                checked(unsafe { libc::flock(locks[1].as_raw_fd(), libc::LOCK_EX) } as isize)
            }),
        ),
    ]
}
