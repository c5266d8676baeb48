//! A WebSocket chat: one room, one page to open in a browser, `tungstenite` unchanged.
//!
//! A connection that is read and written at the same time, by a library with one object for both, is
//! the hard part, and the whole of it is in [`guest`].
//!
//! ```text
//! $ chat --listen 127.0.0.1:8090
//! chat: http://127.0.0.1:8090/
//!   open it in two browser windows, and talk
//! ^C
//! chat: 2 guests, 5 messages, 0 faults
//! ```
//!
//! What guests send is text. What they get is JSON, one of:
//!
//! ```text
//! {"hello":"Anna","present":["Anna","Bob"]}    first of all: the name that was free, and who is there
//! {"came":"Bob"}  {"went":"Bob"}
//! {"from":"Bob","text":"Hello!"}               also to Bob: everybody sees all in the same order
//! {"missed":17}                                you were slow; so many are lost to you
//! ```
//!
//! Thread-locals (SOUNDNESS.md): tungstenite has none of its own. `rand`'s, which a client takes its masks
//! from, is let go before anything is written. tungstenite has no locks either.

pub mod guest;
pub mod room;

use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bast::CancelToken;
use bast::net::{TcpListener, TcpStream};
use http::{Method, Request, StatusCode};
use tungstenite::handshake::server::{create_response, write_response};

use crate::accept::{self, Complaints};
use crate::head::{self, Fault};
use room::Room;

/// The page at `/`.
const PAGE: &str = include_str!("chat/page.html");

/// What the server allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Messages that a slow guest may be behind by.
    pub backlog: usize,
    /// Bytes of a message.
    pub message: usize,
    /// Who is silent for so long is asked half way whether he is there, and then parted with.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 10_000, backlog: 256, message: 4096, idle: Duration::from_secs(60) }
    }
}

/// What a server has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Who came in.
    pub guests: u64,
    /// What they said.
    pub messages: u64,
    /// Guests that ended otherwise than by a close of theirs or ours.
    pub faults: u64,
}

/// Serves until `stop` is cancelled; then all guests get a close frame.
pub fn serve(listener: &TcpListener, limits: &Limits, stop: &CancelToken) -> Totals {
    let complaints = Complaints::new();
    let room = Room::new(limits.backlog);
    let (guests, faults) = (AtomicU64::new(0), AtomicU64::new(0));
    accept::serve(listener, limits.connections, stop, |mut stream, peer: SocketAddr| {
        let Some((request, ahead)) = greet(&mut stream) else { return };
        guests.fetch_add(1, Relaxed);
        let seat = room.enter(&wish(&request));
        if let Err(fault) = guest::serve(&stream, ahead, &seat, limits, stop) {
            faults.fetch_add(1, Relaxed);
            complaints.say(format_args!("chat: {} ({peer}): {fault}", seat.name()));
        }
    });
    // The fibers have ended, which orders their counting before this.
    Totals { guests: guests.into_inner(), messages: room.said(), faults: faults.into_inner() }
}

/// Answers what is plain HTTP. For who wants a WebSocket, and has been told that he has it: his request,
/// and what he has sent already.
fn greet(stream: &mut TcpStream) -> Option<(Request<()>, Vec<u8>)> {
    const PATIENCE: Duration = Duration::from_secs(10);
    stream.set_nodelay(true).ok()?;
    let greeted = bast::timeout(PATIENCE, || {
        let mut reader = BufReader::with_capacity(1024, &*stream);
        let refused = match head::read(&mut reader) {
            Ok(Some(request)) => match upgrade(&request) {
                Ok(response) => {
                    let ahead = reader.buffer().to_vec();
                    (&*stream).write_all(&response).ok()?;
                    return Some((request, ahead));
                }
                Err(answer) => (request.method().clone(), answer),
            },
            Err(Fault::Refused(status, text)) => (Method::GET, (status, "text/plain", text.into())),
            Ok(None) | Err(Fault::Io(_)) => return None,
        };
        let (method, (status, content_type, text)) = refused;
        head::answer(&mut &*stream, &method, status, content_type, text.as_bytes(), false).ok()?;
        accept::hang_up(stream).ok()?;
        None
    });
    greeted.ok().flatten()
}

type Answer = (StatusCode, &'static str, String);

/// The answer that makes it a WebSocket, or another one.
fn upgrade(request: &Request<()>) -> Result<Vec<u8>, Answer> {
    match (request.method(), request.uri().path()) {
        (_, "/chat") => {
            let mut bytes = Vec::new();
            create_response(request)
                .and_then(|response| write_response(&mut bytes, &response))
                .map_err(|fault| {
                    let text =
                        format!("Only WebSockets are served here: {fault}. See / instead.\n");
                    (StatusCode::BAD_REQUEST, "text/plain", text)
                })?;
            Ok(bytes)
        }
        (&Method::GET | &Method::HEAD, "/") => {
            Err((StatusCode::OK, "text/html; charset=utf-8", PAGE.into()))
        }
        (_, "/") => Err((StatusCode::METHOD_NOT_ALLOWED, "text/plain", "Only GET.\n".into())),
        _ => Err((StatusCode::NOT_FOUND, "text/plain", "Nothing is here. Try /\n".into())),
    }
}

/// The name that the guest wants, from `/chat?name=…`.
fn wish(request: &Request<()>) -> String {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == "name").map_or_else(String::new, |(_, name)| name.into_owned())
}
