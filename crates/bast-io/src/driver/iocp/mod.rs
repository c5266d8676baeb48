//! The completion-port driver: the kernel performs the operation and posts how it went.
//!
//! ```text
//!   submit ─▶ KERNEL: an overlapped call ──done, no packet──▶ the outcome, inline
//!     │         └─pending─▶ packet to this driver's port, from the kernel or from a waiting thread ─▶ done
//!     ├─────▶ OBJECT: a waiting thread (module `wait`) ─▶ packet ─▶ done
//!     └─────▶ POOL: what no kernel does asynchronously, handles that are synchronous ─▶ remote list ─▶ done
//!   cancel: CancelIoEx, and then its packet; OBJECT: unregistered, and no packet ─▶ ready ─next poll─▶ done
//! ```
//!
//! Sockets: `AcceptEx`, `ConnectEx`, `WSARecv(From)`, `WSASend(To)`, `TransmitFile`. Readiness (`Poll`): the request
//! that `select` itself makes (`IOCTL_AFD_POLL`), on the socket's own handle; a zero-byte receive would know nothing of
//! room, nor of a listener. Named pipes and files that were opened overlapped: `ReadFile`, `WriteFile`. Files as std
//! opens them are synchronous: theirs is the pool, where a cancelled read of a pipe is interrupted.
//!
//! **Who touches what.** The driver, its table and its port's packets belong to one thread; others only post to the
//! port, which the kernel synchronizes. A record is the driver's from `submit` to `done`. The `OVERLAPPED` in it
//! (module `lent`) and the operation's memory are the kernel's from the call until the packet is taken, whatever is
//! cancelled (io 1): `cancel` writes nothing but the record's stage, on this thread. All that the kernel or a
//! waiting thread reads is written before the call that starts it (io 3, module `launch`).
//!
//! **Exactly one completion** (io 2). Windows posts one packet for each call that is pending or, unless the handle is
//! told to skip these, has succeeded; none for one that has failed. So after the call we know whether there will be
//! one, and a record in flight (`inflight`) has exactly one to come. `CancelIoEx` makes none and takes none away: it
//! ends the operation, whose packet then says `STATUS_CANCELLED`; or it came too late, and the packet, which may
//! lie in the port already, has the real result. An accepted socket in it is closed if nobody takes it. Too late is
//! `ERROR_NOT_FOUND`, which Wine also says of what it is just about to go on with (a send, when there is room again) and
//! which then waits on, uncancelled: so that is said to it again, until the packet is there (`unheard`).
//!
//! **Home.** A handle's packets go to one port for as long as it lives: to that of the driver that had the first
//! operation on it which waits. An operation from *another* driver asks for no packet (the lowest bit of its event)
//! but for an event, and a thread of Windows' own, which waits for that, posts to the port of the driver that asked.
//! The home driver has no part in this. It could pass the packet on; but it may be busy for long, may not poll, or
//! may have ended while the handle lives, and its port with it: every one of these would be somebody else's
//! operation that hangs. The price is an event and some microseconds, for handles that change workers.
//! A fiber stays on its worker, so most handles never do.
//!
//! **Wake.** The waker posts a packet to the port, if the driver sleeps; there is nothing else to wait on.

mod finish;
pub(crate) mod half;
mod launch;
mod lent;
mod table;
#[cfg(test)]
mod tests;
mod wait;

use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use windows_sys::Win32::Foundation::{GetLastError, HANDLE, WAIT_TIMEOUT};
use windows_sys::Win32::System::IO::{
    CancelIoEx, GetQueuedCompletionStatusEx, OVERLAPPED, OVERLAPPED_ENTRY,
};

pub(crate) use self::lent::Lent;
use self::table::Table;
use super::remote::Remote;
use super::{Config, Wait};
use crate::list::List;
use crate::op::Half;
use crate::sys::{self, Mode};
use crate::{Done, HandleRef, Op, Outcome, Pool, Record, Waker};

/// Where a record is, kept in its `stage`.
mod stage {
    /// A call is under way; a packet will come.
    pub(super) const KERNEL: u8 = 1;
    /// As `KERNEL`, and its half has been shut down.
    pub(super) const SHUT: u8 = 6;
    /// As `KERNEL`, and cancelled: it is not started again.
    pub(super) const CANCELLED: u8 = 7;
    /// A thread waits for an object.
    pub(super) const OBJECT: u8 = 2;
    /// With the pool.
    pub(super) const POOL: u8 = 3;
    /// With the pool, in a call that is to be interrupted until it ends.
    pub(super) const URGED: u8 = 4;
    /// Completed, waiting for the next poll.
    pub(super) const READY: u8 = 5;
}

