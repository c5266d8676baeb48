//! Bad conditions: clients that stall, reset, do not read, or stay; services that panic; ends in the middle.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, post};
use bast::future::Wait;
use bast::sync::mpsc;
use bast_hyper::serve;
use bytes::Bytes;

use crate::servers::{on_a_runtime, read};

/// Nothing here takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough to be seen as a wait, short enough to wait for.
const SHORT: Duration = Duration::from_millis(50);

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, path: &str) -> String {
    try_ask(stream, path).unwrap()
}

fn try_ask(stream: &mut TcpStream, path: &str) -> io::Result<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())?;
    let mut said = Vec::new();
    // Every answer here ends like this.
    while !said.ends_with(b".") {
        let mut buf = [0; 1024];
        match read(stream, &mut buf)? {
            0 => break,
            n => said.extend_from_slice(&buf[..n]),
        }
    }
    Ok(String::from_utf8(said).unwrap())
}

/// What comes until the end, which a reset is as well.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    if let Err(fault) = stream.read_to_end(&mut read) {
        assert_eq!(fault.kind(), std::io::ErrorKind::ConnectionReset, "the server keeps it open");
    }
    read
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn app() -> Router {
    Router::new().route("/", get(async || "Hello."))
}

/// With `/slow`, for one request: the receiver hears that it has begun, and it is answered when the sender says so.
fn slow_app() -> (Router, std::sync::mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (entered, begun) = std::sync::mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(Some(released)));
    let slow = async move || {
        entered.send(()).unwrap();
        let released = released.lock().unwrap().take().expect("only one request comes");
        bast::spawn(move || released.recv()).await.unwrap().unwrap();
        "Done."
    };
    (app().route("/slow", get(slow)), begun, release)
}

#[test]
fn a_client_that_stalls_is_let_go_of() {
    let server =
        on_a_runtime(|listener| serve(listener, app()).head_timeout(SHORT).wait().unwrap());
    // Nothing at all; the beginning of HTTP/2; half a head; half a head after an answer.
    for begun in ["", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHo"] {
        let mut stream = connect(server.addr);
        stream.write_all(begun.as_bytes()).unwrap();
        let said = rest(&mut stream);
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 408"), "{said:?}");
    }
    let mut stream = connect(server.addr);
    // A thread that is away for as long, between two calls, is let go of as well.
    until("it is fast enough for once", || {
        stream = connect(server.addr);
        try_ask(&mut stream, "/").is_ok_and(|said| said.ends_with("Hello."))
    });
    stream.write_all(b"GET / HT").unwrap();
    rest(&mut stream);
}

#[test]
fn a_slow_reader_holds_up_its_own_body_only() {
    const PIECE: usize = 64 * 1024;
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let app =
        app().route("/endless", get(async move || Body::from_stream(Endless { made: count })));
    let server = on_a_runtime(|listener| serve(listener, app).wait().unwrap());
    let mut slow = connect(server.addr);
    slow.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // The socket's buffers fill, and then nothing more is made.
    until("it begins", || made.load(SeqCst) > 0);
    let mut last = usize::MAX;
    until("it stops", || {
        thread::sleep(SHORT);
        std::mem::replace(&mut last, made.load(SeqCst)) == made.load(SeqCst)
    });
    assert!(last * PIECE < 256 << 20, "{last} pieces for a client that reads none");
    assert!(ask(&mut connect(server.addr), "/").ends_with("Hello."));
    // It goes on with a reader.
    let before = made.load(SeqCst);
    let mut buf = vec![0; PIECE];
    until("it goes on", || {
        slow.read_exact(&mut buf).unwrap();
        made.load(SeqCst) > before
    });
    // And ends with it: the body is dropped.
    drop(slow);
    until("it ends", || Arc::strong_count(&made) == 2);
}

/// Pieces without an end, and how many were made.
struct Endless {
    made: Arc<AtomicUsize>,
}

impl futures_util::Stream for Endless {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        self.made.fetch_add(1, SeqCst);
        Poll::Ready(Some(Ok(Bytes::from_static(&[b'x'; 64 * 1024]))))
    }
}

