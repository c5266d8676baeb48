//! The kqueue selector (macOS, FreeBSD): which descriptors had an edge.
//!
//! A descriptor is registered once, for both directions, with `EV_CLEAR`, which is what epoll calls edge-triggered: each
//! arrival is an event, and adding or adding again reports what is ready at that moment. It stays registered until
//! it is closed; the kernel drops both filters then. What an edge means for the waiting operations is decided one
//! file up.
//!
//! The queue is the waker's own, which has a user event in it: so one call waits for everything.
//!
//! What differs from epoll:
//! * The directions are two events, of which each may fail to be registered by itself. A pipe whose reader is
//!   gone refuses its writer with `EPIPE`, and a pipe's other end, or a queue, has only one direction. That is an edge:
//!   whoever waits asks again, and hears it from the call.
//! * Nothing tells of urgent data: [`TELLS_ALL`].

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::Edge;
use crate::Waker;
use crate::sys::queue::{
    EV_ADD, EV_CLEAR, EV_DELETE, EV_EOF, EV_ERROR, EVFILT_READ, EVFILT_WRITE, Event, change,
};

/// Whether an edge says what makes a read short with more to come. Urgent data do so; FreeBSD says nothing of them.
pub(super) const TELLS_ALL: bool = false;

/// What is said of the direction that a descriptor does not have, or has no more.
const HAS_ONE_DIRECTION: [i32; 5] =
    [libc::EPIPE, libc::EINVAL, libc::ENODEV, libc::EPERM, libc::EOPNOTSUPP];

/// How many events one wait takes; more wait for the next.
const BATCH: usize = 512;

pub(super) struct Selector {
    waker: Waker,
    events: Box<[Event]>,
    /// What the last wait collected.
    edges: Vec<Edge>,
    /// Edges that registering has told, for the next wait.
    owed: Vec<Edge>,
}

impl Selector {
    pub(super) fn new(waker: &Waker) -> io::Result<Selector> {
        let events = vec![change(0, 0, 0, 0, 0); BATCH].into_boxed_slice();
        Ok(Selector { waker: waker.clone(), events, edges: Vec::new(), owed: Vec::new() })
    }

    /// Registers a descriptor; the next wait reports what it is ready for now. 0 or the error.
    pub(super) fn add(&mut self, fd: RawFd, id: u64) -> i32 {
        if cfg!(target_os = "linux") {
            // libkqueue, unlike a kernel, does not notice that a number was closed.
            self.remove(fd);
        }
        let mark = id as u32;
        let both = [EVFILT_READ, EVFILT_WRITE].map(|f| change(fd, f, EV_ADD | EV_CLEAR, 0, mark));
        let told = self.waker.queue().change(both);
        if told.contains(&libc::EPIPE) {
            self.owed.push(Edge { fd, mark, readable: true, writable: true, unusual: true });
        }
        match told {
            [0, 0] => 0,
            [0, error] | [error, 0] if HAS_ONE_DIRECTION.contains(&error) => 0,
            [0, error] | [error, _] => {
                self.remove(fd);
                error
            }
        }
    }

    /// Reports what a registered descriptor is ready for. 0 or the error.
    pub(super) fn renew(&mut self, fd: RawFd, id: u64) -> i32 {
        self.add(fd, id)
    }

    /// Forgets a descriptor. That it is already gone is no error.
    pub(super) fn remove(&mut self, fd: RawFd) {
        let both = [EVFILT_READ, EVFILT_WRITE].map(|f| change(fd, f, EV_DELETE, 0, 0));
        self.waker.queue().change(both);
    }

    /// Collects edges, for which it waits at most as long as said (`None`: for ever). A signal ends
    /// the wait.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.edges.clear();
        self.edges.append(&mut self.owed);
        let timeout = if self.edges.is_empty() { timeout } else { Some(Duration::ZERO) };
        let n = self.waker.queue().wait(&mut self.events, timeout)?;
        self.edges.extend(self.events[..n].iter().filter_map(edge));
        Ok(())
    }

    /// How many edges the last wait collected.
    pub(super) fn got(&self) -> usize {
        self.edges.len()
    }

    /// The `i`th of them; `None` beyond the last.
    pub(super) fn edge(&self, i: usize) -> Option<Edge> {
        self.edges.get(i).copied()
    }
}

/// What an event says; `None` for the waker's.
fn edge(event: &Event) -> Option<Edge> {
    let Event { ident, filter, flags, udata, .. } = *event;
    if filter != EVFILT_READ && filter != EVFILT_WRITE {
        return None;
    }
    let unusual = flags & (EV_EOF | EV_ERROR) != 0;
    Some(Edge {
        fd: ident as RawFd,
        mark: udata.addr() as u32,
        readable: filter == EVFILT_READ,
        writable: filter == EVFILT_WRITE,
        unusual,
    })
}