/// Packets that are taken at a time.
const BATCH: usize = 128;

/// How often what is to end is told so: the time before may have been too early.
const URGE: Duration = Duration::from_millis(2);

/// A driver on a completion port.
pub(crate) struct Iocp {
    table: Table,
    /// Records of which the kernel or a waiting thread has something,
    inflight: List,
    /// and those that were to end, and that the kernel did not find.
    unheard: List,
    in_kernel: usize,
    /// Records with the pool.
    pooled: usize,
    /// Those of them that may wait for a peer: reads and writes of pipes whose handles are synchronous.
    calls: Vec<NonNull<Record>>,
    /// How many of these are to be interrupted.
    urged: usize,
    /// Completed by `cancel`.
    ready: Done,
    packets: Box<[MaybeUninit<OVERLAPPED_ENTRY>; BATCH]>,
    pool: Arc<Pool>,
    remote: Arc<Remote>,
}

impl Iocp {
    pub(crate) fn new(config: &Config) -> io::Result<Iocp> {
        sys::start_winsock();
        let remote = Arc::new(Remote::new(Waker::new()?));
        half::enter(&remote);
        Ok(Iocp {
            table: Table::default(),
            inflight: List::new(),
            unheard: List::new(),
            in_kernel: 0,
            pooled: 0,
            calls: Vec::new(),
            urged: 0,
            ready: Done::new(),
            packets: Box::new([const { MaybeUninit::uninit() }; BATCH]),
            pool: Arc::clone(&config.pool),
            remote,
        })
    }

    fn port(&self) -> HANDLE {
        self.remote.waker().port().port()
    }

    pub(crate) fn waker(&self) -> Waker {
        self.remote.waker().clone()
    }

    pub(crate) fn pending(&self) -> usize {
        self.in_kernel + self.pooled + self.ready.len()
    }

    /// # Safety
    /// As [`Driver::submit`](crate::Driver::submit).
    pub(crate) unsafe fn submit(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: io 1: the record is lent to us; nothing changes its operation meanwhile.
        unsafe {
            let op = &(*record.as_ptr()).op;
            match *op {
                Op::Shutdown { handle, how } => {
                    let outcome = sys::shutdown(handle, how);
                    if outcome.0 >= 0 {
                        self.shut(how, |other| other == handle);
                        if half::is_anyone_away() || !self.table.is_home(handle) {
                            half::tell(handle, how, Some(&self.remote));
                        }
                    }
                    Some(outcome)
                }
                Op::Splice { .. } => Some(sys::call(op, Mode::NoWait)),
                _ if op.is_dontwait() || op.is_immediate() => Some(sys::call(op, Mode::NoWait)),
                Op::Accept { .. } => self.accept(record, op),
                Op::Connect { .. } => self.connect(record, op),
                Op::SendFile { .. } => self.send_file(record, op),
                Op::Overlapped { start, data, .. } => self.foreign(record, start, data),
                Op::Recv { .. } | Op::Send { .. } | Op::RecvMsg { .. } | Op::SendMsg { .. } => {
                    self.transfer(record, op)
                }
                Op::Read { handle, .. }
                | Op::Write { handle, .. }
                | Op::ReadV { handle, .. }
                | Op::WriteV { handle, .. } => {
                    if handle.is_socket() {
                        return self.transfer(record, op);
                    }
                    self.file(record, op).unwrap_or_else(|()| self.offload(record))
                }
                Op::Poll { handle, interest } | Op::Again { handle, interest } => {
                    if handle.kind.is_object() {
                        return self.poll_object(record, handle, interest);
                    }
                    self.poll_socket(record, handle, interest)
                }
                _ => self.offload(record),
            }
        }
    }

    /// Ends what still waits here for a half of a socket that was shut down (module `half`).
    #[cold]
    fn shut(&mut self, half: Half, is_it: impl Fn(HandleRef) -> bool) {
        let mut next = self.inflight.front();
        while let Some(record) = next {
            // SAFETY: io 1: it is on the list, hence lent.
            unsafe {
                next = (*record.as_ptr()).next;
                let op = &(*record.as_ptr()).op;
                if let Some((handle, interest)) = op.waits_for()
                    && is_it(handle)
                    && half::ends(half, interest)
                    && (*record.as_ptr()).stage == stage::KERNEL
                    && !op.is_gated()
                {
                    (*record.as_ptr()).stage = stage::SHUT;
                    self.end(record);
                }
            }
        }
    }

