//! The conformance cases of `pong`: tried on the protocol alone by `src/http/tests.rs`, and on the
//! running server, over real sockets, by `conformance.rs`.

/// Input, the expected answers (a status, `pong` for the usual answer, `head` for the same without
/// its body, `pong-keep` where keep-alive had to be said), whether the connection stays open.
pub(crate) type Case = (&'static str, &'static [&'static str], bool);

/// Requests that are answered, or wait for more.
pub(crate) const KEPT: &[Case] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &["pong"], true),
    ("GET / HTTP/1.1\r\nhOsT: a:80\r\n\r\n", &["pong"], true),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", &["pong"], true),
    ("GET /a?b#c HTTP/1.1\r\nHost: [::1]:80 \r\n\r\n", &["pong"], true),
    ("GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", &["pong"], true),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &["pong"], true),
    ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", &["head"], true),
    ("BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", &["pong"], true),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: caf\u{e9}\r\n\r\n", &["pong"], true),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", &["pong"], true),
    // Keep-alive: the default of 1.1, asked for in 1.0, refused by either.
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &["pong"], false),
    ("GET / HTTP/1.1\r\nHost: a\r\nCONNECTION: foo, CLOSE ,bar\r\n\r\n", &["pong"], false),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: Close\r\n\r\n", &["pong"], false),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", &["pong"], true),
    ("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n", &["pong"], false),
    ("GET / HTTP/1.0\r\n\r\n", &["pong"], false),
    ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &["pong-keep"], true),
    ("GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", &["pong"], false),
    ("HEAD / HTTP/1.0\r\n\r\n", &["head"], false),
    // Empty lines before a request are no part of it.
    ("\r\n\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n", &["pong"], true),
    // A bare LF may end a line of the head.
    ("GET / HTTP/1.1\nHost: a\n\n", &["pong"], true),
    // Bodies are skipped.
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab\n", &["pong"], true),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", &["pong"], true),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\nGET / HTTP/1.1\r\n", &["pong"], true),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nab",
        &["pong"],
        true,
    ),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0002\r\n\r\nab", &["pong"], true),
    ("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", &["pong"], false),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        &["pong"],
        true,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n",
        &["pong"],
        true,
    ),
    // A request that is not complete gets no answer yet.
    ("GET / HTTP/1.1\r\nHost: a\r\n", &[], true),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab", &[], true),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\nab", &[], true),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", &[], true),
    // Pipelining.
    (
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        &["pong", "head", "pong"],
        false,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: a\r\n\r\nGET",
        &["pong", "pong"],
        true,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &["pong", "pong"],
        true,
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &["pong"],
        false,
    ),
    // Expect is for 1.1 and for bodies.
    ("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", &["pong"], true),
    ("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", &[], true),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n",
        &["100"],
        true,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
        &["100"],
        true,
    ),
];

/// Faulty requests, and the status of the refusal.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    // No HTTP.
    ("\x16\x03\x01\x02\n", "400"),
    ("GET\r\n\r\n", "400"),
    ("GET /\r\n\r\n", "400"),
    ("GET / \r\n\r\n", "400"),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400"),
    (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET / http/1.1\r\nHost: a\r\n\r\n", "400"),
    ("GET / HTTP/1\r\nHost: a\r\n\r\n", "400"),
    ("GET / HTTP/11\r\nHost: a\r\n\r\n", "400"),
    ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", "400"),
    ("GET / FTP/1.1\r\nHost: a\r\n\r\n", "400"),
    // Of another version.
    ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", "505"),
    ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", "505"),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
    ("GET / HTTP/3.0\r\n\r\n", "505"),
    // Fields.
    ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "400"), // obs-fold
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", "400"),
    // Host.
    ("GET / HTTP/1.1\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400"),
    ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"),
    // Lengths.
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1,\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999999\r\n\r\n", "400"),
    // Both lengths, and codings that hide the end of the body.
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "400",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
        "400",
    ),
    ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", "400"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n",
        "400",
    ),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        "501",
    ),
    // Chunks (the rest of that table is in chunked.rs).
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n", "400"),
    ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx", "400"),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "400",
    ),
    // Things this server does not do.
    ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "501"),
    ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 2\r\n\r\n", "417"),
];