#[test]
fn a_panic_ends_its_own_connection_only() {
    let app = app().route("/panic", get(async || -> &'static str { panic!("on purpose") }));
    let server = on_a_runtime(|listener| serve(listener, app).wait().unwrap());
    let mut other = connect(server.addr);
    assert!(ask(&mut other, "/").ends_with("Hello."));
    let mut stream = connect(server.addr);
    stream.write_all(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(rest(&mut stream), b"");
    assert!(ask(&mut other, "/").ends_with("Hello."));
}

#[test]
fn a_thousand_idle_connections_do_not_hold_up_a_graceful_shutdown() {
    let (sender, receiver) = mpsc::channel::<()>();
    let (app, begun, release) = slow_app();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let server = on_a_runtime(move |listener| {
        let signal = bast::spawn(move || receiver.recv());
        let serve = serve(listener, app).with_graceful_shutdown(async { drop(signal.await) });
        // However long it takes to make a thousand connections, the first of them stays.
        ended.send(serve.head_timeout(10 * PATIENCE).grace(PATIENCE).wait()).unwrap();
    });
    // A fifth under Wine, which asks its one server at every call on a socket.
    let count = if cfg!(windows) { 200 } else { 1000 };
    let mut idle: Vec<_> = (0..count).map(|_| connect(server.addr)).collect();
    idle.iter_mut().for_each(|stream| assert!(ask(stream, "/").ends_with("Hello.")));
    let addr = server.addr;
    let slow = thread::spawn(move || ask(&mut connect(addr), "/slow"));
    begun.recv_timeout(PATIENCE).unwrap();
    sender.send(()).unwrap();
    // Those that are idle end at once, though one request is not answered yet.
    idle.iter_mut().for_each(|stream| assert_eq!(rest(stream), b""));
    assert!(has_ended.try_recv().is_err(), "it has not waited for the request");
    release.send(()).unwrap();
    assert!(slow.join().unwrap().ends_with("Done."));
    has_ended.recv_timeout(PATIENCE).unwrap().unwrap();
    assert!(TcpStream::connect(addr).is_err(), "nobody listens any more");
}

#[test]
fn grace_has_an_end() {
    let (entered, begun) = std::sync::mpsc::channel();
    let app = app().route(
        "/never",
        get(async move || {
            entered.send(()).unwrap();
            pending::<&str>().await
        }),
    );
    let (stop, stopped) = mpsc::channel::<()>();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let server = on_a_runtime(move |listener| {
        let signal = bast::spawn(move || stopped.recv());
        let serve = serve(listener, app).with_graceful_shutdown(async { drop(signal.await) });
        ended.send(serve.grace(SHORT).wait()).unwrap();
    });
    let mut stream = connect(server.addr);
    stream.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    stop.send(()).unwrap();
    has_ended.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(rest(&mut stream), b"");
}

#[test]
fn no_more_connections_than_the_bound() {
    let open = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&open);
    let app = app().route(
        "/open",
        post(async move |request: Request| {
            count.fetch_add(1, SeqCst);
            drop(request.into_body());
            "."
        }),
    );
    let server = on_a_runtime(|listener| serve(listener, app).max_connections(2).wait().unwrap());
    let post = |stream: &mut TcpStream| {
        stream.write_all(b"POST /open HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    };
    let mut streams: Vec<_> = (0..3).map(|_| connect(server.addr)).collect();
    streams.iter_mut().for_each(post);
    until("two are served", || open.load(SeqCst) == 2);
    thread::sleep(SHORT);
    assert_eq!(open.load(SeqCst), 2, "the third must wait");
    drop(streams.remove(0));
    until("the third is served", || open.load(SeqCst) == 3);
}

#[test]
fn a_client_that_resets_is_forgotten() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let (entered, begun) = std::sync::mpsc::channel();
    let app = app().route(
        "/never",
        get(async move || {
            let _guard = OnDrop(count);
            entered.send(()).unwrap();
            pending::<&str>().await
        }),
    );
    // Without half_close, so that a client that is gone ends what it has asked for.
    let server = on_a_runtime(|listener| {
        let serve = serve(listener, app).http1(|http| {
            http.half_close(false);
        });
        serve.wait().unwrap();
    });
    for n in 1..=3 {
        let mut stream = connect(server.addr);
        stream.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        // If it were gone before, hyper would not even ask the service.
        begun.recv_timeout(PATIENCE).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
        drop(stream);
        until("its request is dropped", || dropped.load(SeqCst) == n);
    }
    assert!(ask(&mut connect(server.addr), "/").ends_with("Hello."));
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_runtime_that_ends_ends_its_connections() {
    let server = on_a_runtime(|listener| {
        // It ends in one of two ways, as the runtime cancels all: this fiber, or the one that accepts.
        let _ = serve(listener, app()).wait();
    });
    let mut streams: Vec<_> = (0..10).map(|_| connect(server.addr)).collect();
    streams.iter_mut().for_each(|stream| assert!(ask(stream, "/").ends_with("Hello.")));
    drop(server);
    streams.iter_mut().for_each(|stream| assert_eq!(rest(stream), b""));
}

#[test]
fn a_server_that_is_dropped_finishes_what_has_begun() {
    let (app, begun, release) = slow_app();
    let (give_up, given_up) = mpsc::channel::<()>();
    let server = on_a_runtime(move |listener| {
        let mut serving = std::future::IntoFuture::into_future(serve(listener, app));
        let mut given_up = bast::spawn(move || given_up.recv());
        poll_fn(|cx| {
            assert!(serving.as_mut().poll(cx).is_pending());
            std::pin::Pin::new(&mut given_up).poll(cx).map(drop)
        })
        .wait();
        drop(serving);
        bast::sleep(PATIENCE);
    });
    let addr = server.addr;
    let slow = thread::spawn(move || {
        let mut stream = connect(addr);
        let said = ask(&mut stream, "/slow");
        assert_eq!(rest(&mut stream), b"");
        said
    });
    begun.recv_timeout(PATIENCE).unwrap();
    give_up.send(()).unwrap();
    until("nobody listens", || TcpStream::connect(addr).is_err());
    release.send(()).unwrap();
    assert!(slow.join().unwrap().ends_with("Done."));
}
