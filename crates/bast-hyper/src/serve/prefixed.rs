//! Which version a connection speaks, found out from its first bytes, which are then read once more.
//!
//! The first read takes what is there, and not just the 24 bytes of HTTP/2's preface: nearly always it has the
//! whole first request, and hyper is spared a read.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

/// What a client says first if it speaks HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A request of most clients fits.
const FIRST_READ: usize = 1024;

/// A stream in front of which stand the bytes that have been read from it already.
#[derive(Debug)]
pub(super) struct Prefixed<I> {
    io: I,
    /// `prefix[used..]` is still to be read; it is let go of when all is.
    prefix: Vec<u8>,
    used: usize,
}

impl<I: Read + Unpin> Prefixed<I> {
    /// Reads until it is certain whether the client speaks HTTP/2.
    pub(super) async fn sniff(mut io: I) -> io::Result<(Prefixed<I>, bool)> {
        let mut prefix = Vec::new();
        let http2 = loop {
            let begun = prefix.len().min(PREFACE.len());
            if prefix[..begun] != PREFACE[..begun] {
                break false;
            }
            if begun == PREFACE.len() {
                break true;
            }
            let before = prefix.len();
            poll_fn(|cx| {
                // Here and not outside, where it would be part of every waiting connection.
                let mut bytes = [0; FIRST_READ];
                let mut buf = ReadBuf::new(&mut bytes);
                ready!(Pin::new(&mut io).poll_read(cx, buf.unfilled()))?;
                prefix.extend_from_slice(buf.filled());
                Poll::Ready(Ok::<_, io::Error>(()))
            })
            .await?;
            if prefix.len() == before {
                break false;
            }
        };
        Ok((Prefixed { io, prefix, used: 0 }, http2))
    }
}

impl<I: Read + Unpin> Read for Prefixed<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.prefix[self.used..];
        if left.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let count = left.len().min(buf.remaining());
        buf.put_slice(&left[..count]);
        self.used += count;
        if self.used == self.prefix.len() {
            (self.prefix, self.used) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: Write + Unpin> Write for Prefixed<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}
