//! Sending and receiving datagrams.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use bast_rt::ops;

use super::{Async, Datagrams};

impl<S: Datagrams> Async<S> {
    /// Receives a datagram, and says where from.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Cancellation
    /// When it is dropped no datagram is lost.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, S::Peer)> {
        poll_fn(|context| self.poll_recv_from(context, buf)).await
    }

    /// [`recv_from`](Async::recv_from), polled.
    ///
    /// # Errors
    /// As that.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, S::Peer)>> {
        self.poll_read_with(context, |handle| {
            let (n, addr) = ops::try_recv_from(handle, buf)?;
            Ok((n, S::from_whom(&addr)?))
        })
    }

    /// Sends a datagram there.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn send_to(&self, buf: &[u8], addr: &S::Peer) -> io::Result<usize> {
        poll_fn(|context| self.poll_send_to(context, buf, addr)).await
    }

    /// [`send_to`](Async::send_to), polled.
    ///
    /// # Errors
    /// As that.
    pub fn poll_send_to(
        &self,
        context: &mut Context<'_>,
        buf: &[u8],
        addr: &S::Peer,
    ) -> Poll<io::Result<usize>> {
        let addr = S::to_whom(addr);
        self.poll_write_with(context, |handle| ops::try_send_to(handle, buf, &addr))
    }

    /// Receives a datagram. On a socket that is connected, from its peer.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Cancellation
    /// When it is dropped no datagram is lost.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_read_with(context, |handle| ops::try_read(handle, buf))).await
    }

    /// Sends a datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_write_with(context, |handle| ops::try_write(handle, buf))).await
    }
}
