//! The HTTP/1.x of `pong`, without any I/O: bytes in, what to do out.
//!
//! ```text
//!             head complete, no body                        every state: a fault
//!            +----------------------+                                 |
//!            v                      |                                 v
//!   input -> Head ---- body? ------ + --> Reply(200, keep or last)   Reply(4xx/5xx, last)
//!            ^   \-- Length(left) ---+        |                       |
//!            |    \- Chunked(state) -+        |                       v
//!            +--------------------------------+                     Closed
//! ```
//!
//! [`Session::step`] is called again and again with the bytes not used so far. It says how many it
//! has used and what to do: read more, send an interim `100 Continue`, or send a reply and perhaps
//! close. Every text it hands out is a constant, so nothing is allocated.
//!
//! Where RFC 9112 leaves a choice, the stricter reading wins: a request whose length two parsers
//! could see differently (both `Content-Length` and `Transfer-Encoding`, unequal lengths, a coding
//! after `chunked`, bare LF in chunk framing) is refused and the connection closed, since nothing
//! after it can be trusted to be a request. A bare LF ends a line of the head, as the RFC allows.
//! The answers carry no `Date`: they are constants of a program that does not read the clock.

use std::mem::MaybeUninit;

use httparse::{Error, Header, Request, Status};

use crate::chunked::{Chunked, Fault};

/// The longest head (request line and header fields) that is read; beyond it the answer is 431.
pub const MAX_HEAD: usize = 16 * 1024;

/// The most header fields a request may have; beyond it the answer is 431.
pub const MAX_HEADERS: usize = 64;

/// Enough for almost every client. The array for it lies on the fiber's stack: keeping it small
/// keeps the stack of a connection within its first page.
const USUAL_HEADERS: usize = 16;

const PONG: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nPong!";
const PONG_KEEP: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\
    Connection: keep-alive\r\n\r\nPong!";
const PONG_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\
    Connection: close\r\n\r\nPong!";
const BODY_LEN: usize = 5;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A refusal: the status line, and a short text that says what was wrong.
macro_rules! refusal {
    ($status:literal, $len:literal, $text:literal) => {{
        const { assert!($text.len() == $len) };
        Reply {
            text: concat!(
                "HTTP/1.1 ",
                $status,
                "\r\nContent-Type: text/plain\r\nContent-Length: ",
                $len,
                "\r\nConnection: close\r\n\r\n",
                $text
            )
            .as_bytes(),
            last: true,
            refused: true,
        }
    }};
}

const BAD_REQUEST: Reply = refusal!("400 Bad Request", 23, "This is no valid HTTP.\n");
const EXPECTATION_FAILED: Reply =
    refusal!("417 Expectation Failed", 35, "Only 100-continue can be expected.\n");
const TOO_LARGE: Reply = refusal!(
    "431 Request Header Fields Too Large",
    47,
    "At most 16 KiB of head and 64 fields are read.\n"
);
const NOT_IMPLEMENTED: Reply =
    refusal!("501 Not Implemented", 45, "This method or transfer coding is not known.\n");
const VERSION: Reply =
    refusal!("505 HTTP Version Not Supported", 34, "Only HTTP/1.0 and 1.1 are spoken.\n");

/// One answer, ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The bytes to send.
    pub text: &'static [u8],
    /// Whether the connection is to be closed once they are sent.
    pub last: bool,
    /// Whether the request was refused. The peer may still be sending then, so the close has to be
    /// a lingering one, or the reset it provokes would destroy the answer.
    pub refused: bool,
}

/// What to do after a [`Session::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing more can be said before more bytes have come.
    Read,
    /// Send this, then go on: the client waits for it before it sends the body.
    Interim(&'static [u8]),
    /// A request is complete (or refused): send this answer.
    Reply(Reply),
}

/// The outcome of one [`Session::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many bytes of the input are done with.
    pub used: usize,
    /// What to do.
    pub action: Action,
}

/// The protocol's state on one connection.
#[derive(Debug)]
pub struct Session {
    state: State,
}

#[derive(Debug)]
enum State {
    /// Waiting for a head, of which this many bytes have been looked at in vain.
    Head { seen: usize },
    /// Skipping a body of known length.
    Length { left: u64, reply: Reply },
    /// Skipping a chunked body.
    Chunked { decoder: Chunked, reply: Reply },
    /// Nothing more is expected on this connection.
    Closed,
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}

impl Session {
    /// The state of a fresh connection.
    pub const fn new() -> Self {
        Session { state: State::Head { seen: 0 } }
    }

    /// Whether the connection is between two requests, given that no input is left over.
    pub fn is_between_requests(&self) -> bool {
        matches!(self.state, State::Head { seen: 0 } | State::Closed)
    }