    /// Has the kernel end an operation. (Too late is no error: the packet tells.)
    ///
    /// # Safety
    /// `record` is in flight, with the kernel.
    unsafe fn end(&mut self, record: NonNull<Record>) {
        // SAFETY: the caller's promise: it is on that list. A handle that was closed meanwhile, or is another's by now,
        // has no operation with this `OVERLAPPED`.
        unsafe {
            let handle = sys::handle((*record.as_ptr()).op.descriptor().unwrap_or(-1));
            if CancelIoEx(handle, lent::overlapped(record)) == 0 && !(*record.as_ptr()).lent.unheard
            {
                (*record.as_ptr()).lent.unheard = true;
                self.inflight.remove(record);
                self.unheard.push_back(record);
            }
        }
    }

    /// # Safety
    /// `record` was submitted here and has not come back.
    pub(crate) unsafe fn cancel(&mut self, record: NonNull<Record>) {
        let r = record.as_ptr();
        // SAFETY: io 1: it is lent to us. Of a record with the kernel or the pool only `op` and `stage` are touched,
        // and both leave `stage` alone.
        unsafe {
            match (*r).stage {
                stage::KERNEL | stage::SHUT | stage::CANCELLED => {
                    if (*r).stage == stage::KERNEL {
                        (*r).stage = stage::CANCELLED;
                    }
                    self.end(record);
                    return;
                }
                stage::OBJECT if (*r).lent.wait.is_null() || wait::unregister(record) => return,
                stage::OBJECT => {
                    self.inflight.remove(record);
                    self.in_kernel -= 1;
                }
                stage::POOL if self.pool.cancel(record) => self.out_of_pool(record),
                stage::POOL if may_wait(&(*r).op) => {
                    (*r).stage = stage::URGED;
                    self.urged += 1;
                    return;
                }
                _ => return,
            }
            (*r).stage = stage::READY;
            self.ready.push(record, Outcome::CANCELLED);
        }
    }

    pub(crate) fn poll(&mut self, wait: Wait, done: &mut Done) -> io::Result<()> {
        self.collect(done);
        let mut timeout = match wait {
            Wait::No => Some(Duration::ZERO),
            Wait::AtMost(d) => Some(d),
            Wait::Forever => None,
        };
        if self.urged > 0 || !self.unheard.is_empty() {
            self.urge();
            timeout = Some(timeout.map_or(URGE, |t| t.min(URGE)));
        }
        let block = timeout != Some(Duration::ZERO) && done.is_empty();
        if block && self.remote.waker().sleep().begin() {
            let result = self.take(timeout, done);
            self.remote.waker().sleep().end();
            result?;
        } else {
            if block {
                // Notified: what woke us is looked at by the caller, once it has had its packets.
                self.remote.waker().sleep().end();
            }
            if self.in_kernel > 0 {
                self.take(Some(Duration::ZERO), done)?;
            }
        }
        self.collect(done);
        Ok(())
    }

    /// Takes what is in the port, and completes what it is about.
    fn take(&mut self, timeout: Option<Duration>, done: &mut Done) -> io::Result<()> {
        let mut got = 0;
        let (port, room) = (self.port(), self.packets.as_mut_ptr().cast());
        let wait = sys::milliseconds(timeout);
        // SAFETY: room for as many packets as it says.
        let taken =
            unsafe { GetQueuedCompletionStatusEx(port, room, BATCH as u32, &raw mut got, wait, 0) };
        if taken == 0 {
            // SAFETY: no memory is involved.
            return match unsafe { GetLastError() } {
                WAIT_TIMEOUT => Ok(()),
                code => Err(io::Error::from_raw_os_error(code as i32)),
            };
        }
        for i in 0..got as usize {
            // SAFETY: so many were written.
            let packet = unsafe { self.packets[i].assume_init() };
            if let Some((id, half)) = half::told(packet.lpCompletionKey) {
                self.shut(half, |handle| handle.id == id);
            } else if packet.lpCompletionKey != sys::WAKE {
                // SAFETY: the other packets of a port are its handles' and its waiting threads', all of them ours.
                unsafe { self.complete(packet.lpOverlapped, done) };
            }
        }
        Ok(())
    }

