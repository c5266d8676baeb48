//! `httpfile`: the files of a directory over HTTP/1.1 (RFC 9110 and 9112).
//!
//! ```text
//!   read ─▶ a whole head? ─▶ target ─▶ site ─▶ conditions, range ─▶ answer ─▶ the next one
//!    ▲          │ no, and the time is up: 408
//!    └──────────┘
//! ```
//!
//! Slow clients hold a fiber and some KiB, for a bounded time: a head has to be there within
//! `--head-timeout` of its first byte, an answer has to be taken at `--least-rate`, and a connection without
//! a request is closed after `--idle`.

pub mod answer;
pub mod conditions;
mod disk;
mod listing;
pub mod log;
pub mod range;
pub mod site;
pub mod target;

use std::io::{self, Read};
use std::time::{Duration, Instant};

use self::answer::Answer;
use self::site::Site;
use crate::http::{Framing, MAX_HEAD, read_head};
use crate::server::{self, Connection};

/// The buffer of a connection begins with this many bytes, and grows up to the longest head.
const FIRST_BUFFER: usize = 512;

/// What is to be done after an answer.
struct Done {
    /// How many bytes the head was.
    used: usize,
    /// The connection is closed.
    last: bool,
    /// There may be more to come that nobody reads.
    rest: bool,
}

/// Serves one connection until it ends.
///
/// # Errors
/// The connection's: the peer is gone, or too slow.
pub fn serve(connection: &Connection, site: &Site) -> io::Result<()> {
    let mut stream = &connection.stream;
    stream.set_write_timeout(Some(connection.idle()))?;
    let mut buffer = vec![0; FIRST_BUFFER];
    // buffer[start..end] has been read and is not used yet; up to `seen` no head ends in it.
    let (mut start, mut end, mut seen) = (0, 0, 0);
    let mut head_since: Option<Instant> = None;
    let mut answers = 0;
    loop {
        let full = end - start >= MAX_HEAD;
        // Parsed only when a line has been completed, which bounds the work for a head in pieces.
        let done = if full || buffer[seen..end].contains(&b'\n') {
            one(connection, site, &buffer[start..end])?
        } else {
            None
        };
        if let Some(Done { used, last, rest }) = done {
            start += used;
            (seen, head_since) = (start, None);
            connection.count(1);
            if last {
                if rest || start < end {
                    server::linger(stream, &mut buffer)?;
                }
                return Ok(());
            }
            answers += 1;
            if answers == 1 {
                // A connection with a single request is spared the call.
                stream.set_nodelay(true)?;
            }
            if start < end {
                continue;
            }
        }
        let in_head = start < end;
        if end == buffer.len() && start == 0 {
            buffer.resize((buffer.len() * 2).min(MAX_HEAD), 0);
        }
        buffer.copy_within(start..end, 0);
        (start, end) = (0, end - start);
        seen = end;
        if !connection.may_wait(in_head) {
            return Ok(());
        }
        let wait = if in_head || answers == 0 {
            let since = *head_since.get_or_insert_with(Instant::now);
            site.rules.head.saturating_sub(since.elapsed())
        } else {
            connection.idle()
        };
        stream.set_read_timeout(Some(wait.max(Duration::from_nanos(1))))?;
        match stream.read(&mut buffer[end..]) {
            Ok(0) => return Ok(()),
            Ok(n) => end += n,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) if is_overdue(&fault) && in_head => {
                let text = "The request took too long.\n";
                // No lingering: who dribbles would be listened to for longer.
                return Answer::new(site, stream).plain("408 Request Timeout", "", text);
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Whether the stream's own timeout is over. (Systems call it by different names.)
fn is_overdue(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Answers the request at the beginning of `input`; `None` if it is not complete.
fn one(connection: &Connection, site: &Site, input: &[u8]) -> io::Result<Option<Done>> {
    let stream = &connection.stream;
    let done = read_head(input, |head| {
        let (request, used, meta) = match head {
            Ok(head) => head,
            Err(refusal) => {
                io::Write::write_all(&mut &*stream, refusal.text)?;
                return Ok(Done { used: input.len(), last: true, rest: true });
            }
        };
        // Nothing that is done here has a use for a body, and what is not read cannot be mistaken for a
        // request.
        let has_body = !matches!(meta.framing, Framing::None);
        let mut answer = Answer::new(site, stream);
        answer.last = meta.last || has_body;
        answer.is_1_1 = meta.is_1_1;
        let result = answer.answer(request);
        if let Some(log) = &site.log {
            let (method, path) = (request.method.unwrap_or("-"), request.path.unwrap_or("-"));
            let line = format!("{method} {path} HTTP/1.{}", u8::from(meta.is_1_1));
            log.line(stream.peer_addr().ok(), &answer.date(), &line, answer.status, answer.sent);
        }
        result.map(|()| Done { used, last: answer.last, rest: has_body })
    });
    done.transpose()
}
