//! Streams, listeners and datagrams for code that is polled: the traits of [`futures_io`], on bast's own drivers.
//!
//! A fiber needs none of this: it reads and writes in direct style. It is for libraries that are written as
//! futures, and runs wherever they are polled: in a task, in a fiber that [waits](super::Wait) for the future, or on
//! a plain thread, for which the default runtime then does the waiting.
//!
//! ```
//! use bast::future::{Wait, io::Async};
//! use bast::net::{TcpListener, TcpStream};
//! use futures_util::{AsyncReadExt, AsyncWriteExt};
//!
//! # fn main() -> std::io::Result<()> {
//! async {
//!     let listener = Async::new(TcpListener::bind("127.0.0.1:0")?);
//!     let mut client = Async::new(TcpStream::connect(listener.get_ref().local_addr()?)?);
//!     let (server, _) = listener.accept().await?;
//!     client.write_all(b"there and back").await?;
//!     client.close().await?;
//!     let (reader, mut writer) = (&server, &server);
//!     futures_util::io::copy(reader, &mut writer).await?;
//!     drop(server);
//!     let mut text = String::new();
//!     client.read_to_string(&mut text).await?;
//!     assert_eq!(text, "there and back");
//!     Ok(())
//! }
//! .wait()
//! # }
//! ```

mod datagram;
mod listener;
mod source;
mod stream;

pub use listener::Incoming;
pub use source::{Accepts, Datagrams, Reads, Source, Writes};

use std::io;
use std::task::{Context, Poll};

use bast_io::{Handle, Interest};
use bast_rt::{Watch, ops};

/// Makes `S` asynchronous: what would suspend a fiber says [`Poll::Pending`] instead.
///
/// # Sharing
/// Reading and writing wait independently of each other, so that two tasks may do the one and the other, through
/// `&Async<S>` or the halves of a split. Of several that wait for the same, the one that polled last is woken.
///
/// # Moving
/// It may be polled on one worker now and on another later, and dropped anywhere. When it is dropped while it waits,
/// the descriptor is closed as soon as the wait has been cancelled. A wait on a worker whose runtime ends is woken,
/// and waits anew where it is polled next.
///
/// # Settings
/// Timeouts and the non-blocking mode of `S` are of no account here: use [`timeout`](super::timeout()).
#[derive(Debug)]
pub struct Async<S> {
    // Before the source, so that what waits is cancelled first.
    readable: Watch,
    writable: Watch,
    source: S,
}

impl<S: Source> Async<S> {
    /// Around `source`. Costs nothing before it has to wait.
    pub const fn new(source: S) -> Async<S> {
        Async {
            readable: Watch::new(Interest::Readable),
            writable: Watch::new(Interest::Writable),
            source,
        }
    }

    /// What it is made of.
    pub const fn get_ref(&self) -> &S {
        &self.source
    }

    /// What it is made of. Nothing has been read ahead.
    pub fn into_inner(self) -> S {
        self.source
    }

    /// Ready when there is something to read or to accept, the end, or an error. Another one who reads the same may be
    /// faster.
    ///
    /// # Errors
    /// The kernel's, of waiting.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_with(context, |handle| ops::try_poll(handle, Interest::Readable))
    }

    /// Ready when there is room to write, or an error.
    ///
    /// # Errors
    /// The kernel's, of waiting.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_with(context, |handle| ops::try_poll(handle, Interest::Writable))
    }

    fn poll_read_with<T>(
        &self,
        context: &mut Context<'_>,
        attempt: impl FnMut(&Handle) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        poll_with(&self.readable, &self.source, context, attempt)
    }

    fn poll_write_with<T>(
        &self,
        context: &mut Context<'_>,
        attempt: impl FnMut(&Handle) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        poll_with(&self.writable, &self.source, context, attempt)
    }
}

fn poll_bytes<S: Source>(
    watch: &Watch,
    source: &S,
    context: &mut Context<'_>,
    len: usize,
    mut attempt: impl FnMut(&Handle) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    let handle = source.handle();
    watch.poll_bytes(context, handle, || source.keep(), len, || attempt(handle))
}

fn poll_with<S: Source, T>(
    watch: &Watch,
    source: &S,
    context: &mut Context<'_>,
    mut attempt: impl FnMut(&Handle) -> io::Result<T>,
) -> Poll<io::Result<T>> {
    let handle = source.handle();
    watch.poll_io(context, handle, || source.keep(), || attempt(handle))
}

impl<S: Source> From<S> for Async<S> {
    fn from(source: S) -> Async<S> {
        Async::new(source)
    }
}
