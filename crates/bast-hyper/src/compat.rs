//! A stream with the traits of futures-io, as one with hyper's: for what stands on top of bast's streams, TLS above all.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::{Read, ReadBufCursor, Write};

/// Any stream of futures-io, for hyper. For bast's own streams [`Io`](crate::Io) is better: here zeros are written into
/// hyper's buffers first.
#[derive(Clone, Debug)]
pub struct Compat<S> {
    inner: S,
}

impl<S> Compat<S> {
    /// Around a stream.
    pub const fn new(inner: S) -> Compat<S> {
        Compat { inner }
    }

    /// The stream.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> Read for Compat<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.initialize_unfilled();
        let count = ready!(Pin::new(&mut self.inner).poll_read(cx, room))?;
        assert!(count <= room.len(), "a stream says that it has read more than there was room for");
        // SAFETY: so many bytes are in the cursor's memory, and were initialized above.
        unsafe { buf.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for Compat<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }

    /// Whether the stream gains by it, its trait does not tell; those that do not take the first piece.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }
}
