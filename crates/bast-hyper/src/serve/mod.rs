//! A tower service on a listener: what `axum::serve` is on tokio.
//!
//! ```text
//!   Serve::into_future                    the accepting fiber            a task for each connection
//!   ------------------                    -------------------            --------------------------
//!   spawns it ──────────────────────────▶ permit, accept, spawn ───────▶ HTTP/1 or 2?  head_timeout
//!   waits for the signal                    │ shortage: wait a little    drive the connection
//!   cancels it, waits for its end ─────────▶ ends                          │
//!   level = Finish ───── watch ───────────────────────────────────────────▶ graceful_shutdown()
//!   waits for all receivers, or `grace`                                    │
//!   level = Leave ────── watch ───────────────────────────────────────────▶ dropped
//! ```
//!
//! A receiver of the watch is what makes a connection one that is waited for. It is made before the connection is
//! spawned, and so no connection is forgotten. If the future is dropped its guard cancels the accepting fiber, and the
//! sender goes with it: the connections end as with Finish.

mod checked;
mod connection;
mod prefixed;

use std::fmt;
use std::future::{Future, IntoFuture, Pending, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bast::net::TcpListener;
use bast::sync::Semaphore;
use hyper::rt::Timer as _;
use hyper::server::conn::{http1, http2};
use tokio::sync::watch;

use crate::{BastExecutor, BastTimer};
use connection::{Level, Shared};

pub use checked::PeerAddr;
pub use connection::Web;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The error of services and bodies.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a tower service, such as axum's `Router`: HTTP/1, and HTTP/2 to clients that begin with it ("prior
/// knowledge"). Each connection gets a clone of the service.
///
/// It does nothing until it is awaited, by a fiber (`.wait()` of [`bast::future::Wait`]), a task or a thread.
/// [`Serve`] has the settings.
///
/// * A request whose `Host` is missing, doubled or malformed is answered with 400, as RFC 9112 (3.2) has it; hyper leaves
///   that to the service.
/// * Each request has its peer's address among its extensions: [`PeerAddr`].
/// * A panic in the service ends its connection and nothing else.
///
/// ```
/// use axum::{Router, routing::get};
/// use bast::future::Wait;
///
/// # fn main() -> std::io::Result<()> {
/// let app = Router::new().route("/", get(async || "hello"));
/// let listener = bast::net::TcpListener::bind("127.0.0.1:0")?;
/// # let url = format!("{}", listener.local_addr()?);
/// let stop = bast::spawn(|| bast::sleep(std::time::Duration::from_millis(20)));
/// bast_hyper::serve(listener, app)
///     .with_graceful_shutdown(async move { drop(stop.await) })
///     .wait()?;
/// # Ok(()) }
/// ```
pub fn serve<S>(listener: TcpListener, service: S) -> Serve<S> {
    let mut http1 = http1::Builder::new();
    let mut http2 = http2::Builder::new(BastExecutor::new());
    http1.timer(BastTimer::new()).half_close(true);
    http2.timer(BastTimer::new());
    Serve {
        listener,
        service,
        signal: pending(),
        settings: Settings { http1, http2, http2_only: false, head_timeout: HEAD_TIMEOUT },
        max_connections: None,
        grace: None,
    }
}

/// What [`serve`] gives: the settings, and then a future.
#[must_use = "it does nothing until it is awaited"]
pub struct Serve<S, F = Pending<()>> {
    listener: TcpListener,
    service: S,
    signal: F,
    settings: Settings,
    max_connections: Option<usize>,
    grace: Option<Duration>,
}

/// What each connection has to know.
#[derive(Clone)]
struct Settings {
    http1: http1::Builder,
    http2: http2::Builder<BastExecutor>,
    http2_only: bool,
    head_timeout: Duration,
}

impl<S, F> Serve<S, F> {
    /// Ends when `signal` does: no more connections are accepted, those that are idle are closed, and requests that have
    /// begun are answered. How long that may take says [`grace`](Serve::grace).
    pub fn with_graceful_shutdown<G>(self, signal: G) -> Serve<S, G>
    where
        G: Future<Output = ()> + Send + 'static,
    {
        let Serve { listener, service, settings, max_connections, grace, .. } = self;
        Serve { listener, service, signal, settings, max_connections, grace }
    }

    /// After the signal requests have so long; then their connections are closed. Unless it is set they may take for
    /// ever.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// At most so many connections are open; others wait to be accepted. Unless it is set there is no bound but
    /// that on descriptors.
    ///
    /// # Panics
    /// If it is 0: then there would be no service at all.
    pub fn max_connections(mut self, count: usize) -> Self {
        assert!(count > 0, "max_connections is 0: no connection could be served");
        self.max_connections = Some(count);
        self
    }

    /// How long a client may take from one answer, or from connecting, to the end of the next head. So it is also the
    /// limit on idle connections of HTTP/1; those of HTTP/2 are told from dead ones by
    /// [`keep_alive_interval`](http2::Builder::keep_alive_interval). 30 s unless it is set.
    pub fn head_timeout(mut self, timeout: Duration) -> Self {
        self.settings.head_timeout = timeout;
        self.settings.http1.header_read_timeout(timeout);
        self
    }

    /// HTTP/2 and nothing else: who says anything else is not told, in HTTP/1, what is wrong with it.
    pub fn http2_only(mut self) -> Self {
        self.settings.http2_only = true;
        self
    }

    /// hyper's own settings of HTTP/1.
    pub fn http1(mut self, set: impl FnOnce(&mut http1::Builder)) -> Self {
        set(&mut self.settings.http1);
        self
    }

    /// hyper's own settings of HTTP/2.
    pub fn http2(mut self, set: impl FnOnce(&mut http2::Builder<BastExecutor>)) -> Self {
        set(&mut self.settings.http2);
        self
    }
}

impl<S, F> IntoFuture for Serve<S, F>
where
    S: Web,
    F: Future<Output = ()> + Send + 'static,
{
    /// An error if the listener can accept no more: it has been shut down, or the runtime ends.
    type Output = io::Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(run(self))
    }
}

