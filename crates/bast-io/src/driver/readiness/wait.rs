//! Waiting for a descriptor: who waits, and who is served when an edge comes.
//!
//! Waiters are served in the order in which they came. A waiter that cannot proceed keeps its place;
//! others like it behind it are not tried, but those that wait for something else (a poll, a
//! handshake, urgent data) are.

use std::ptr::NonNull;

use super::table::{Entry, State};
use super::{Edge, Readiness, TELLS_ALL, stage};
use crate::op::Interest;
use crate::sys::{self, Mode, c};
use crate::warm;
use crate::{HandleRef, Op, Outcome, Record};

/// Whether an outcome shows that there is no more to read, or no more room.
fn exhausts(op: &Op, interest: Interest, outcome: Outcome) -> bool {
    (TELLS_ALL || interest == Interest::Writable) && op.exhausted(outcome)
}

/// What is noted when an operation has succeeded or failed.
fn note(entry: &mut Entry, interest: Interest, op: &Op, outcome: Outcome) {
    if exhausts(op, interest, outcome) && !entry.unusual {
        entry.side(interest).state = State::NotReady;
    }
}

impl Readiness {
    /// Tries a socket or pipe operation, or queues it.
    ///
    /// # Safety
    /// io 1: `record` is lent to us and on no list; `op` is its operation.
    #[inline]
    pub(super) unsafe fn start(
        &mut self,
        record: NonNull<Record>,
        op: &Op,
        handle: HandleRef,
        interest: Interest,
    ) -> Option<Outcome> {
        if handle.id == 0 || op.is_dontwait() {
            // SAFETY: io 1. (A foreign descriptor's mode is unknown: only `Poll` may wait for it.)
            return Some(unsafe { sys::call(op, Mode::NoWait) });
        }
        let entry = self.table.of(handle);
        let side = entry.side(interest);
        if side.state != State::NotReady && side.waiters.is_empty() {
            // SAFETY: io 1.
            let outcome = unsafe { sys::call(op, Mode::NoWait) };
            if !outcome.is_errno(c::EAGAIN) {
                note(entry, interest, op, outcome);
                return Some(outcome);
            }
            side.state = State::NotReady;
        }
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(record, handle, interest) }
    }

    /// Notes what an operation that was done here and now tells of the next.
    pub(super) fn attempted(&mut self, op: &Op, outcome: Outcome) {
        if let Some((handle, interest)) = op.waits_for()
            && op.is_plain()
            && handle.id != 0
        {
            let entry = self.table.of(handle);
            if outcome.is_errno(c::EAGAIN) {
                entry.side(interest).state = State::NotReady;
            } else {
                note(entry, interest, op, outcome);
            }
        }
    }

    /// Queues somebody who has been told `EAGAIN`; asks the kernel unless it was here that he was.
    ///
    /// # Safety
    /// As [`Readiness::start`].
    pub(super) unsafe fn again(
        &mut self,
        record: NonNull<Record>,
        handle: HandleRef,
        interest: Interest,
    ) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            if handle.id != 0 && self.table.of(handle).side(interest).state == State::NotReady {
                self.enqueue(record, handle, interest)
            } else {
                self.advance(record)
            }
        }
    }

    /// Begins a handshake.
    ///
    /// # Safety
    /// As [`Readiness::start`].
    pub(super) unsafe fn connect(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: io 1.
        unsafe {
            let op = &(*record.as_ptr()).op;
            let Op::Connect { handle, .. } = *op else { unreachable!("only for connect") };
            let mode = sys::set_nonblocking(handle.raw, true);
            if mode.0 < 0 {
                return Some(mode);
            }
            let mut outcome = sys::call(op, Mode::NoWait);
            if sys::would_block(outcome) && !outcome.is_errno(c::EAGAIN) {
                match self.enqueue(record, handle, Interest::Writable) {
                    None => return None,
                    Some(error) => outcome = error,
                }
            }
            sys::calm(handle.raw);
            if outcome.is_errno(c::EAGAIN) {
                // A local socket's backlog is full. No event says when it is not: a thread waits.
                return self.offload(record);
            }
            Some(outcome)
        }
    }

    /// Brings a gated operation as far as it gets: performed if its ends are ready, else queued at one that is not. (A
    /// splice without a file is its own question whether they are.)
    ///
    /// The question comes before queueing. If the descriptor was registered
    /// before, an edge after the answer is delivered; if not, registering reports what is ready.
    ///
    /// # Safety
    /// As [`Readiness::start`].
    pub(super) unsafe fn advance(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: io 1.
        let op = unsafe { &(*record.as_ptr()).op };
        if let Op::SendFile { to, .. } = *op {
            // SAFETY: the caller's promise.
            return unsafe { self.send_file(record, to, true) };
        }
        let tried = sys::spliced(op);
        if let Some(outcome) = tried
            && !outcome.is_errno(c::EAGAIN)
        {
            return Some(outcome);
        }
        let gates = op.gates();
        match sys::unready(gates) {
            Err(outcome) => return Some(outcome),
            Ok(Some(i)) => {
                let Some((handle, interest)) = gates[i] else { unreachable!("it was asked") };
                // SAFETY: the caller's promise.
                return unsafe { self.enqueue(record, handle, interest) };
            }
            Ok(None) => {}
        }
        // SAFETY: the caller's promise.
        unsafe {
            if matches!(op, Op::Poll { .. } | Op::Again { .. }) {
                return Some(Outcome(0));
            }
            if tried.is_none() {
                return self.offload(record);
            }
            // Ready and not ready at once: somebody else was quicker, or a low-water mark. An edge
            // may be past, so that only asking again is safe.
            (*record.as_ptr()).stage = stage::AGAIN;
            self.again.push_back(record);
        }
        self.waiting += 1;
        None
    }

    /// Sends what is in memory. The disk is the pool's to wait for; for room in the socket the record is
    /// queued: the call that found none sees to an edge when there is.
    ///
    /// `tried`: it has been told of no room before, and so there is something to send. Until then the pool is not
    /// kept from it by a full socket: at the end of the file there is nothing to find room for.
    ///
    /// # Safety
    /// As [`Readiness::start`].
    pub(super) unsafe fn send_file(
        &mut self,
        record: NonNull<Record>,
        to: HandleRef,
        tried: bool,
    ) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe {
            let outcome = warm::send_file(&(*record.as_ptr()).op);
            let room = match outcome {
                None if tried => sys::poll_now(to.raw, Interest::Writable),
                known => known.unwrap_or(Outcome(0)),
            };
            match outcome {
                _ if room.is_errno(c::EAGAIN) => self.enqueue(record, to, Interest::Writable),
                None => self.offload(record),
                done => done,
            }
        }
    }

    /// Queues a record; the descriptor is registered first unless it is. `Some`: it cannot be waited
    /// for, and why.
    ///
    /// # Safety
    /// As [`Readiness::start`].
    unsafe fn enqueue(
        &mut self,
        record: NonNull<Record>,
        handle: HandleRef,
        interest: Interest,
    ) -> Option<Outcome> {
        let errno = self.watch(handle);
        if errno == c::EPERM {
            // epoll's way to say that the descriptor is always ready. Whoever asks here was told
            // EAGAIN, so this is no descriptor that could be waited for.
            return Some(Outcome::from_errno(c::EAGAIN));
        }
        if errno != 0 {
            return Some(Outcome::from_errno(errno));
        }
        let entry = self.table.at(handle.raw);
        entry.foreign += u32::from(handle.id == 0);
        // SAFETY: the caller's promise.
        unsafe {
            (*record.as_ptr()).stage = match interest {
                Interest::Readable => stage::READER,
                Interest::Writable => stage::WRITER,
            };
            entry.side(interest).waiters.push_back(record);
        }
        self.waiting += 1;
        None
    }

    /// Sees to it that edges of `handle` are reported. 0 or the error.
    fn watch(&mut self, handle: HandleRef) -> i32 {
        if handle.id != 0 {
            let entry = self.table.of(handle);
            if entry.registered {
                return 0;
            }
            let errno = self.selector.add(handle.raw, handle.id);
            entry.registered = errno == 0;
            return errno;
        }
        // A foreign number may also be one of ours, or was once. The kernel knows.
        let entry = self.table.at(handle.raw);
        if entry.registered {
            match self.selector.renew(handle.raw, entry.id) {
                c::ENOENT => entry.registered = false,
                errno => return errno,
            }
        }
        let errno = self.selector.add(handle.raw, 0);
        if errno == 0 {
            entry.id = 0;
            entry.registered = true;
        }
        errno
    }

    /// Takes a waiting record off its list.
    ///
    /// # Safety
    /// `record` is on one of the table's lists.
    pub(super) unsafe fn unqueue(&mut self, record: NonNull<Record>) {
        // SAFETY: io 1, and the caller's promise.
        let (op, stage) = unsafe { (&(*record.as_ptr()).op, (*record.as_ptr()).stage) };
        let interest = match stage {
            stage::READER => Interest::Readable,
            _ => Interest::Writable,
        };
        let gate = op.gates().into_iter().flatten().find(|g| g.1 == interest);
        let Some((handle, _)) = gate else { unreachable!("a waiting record has a descriptor") };
        let entry = self.table.at(handle.raw);
        // SAFETY: the caller's promise.
        unsafe { entry.side(interest).waiters.remove(record) };
        self.waiting -= 1;
        if handle.id == 0 {
            entry.foreign -= 1;
            if entry.foreign == 0 && entry.id == 0 && entry.registered {
                // Nothing is kept about a foreign descriptor: it may be closed without our knowing.
                self.selector.remove(handle.raw);
                entry.registered = false;
            }
        }
    }

    /// Serves the waiters of an edge.
    pub(super) fn serve(&mut self, edge: Edge, done: &mut crate::Done) {
        let Some(entry) = self.table.get(edge.fd) else { return };
        if edge.mark != 0 && edge.mark != entry.id as u32 {
            return;
        }
        entry.unusual |= edge.unusual;
        if edge.readable {
            entry.read.state = State::Ready;
            if !entry.read.waiters.is_empty() {
                self.retry(edge.fd, Interest::Readable, done);
            }
        }
        let entry = self.table.at(edge.fd);
        if edge.writable {
            entry.write.state = State::Ready;
            if !entry.write.waiters.is_empty() {
                self.retry(edge.fd, Interest::Writable, done);
            }
        }
    }

    fn retry(&mut self, fd: i32, interest: Interest, done: &mut crate::Done) {
        let side = self.table.at(fd).side(interest);
        let (last, mut next) = (side.waiters.back(), side.waiters.front());
        let mut exhausted = false;
        while let Some(record) = next {
            // SAFETY: io 1: it is on a list of ours. Its successor is read before it leaves the list;
            // records that are queued meanwhile come after `last`.
            unsafe {
                next = if Some(record) == last { None } else { (*record.as_ptr()).next };
                let op = &(*record.as_ptr()).op;
                if op.is_gated() {
                    // (Sending a file asks by trying, and so does who tries again.)
                    let gate = match op {
                        Op::SendFile { .. } => Outcome(0),
                        Op::Again { .. } if !exhausted => Outcome(0),
                        _ => sys::poll_now(fd, interest),
                    };
                    if gate.is_errno(c::EAGAIN) {
                        continue;
                    }
                    self.unqueue(record);
                    let poll = matches!(op, Op::Poll { .. } | Op::Again { .. });
                    let outcome = if poll { Some(gate) } else { self.advance(record) };
                    if let Some(outcome) = outcome {
                        done.push(record, outcome);
                    }
                    continue;
                }
                if exhausted && op.is_plain() {
                    continue;
                }
                let outcome = sys::call(op, Mode::NoWait);
                if sys::would_block(outcome) {
                    exhausted |= op.is_plain();
                    continue;
                }
                if let Op::Connect { handle, .. } = *op {
                    sys::calm(handle.raw);
                }
                exhausted |= exhausts(op, interest, outcome) && !self.table.at(fd).unusual;
                self.unqueue(record);
                done.push(record, outcome);
            }
        }
        if exhausted {
            self.table.at(fd).side(interest).state = State::NotReady;
        }
    }
}