    /// Takes the bytes that have come and are not used yet, and says what to do.
    ///
    /// After [`Action::Read`] the caller keeps `input[used..]`, appends what it reads, and calls
    /// again. After any other action it calls again at once with `input[used..]`. At most
    /// [`MAX_HEAD`] bytes ever need to be kept.
    pub fn step(&mut self, input: &[u8]) -> Step {
        match &mut self.state {
            State::Head { seen } => {
                let seen = *seen;
                self.head(input, seen)
            }
            State::Length { left, reply } => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= used as u64;
                if *left > 0 {
                    return Step { used, action: Action::Read };
                }
                let reply = *reply;
                self.reply(used, reply)
            }
            State::Chunked { decoder, reply } => match decoder.skip(input) {
                Ok((used, false)) => Step { used, action: Action::Read },
                Ok((used, true)) => {
                    let reply = *reply;
                    self.reply(used, reply)
                }
                Err(Fault::Malformed) => self.reply(input.len(), BAD_REQUEST),
                Err(Fault::TooLong) => self.reply(input.len(), TOO_LARGE),
            },
            State::Closed => Step { used: input.len(), action: Action::Read },
        }
    }

    fn reply(&mut self, used: usize, reply: Reply) -> Step {
        self.state = if reply.last { State::Closed } else { State::Head { seen: 0 } };
        Step { used, action: Action::Reply(reply) }
    }

    fn head(&mut self, input: &[u8], seen: usize) -> Step {
        // Empty lines before a request are to be ignored. They are used up here, so that a stream
        // of them is neither kept nor parsed again.
        let mut start = 0;
        while seen == 0 && start < input.len() {
            match &input[start..] {
                [b'\n', ..] => start += 1,
                [b'\r', b'\n', ..] => start += 2,
                [b'\r'] => return Step { used: start, action: Action::Read },
                _ => break,
            }
        }
        let window = &input[start..];
        let window = &window[..window.len().min(MAX_HEAD)];
        // A head that came in pieces is parsed from its start each time. Doing so only when a line
        // has been completed bounds that work by the number of lines, which is bounded too.
        let fresh = &window[seen.min(window.len())..];
        if window.is_empty() || (seen > 0 && !fresh.contains(&b'\n') && window.len() < MAX_HEAD) {
            self.state = State::Head { seen: if window.is_empty() { 0 } else { seen } };
            return Step { used: start, action: Action::Read };
        }
        match parse::<USUAL_HEADERS>(window).unwrap_or_else(|TooMany| parse_many(window)) {
            Parsed::Head { used, framing, reply, wants_continue } => {
                let used = start + used;
                match framing {
                    Framing::None => return self.reply(used, reply),
                    Framing::Length(left) => self.state = State::Length { left, reply },
                    Framing::Chunked => {
                        self.state = State::Chunked { decoder: Chunked::new(), reply };
                    }
                }
                if wants_continue && used == input.len() {
                    return Step { used, action: Action::Interim(CONTINUE) };
                }
                let rest = self.step(&input[used..]);
                Step { used: used + rest.used, action: rest.action }
            }
            Parsed::Partial if window.len() == MAX_HEAD => self.reply(input.len(), TOO_LARGE),
            Parsed::Partial => {
                self.state = State::Head { seen: window.len() };
                Step { used: start, action: Action::Read }
            }
            Parsed::Refused(reply) => self.reply(input.len(), reply),
        }
    }
}

/// How the end of a request's body is found.
#[derive(Debug)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
}

enum Parsed {
    Partial,
    Head { used: usize, framing: Framing, reply: Reply, wants_continue: bool },
    Refused(Reply),
}

struct TooMany;

#[cold]
#[inline(never)] // its large frame must not become part of the usual path's
fn parse_many(input: &[u8]) -> Parsed {
    parse::<MAX_HEADERS>(input).unwrap_or(Parsed::Refused(TOO_LARGE))
}

#[inline(never)]
fn parse<const HEADERS: usize>(input: &[u8]) -> Result<Parsed, TooMany> {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADERS];
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(input, &mut headers) {
        Ok(Status::Partial) => Ok(Parsed::Partial),
        Ok(Status::Complete(used)) => Ok(judge(&request, used)),
        Err(Error::TooManyHeaders) => Err(TooMany),
        Err(Error::Version) => Ok(judge_version(input)),
        Err(_) => Ok(Parsed::Refused(BAD_REQUEST)),
    }
}

/// The parser knows versions 1.0 and 1.1 alone. A version of another number is told that (505);
/// anything else in its place is no HTTP (400).
#[cold]
fn judge_version(input: &[u8]) -> Parsed {
    let line_end = input.iter().position(|&b| b == b'\n');
    let line = &input[..line_end.unwrap_or(input.len())];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let version = line.splitn(3, |&b| b == b' ').nth(2).unwrap_or_default();
    match version {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Parsed::Refused(VERSION)
        }
        // Not all of it is here yet, and so far it could become a version.
        [b'H', b'T', b'T', b'P', b'/', major] | [b'H', b'T', b'T', b'P', b'/', major, b'.']
            if line_end.is_none() && major.is_ascii_digit() =>
        {
            Parsed::Partial
        }
        _ => Parsed::Refused(BAD_REQUEST),
    }
}