async fn run<S, F>(serve: Serve<S, F>) -> io::Result<()>
where
    S: Web,
    F: Future<Output = ()>,
{
    let Serve { listener, service, signal, settings, max_connections, grace } = serve;
    let (level, receiver) = watch::channel(Level::Serve);
    let room = max_connections.map(|count| Arc::new(Semaphore::new(count)));
    let shared = Shared { service, settings, level: receiver };
    let mut accepting = Accepting(bast::spawn(move || accept_all(&listener, &shared, room)));
    let mut signal = pin!(signal);
    let ended = poll_fn(|cx| match signal.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => Pin::new(&mut accepting.0).poll(cx).map(Some),
    });
    match ended.await {
        None => {}
        Some(Ok(fault)) => return Err(fault),
        Some(Err(panic)) if panic.is::<bast::Cancelled>() => {
            return Err(io::Error::other("the runtime that accepted connections has ended"));
        }
        Some(Err(panic)) => std::panic::resume_unwind(panic),
    }
    accepting.0.cancel();
    // With it goes the listener: from here on connections are refused.
    let _ = (&mut accepting.0).await;
    // Nobody left to tell is as good.
    let _ = level.send(Level::Finish);
    let mut all = pin!(level.closed());
    let Some(grace) = grace else {
        all.await;
        return Ok(());
    };
    let mut limit = BastTimer::new().sleep(grace);
    let late = poll_fn(|cx| match all.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending => limit.as_mut().poll(cx).map(|()| true),
    });
    if late.await {
        let _ = level.send(Level::Leave);
        all.await;
    }
    Ok(())
}

/// The fiber that accepts; it does not outlive the future that waits for it.
struct Accepting(bast::JoinHandle<io::Error>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Accepts until it is cancelled, or the listener is no longer one.
fn accept_all<S: Web>(
    listener: &TcpListener,
    shared: &Shared<S>,
    room: Option<Arc<Semaphore>>,
) -> io::Error {
    /// For errors that the listener does not wait after by itself, as it does for lack of descriptors.
    const PAUSE: Duration = Duration::from_millis(10);
    loop {
        // It is never closed, so that this cannot fail.
        let permit = room.as_ref().and_then(|room| Arc::clone(room).acquire_owned().ok());
        match listener.accept() {
            Ok((stream, peer)) => connection::spawn(stream, peer, shared.clone(), permit),
            // The peer gave up before it was accepted.
            Err(fault) if fault.kind() == io::ErrorKind::ConnectionAborted => {}
            // It does not listen any more.
            Err(fault) if fault.kind() == io::ErrorKind::InvalidInput => return fault,
            Err(_) => bast::sleep(PAUSE),
        }
    }
}

impl<S, F> fmt::Debug for Serve<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .field("max_connections", &self.max_connections)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
