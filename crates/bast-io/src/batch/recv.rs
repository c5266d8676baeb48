//! Receiving many datagrams at once, and taking apart those that the kernel has joined.
//!
//! ```text
//!   data:  [ slot 0 ............ ][ slot 1 ............ ]
//!            1200 1200 700           80
//!            ╰──── stride ────       ╰── not joined: one datagram
//! ```

use std::fmt;
use std::iter::FusedIterator;
use std::mem;
use std::net::{Ipv4Addr, SocketAddr};

use super::{Control, cut};
use crate::sys::c;
use crate::{Handle, Outcome, SockAddr};

/// Room for datagrams, and those that came with the last receive. Made once and used again and again.
pub struct RecvBatch {
    /// The slots' bytes, one slot after the other.
    data: Vec<u8>,
    size: usize,
    slots: Vec<Slot>,
    /// The kernel's list, a header for each slot. What it points at is set before each use.
    headers: Vec<c::mmsghdr>,
    filled: usize,
    datagrams: usize,
}

// SAFETY: the raw pointers in slots and headers are set before each call of the kernel, under `&mut`, and are
// followed by that call only.
unsafe impl Send for RecvBatch {}
// SAFETY: as above; what a shared reference can reach is plain data.
unsafe impl Sync for RecvBatch {}

/// One message.
#[derive(Clone)]
struct Slot {
    piece: c::iovec,
    addr: SockAddr,
    control: Control,
    len: usize,
    /// The length of each datagram but the last; 0: there is one.
    stride: usize,
    cut: bool,
}

impl RecvBatch {
    /// Room for `messages` messages of `size` bytes (each at least one). A message is one datagram, or as many as the
    /// kernel has joined (GRO), for which `size` should be 65,535. The memory is used as it is filled.
    ///
    /// # Panics
    /// If no memory is that large.
    #[must_use]
    pub fn new(messages: usize, size: usize) -> RecvBatch {
        let (messages, size) = (messages.max(1), size.max(1));
        let piece = c::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let addr = SockAddr::zeroed();
        let slot = Slot { piece, addr, control: [0; 3], len: 0, stride: 0, cut: false };
        // SAFETY: null pointers and zero lengths.
        let header: c::mmsghdr = unsafe { mem::zeroed() };
        RecvBatch {
            data: vec![0; messages.checked_mul(size).expect("memory for the batch")],
            size,
            slots: vec![slot; messages],
            headers: vec![header; messages],
            filled: 0,
            datagrams: 0,
        }
    }

    /// How many messages there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// How many datagrams came.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams
    }

    /// Whether none came.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// Those that came, in order.
    #[must_use]
    pub fn iter(&self) -> Datagrams<'_> {
        Datagrams { batch: self, slot: 0, at: 0 }
    }

    /// Forgets what came.
    pub fn clear(&mut self) {
        (self.filled, self.datagrams) = (0, 0);
    }

    /// Takes what is there, without waiting: the number of messages, or the error (`EAGAIN`: nothing).
    pub fn recv_now(&mut self, handle: &Handle) -> Outcome {
        self.clear();
        for at in 0..self.slots.len() {
            self.aim(at);
        }
        let outcome = crate::sys::recv_many(handle.as_ref().raw(), &mut self.headers);
        for at in 0..usize::try_from(outcome.0).unwrap_or(0) {
            self.took(at, self.headers[at].msg_len as usize);
        }
        outcome
    }

    /// The header of the next free message, for [`Op::RecvMsg`](crate::Op::RecvMsg); then [`push`](RecvBatch::push)
    /// what that gives. `None`: all are full.
    pub fn next_header(&mut self) -> Option<*mut c::msghdr> {
        let at = self.filled;
        (at < self.slots.len()).then(|| {
            self.aim(at);
            &raw mut self.headers[at].msg_hdr
        })
    }

    /// The message of [`next_header`](RecvBatch::next_header) has come, with `len` bytes.
    pub fn push(&mut self, len: usize) {
        self.took(self.filled, len);
    }

    /// Points a header at its slot's memory.
    fn aim(&mut self, at: usize) {
        let (slot, header) = (&mut self.slots[at], &mut self.headers[at].msg_hdr);
        let data = &mut self.data[at * self.size..][..self.size];
        slot.piece = c::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: self.size as _ };
        header.msg_name = (&raw mut slot.addr).cast();
        header.msg_namelen = SockAddr::CAPACITY;
        header.msg_iov = &raw mut slot.piece;
        header.msg_iovlen = 1;
        header.msg_control = slot.control.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
        header.msg_flags = 0;
    }

    /// Notes what the kernel has said in a header.
    fn took(&mut self, at: usize, len: usize) {
        let (slot, header) = (&mut self.slots[at], &self.headers[at].msg_hdr);
        slot.addr.set_len(header.msg_namelen);
        slot.len = len.min(self.size);
        slot.cut = header.msg_flags & c::MSG_TRUNC != 0;
        slot.stride = cut::joined(header);
        self.filled = at + 1;
        self.datagrams += if slot.stride == 0 { 1 } else { slot.len.div_ceil(slot.stride).max(1) };
    }
}

impl fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RecvBatch");
        out.field("capacity", &self.capacity()).field("datagrams", &self.datagrams).finish()
    }
}

impl<'a> IntoIterator for &'a RecvBatch {
    type Item = Datagram<'a>;
    type IntoIter = Datagrams<'a>;

    fn into_iter(self) -> Datagrams<'a> {
        self.iter()
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its contents, which may be empty.
    pub contents: &'a [u8],
    /// Who sent it. (`0.0.0.0:0` if the socket has been shut down, and that is what was received.)
    pub source: SocketAddr,
    /// Whether it was longer than there was room; what did not fit is lost.
    pub is_truncated: bool,
}

/// The iterator of [`RecvBatch::iter`].
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    batch: &'a RecvBatch,
    slot: usize,
    /// How much of the slot has been given out.
    at: usize,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        if self.slot >= self.batch.filled {
            return None;
        }
        let slot = &self.batch.slots[self.slot];
        let bytes = &self.batch.data[self.slot * self.batch.size..][..slot.len];
        let rest = &bytes[self.at..];
        let len = if slot.stride == 0 { rest.len() } else { rest.len().min(slot.stride) };
        let is_last = len == rest.len();
        (self.slot, self.at) =
            if is_last { (self.slot + 1, 0) } else { (self.slot, self.at + len) };
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let source = slot.addr.to_std().unwrap_or(nobody);
        Some(Datagram { contents: &rest[..len], source, is_truncated: slot.cut && is_last })
    }
}

impl FusedIterator for Datagrams<'_> {}
