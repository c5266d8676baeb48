//! bast's streams for hyper: the kernel writes into hyper's own buffers, and reads from them.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bast::future::io::{Async, Reads, Source, Writes};
use futures_io::AsyncWrite;
use hyper::rt::{Read, ReadBufCursor, Write};

/// A stream of bast's ([`TcpStream`](bast::net::TcpStream), and on Unix `UnixStream`) for hyper.
///
/// What has hyper's name here is called by hyper, with the waker of whoever polls: a task, a fiber that waits for a
/// future, a plain thread.
pub struct Io<S> {
    stream: Async<S>,
}

impl<S: Source> Io<S> {
    /// Around a stream. Costs nothing before it has to wait.
    pub const fn new(stream: S) -> Io<S> {
        Io { stream: Async::new(stream) }
    }

    /// The stream.
    pub const fn get_ref(&self) -> &S {
        self.stream.get_ref()
    }

    /// The stream: after an upgrade, say. Nothing has been read ahead.
    pub fn into_inner(self) -> S {
        self.stream.into_inner()
    }
}

impl<S> From<Async<S>> for Io<S> {
    fn from(stream: Async<S>) -> Io<S> {
        Io { stream }
    }
}

impl<S: Reads + Unpin> Read for Io<S> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: what has been initialized is only written to by the kernel, and stays initialized.
        let room = unsafe { buf.as_mut() };
        let count = ready!(self.stream.poll_read_uninit(cx, room))?;
        // SAFETY: poll_read_uninit has initialized so many bytes of it.
        unsafe { buf.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl<S: Writes + Unpin> Write for Io<S> {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.stream).poll_close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.stream).poll_write_vectored(cx, bufs)
    }
}

impl<S: fmt::Debug> fmt::Debug for Io<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Io").field(&self.stream).finish()
    }
}
