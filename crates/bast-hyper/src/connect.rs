//! Connections for hyper-util's client, which pools them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bast::future::io::Async;
use bast::net::TcpStream;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};

use crate::Io;

/// Makes connections for `hyper_util::client::legacy::Client`, to `http` addresses.
///
/// A name is looked up, and its addresses are tried in turn, by a fiber, as
/// [`TcpStream::connect`] does it.
///
/// ```
/// use bast_hyper::{BastExecutor, BastTimer, Connector};
/// use hyper_util::client::legacy::Client;
///
/// let client = Client::builder(BastExecutor::new())
///     .timer(BastTimer::new())
///     .pool_timer(BastTimer::new())
///     .build::<_, String>(Connector::new());
/// # drop(client);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Connector(());

impl Connector {
    /// The connector; it has no state.
    #[must_use]
    pub fn new() -> Connector {
        Connector(())
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = Io<TcpStream>;
    /// `InvalidInput` for an address without a host, or of another scheme than `http`; otherwise as
    /// [`TcpStream::connect`].
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Io<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(connect(uri))
    }
}

async fn connect(uri: Uri) -> io::Result<Io<TcpStream>> {
    let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{uri}: {why}"));
    if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
        return Err(refuse("this connector knows http only; put one for TLS in front of it"));
    }
    let Some(host) = uri.host() else { return Err(refuse("no host")) };
    // An IPv6 address stands in brackets, which are the address's and not the host's.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(80);
    let stream = Async::<TcpStream>::connect((host, port)).await?;
    stream.get_ref().set_nodelay(true)?;
    Ok(Io::from(stream))
}

impl Connection for Io<TcpStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
