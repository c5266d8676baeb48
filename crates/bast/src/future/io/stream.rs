//! Reading and writing: the traits of `futures-io`, by value and by reference.

use std::any::Any;
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use bast_io::Half;
use bast_rt::{JoinHandle, ops, spawn};
use futures_io::{AsyncRead, AsyncWrite};

use super::{Async, Reads, Writes, poll_bytes};
use crate::net::{TcpStream, ToSocketAddrs};
#[cfg(unix)]
use crate::os::unix::net::UnixStream;

/// To read into an empty buffer is ready at once.
impl<S: Reads> AsyncRead for &Async<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        // The kernel would wait for something of which nothing is to be read.
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        poll_bytes(&self.readable, &self.source, context, buf.len(), |handle| {
            ops::try_read(handle, buf)
        })
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        if len == 0 {
            return Poll::Ready(Ok(0));
        }
        poll_bytes(&self.readable, &self.source, context, len, |handle| {
            ops::try_read_vectored(handle, bufs)
        })
    }
}

impl<S: Reads> Async<S> {
    /// As [`AsyncRead::poll_read`], into memory that need not be initialized: its first bytes, as many as have been
    /// read, are then.
    ///
    /// # Errors
    /// The kernel's.
    pub fn poll_read_uninit(
        &self,
        context: &mut Context<'_>,
        buf: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        // As for `poll_read`.
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        poll_bytes(&self.readable, &self.source, context, buf.len(), |handle| {
            ops::try_read_uninit(handle, buf)
        })
    }
}

impl<S: Writes> AsyncWrite for &Async<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_bytes(&self.writable, &self.source, context, buf.len(), |handle| {
            ops::try_write(handle, buf)
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        poll_bytes(&self.writable, &self.source, context, len, |handle| {
            ops::try_write_vectored(handle, bufs)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the writing half: the peer sees the end of the stream. (A pipe's ends when it is dropped.)
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !S::SHUTS_DOWN {
            return Poll::Ready(Ok(()));
        }
        match ops::try_shutdown(self.source.handle(), Half::Write) {
            // The peer has reset it.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}

impl<S: Reads + Unpin> AsyncRead for Async<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(context, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read_vectored(context, bufs)
    }
}

impl<S: Writes + Unpin> AsyncWrite for Async<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write_vectored(context, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_close(context)
    }
}

impl Async<TcpStream> {
    /// [`TcpStream::connect`], which a fiber of its own does: also the names are looked up there.
    ///
    /// # Errors
    /// As that. [`Cancelled`](crate::Cancelled) in an error of the kind `Other` if the runtime ends.
    ///
    /// # Cancellation
    /// When it is dropped the attempt is given up.
    pub async fn connect<A>(addr: A) -> io::Result<Async<TcpStream>>
    where
        A: ToSocketAddrs + Send + 'static,
    {
        Connecting(spawn(move || TcpStream::connect(addr))).await.map(Async::new)
    }
}

#[cfg(unix)]
impl Async<UnixStream> {
    /// [`UnixStream::connect`], which a fiber of its own does.
    ///
    /// # Errors
    /// As that. [`Cancelled`](crate::Cancelled) in an error of the kind `Other` if the runtime ends.
    ///
    /// # Cancellation
    /// When it is dropped the attempt is given up.
    pub async fn connect<P>(path: P) -> io::Result<Async<UnixStream>>
    where
        P: AsRef<std::path::Path> + Send + 'static,
    {
        Connecting(spawn(move || UnixStream::connect(path))).await.map(Async::new)
    }
}

/// A fiber that connects. Dropping it gives the attempt up; a connection that has come is closed.
struct Connecting<S>(JoinHandle<io::Result<S>>);

impl<S> Future for Connecting<S> {
    type Output = io::Result<S>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<S>> {
        Pin::new(&mut self.0).poll(context).map(|ended| ended.unwrap_or_else(refused))
    }
}

impl<S> Drop for Connecting<S> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The fiber has not come to its end.
fn refused<T>(payload: Box<dyn Any + Send>) -> io::Result<T> {
    match payload.downcast::<crate::Cancelled>() {
        Ok(cancelled) => Err(io::Error::other(*cancelled)),
        Err(payload) => std::panic::resume_unwind(payload),
    }
}
