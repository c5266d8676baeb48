//! One connection: which version it speaks, then hyper, until it ends or is told to.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;

use bast::net::TcpStream;
use bast::sync::OwnedSemaphorePermit;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::rt::{Executor, Read, Timer as _, Write};
use hyper::server::conn::{http1, http2};
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;

use super::checked::Checked;
use super::prefixed::Prefixed;
use super::{BoxError, Settings};
use crate::{BastExecutor, BastTimer, Io};

/// What can be served, in one word: a tower service of HTTP, whatever its bodies are made of. Everything that has these
/// bounds is one.
pub trait Web:
    tower_service::Service<
        Request<Incoming>,
        Response = Response<Self::Body>,
        Error: Into<BoxError>,
        Future: Send,
    > + Clone
    + Send
    + 'static
{
    /// What its answers carry.
    type Body: Body<Data: Send, Error: Into<BoxError>> + Send + 'static;
}

impl<S, B> Web for S
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Body = B;
}

/// What connections are told; it only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Serve,
    /// Answer what has been asked, and end.
    Finish,
    /// End.
    Leave,
}

/// What all connections have in common, and each has a copy of.
#[derive(Clone)]
pub(super) struct Shared<S> {
    pub(super) service: S,
    pub(super) settings: Settings,
    pub(super) level: watch::Receiver<Level>,
}

/// Starts the task that serves a connection.
pub(super) fn spawn<S: Web>(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Shared<S>,
    permit: Option<OwnedSemaphorePermit>,
) {
    // A peer that is gone already: its faults concern nobody.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    BastExecutor::new().execute(async move {
        serve(Io::new(stream), peer, shared).await;
        drop(permit);
    });
}

async fn serve<I, S>(io: I, peer: SocketAddr, shared: Shared<S>)
where
    I: Read + Write + Unpin + Send + 'static,
    S: Web,
{
    let Shared { service, settings, mut level } = shared;
    let Some((io, speaks_http2)) = first_bytes(io, &settings, &mut level).await else { return };
    let service = Checked { service: TowerToHyperService::new(service), peer };
    if speaks_http2 || settings.http2_only {
        let connection = settings.http2.serve_connection(io, service);
        drive(connection, http2::Connection::graceful_shutdown, level).await;
    } else {
        let connection = settings.http1.serve_connection(io, service).with_upgrades();
        drive(connection, http1::UpgradeableConnection::graceful_shutdown, level).await;
    }
}

/// `None`: the client is gone, or silent for too long, or the server stops.
async fn first_bytes<I: Read + Unpin>(
    io: I,
    settings: &Settings,
    level: &mut watch::Receiver<Level>,
) -> Option<(Prefixed<I>, bool)> {
    let mut sniff = pin!(Prefixed::sniff(io));
    let mut limit = None;
    let mut changed = pin!(level.changed());
    poll_fn(|cx| {
        if let Poll::Ready(found) = sniff.as_mut().poll(cx) {
            return Poll::Ready(found.ok());
        }
        // Most have sent something by now: only the others need a timer.
        let limit = limit.get_or_insert_with(|| BastTimer::new().sleep(settings.head_timeout));
        if limit.as_mut().poll(cx).is_ready() || changed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        Poll::Pending
    })
    .await
}

/// Runs the connection, which `finish` tells to end. How it ends concerns nobody: what the client has done wrong it has
/// been told, and a panic of the service is the executor's to report.
async fn drive<C: Future>(
    connection: C,
    finish: impl Fn(Pin<&mut C>),
    mut level: watch::Receiver<Level>,
) {
    let mut connection = pin!(connection);
    loop {
        let told = {
            let mut changed = pin!(level.changed());
            poll_fn(|cx| match changed.as_mut().poll(cx) {
                Poll::Ready(told) => Poll::Ready(Some(told)),
                Poll::Pending => connection.as_mut().poll(cx).map(|_| None),
            })
            .await
        };
        match told {
            None => return,
            Some(Ok(())) if *level.borrow() == Level::Leave => return,
            Some(Ok(())) => finish(connection.as_mut()),
            // Whoever served has been dropped, and will tell us nothing more.
            Some(Err(_)) => {
                finish(connection.as_mut());
                connection.await;
                return;
            }
        }
    }
}