    /// # Safety
    /// A packet of a record in flight has been taken from the port.
    unsafe fn complete(&mut self, overlapped: *mut OVERLAPPED, done: &mut Done) {
        // SAFETY: the caller's promise: the kernel has let go of the record.
        unsafe {
            let record = lent::record(overlapped);
            match std::mem::take(&mut (*record.as_ptr()).lent.unheard) {
                true => self.unheard.remove(record),
                false => self.inflight.remove(record),
            }
            self.in_kernel -= 1;
            if !(*record.as_ptr()).lent.wait.is_null() {
                wait::unregister(record);
            }
            if finish::is_too_late(record) {
                finish::give_up(record);
                let outcome = match (*record.as_ptr()).stage {
                    stage::CANCELLED => Some(Outcome::CANCELLED),
                    _ => self.accept(record, &(*record.as_ptr()).op),
                };
                if let Some(outcome) = outcome {
                    done.push(record, outcome);
                }
                return;
            }
            let outcome = finish::finish(record);
            done.push(record, outcome);
        }
    }

    /// Interrupts, and ends, once more what is to be.
    #[cold]
    fn urge(&mut self) {
        // (As many as packets are taken by a poll: else many that are late would be asked for again by each.)
        let mut next = self.unheard.front();
        for _ in 0..BATCH {
            let Some(record) = next else { break };
            // SAFETY: it is on the list, hence lent, and stays there until its packet is taken.
            unsafe {
                next = (*record.as_ptr()).next;
                self.end(record);
            }
        }
        for &record in &self.calls {
            // SAFETY: it is with the pool, which leaves its stage alone; an urged one runs: it was not in the queue.
            unsafe {
                if (*record.as_ptr()).stage == stage::URGED {
                    self.pool.cancel(record);
                }
            }
        }
    }

    /// # Safety
    /// `record` is lent to us, and was with the pool.
    unsafe fn out_of_pool(&mut self, record: NonNull<Record>) {
        self.pooled -= 1;
        // SAFETY: the caller's promise.
        unsafe {
            self.urged -= usize::from((*record.as_ptr()).stage == stage::URGED);
            if may_wait(&(*record.as_ptr()).op) {
                self.calls.retain(|&other| other != record);
            }
        }
    }

    /// What has completed without the kernel.
    fn collect(&mut self, done: &mut Done) {
        done.append(&mut self.ready);
        if self.pooled > 0 && !self.remote.is_empty() {
            self.collect_remote(done);
        }
    }

    #[cold]
    fn collect_remote(&mut self, done: &mut Done) {
        let mut next = self.remote.take();
        while let Some(record) = next {
            // SAFETY: io 1: the pool has handed the record back to us.
            unsafe {
                next = (*record.as_ptr()).next;
                self.out_of_pool(record);
                done.push(record, (*record.as_ptr()).outcome);
            }
        }
    }

    /// Gives a record to the pool.
    ///
    /// # Safety
    /// io 1: `record` is lent to us and on no list.
    unsafe fn offload(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise; our drop waits for what the pool has of ours.
        unsafe {
            (*record.as_ptr()).stage = stage::POOL;
            match self.pool.submit(record, &self.remote) {
                Ok(()) => {
                    self.pooled += 1;
                    if may_wait(&(*record.as_ptr()).op) {
                        self.calls.push(record);
                    }
                    None
                }
                Err(outcome) => Some(outcome),
            }
        }
    }
}

/// Whether it may wait for a peer in the pool's hands.
const fn may_wait(op: &Op) -> bool {
    !matches!(op, Op::Call { .. }) && sys::is_interruptible(op)
}

impl Drop for Iocp {
    /// Cancels everything and waits for its packets, whose records' memory would else be written to later (io 1). A
    /// handle that was made for nobody is closed (io 2).
    fn drop(&mut self) {
        half::leave(&self.remote);
        let mut done = Done::new();
        let mut next = self.inflight.front();
        while let Some(record) = next {
            // SAFETY: io 1: it is on the list, hence lent. Its successor is read before it may leave the list.
            unsafe {
                next = (*record.as_ptr()).next;
                self.cancel(record);
            }
        }
        for record in self.calls.clone() {
            // SAFETY: io 1: it is with the pool, hence lent.
            unsafe { self.cancel(record) };
        }
        // (With a list that is empty: no poll waits with something in its hands.)
        let mut ended = Done::new();
        while self.in_kernel + self.urged > 0 && self.poll(Wait::Forever, &mut ended).is_ok() {
            done.append(&mut ended);
        }
        self.pooled -= self.pool.forget(&self.remote);
        while let Some(record) = done.pop() {
            // SAFETY: io 1: it came back, and its owner still keeps it.
            let record = unsafe { record.as_ref() };
            if record.op.yields_handle() && record.outcome.0 >= 0 {
                let _ = super::close_raw(record.outcome.0);
            }
        }
        self.pooled = super::await_pool(&self.remote, self.pooled);
    }
}
