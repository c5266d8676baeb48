//! ureq on bast: how to connect, how to look up names, and nothing else. Everything above (HTTP, the pool
//! of connections, TLS) is ureq as it is.
//!
//! ```text
//!   Agent --> pool --> Tcp: Connector --> RustlsConnector (https)
//!     |                 \--> Socket: Transport: bast::net::TcpStream, ureq's buffers
//!     \--> Names: Resolver: the blocking pool, in time
//! ```
//!
//! Two things would block a worker, if they were done as ureq does them.
//!
//! * Names: ureq's own resolver starts a thread for each, and waits for it on a channel of std's.
//! * `is_open`: the pool calls it under a std mutex. An operation of bast may suspend the fiber there, and the
//!   next fiber of the worker that wants the mutex would block the thread, and with it who has it. So the
//!   socket is asked by a system call that never waits. (What else is done under that mutex, closing a
//!   connection, does not suspend.)

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use bast::net::{TcpStream, ToSocketAddrs};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport,
};
use ureq::{Agent, Error};

use crate::https::certs;
use crate::os::peek;

/// An agent for a crawler: it follows no redirects, and every status is an answer.
pub fn agent(timeout: Duration, per_host: usize, roots: &[impl AsRef<[u8]>]) -> Agent {
    let roots = roots.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots.collect::<Vec<_>>()))
        .unversioned_rustls_crypto_provider(certs::provider())
        .build();
    let config = Config::builder()
        .user_agent(super::NAME)
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(None)
        .max_idle_connections_per_host(per_host)
        .max_idle_connections(1000)
        .input_buffer_size(16 * 1024)
        .output_buffer_size(4 * 1024)
        .build();
    Agent::with_parts(config, Tcp.chain(RustlsConnector::default()), Names)
}

/// Makes connections.
#[derive(Debug)]
struct Tcp;

impl Connector for Tcp {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Socket>, Error> {
        let stream = in_time(details.timeout, || TcpStream::connect(&details.addrs[..]))?;
        stream.set_nodelay(true)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Socket { stream, buffers }))
    }
}

/// A connection.
#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    buffers: LazyBuffers,
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let output = &self.buffers.output()[..amount];
        in_time(timeout.for_write(), || self.stream.write_all(output))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let input = self.buffers.input_append_buf();
        let n = in_time(timeout.for_read(), || {
            loop {
                match self.stream.read(input) {
                    Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                    other => return other,
                }
            }
        })?;
        self.buffers.input_appended(n);
        Ok(n > 0)
    }

    /// Open, and nothing that nobody asked for has come. Must not suspend: see above.
    fn is_open(&mut self) -> bool {
        peek(&self.stream).is_err_and(|fault| fault.kind() == ErrorKind::WouldBlock)
    }
}

/// Looks up names.
#[derive(Debug)]
struct Names;

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or_else(|| Error::BadUri(uri.to_string()))?;
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let name = (host.trim_matches(['[', ']']), port);
        let mut found = self.empty();
        // ureq's list is for 16 addresses at most.
        in_time(timeout, || name.to_socket_addrs())?.take(16).for_each(|addr| found.push(addr));
        if found.is_empty() { Err(Error::HostNotFound) } else { Ok(found) }
    }
}

/// Runs `f`, for as long as ureq allows; whatever waits inside is interrupted then.
fn in_time<T>(timeout: NextTimeout, f: impl FnOnce() -> std::io::Result<T>) -> Result<T, Error> {
    match timeout.not_zero() {
        None => Ok(f()?),
        Some(limit) => match bast::timeout(*limit, f) {
            Ok(done) => Ok(done?),
            Err(_elapsed) => Err(Error::Timeout(timeout.reason)),
        },
    }
}