/// What a head says about the connection.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) framing: Framing,
    pub(crate) is_1_1: bool,
    /// Whether the connection ends with this request.
    pub(crate) last: bool,
    pub(crate) wants_continue: bool,
}

/// Reads one head, for a server that answers by it: `None` if it is not complete. With the head, and how long
/// it is, comes what it says about the connection; or a refusal.
pub(crate) fn read_head<R>(
    input: &[u8],
    answer: impl FnOnce(Result<(&Request<'_, '_>, usize, Meta), Reply>) -> R,
) -> Option<R> {
    let input = &input[..input.len().min(MAX_HEAD)];
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut request = Request::new(&mut []);
    let refusal = match request.parse_with_uninit_headers(input, &mut headers) {
        Ok(Status::Complete(used)) => {
            let meta = examine(&request);
            return Some(answer(meta.map(|meta| (&request, used, meta))));
        }
        Ok(Status::Partial) if input.len() < MAX_HEAD => return None,
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => TOO_LARGE,
        Err(Error::Version) => match judge_version(input) {
            Parsed::Refused(reply) => reply,
            _ => return None,
        },
        Err(_) => BAD_REQUEST,
    };
    Some(answer(Err(refusal)))
}

/// Decides on a complete head: how long the body is, and which answer it gets.
fn judge(request: &Request<'_, '_>, used: usize) -> Parsed {
    let Meta { framing, is_1_1, last, wants_continue } = match examine(request) {
        Ok(meta) => meta,
        Err(reply) => return Parsed::Refused(reply),
    };
    let method = request.method.unwrap_or_default();
    if method == "CONNECT" {
        return Parsed::Refused(NOT_IMPLEMENTED); // a 200 would promise a tunnel
    }
    let text = if last {
        PONG_CLOSE
    } else if is_1_1 {
        PONG
    } else {
        PONG_KEEP
    };
    let text = if method == "HEAD" { &text[..text.len() - BODY_LEN] } else { text };
    let reply = Reply { text, last, refused: false };
    Parsed::Head { used, framing, reply, wants_continue }
}

/// What a complete head says about the connection, or why it is refused.
fn examine(request: &Request<'_, '_>) -> Result<Meta, Reply> {
    let is_1_1 = request.version == Some(1);
    let mut hosts = 0;
    let mut length: Option<u64> = None;
    let mut coded = Coding::Absent;
    let (mut close, mut keep, mut wants_continue) = (false, false, false);
    for Header { name, value } in request.headers.iter() {
        // The length tells the few names that matter apart from nearly all that do not.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                hosts += 1;
                if !value.trim_ascii().iter().all(|&b| is_host_byte(b)) {
                    return Err(BAD_REQUEST);
                }
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
                    return Err(EXPECTATION_FAILED);
                }
                wants_continue = is_1_1; // a 1.0 client does not know interim answers
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for token in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                    close |= token.eq_ignore_ascii_case(b"close");
                    keep |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                for part in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                    match (decimal(part), length) {
                        (Some(n), None) => length = Some(n),
                        (Some(n), Some(before)) if n == before => {}
                        _ => return Err(BAD_REQUEST),
                    }
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                for part in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                    coded = coded.then(part);
                }
            }
            _ => {}
        }
    }
    if hosts > 1 || (is_1_1 && hosts == 0) {
        return Err(BAD_REQUEST);
    }
    let framing = match (coded, length) {
        (Coding::Absent, None | Some(0)) => Framing::None,
        (Coding::Absent, Some(n)) => Framing::Length(n),
        (_, Some(_)) => return Err(BAD_REQUEST),
        // A 1.0 client knows no codings: somebody in between has muddled the message.
        (_, None) if !is_1_1 => return Err(BAD_REQUEST),
        (Coding::Chunked, None) => Framing::Chunked,
        (Coding::OthersThenChunked, None) => return Err(NOT_IMPLEMENTED),
        (Coding::Others | Coding::Faulty, None) => return Err(BAD_REQUEST),
    };
    let last = close || !(is_1_1 || keep);
    Ok(Meta { framing, is_1_1, last, wants_continue })
}

/// What the list of transfer codings has amounted to so far.
#[derive(Clone, Copy)]
enum Coding {
    Absent,
    Chunked,
    Others,
    OthersThenChunked,
    /// `chunked` was not the last one: where the body ends cannot be known.
    Faulty,
}

impl Coding {
    fn then(self, coding: &[u8]) -> Coding {
        match (self, coding.eq_ignore_ascii_case(b"chunked")) {
            (Coding::Absent, true) => Coding::Chunked,
            (Coding::Others, true) => Coding::OthersThenChunked,
            (Coding::Absent | Coding::Others, false) if !coding.is_empty() => Coding::Others,
            _ => Coding::Faulty,
        }
    }
}

/// A number of digits alone: no sign, no space, no overflow.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// The bytes that a host name, an address or a port can consist of (RFC 3986 `host [":" port]`).
fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&b)
}

#[cfg(test)]
mod tests;
