//! Several buffers in one operation: the kernel's forms of std's lists of slices.
//!
//! ```text
//!   &[IoSlice] ─┬─ pieces ──▶ pointer and count, for ReadV and WriteV
//!               ╰─ Message ─▶ a header that points at them, for RecvMsg and SendMsg
//! ```
//!
//! std promises that an `IoSlice` has the layout of the system's own list entry. Nothing is copied: a
//! list stays the caller's and is lent with the operation (contract io 1), which is why a [`Message`]
//! borrows it.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;

use crate::SockAddr;
#[cfg(unix)]
use crate::rights::Rights;
use crate::sys::c;

/// The kernel takes no more pieces than this in one call (more is `EINVAL`); the rest is left for the
/// next, as a short transfer.
const MOST: usize = 1024;

/// The list of what is to be written, as [`Op::WriteV`](crate::Op::WriteV) names it.
#[must_use]
pub fn pieces(bufs: &[IoSlice<'_>]) -> (*const c::iovec, u32) {
    (bufs.as_ptr().cast(), bufs.len().min(MOST) as u32)
}

/// The list of what is to be filled, as [`Op::ReadV`](crate::Op::ReadV) names it.
#[must_use]
pub fn pieces_mut(bufs: &mut [IoSliceMut<'_>]) -> (*const c::iovec, u32) {
    (bufs.as_mut_ptr().cast_const().cast(), bufs.len().min(MOST) as u32)
}

/// A message's header: several buffers, and where asked for an address and descriptors.
pub struct Message<'a> {
    header: c::msghdr,
    bufs: PhantomData<&'a mut [u8]>,
}

impl<'a> Message<'a> {
    fn new((list, count): (*const c::iovec, u32)) -> Message<'a> {
        // SAFETY: null pointers and zero lengths: no name, no pieces, no control data.
        let mut header: c::msghdr = unsafe { std::mem::zeroed() };
        // A send only reads the list, though the field says mutable.
        header.msg_iov = list.cast_mut();
        header.msg_iovlen = count as _;
        Message { header, bufs: PhantomData }
    }

    /// To send what is in `bufs`, one after the other.
    #[must_use]
    pub fn of(bufs: &'a [IoSlice<'_>]) -> Message<'a> {
        Message::new(pieces(bufs))
    }

    /// To receive into `bufs`, one after the other.
    #[must_use]
    pub fn into_bufs(bufs: &'a mut [IoSliceMut<'_>]) -> Message<'a> {
        Message::new(pieces_mut(bufs))
    }

    /// Sends to this address.
    #[must_use]
    pub fn to(mut self, addr: &'a SockAddr) -> Message<'a> {
        self.header.msg_name = addr.as_ptr().cast_mut().cast();
        self.header.msg_namelen = addr.len();
        self
    }

    /// Has the sender's address written to `addr`. See [`took`](Message::took).
    #[must_use]
    pub fn from(mut self, addr: &'a mut SockAddr) -> Message<'a> {
        // SAFETY: `addr` is valid for writes.
        let (name, _) = unsafe { SockAddr::out(addr) };
        self.header.msg_name = name.cast();
        self.header.msg_namelen = SockAddr::CAPACITY;
        self
    }

    /// Sends or receives descriptors along with the bytes.
    #[cfg(unix)]
    #[must_use]
    pub fn with(mut self, rights: &'a mut Rights) -> Message<'a> {
        let (control, len) = rights.room();
        self.header.msg_control = control;
        self.header.msg_controllen = len as _;
        self
    }

    /// What the kernel said of the address and of the descriptors that it received: their lengths in
    /// bytes, and whether some did not fit.
    #[must_use]
    pub fn took(&self) -> Took {
        Took {
            addr: self.header.msg_namelen,
            control: self.header.msg_controllen as _,
            control_cut: self.header.msg_flags & c::MSG_CTRUNC != 0,
        }
    }

    /// For [`Op::SendMsg`](crate::Op::SendMsg).
    #[must_use]
    pub const fn as_ptr(&self) -> *const c::msghdr {
        &raw const self.header
    }

    /// For [`Op::RecvMsg`](crate::Op::RecvMsg), which writes to the header as well.
    #[must_use]
    pub const fn as_mut_ptr(&mut self) -> *mut c::msghdr {
        &raw mut self.header
    }
}

/// What a received [`Message`] brought besides bytes.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// The length of the sender's address.
    pub addr: c::socklen_t,
    /// The length of the control data.
    pub control: usize,
    /// Whether there was no room for all descriptors: the kernel has closed the others.
    pub control_cut: bool,
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("pieces", &self.header.msg_iovlen).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_as_they_are_but_for_their_length() {
        let data = [1_u8, 2, 3];
        let many = vec![IoSlice::new(&data); MOST + 5];
        let (list, count) = pieces(&many);
        assert_eq!(count as usize, MOST);
        // SAFETY: the list has that many entries.
        let last = unsafe { *list.add(MOST - 1) };
        assert_eq!((last.iov_base.cast_const().cast(), last.iov_len), (data.as_ptr(), 3));
        let message = Message::of(&many[..2]);
        assert_eq!(message.header.msg_iovlen as usize, 2);
        assert!(message.header.msg_name.is_null() && message.header.msg_control.is_null());
    }
}
