//! The epoll selector: which descriptors had an edge.
//!
//! A descriptor is registered once, for everything, edge-triggered, and stays registered until it is
//! closed. What an edge means for the waiting operations is decided one file up, where kqueue would
//! share it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Edge;
use crate::{Waker, sys};

/// Whether an edge says what makes a read short with more to come: see `table`.
pub(super) const TELLS_ALL: bool = true;

/// The waker's event: no descriptor has this number.
const WAKE: u64 = u64::MAX;

/// Everything, edge-triggered. PRI is watched only to know about urgent data, see `table`.
const ALL: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLET) as u32;

/// How many events one wait takes; more wait for the next.
const BATCH: usize = 512;

pub(super) struct Selector {
    epoll: OwnedFd,
    events: Box<[libc::epoll_event]>,
    got: usize,
}

const fn data(fd: RawFd, id: u64) -> u64 {
    (fd as u32 as u64) | (id << 32)
}

impl Selector {
    pub(super) fn new(waker: &Waker) -> io::Result<Selector> {
        // SAFETY: no memory is involved; a descriptor that was just made is nobody else's.
        let epoll = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; BATCH].into_boxed_slice();
        let selector = Selector { epoll, events, got: 0 };
        // Edge-triggered: each write of the eventfd is an edge, and nobody needs to read it.
        let wanted = (libc::EPOLLIN | libc::EPOLLET) as u32;
        match selector.ctl(libc::EPOLL_CTL_ADD, waker.fd(), wanted, WAKE) {
            0 => Ok(selector),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// 0 or the error.
    fn ctl(&self, how: i32, fd: RawFd, events: u32, data: u64) -> i32 {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the event is a local.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), how, fd, &raw mut event) } {
            0 => 0,
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// Registers a descriptor; the next wait reports what it is ready for now. 0 or the error.
    ///
    /// `EEXIST`: the number was closed, but what it named lives on under a duplicate, and the number
    /// names it again. Modifying renews the identity, and reports what is ready now as adding does.
    pub(super) fn add(&mut self, fd: RawFd, id: u64) -> i32 {
        match self.ctl(libc::EPOLL_CTL_ADD, fd, ALL, data(fd, id)) {
            libc::EEXIST => self.ctl(libc::EPOLL_CTL_MOD, fd, ALL, data(fd, id)),
            errno => errno,
        }
    }

    /// Reports what a registered descriptor is ready for. 0 or the error.
    pub(super) fn renew(&mut self, fd: RawFd, id: u64) -> i32 {
        self.ctl(libc::EPOLL_CTL_MOD, fd, ALL, data(fd, id))
    }

    /// Forgets a descriptor. That it is already gone is no error.
    pub(super) fn remove(&mut self, fd: RawFd) {
        self.ctl(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    /// Collects edges, for which it waits at most as long as said (`None`: for ever). A signal ends
    /// the wait.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.got = 0;
        let n = self.wait_raw(timeout);
        if n >= 0 {
            self.got = n as usize;
            return Ok(());
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            e => Err(e),
        }
    }

    fn wait_raw(&mut self, timeout: Option<Duration>) -> i32 {
        // Not before Linux 5.11; then milliseconds must do. Relaxed: a flag on its own.
        static NO_PWAIT2: AtomicBool = AtomicBool::new(false);
        let (fd, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let fine = timeout.filter(|t| !t.is_zero() && !NO_PWAIT2.load(Ordering::Relaxed));
        if let Some(t) = fine {
            let ts = sys::timespec(t);
            // By number, as old C libraries lack the function.
            // SAFETY: there is room for BATCH events; the time is a local; no signal mask is given.
            let n = unsafe {
                let none = std::ptr::null::<libc::sigset_t>();
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    fd,
                    events,
                    BATCH,
                    &raw const ts,
                    none,
                    0usize,
                )
            };
            if n >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS) {
                return n as i32;
            }
            NO_PWAIT2.store(true, Ordering::Relaxed);
        }
        let ms = timeout.map_or(-1, |t| {
            // Rounded up: a timer must not be polled for in vain just before it is due.
            i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        // SAFETY: there is room for BATCH events.
        unsafe { libc::epoll_wait(fd, events, BATCH as i32, ms) }
    }

    /// How many events the last wait collected.
    pub(super) const fn got(&self) -> usize {
        self.got
    }

    /// The `i`th of them; `None` for the waker's and beyond the last.
    pub(super) fn edge(&self, i: usize) -> Option<Edge> {
        let event = self.events[..self.got].get(i)?;
        let (data, events) = (event.u64, event.events as i32);
        if data == WAKE {
            return None;
        }
        let broken = events & (libc::EPOLLHUP | libc::EPOLLERR) != 0;
        let unusual = broken || events & (libc::EPOLLRDHUP | libc::EPOLLPRI) != 0;
        Some(Edge {
            fd: data as u32 as RawFd,
            mark: (data >> 32) as u32,
            readable: unusual || events & libc::EPOLLIN != 0,
            writable: broken || events & libc::EPOLLOUT != 0,
            unusual,
        })
    }
}
