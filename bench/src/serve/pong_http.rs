//! The HTTP of the pong servers: one parser that every Rust subject shares, so that the figures
//! compare what is under it.
//!
//! HTTP/1.0 and 1.1, keep-alive and pipelining; the answer is always `Pong!`. A request body with
//! a length is read past; what cannot be understood gets 400, 431 or 501 and a close.
//!
//! ```text
//! read -> space() .. filled(n) --> every whole request appends its answer --> out() -> write
//!                        '--> false: write out(), then close
//! ```

use super::Protocol;

const FIRST: usize = 1024;
const MOST: usize = 16 * 1024;
const HEADERS: usize = 32;

/// One connection: what has been read and not parsed, and what has not been written. The buffer is
/// in the value, so that each subject keeps it where it keeps a connection: on the stack of the
/// thread or fiber, in the task of the future, in the box of the event loop.
pub(crate) struct Conn {
    first: [u8; FIRST],
    /// Takes over from `first`, once, when a request is longer than that.
    grown: Vec<u8>,
    have: usize,
    /// Bytes of a request body still to be read past.
    skip: u64,
    out: Vec<u8>,
}

enum Step {
    /// A request of this many bytes of head, with this many of body, and whether to go on.
    Request {
        head: usize,
        body: u64,
        keep: bool,
        http10: bool,
    },
    More,
    Refuse(&'static str),
}

impl Protocol for Conn {
    #[inline]
    fn new() -> Conn {
        Conn { first: [0; FIRST], grown: Vec::new(), have: 0, skip: 0, out: Vec::new() }
    }

    fn space(&mut self) -> &mut [u8] {
        let have = self.have;
        &mut self.buf()[have..]
    }

    fn filled(&mut self, n: usize) -> bool {
        self.have += n;
        let mut at = 0;
        let keep = loop {
            let past = self.skip.min((self.have - at) as u64);
            self.skip -= past;
            at += past as usize;
            if at == self.have {
                break true;
            }
            let have = self.have;
            match parse(&self.buf()[at..have]) {
                Step::Request { head, body, keep, http10 } => {
                    at += head;
                    self.skip = body;
                    pong(&mut self.out, keep, http10);
                    if !keep {
                        break false;
                    }
                }
                Step::More if at == 0 && self.have == MOST => {
                    refuse(&mut self.out, "431 Request Header Fields Too Large");
                    break false;
                }
                Step::More => break true,
                Step::Refuse(status) => {
                    refuse(&mut self.out, status);
                    break false;
                }
            }
        };
        let have = self.have;
        self.buf().copy_within(at..have, 0);
        self.have -= at;
        self.grow();
        keep
    }

    fn out(&self) -> &[u8] {
        &self.out
    }

    fn sent(&mut self) {
        self.out.clear();
    }
}

impl Conn {
    fn buf(&mut self) -> &mut [u8] {
        if self.grown.is_empty() { &mut self.first } else { &mut self.grown }
    }

    /// Makes room when there is none.
    fn grow(&mut self) {
        let size = self.buf().len();
        if self.have < size {
            return;
        }
        if self.grown.is_empty() {
            self.grown.extend_from_slice(&self.first);
        }
        self.grown.resize((size * 2).min(MOST), 0);
    }
}

/// Not inlined: its headers need not lie on the stack of a connection that waits.
#[inline(never)]
fn parse(bytes: &[u8]) -> Step {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) => return Step::More,
        Err(httparse::Error::TooManyHeaders) => {
            return Step::Refuse("431 Request Header Fields Too Large");
        }
        Err(_) => return Step::Refuse("400 Bad Request"),
    };
    let http10 = request.version == Some(0);
    let (mut keep, mut body) = (!http10, 0);
    for h in request.headers.iter() {
        if h.name.eq_ignore_ascii_case("connection") {
            if h.value.eq_ignore_ascii_case(b"close") {
                keep = false;
            } else if h.value.eq_ignore_ascii_case(b"keep-alive") {
                keep = true;
            }
        } else if h.name.eq_ignore_ascii_case("content-length") {
            match std::str::from_utf8(h.value).ok().and_then(|v| v.trim().parse().ok()) {
                Some(n) => body = n,
                None => return Step::Refuse("400 Bad Request"),
            }
        } else if h.name.eq_ignore_ascii_case("transfer-encoding") {
            return Step::Refuse("501 Not Implemented");
        }
    }
    Step::Request { head, body, keep, http10 }
}

fn pong(out: &mut Vec<u8>, keep: bool, http10: bool) {
    let head: &[u8] = match (keep, http10) {
        (true, false) => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n",
        (true, true) => {
            b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: keep-alive\r\n"
        }
        (false, false) => {
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n"
        }
        (false, true) => b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n",
    };
    out.extend_from_slice(head);
    out.extend_from_slice(b"\r\nPong!");
}

fn refuse(out: &mut Vec<u8>, status: &str) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_bytes());
    out.extend_from_slice(b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of `step`; gives the answers and whether the connection stays.
    fn feed(bytes: &[u8], step: usize) -> (String, bool) {
        let (mut conn, mut all) = (Conn::new(), Vec::new());
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = step.min(rest.len()).min(conn.space().len());
            conn.space()[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            let keep = conn.filled(n);
            all.extend_from_slice(conn.out());
            conn.sent();
            if !keep {
                return (String::from_utf8(all).unwrap(), false);
            }
        }
        (String::from_utf8(all).unwrap(), true)
    }

    #[test]
    fn versions_and_keep_alive() {
        let cases: [(&[u8], bool); 4] = [
            (b"GET / HTTP/1.0\r\n\r\n", false),
            (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true),
            (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false),
        ];
        for (request, keep) in cases {
            let (answer, kept) = feed(request, 1000);
            assert!(answer.contains(" 200 OK") && answer.ends_with("\r\n\r\nPong!"), "{answer}");
            assert_eq!(kept, keep, "{}", String::from_utf8_lossy(request));
        }
    }

    #[test]
    fn pipelined_and_split_requests() {
        let three = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3);
        for step in [1, 7, 30, 1000] {
            let (answer, kept) = feed(&three, step);
            assert_eq!(answer.matches("Pong!").count(), 3, "pieces of {step}");
            assert!(kept);
        }
    }

    #[test]
    fn a_body_is_read_past() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /GET / HTTP/1.1\r\n\r\n";
        for step in [1, 10, 1000] {
            assert_eq!(feed(request, step).0.matches("Pong!").count(), 2, "pieces of {step}");
        }
    }

    #[test]
    fn nonsense_and_giants_are_refused() {
        let (answer, kept) = feed(b"\x01\x02 nonsense\r\n\r\n", 1000);
        assert!(answer.starts_with("HTTP/1.1 400") && !kept, "{answer}");
        let mut giant = b"GET / HTTP/1.1\r\nX: ".to_vec();
        giant.resize(MOST + 10, b'x');
        let (answer, kept) = feed(&giant, 500);
        assert!(answer.starts_with("HTTP/1.1 431") && !kept, "{answer}");
    }
}
