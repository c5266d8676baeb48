//! Descriptors that travel along with bytes, for sockets of either kind.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};

use bast_io::msg::Message;
use bast_io::opt::CLOSE_ON_EXEC;
use bast_io::rights::{MOST, Rights};
use bast_rt::ops;

use crate::net::socket::Socket;

impl Socket {
    pub(super) fn send_with_fds(&self, buf: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        if buf.is_empty() || fds.len() > MOST {
            let what = "descriptors travel with bytes, at least one, and at most 253 at a time";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let (flags, timeout) = self.limits(&self.write);
        let mut rights = Rights::sending(fds);
        let bufs = [IoSlice::new(buf)];
        ops::send_msg(&self.handle, &Message::of(&bufs).with(&mut rights), flags, timeout)
    }

    /// The flag says whether there were more, which are closed then.
    pub(super) fn recv_with_fds(
        &self,
        buf: &mut [u8],
        most: usize,
    ) -> io::Result<(usize, Vec<OwnedFd>, bool)> {
        let (flags, timeout) = self.limits(&self.read);
        let mut rights = Rights::receiving(most);
        let mut bufs = [IoSliceMut::new(buf)];
        let msg = Message::into_bufs(&mut bufs).with(&mut rights);
        let (n, took) = ops::recv_msg(&self.handle, msg, flags | CLOSE_ON_EXEC, timeout)?;
        // SAFETY: the kernel has filled as much, just now.
        let fds = unsafe { rights.take(took.control) };
        Ok((n, fds, took.control_cut))
    }
}
