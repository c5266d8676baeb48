//! Descriptors that travel with a message between processes (`SCM_RIGHTS`).
//!
//! ```text
//!   Rights::sending(&[fd, …]) ──▶ Message::with ──▶ SendMsg        the receiver gets duplicates
//!   Rights::receiving(most) ────▶ Message::with ──▶ RecvMsg ──▶ take: owned descriptors
//! ```

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::sys::c;

/// The most descriptors that the kernel takes in one message.
pub const MOST: usize = 253;

/// Room for descriptors, in the kernel's form.
pub struct Rights {
    /// Control data is made of headers, which are aligned as words are.
    room: Vec<usize>,
    len: usize,
}

/// How many bytes `count` descriptors take, header and padding included.
fn space(count: usize) -> usize {
    // SAFETY: plain arithmetic.
    unsafe { c::CMSG_SPACE((count * size_of::<RawFd>()) as u32) as usize }
}

impl Rights {
    fn new(count: usize) -> Rights {
        let count = count.min(MOST);
        // Without the padding at the end, in which the kernel would put one more.
        // SAFETY: plain arithmetic.
        let len = unsafe { c::CMSG_LEN((count * size_of::<RawFd>()) as u32) as usize };
        Rights { room: vec![0; space(count).div_ceil(size_of::<usize>())], len }
    }

    /// To send these. The first [`MOST`] of them, as the kernel takes no more.
    #[must_use]
    pub fn sending(fds: &[BorrowedFd<'_>]) -> Rights {
        let fds = &fds[..fds.len().min(MOST)];
        let mut rights = Rights::new(fds.len());
        let bytes = fds.len() * size_of::<RawFd>();
        let header = rights.room.as_mut_ptr().cast::<c::cmsghdr>();
        // SAFETY: the room is aligned for a header and large enough for it and the descriptors.
        unsafe {
            (*header).cmsg_level = c::SOL_SOCKET;
            (*header).cmsg_type = c::SCM_RIGHTS;
            (*header).cmsg_len = c::CMSG_LEN(bytes as u32) as _;
            let data = c::CMSG_DATA(header).cast::<RawFd>();
            for (at, fd) in fds.iter().enumerate() {
                data.add(at).write_unaligned(fd.as_raw_fd());
            }
        }
        rights
    }

    /// To receive up to `most`.
    #[must_use]
    pub fn receiving(most: usize) -> Rights {
        Rights::new(most)
    }

    pub(crate) fn room(&mut self) -> (*mut c::c_void, usize) {
        if self.len == 0 { (ptr::null_mut(), 0) } else { (self.room.as_mut_ptr().cast(), self.len) }
    }

    /// Takes the descriptors out of what a successful receive has left here.
    ///
    /// # Safety
    /// The kernel has filled `len` bytes of this room since it was made, and nobody has taken them.
    #[must_use]
    pub unsafe fn take(&mut self, len: usize) -> Vec<OwnedFd> {
        let mut fds = Vec::new();
        // SAFETY: an empty header is a valid one; the walk below stays within the control data that it
        // is given, whose contents are the kernel's.
        unsafe {
            let mut message: c::msghdr = std::mem::zeroed();
            message.msg_control = self.room.as_mut_ptr().cast();
            message.msg_controllen = len.min(self.len) as _;
            let mut header = c::CMSG_FIRSTHDR(&raw const message);
            while let Some(this) = header.as_ref() {
                if (this.cmsg_level, this.cmsg_type) == (c::SOL_SOCKET, c::SCM_RIGHTS) {
                    let len: usize = this.cmsg_len as _;
                    let bytes = len - c::CMSG_LEN(0) as usize;
                    let data = c::CMSG_DATA(header).cast::<RawFd>();
                    for at in 0..bytes / size_of::<RawFd>() {
                        let fd = data.add(at).read_unaligned();
                        if c::MSG_CMSG_CLOEXEC == 0 {
                            // No flag of the receive has seen to it.
                            c::fcntl(fd, c::F_SETFD, c::FD_CLOEXEC);
                        }
                        fds.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                header = c::CMSG_NXTHDR(&raw const message, header);
            }
        }
        fds
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rights").field("bytes", &self.len).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, IoSliceMut};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::msg::Message;

    /// Sends `count` descriptors to somebody who has room for `most`: how many came, and whether some were cut.
    fn pass(count: usize, most: usize) -> (usize, bool) {
        let (to, from) = UnixStream::pair().expect("a pair");
        let fds = vec![to.as_fd(); count];
        let (mut sent, mut room, mut byte) = (Rights::sending(&fds), Rights::receiving(most), [0]);
        let bytes = [IoSlice::new(b"x")];
        let message = Message::of(&bytes).with(&mut sent);
        // SAFETY: the header and all that it names live in this frame.
        assert_eq!(unsafe { c::sendmsg(to.as_raw_fd(), message.as_ptr(), 0) }, 1);
        let mut bytes = [IoSliceMut::new(&mut byte)];
        let mut message = Message::into_bufs(&mut bytes).with(&mut room);
        // SAFETY: as above.
        let n = unsafe { c::recvmsg(from.as_raw_fd(), message.as_mut_ptr(), c::MSG_CMSG_CLOEXEC) };
        assert_eq!(n, 1);
        let took = message.took();
        // SAFETY: the kernel has filled as much.
        (unsafe { room.take(took.control) }.len(), took.control_cut)
    }

    #[test]
    fn no_more_come_than_there_is_room_for() {
        for most in 1..6 {
            assert_eq!(pass(most, most), (most, false));
            assert_eq!(pass(most + 1, most), (most, true), "room for {most}");
        }
        assert_eq!(pass(2, 0), (0, true));
        assert_eq!(pass(MOST, MOST), (MOST, false));
    }
}
