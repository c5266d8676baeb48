//! Accepting connections, one by one or as a stream.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bast_rt::Sleep;
use futures_core::Stream;

use super::{Accepts, Async, Source};

impl<S: Accepts> Async<S> {
    /// Takes a connection, and says whose it is.
    ///
    /// # Errors
    /// As the listener's own `accept`. When descriptors have run out, that is said only after a wait.
    ///
    /// # Cancellation
    /// When it is dropped no connection is lost.
    pub async fn accept(&self) -> io::Result<(Async<S::Connection>, S::Peer)> {
        let mut incoming = self.incoming();
        poll_fn(|context| incoming.poll_accept(context)).await
    }

    /// The connections that come, without an end.
    pub const fn incoming(&self) -> Incoming<'_, S> {
        Incoming { listener: self, shortage: None }
    }
}

/// The connections that come: a [`Stream`]. See [`Async::incoming`].
pub struct Incoming<'a, S> {
    listener: &'a Async<S>,
    /// An error to be reported when the time has passed.
    shortage: Option<(Sleep, Option<io::Error>)>,
}

/// A connection, and whose it is.
type Accepted<S> = (Async<<S as Accepts>::Connection>, <S as Accepts>::Peer);

impl<S: Accepts> Incoming<'_, S> {
    /// Takes a connection, and says whose it is.
    ///
    /// # Errors
    /// As [`Async::accept`].
    pub fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Accepted<S>>> {
        let mut pause = None;
        if self.shortage.is_none() {
            let acceptor = self.listener.get_ref().acceptor();
            let accepted = ready!(self.listener.poll_read_with(context, |_| {
                acceptor.try_accept().map_err(|(error, wait)| {
                    pause = wait;
                    error
                })
            }));
            match (accepted, pause) {
                (Err(error), Some(pause)) => {
                    self.shortage = Some((Sleep::new(pause), Some(error)));
                }
                (accepted, _) => {
                    let (handle, addr) = accepted?;
                    let (stream, addr) = S::accepted(handle, &addr)?;
                    return Poll::Ready(Ok((Async::new(stream), addr)));
                }
            }
        }
        let Some((pause, error)) = &mut self.shortage else { unreachable!("just noted") };
        ready!(Pin::new(pause).poll(context));
        let error = error.take();
        self.shortage = None;
        Poll::Ready(Err(error.unwrap_or_else(|| io::ErrorKind::Other.into())))
    }
}

impl<S: Accepts> Stream for Incoming<'_, S> {
    type Item = io::Result<Async<S::Connection>>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Async<S::Connection>>>> {
        self.poll_accept(context).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
    }
}

impl<S: Source + fmt::Debug> fmt::Debug for Incoming<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("listener", self.listener).finish_non_exhaustive()
    }
}
