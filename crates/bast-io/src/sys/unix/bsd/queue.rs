//! The event queue of macOS and the BSDs: `kqueue(2)`, as the selector, the waker and the ends of children use it.
//!
//! ```text
//!   change: [ident, filter, what to do] ──▶ kernel ──▶ a receipt for each: 0, or the error
//!   wait ◀── events that have come, at most as long as said
//! ```
//!
//! A queue is a descriptor, which can itself be waited for: it is readable while it has events. Any thread may change
//! a queue while another waits for it; the kernel sees to the order.
//!
//! `--cfg bast_kqueue` builds this on Linux against libkqueue, so that what is here runs on a machine that has no
//! such kernel (`cargo xtask kqueue`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

#[cfg(target_os = "linux")]
use self::libkqueue as k;
#[cfg(not(target_os = "linux"))]
use libc as k;

pub(crate) use k::{
    EV_ADD, EV_CLEAR, EV_DELETE, EV_EOF, EV_ERROR, EVFILT_PROC, EVFILT_READ, EVFILT_USER,
    EVFILT_WRITE, NOTE_EXIT, NOTE_TRIGGER,
};

/// The kernel's form of a change and of an event.
pub(crate) type Event = k::kevent;

/// Longer waits end early: some kernels refuse a time of more than a hundred million seconds.
const LONGEST: Duration = Duration::from_secs(86_400);

/// One entry of a list of changes; the event that it asks for carries `mark`.
pub(crate) fn change(ident: i32, filter: i16, flags: u16, fflags: u32, mark: u32) -> Event {
    // SAFETY: integers, and a pointer that nobody follows.
    let mut event: Event = unsafe { std::mem::zeroed() };
    event.ident = ident as usize;
    event.filter = filter;
    event.flags = flags;
    event.fflags = fflags;
    event.udata = std::ptr::without_provenance_mut(mark as usize);
    event
}

#[derive(Debug)]
pub(crate) struct Queue {
    fd: OwnedFd,
}

