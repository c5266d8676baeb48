//! The head of an HTTP/1.x request, read from anything that can be read, and the answer, written to
//! anything that can be written: a socket, TLS around one, a slice of bytes.
//!
//! Parsing is [`httparse`]'s; the types are those of the crate `http`, so that others understand them.

use std::io::{self, BufRead, Read, Write};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version, header};

/// The longest head that is read.
pub const MAX_HEAD: u64 = 16 * 1024;

/// Why there is no request.
#[derive(Debug)]
pub enum Fault {
    /// The connection's fault.
    Io(io::Error),
    /// The client's: this is to be answered, and the connection closed.
    Refused(StatusCode, &'static str),
}

impl From<io::Error> for Fault {
    fn from(fault: io::Error) -> Fault {
        Fault::Io(fault)
    }
}

/// Reads a head. `None` if the stream is at its end.
///
/// # Errors
/// `Io`: the stream's error, or its end in the middle of a head. `Refused`: it is no valid request.
pub fn read(input: &mut impl BufRead) -> Result<Option<Request<()>>, Fault> {
    const BAD: Fault = Fault::Refused(StatusCode::BAD_REQUEST, "This is no valid HTTP/1.1.\n");
    let mut head = Vec::new();
    let mut left = input.take(MAX_HEAD);
    loop {
        let line = head.len();
        if left.read_until(b'\n', &mut head)? == 0 {
            return match (head.is_empty(), left.limit()) {
                (true, _) => Ok(None),
                (false, 0) => Err(Fault::Refused(
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    "At most 16 KiB of head are read.\n",
                )),
                (false, _) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            };
        }
        match &head[line..] {
            // Empty lines in front of a request are to be ignored.
            b"\n" | b"\r\n" if line == 0 => head.clear(),
            b"\n" | b"\r\n" => break,
            _ => {}
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    if !parsed.parse(&head).is_ok_and(|status| status.is_complete()) {
        return Err(BAD);
    }
    let mut request = Request::new(());
    *request.method_mut() = parsed.method.and_then(|name| name.parse().ok()).ok_or(BAD)?;
    *request.uri_mut() = parsed.path.and_then(|path| path.parse::<Uri>().ok()).ok_or(BAD)?;
    *request.version_mut() =
        if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| BAD)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| BAD)?;
        request.headers_mut().append(name, value);
    }
    Ok(Some(request))
}

/// How many bytes of body follow the head.
///
/// # Errors
/// A status for a length that is no number, is not unique, or is not told (a transfer coding).
pub fn body_length(headers: &HeaderMap) -> Result<u64, Fault> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        let text = "A body needs a Content-Length here; transfer codings are not read.\n";
        return Err(Fault::Refused(StatusCode::LENGTH_REQUIRED, text));
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(0) };
    let digits = length.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits
        .filter(|_| lengths.next().is_none())
        .and_then(|digits| digits.parse().ok())
        .ok_or(Fault::Refused(StatusCode::BAD_REQUEST, "Content-Length is not one number.\n"))
}

/// Whether the client wants to go on with this connection after the answer.
pub fn keeps_alive(request: &Request<()>) -> bool {
    let says = |what| {
        let values = request.headers().get_all(header::CONNECTION).iter();
        let mut tokens = values.filter_map(|v| v.to_str().ok()).flat_map(|text| text.split(','));
        tokens.any(|token| token.trim().eq_ignore_ascii_case(what))
    };
    !says("close") && (request.version() == Version::HTTP_11 || says("keep-alive"))
}

/// Writes an answer with a body; without it, but with its length, to a `HEAD`.
///
/// # Errors
/// The stream's.
pub fn answer(
    output: &mut impl Write,
    method: &Method,
    status: StatusCode,
    content_type: &str,
    body: &[u8],
    keep: bool,
) -> io::Result<()> {
    let connection = if keep { "keep-alive" } else { "close" };
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: {connection}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if method == Method::HEAD {
        output.write_all(&text)?;
    } else if body.len() <= 16 * 1024 {
        // One write: one packet, one TLS record.
        text.extend_from_slice(body);
        output.write_all(&text)?;
    } else {
        output.write_all(&text)?;
        output.write_all(body)?;
    }
    output.flush()
}

/// Reads a body of known length.
///
/// # Errors
/// The stream's; `UnexpectedEof` if it ends too early.
pub fn read_body(input: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    // Grows as bytes come: a large number alone costs no memory.
    let mut body = Vec::with_capacity(length.min(64 * 1024) as usize);
    if input.take(length).read_to_end(&mut body)? as u64 == length {
        Ok(body)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, MAX_HEAD, body_length, keeps_alive, read};

    fn head(text: &str) -> Result<Option<http::Request<()>>, Fault> {
        read(&mut text.as_bytes())
    }

    fn status(fault: Fault) -> u16 {
        match fault {
            Fault::Refused(status, _) => status.as_u16(),
            Fault::Io(fault) => panic!("{fault}"),
        }
    }

    #[test]
    fn a_head_is_read_and_nothing_behind_it() {
        let mut input = &b"\r\nPOST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"[..];
        let request = read(&mut input).unwrap().unwrap();
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/x"));
        assert_eq!(body_length(request.headers()).unwrap(), 2);
        assert_eq!(input, b"ab");
        assert!(keeps_alive(&request));
        assert!(head("").unwrap().is_none());
        assert!(!keeps_alive(&head("GET / HTTP/1.0\r\n\r\n").unwrap().unwrap()));
        assert!(!keeps_alive(
            &head("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n").unwrap().unwrap()
        ));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in ["\0\n\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\n: x\r\n\r\n"] {
            assert_eq!(status(head(text).unwrap_err()), 400, "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(MAX_HEAD as usize));
        assert_eq!(status(head(&long).unwrap_err()), 431);
        assert!(matches!(head("GET / HT"), Err(Fault::Io(_))));
        for fields in ["Content-Length: +1", "Content-Length: 1\r\nContent-Length: 1"] {
            let request = head(&format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n")).unwrap().unwrap();
            assert_eq!(status(body_length(request.headers()).unwrap_err()), 400, "{fields}");
        }
    }
}
