//! An HTTPS server on rustls' blocking API: [`StreamOwned`] around a [`bast::net::TcpStream`], as it
//! is around std's. Nothing is adapted; what waits inside rustls waits in a fiber.
//!
//! ```text
//!   accept --> first byte --> handshake --> [ idle --> head --> body --> answer ] --> close_notify
//!     |         no TLS? 400    in time?       ^ Ctrl-C, or silent too long  |
//!     +- so many at once, the others          +----- keep-alive ------------+
//!        wait in the backlog
//! ```
//!
//! Every limit in time is a [`bast::timeout`] around the code that may take long, whatever is inside:
//! the whole handshake, the whole request. So a client that sends one byte a second gains nothing.
//!
//! ```text
//! $ https --listen 127.0.0.1:8443
//! https: made a certificate for localhost and 127.0.0.1; --pin 3b6e…c1
//! https: https://127.0.0.1:8443/
//! $ https --get https://localhost:8443/ --pin 3b6e…c1
//! $ curl -k --data-binary @file https://127.0.0.1:8443/echo | cmp - file
//! ```
//!
//! Thread-locals (SOUNDNESS.md): rustls and ring have none. rustls' locks (session cache, tickets) are
//! std's, and free whenever it reads or writes the socket, so nothing suspends while it has one.

pub mod certs;
pub mod client;

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bast::CancelToken;
use bast::net::{TcpListener, TcpStream};
use http::{Method, StatusCode};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::accept::{self, Complaints};
use crate::head::{self, Fault};

/// What the server allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// For the handshake, from the first byte to the last.
    pub handshake: Duration,
    /// For a request, from the first byte of its head to the last of its answer.
    pub request: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// Bytes of a body.
    pub body: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            body: 16 << 20,
        }
    }
}

/// What a server has done. Connections that failed are those with a broken handshake or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Accepted.
    pub connections: u64,
    /// Answered.
    pub requests: u64,
    /// Connections that ended with a fault, which has been told on the standard error.
    pub failed: u64,
}

