//! The exchanges, each with the section that says what must come. "9112" is RFC 9112 (HTTP/1.1), "9110" RFC 9110
//! (what all versions mean), "6585" RFC 6585 (status 431).

use super::script::Step::{self, *};

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) cites: &'static str,
    pub(super) script: &'static [Step],
    /// What hyper by itself does instead, on whatever runtime.
    pub(super) hyper: Option<&'static [Step]>,
}

pub(super) const fn case(name: &'static str, cites: &'static str, script: &'static [Step]) -> Case {
    Case { name, cites, script, hyper: None }
}

impl Case {
    const fn hyper(mut self, script: &'static [Step]) -> Case {
        self.hyper = Some(script);
        self
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const EXPECT: &str =
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

pub(super) const CASES: &[Case] = &[
    // Requests, one after the other.
    case("a request", "9112 2.1", &[Send(GET), Answer(200, "hello"), Open]),
    case("its answer is dated", "9110 6.6.1", &[Send(GET), Answer(200, "hello"), Dated]),
    case("requests byte by byte", "9112 2.2", &[Bytewise(GET), Answer(200, "hello"), Open]),
    case(
        "pipelined requests are answered in order",
        "9112 9.3.2",
        &[
            Send(
                "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n22GET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            Answer(200, "/1"),
            Answer(200, "22"),
            Answer(200, "/3"),
            Open,
        ],
    ),
    case(
        "a thousand pipelined requests",
        "9112 9.3.2",
        &[Times(1000, GET), Answers(1000, 200, "hello"), Open],
    ),
    case(
        "an empty line in front of a request",
        "9112 2.2",
        &[Send("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), Answer(200, "hello"), Open],
    ),
    case(
        "the end after half a request",
        "9112 8",
        &[
            Send("GET / HTTP/1.1\r\nHost:"),
            HalfClose,
            Either(&[Answer(400, ""), Closed], &[Closed]),
        ],
    ),
    case(
        "the end after a request",
        "9112 9.5",
        &[Send(GET), HalfClose, Answer(200, "hello"), Closed],
    ),
    // Hosts.
    case("no Host", "9112 3.2", &[Send("GET / HTTP/1.1\r\n\r\n"), Answer(400, ""), Closed])
        .hyper(&[Send("GET / HTTP/1.1\r\n\r\n"), Answer(200, "hello"), Open]),
    case(
        "two Hosts",
        "9112 3.2",
        &[Send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Answer(400, ""), Closed],
    )
    .hyper(&[Send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Answer(200, "hello"), Open]),
    case(
        "a Host that is none",
        "9112 3.2",
        &[Send("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), Answer(400, ""), Closed],
    )
    .hyper(&[Send("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), Answer(200, "hello"), Open]),
    case(
        "an empty Host",
        "9112 3.2",
        &[Send("GET / HTTP/1.1\r\nHost:\r\n\r\n"), Answer(200, "hello"), Open],
    ),
    case(
        "no Host in HTTP/1.0",
        "9112 3.2",
        &[Send("GET / HTTP/1.0\r\n\r\n"), Answer(200, "hello"), Closed],
    ),
    // Request lines.
    case(
        "a request line of one word",
        "9112 3",
        &[Send("GET\r\nHost: a\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a request line without a version",
        "9112 3",
        &[Send("GET /\r\nHost: a\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a request line of four words",
        "9112 3",
        &[Send("GET / HTTP/1.1 x\r\nHost: a\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "another protocol",
        "9112 2.3",
        &[Send("GET / FTP/1.1\r\nHost: a\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a version in small letters",
        "9112 2.3",
        &[Send("GET / http/1.1\r\nHost: a\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case("HTTP/3.0 in words", "9110 15.6.6", &[Send("GET / HTTP/3.0\r\nHost: a\r\n\r\n"), Refused]),
    case(
        "a method that is no token",
        "9112 3.1",
        &[Send("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a method that nobody knows",
        "9110 9.1",
        &[Send("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), Answer(501, ""), Open],
    ),
    case(
        "TLS",
        "9112 3",
        &[
            Raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
            Either(&[Answer(400, ""), Closed], &[Closed]),
        ],
    ),
    case(
        "a target with a host",
        "9112 3.2.2",
        &[Send("GET http://a/1 HTTP/1.1\r\nHost: a\r\n\r\n"), Answer(200, "/1"), Open],
    ),
    case(
        "the target *",
        "9112 3.2.4",
        &[
            Send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
            Answer(204, ""),
            Field("content-length", ""),
            Open,
        ],
    ),
    case(
        "a target of 100,000 bytes",
        "9112 3",
        &[
            Send("GET /"),
            Times(100_000, "a"),
            Send(" HTTP/1.1\r\nHost: a\r\n\r\n"),
            Answer(414, ""),
            Closed,
        ],
    ),
    // Fields.
    case(
        "a space in front of the first field",
        "9112 2.2",
        &[Send("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a field that goes on in the next line",
        "9112 5.2",
        &[Send("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a field without a colon",
        "9112 5",
        &[Send("GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a field without a name",
        "9112 5",
        &[Send("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a bare CR in a value",
        "9112 2.2",
        &[Send("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a NUL in a value",
        "9110 5.5",
        &[Send("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n"), Answer(400, ""), Closed],
    ),
    case(
        "a value that is not ASCII",
        "9110 5.5",
        &[Raw(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\xffc\r\n\r\n"), Answer(200, "hello"), Open],
    ),
    case(
        "lines that end with a bare LF",
        "9112 2.2",
        &[
            Send("GET / HTTP/1.1\nHost: a\n\n"),
            Either(&[Answer(200, "hello"), Open], &[Answer(400, ""), Closed]),
        ],
    ),
    case(
        "a field of 1,000,000 bytes",
        "6585 5",
        &[
            Send("GET / HTTP/1.1\r\nHost: a\r\nX-A: "),
            Times(1_000_000, "a"),
            Send("\r\n\r\n"),
            Answer(431, ""),
            Closed,
        ],
    ),
    case(
        "a field of 8,000 bytes",
        "9110 5.4",
        &[
            Send("GET / HTTP/1.1\r\nHost: a\r\nX-A: "),
            Times(8_000, "a"),
            Send("\r\n\r\n"),
            Answer(200, "hello"),
            Open,
        ],
    ),
    case(
        "1,000 fields",
        "6585 5",
        &[
            Send("GET / HTTP/1.1\r\nHost: a\r\n"),
            Times(1_000, "A: b\r\n"),
            Send("\r\n"),
            Answer(431, ""),
            Closed,
        ],
    ),
    // Persistence.
    case(
        "Connection: close",
        "9112 9.6",
        &[
            Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            Answer(200, "hello"),
            Field("connection", "close"),
            Closed,
        ],
    ),
    case(
        "nothing is answered after Connection: close",
        "9112 9.6",
        &[
            Send(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            Answer(200, "hello"),
            Closed,
        ],
    ),
    case(
        "HTTP/1.0",
        "9112 9.3",
        &[Send("GET / HTTP/1.0\r\nHost: a\r\n\r\n"), Answer(200, "hello"), Closed],
    ),
    case(
        "HTTP/1.0 with keep-alive",
        "9112 9.3",
        &[
            Send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"),
            Answer(200, "hello"),
            Field("connection", "keep-alive"),
            Open,
        ],
    ),
    case(
        "an upgrade that nobody takes",
        "9110 7.8",
        &[
            Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
            Answer(200, "hello"),
            Open,
        ],
    ),
    // Answers.
    case(
        "HEAD",
        "9110 9.3.2",
        &[Send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"), Headless(200, "5"), Open],
    ),
    case(
        "HEAD and GET, pipelined",
        "9110 9.3.2",
        &[
            Send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            Headless(200, "5"),
            Answer(200, "hello"),
            Open,
        ],
    ),
    case(
        "an answer of no known length",
        "9112 7.1",
        &[
            Send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"),
            Answer(200, "one two three "),
            Field("transfer-encoding", "chunked"),
            Field("content-length", ""),
            Open,
        ],
    ),
    case(
        "the same for HTTP/1.0",
        "9112 6.1",
        &[
            Send("GET /stream HTTP/1.0\r\nHost: a\r\n\r\n"),
            Answer(200, "one two three "),
            Field("transfer-encoding", ""),
            Closed,
        ],
    ),
    case(
        "no content",
        "9110 8.6",
        &[
            Send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n"),
            Answer(204, ""),
            Field("content-length", ""),
            Field("transfer-encoding", ""),
            Open,
        ],
    ),
    case(
        "not modified",
        "9110 15.4.5",
        &[
            Send("GET /same HTTP/1.1\r\nHost: a\r\n\r\n"),
            Answer(304, ""),
            Field("transfer-encoding", ""),
            Open,
        ],
    ),
    // 100 (Continue).
    case(
        "Expect: 100-continue",
        "9110 10.1.1",
        &[Send(EXPECT), Answer(100, ""), Send("hello"), Answer(200, "hello"), Open],
    ),
    case(
        "the body need not wait",
        "9110 10.1.1",
        &[
            Send(EXPECT),
            Send("hello"),
            Either(&[Answer(100, ""), Answer(200, "hello"), Open], &[Answer(200, "hello"), Open]),
        ],
    ),
    case(
        "a handler that does not want the body",
        "9110 10.1.1",
        &[
            Send(
                "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
            ),
            Answer(413, ""),
            Closed,
        ],
    ),
    case(
        "Expect in HTTP/1.0",
        "9110 10.1.1",
        &[
            Send(
                "POST /echo HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
            ),
            Send("hello"),
            Answer(200, "hello"),
            Closed,
        ],
    ),
];
