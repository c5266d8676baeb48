//! From tonic's futures and streams to direct style: a fiber for each call, which ends with it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bast::JoinHandle;
use bast::future::Wait;
use futures_util::Stream;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

/// Messages that may lie between a fiber and tonic: then the fiber waits.
const AHEAD: usize = 4;

/// A fiber whose end is awaited; dropped earlier, it cancels the fiber.
#[derive(Debug)]
struct Owned<T>(JoinHandle<T>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A call that a fiber answers.
#[derive(Debug)]
pub struct OnFiber<T>(Owned<Result<T, Status>>);

/// Starts a fiber for a call.
pub fn answer<T: Send + 'static>(
    method: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> OnFiber<T> {
    OnFiber(Owned(bast::spawn(method)))
}

impl<T> Future for OnFiber<T> {
    type Output = Result<T, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let end = ready!(Pin::new(&mut self.0.0).poll(context));
        Poll::Ready(end.unwrap_or_else(|_| Err(Status::internal("the method has panicked"))))
    }
}

/// A stream whose messages come from a fiber.
#[derive(Debug)]
pub struct Produced<T> {
    messages: mpsc::Receiver<T>,
    _fiber: Owned<()>,
}

/// Starts a fiber that produces a stream, which ends with it.
pub fn produce<T: Send + 'static>(
    producer: impl FnOnce(&Outgoing<T>) + Send + 'static,
) -> Produced<T> {
    let (sender, messages) = mpsc::channel(AHEAD);
    let fiber = bast::spawn(move || producer(&Outgoing(sender)));
    Produced { messages, _fiber: Owned(fiber) }
}

impl<T> Stream for Produced<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.messages.poll_recv(context)
    }
}

/// The fiber's end of a stream.
#[derive(Debug)]
pub struct Outgoing<T>(mpsc::Sender<T>);

impl<T> Outgoing<T> {
    /// Sends a message; suspends while the other side is behind. `false`: nobody will take it any more.
    pub fn send(&self, message: T) -> bool {
        self.0.send(message).wait().is_ok()
    }
}

/// What the other side sends: an iterator that suspends its fiber.
#[derive(Debug)]
pub struct Incoming<T>(pub Streaming<T>);

impl<T> Iterator for Incoming<T> {
    type Item = Result<T, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.message().wait().transpose()
    }
}