type Tls = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// Serves until `stop` is cancelled. Requests under way are answered.
pub fn serve(
    listener: &TcpListener,
    config: &Arc<ServerConfig>,
    limits: &Limits,
    stop: &CancelToken,
) -> Totals {
    let complaints = Complaints::new();
    let (requests, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let connections = accept::serve(listener, limits.connections, stop, |stream, peer| {
        if let Err(fault) = connection(stream, config, limits, stop, &requests) {
            failed.fetch_add(1, Relaxed);
            complaints.say(format_args!("https: {peer}: {fault}"));
        }
    });
    // The fibers have ended, which orders their counting before this.
    Totals { connections, requests: requests.into_inner(), failed: failed.into_inner() }
}

/// One connection, to its end.
fn connection(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    limits: &Limits,
    stop: &CancelToken,
    requests: &AtomicU64,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let handshake = within(limits.handshake, "the handshake", || handshake(stream, config))?;
    let Some(tls) = handshake else { return Ok(()) };
    let mut tls = BufReader::with_capacity(4096, tls);
    // Silence, a hang-up between requests, and the end of the server are no faults.
    while let Ok(Ok(Ok([_, ..]))) = stop.run(|| bast::timeout(limits.idle, || tls.fill_buf())) {
        let keep = within(limits.request, "a request", || {
            answer(&mut tls, limits).map_err(|fault| match fault.kind() {
                ErrorKind::UnexpectedEof => io::Error::new(
                    fault.kind(),
                    "the client hung up in the middle of a request, which is dropped",
                ),
                _ => fault,
            })
        })?;
        requests.fetch_add(1, Relaxed);
        if !keep {
            break;
        }
    }
    // Not waited for: whoever does not read it, or has gone, does not hold us up.
    let tls = tls.get_mut();
    tls.conn.send_close_notify();
    let _ = bast::timeout(Duration::from_secs(1), || linger(tls));
    Ok(())
}

/// Runs `f`, for so long.
fn within<T>(limit: Duration, what: &str, f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    bast::timeout(limit, f).unwrap_or_else(|_elapsed| {
        let text = format!("{what} took longer than {limit:?}");
        Err(io::Error::new(ErrorKind::TimedOut, text))
    })
}

/// `None` if the client went away without a word, as those do that only look whether the port is open.
fn handshake(
    mut stream: TcpStream,
    config: &Arc<ServerConfig>,
) -> io::Result<Option<StreamOwned<ServerConnection, TcpStream>>> {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    if stream.peek(&mut first)? == 0 {
        return Ok(None);
    }
    if first[0].is_ascii_alphabetic() {
        let text = b"This port speaks HTTPS. Say https:// instead of http://.\n";
        let (get, bad) = (Method::GET, StatusCode::BAD_REQUEST);
        head::answer(&mut stream, &get, bad, "text/plain", text, false)?;
        accept::hang_up(&stream)?;
        return Err(io::Error::new(ErrorKind::InvalidData, "plain HTTP on the port for HTTPS"));
    }
    if first[0] != HANDSHAKE {
        return Err(io::Error::new(ErrorKind::InvalidData, "neither TLS nor HTTP"));
    }
    let mut conn = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    conn.complete_io(&mut stream)?;
    Ok(Some(StreamOwned::new(conn, stream)))
}

/// Sends what rustls still has, and waits until the client has read it.
fn linger(tls: &mut StreamOwned<ServerConnection, TcpStream>) -> io::Result<()> {
    tls.conn.complete_io(&mut tls.sock)?;
    accept::hang_up(&tls.sock)
}

/// Answers one request; false if it was the last one of the connection.
fn answer(tls: &mut Tls, limits: &Limits) -> io::Result<bool> {
    match respond(tls, limits) {
        Ok(keep) => Ok(keep),
        Err(Fault::Io(fault)) => Err(fault),
        Err(Fault::Refused(status, text)) => {
            let out = tls.get_mut();
            head::answer(out, &Method::GET, status, "text/plain", text.as_bytes(), false)?;
            Ok(false)
        }
    }
}

fn respond(tls: &mut Tls, limits: &Limits) -> Result<bool, Fault> {
    let Some(request) = head::read(tls)? else { return Ok(false) };
    let length = head::body_length(request.headers())?;
    if length > limits.body {
        return Err(Fault::Refused(StatusCode::PAYLOAD_TOO_LARGE, "So long a body is not read.\n"));
    }
    if length > 0 && request.headers().contains_key(http::header::EXPECT) {
        tls.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    // All of it before the answer begins: a client that only reads when it has written would else wait
    // for us while we wait for it.
    let body = head::read_body(tls, length)?;
    let keep = head::keeps_alive(&request);
    let (status, content_type, text) = match (request.method(), request.uri().path()) {
        (&Method::POST | &Method::PUT, _) => (StatusCode::OK, "application/octet-stream", body),
        (&Method::GET | &Method::HEAD, "/") => {
            (StatusCode::OK, "text/html; charset=utf-8", page(tls.get_ref()).into_bytes())
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, "text/plain", b"There is nothing here. Try /\n".to_vec())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", b"GET, HEAD, POST or PUT.\n".to_vec()),
    };
    head::answer(tls.get_mut(), request.method(), status, content_type, &text, keep)?;
    Ok(keep)
}

/// The page says what the two have agreed on.
fn page(tls: &StreamOwned<ServerConnection, TcpStream>) -> String {
    let name = |name: Option<String>| name.unwrap_or_else(|| "unknown".into());
    let version = name(tls.conn.protocol_version().map(|version| format!("{version:?}")));
    let suite =
        name(tls.conn.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite())));
    let peer = name(tls.sock.peer_addr().ok().as_ref().map(SocketAddr::to_string));
    format!(
        "<!doctype html><meta charset=utf-8><title>https on bast</title>\n\
         <h1>It works</h1>\n<p>{peer}, we speak {version} with {suite}.\n\
         <p>What is sent here by POST comes back.\n"
    )
}