impl Queue {
    pub(crate) fn new() -> io::Result<Queue> {
        // SAFETY: no memory is involved; a descriptor that was just made is nobody else's.
        let fd = unsafe {
            let fd = k::kqueue();
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: a descriptor's flags, by number.
        match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } {
            0.. => Ok(Queue { fd }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Makes these changes, whichever of them the kernel takes. For each 0, or the error.
    pub(crate) fn change<const N: usize>(&self, mut list: [Event; N]) -> [i32; N] {
        for event in &mut list {
            event.flags |= k::EV_RECEIPT;
        }
        let receipts = &mut { list }[..];
        match self.call(&list, receipts, None) {
            Err(error) => [error.raw_os_error().unwrap_or(libc::EIO); N],
            Ok(n) => std::array::from_fn(|i| {
                // A receipt is an "error", of number 0 where there is none.
                if i < n { receipts[i].data as i32 } else { libc::EIO }
            }),
        }
    }

    /// Collects events, for which it waits at most as long as said (`None`: for ever). A signal ends the wait.
    pub(crate) fn wait(
        &self,
        events: &mut [Event],
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        let time = timeout.map(|t| super::super::timespec(t.min(LONGEST)));
        match self.call(&[], events, time.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            result => result,
        }
    }

    /// The call. One that makes changes does not wait, and is not interrupted either.
    fn call(
        &self,
        changes: &[Event],
        events: &mut [Event],
        time: Option<&libc::timespec>,
    ) -> io::Result<usize> {
        let time = time.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: both lists are as long as they say; the time is null or borrowed for the call.
        let n = unsafe {
            k::kevent(
                self.fd(),
                changes.as_ptr(),
                changes.len() as _,
                events.as_mut_ptr(),
                events.len() as _,
                time,
            )
        };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

impl From<Queue> for OwnedFd {
    fn from(queue: Queue) -> OwnedFd {
        queue.fd
    }
}

/// What the `libc` crate has of the real ones.
#[cfg(target_os = "linux")]
#[allow(non_camel_case_types)]
mod libkqueue {
    use std::ffi::c_void;

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub(crate) struct kevent {
        pub(crate) ident: usize,
        pub(crate) filter: i16,
        pub(crate) flags: u16,
        pub(crate) fflags: u32,
        pub(crate) data: isize,
        pub(crate) udata: *mut c_void,
    }

    pub(crate) const EVFILT_READ: i16 = -1;
    pub(crate) const EVFILT_WRITE: i16 = -2;
    pub(crate) const EVFILT_PROC: i16 = -5;
    pub(crate) const EVFILT_USER: i16 = -11;
    pub(crate) const EV_ADD: u16 = 0x1;
    pub(crate) const EV_DELETE: u16 = 0x2;
    pub(crate) const EV_CLEAR: u16 = 0x20;
    pub(crate) const EV_RECEIPT: u16 = 0x40;
    pub(crate) const EV_ERROR: u16 = 0x4000;
    pub(crate) const EV_EOF: u16 = 0x8000;
    pub(crate) const NOTE_EXIT: u32 = 0x8000_0000;
    pub(crate) const NOTE_TRIGGER: u32 = 0x0100_0000;

    #[link(name = "kqueue", kind = "static")]
    unsafe extern "C" {
        pub(crate) fn kqueue() -> i32;
        #[link_name = "kevent"]
        fn kevent_or_closed(
            queue: i32,
            changes: *const kevent,
            nchanges: i32,
            events: *mut kevent,
            nevents: i32,
            time: *const libc::timespec,
        ) -> i32;
    }

    /// At the end of the process libkqueue closes all queues, under threads that wait for them. As with a kernel, such a
    /// thread waits until it is gone.
    pub(crate) unsafe fn kevent(
        queue: i32,
        changes: *const kevent,
        nchanges: i32,
        events: *mut kevent,
        nevents: i32,
        time: *const libc::timespec,
    ) -> i32 {
        // SAFETY: the caller's promise.
        let n = unsafe { kevent_or_closed(queue, changes, nchanges, events, nevents, time) };
        let error = std::io::Error::last_os_error();
        while n < 0 && nchanges == 0 && error.raw_os_error() == Some(libc::EBADF) {
            std::thread::park();
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn each_change_has_its_own_receipt() {
        let queue = Queue::new().expect("a queue");
        let (reader, writer) = io::pipe().expect("a pipe");
        let list = [
            change(reader.as_raw_fd(), EVFILT_READ, EV_ADD | EV_CLEAR, 0, 7),
            change(1 << 20, EVFILT_READ, EV_ADD, 0, 0),
        ];
        assert_eq!(queue.change(list), [0, libc::EBADF]);
        io::Write::write_all(&mut &writer, b"x").expect("room");
        let mut events = [change(0, 0, 0, 0, 0); 4];
        assert_eq!(queue.wait(&mut events, Some(Duration::from_secs(20))).expect("no error"), 1);
        let Event { ident, filter, udata, .. } = events[0];
        assert_eq!((ident, filter, udata.addr()), (reader.as_raw_fd() as usize, EVFILT_READ, 7));
        // An edge is told once.
        assert_eq!(queue.wait(&mut events, Some(Duration::ZERO)).expect("no error"), 0);
        let gone = change(reader.as_raw_fd(), EVFILT_READ, EV_DELETE, 0, 0);
        assert_eq!(queue.change([gone]), [0]);
        assert_eq!(queue.change([gone]), [libc::ENOENT]);
    }

    #[test]
    fn a_trigger_ends_the_wait_and_no_other() {
        let queue = Queue::new().expect("a queue");
        assert_eq!(queue.change([change(0, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0)]), [0]);
        assert_eq!(queue.change([change(0, EVFILT_USER, 0, NOTE_TRIGGER, 0)]), [0]);
        let mut events = [change(0, 0, 0, 0, 0); 4];
        assert_eq!(queue.wait(&mut events, None).expect("no error"), 1);
        let start = Instant::now();
        let wait = queue.wait(&mut events, Some(Duration::from_millis(20)));
        assert_eq!(wait.expect("no error"), 0);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
