//! The exchanges that are about bodies: where they end, and what must not be believed about that. Citations as in
//! [`super::cases`].

use super::cases::{Case, case};
use super::script::Step::*;

const CHUNKED: &str = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

pub(super) const CASES: &[Case] = &[
    // Bodies.
    case(
        "a body with a length",
        "9112 6.2",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
            Answer(200, "hello"),
            Open,
        ],
    ),
    case(
        "a body in chunks",
        "9112 7.1",
        &[Send(CHUNKED), Send("3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"), Answer(200, "hello"), Open],
    ),
    case(
        "a body in chunks, byte by byte",
        "9112 7.1",
        &[
            Bytewise(CHUNKED),
            Bytewise("3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
            Answer(200, "hello"),
            Open,
        ],
    ),
    case(
        "chunk sizes in either case, with zeros in front",
        "9112 7.1",
        &[
            Send(CHUNKED),
            Send("00A\r\n0123456789\r\n00b\r\n0123456789a\r\n000\r\n\r\n"),
            Answer(200, "01234567890123456789a"),
            Open,
        ],
    ),
    case(
        "unknown chunk extensions are ignored",
        "9112 7.1.1",
        &[
            Send(CHUNKED),
            Send("5;a=b;c=\"d e\"\r\nhello\r\n0;last\r\n\r\n"),
            Answer(200, "hello"),
            Open,
        ],
    ),
    case(
        "trailers",
        "9112 7.1.2",
        &[
            Send(CHUNKED),
            Send("5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n"),
            Answer(200, "hello"),
            Field("x-trailers", "2"),
            Open,
        ],
    ),
    case(
        "the end of the stream in a body",
        "9112 8",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel"),
            HalfClose,
            Either(&[Answer(400, "bad body"), Closed], &[Closed]),
        ],
    ),
    case(
        "the end of the stream between chunks",
        "9112 8",
        &[
            Send(CHUNKED),
            Send("5\r\nhello\r\n"),
            HalfClose,
            Either(&[Answer(400, "bad body"), Closed], &[Closed]),
        ],
    ),
    case(
        "a chunk size that is no number",
        "9112 7.1",
        &[Send(CHUNKED), Send("xyz\r\nhello\r\n0\r\n\r\n"), Refused],
    ),
    case(
        "a negative chunk size",
        "9112 7.1",
        &[Send(CHUNKED), Send("-5\r\nhello\r\n0\r\n\r\n"), Refused],
    ),
    case(
        "a chunk size with 0x",
        "9112 7.1",
        &[Send(CHUNKED), Send("0x5\r\nhello\r\n0\r\n\r\n"), Refused],
    ),
    case(
        "an empty chunk size",
        "9112 7.1",
        &[Send(CHUNKED), Send("\r\nhello\r\n0\r\n\r\n"), Refused],
    ),
    case(
        "a chunk size beyond 64 bits",
        "9112 7.1",
        &[Send(CHUNKED), Send("10000000000000005\r\nhello\r\n0\r\n\r\n"), Refused],
    ),
    case(
        "a chunk that is longer than its size",
        "9112 7.1",
        &[Send(CHUNKED), Send("3\r\nhello\r\n0\r\n\r\n"), Refused],
    ),
    case(
        "a chunk size that ends with a bare LF",
        "9112 7.1",
        &[Send(CHUNKED), Send("5\nhello\r\n0\r\n\r\n"), Refused],
    ),
    case(
        "a chunk that ends with a bare LF",
        "9112 7.1",
        &[Send(CHUNKED), Send("5\r\nhello\n0\r\n\r\n"), Refused],
    ),
    // Lengths and codings that contradict: request smuggling.
    case(
        "two lengths",
        "9112 6.3",
        &[
            Send(
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            ),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "two lengths in one field",
        "9112 6.3",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nhello!"),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "one length twice",
        "9112 6.3",
        &[
            Send(
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
            ),
            Either(&[Answer(200, "hello"), Open], &[Answer(400, ""), Closed]),
        ],
    ),
    case(
        "a length with a plus",
        "9112 6.3",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello"),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "a negative length",
        "9112 6.3",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello"),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "a length with letters",
        "9112 6.3",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5a\r\n\r\nhello"),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "an empty length",
        "9112 6.3",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nhello"),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "a length beyond 64 bits",
        "9112 6.3",
        &[
            Send(
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nhello",
            ),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "a length and chunks",
        "9112 6.1",
        &[
            Send(
                "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
            Either(&[Answer(200, "hello"), Closed], &[Answer(400, ""), Closed]),
        ],
    ),
    case(
        "chunks and a length",
        "9112 6.1",
        &[
            Send(
                "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
            Either(&[Answer(200, "hello"), Closed], &[Answer(400, ""), Closed]),
        ],
    ),
    case(
        "a coding that is not chunked",
        "9112 6.3",
        &[Send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nhello"), Refused],
    ),
    case(
        "a coding after chunked",
        "9112 6.3",
        &[
            Send(
                "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
            ),
            Refused,
        ],
    ),
    case(
        "a coding that only looks like chunked",
        "9112 6.3",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
            Refused,
        ],
    ),
    case(
        "a coding behind a vertical tab",
        "9110 5.5",
        &[
            Send(
                "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
            ),
            Refused,
        ],
    ),
    case(
        "a coding with a space in front of the colon",
        "9112 5.1",
        &[
            Send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
            Answer(400, ""),
            Closed,
        ],
    ),
    case(
        "a coding in HTTP/1.0",
        "9112 6.1",
        &[
            Send(
                "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
            Either(&[Answer(200, "hello"), Closed], &[Refused]),
        ],
    ),
];
