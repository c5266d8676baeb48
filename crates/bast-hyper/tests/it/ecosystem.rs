//! hyper, hyper-util, tower and axum on bast: both versions, both ends, and nowhere a runtime of tokio's.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::extract::{Extension, Request};
use axum::routing::{get, post};
use axum::{Json, Router};
use bast::future::Wait;
use bast::future::io::Async;
use bast::net::TcpStream;
use bast_hyper::{BastExecutor, BastTimer, Compat, Connector, FiberExecutor, Io, PeerAddr, serve};
use bytes::Bytes;
use http::{StatusCode, Version, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{Response, client};
use hyper_util::client::legacy::Client;
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;

use crate::servers::{Server, on_a_runtime};

fn app() -> Router {
    Router::new()
        .route("/", get(async || "Hello."))
        .route("/sum", post(async |Json(n): Json<Vec<u32>>| Json(n.iter().sum::<u32>())))
        .route("/tokio", get(async || tokio::runtime::Handle::try_current().is_ok().to_string()))
        .route("/peer", get(async |Extension(PeerAddr(addr))| addr.to_string()))
        .route("/direct", get(direct))
        .layer(tower::limit::ConcurrencyLimitLayer::new(100))
}

/// Code in direct style, from a handler: a fiber does it.
async fn direct() -> String {
    let fiber = bast::spawn(|| {
        bast::sleep(Duration::from_millis(1));
        bast::fs::read_to_string("Cargo.toml").unwrap()
    });
    fiber.await.unwrap()
}

fn served() -> Server {
    on_a_runtime(|listener| serve(listener, app()).wait().unwrap())
}

async fn body(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

fn request(uri: &str) -> Request<Full<Bytes>> {
    Request::get(uri).body(Full::default()).unwrap()
}

/// What a client of either version is told.
async fn converse(server: &Server, http2: bool) {
    let client = Client::builder(BastExecutor::new())
        .timer(BastTimer::new())
        .pool_timer(BastTimer::new())
        .http2_only(http2)
        .build::<_, Full<Bytes>>(Connector::new());
    let url = |path: &str| format!("http://{}{path}", server.addr);
    let ask = async |path: &str| body(client.request(request(&url(path))).await.unwrap()).await;
    let response = client.request(request(&url("/"))).await.unwrap();
    assert_eq!(response.version(), if http2 { Version::HTTP_2 } else { Version::HTTP_11 });
    assert_eq!(body(response).await, "Hello.");
    assert_eq!(ask("/tokio").await, "false", "a handler sees a runtime of tokio's");
    assert!(ask("/peer").await.starts_with("127.0.0.1:"));
    assert!(ask("/direct").await.contains("bast-hyper"));
    let sum = Request::post(url("/sum"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from("[20, 22]"))
        .unwrap();
    assert_eq!(body(client.request(sum).await.unwrap()).await, "42");
    assert_eq!(client.request(request(&url("/no"))).await.unwrap().status(), StatusCode::NOT_FOUND);
    // Many at a time: over one connection, or over as many.
    let many: Vec<_> = (0..50)
        .map(|_| {
            let response = client.request(request(&url("/")));
            bast::task::spawn(async { body(response.await.unwrap()).await })
        })
        .collect();
    for response in many {
        assert_eq!(response.await.unwrap(), "Hello.");
    }
}

#[test]
fn axum_and_the_client_on_tasks() {
    let server = served();
    for http2 in [false, true] {
        let task = async { converse(&server, http2).await };
        task.wait();
    }
    assert!(tokio::runtime::Handle::try_current().is_err());
}

#[test]
fn axum_and_the_client_on_fibers() {
    let server = Arc::new(served());
    for http2 in [false, true] {
        let server = Arc::clone(&server);
        bast::spawn(move || converse(&server, http2).wait()).join().unwrap();
    }
}

#[test]
fn a_client_that_cannot_connect_says_why() {
    let client = Client::builder(BastExecutor::new()).build::<_, Full<Bytes>>(Connector::new());
    let fault = client.request(request("https://127.0.0.1/")).wait().unwrap_err();
    let text = format!("{:?}", std::error::Error::source(&fault).unwrap());
    assert!(text.contains("http only"), "{text}");
    let addr = bast::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let fault = client.request(request(&format!("http://{addr}/"))).wait().unwrap_err();
    assert!(fault.is_connect(), "{fault:?}");
}

/// hyper-util's server, for both versions, with its graceful shutdown; connections on fibers.
#[test]
fn auto_builder_and_graceful_shutdown() {
    let (stop, stopped) = bast::sync::mpsc::channel::<()>();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let server = on_a_runtime(move |listener| {
        let graceful = GracefulShutdown::new();
        let listener = Async::new(listener);
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut http = auto::Builder::new(FiberExecutor::new());
                http.http1().timer(BastTimer::new());
                http.http2().timer(BastTimer::new());
                let watcher = graceful.watcher();
                FiberExecutor::new().execute(async move {
                    let service = service_fn(in_place);
                    let connection = http.serve_connection_with_upgrades(Io::from(stream), service);
                    watcher.watch(connection).await.unwrap();
                });
            }
        };
        let mut stopped = bast::spawn(move || stopped.recv());
        {
            let mut accept = pin!(accept);
            poll_fn(|cx| {
                let _: Poll<()> = accept.as_mut().poll(cx);
                Pin::new(&mut stopped).poll(cx).map(drop)
            })
            .wait();
        }
        graceful.shutdown().wait();
        ended.send(()).unwrap();
    });
    for http2 in [false, true] {
        let client = Client::builder(BastExecutor::new())
            .http2_only(http2)
            .build::<_, Full<Bytes>>(Connector::new());
        let ask = async || {
            let url = format!("http://{}/", server.addr);
            body(client.request(request(&url)).await.unwrap()).await
        };
        assert_eq!(ask().wait(), "in place");
        assert_eq!(ask().wait(), "in place");
    }
    stop.send(()).unwrap();
    has_ended.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// A service that blocks where it stands, as it may on a fiber.
async fn in_place(_: hyper::Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    bast::sleep(Duration::from_millis(1));
    Ok(Response::new(Full::from("in place")))
}

/// hyper's own client, over what is only futures-io to it.
#[test]
fn a_stream_of_futures_io() {
    let server = served();
    let stream = Async::new(TcpStream::connect(server.addr).unwrap());
    let talk = async {
        let (mut sender, connection) =
            client::conn::http1::handshake(Compat::new(stream)).await.unwrap();
        BastExecutor::new().execute(async { connection.await.unwrap() });
        for _ in 0..3 {
            sender.ready().await.unwrap();
            let request = Request::get("/").header("host", "a").body(Full::<Bytes>::default());
            let response = sender.send_request(request.unwrap()).await.unwrap();
            assert_eq!(body(response).await, "Hello.");
        }
    };
    talk.wait();
}

/// An upgrade: the stream is the handler's, with what has been read of it already.
#[test]
fn an_upgrade() {
    use std::io::{Read, Write};
    let upgrade = async |request: Request| {
        let upgraded = hyper::upgrade::on(request);
        drop(bast::task::spawn(async {
            let mut upgraded = upgraded.await.unwrap();
            let mut bytes = [0; 4];
            let mut buf = hyper::rt::ReadBuf::new(&mut bytes);
            while buf.filled().len() < 4 {
                poll_fn(|cx| {
                    hyper::rt::Read::poll_read(Pin::new(&mut upgraded), cx, buf.unfilled())
                })
                .await
                .unwrap();
            }
            let written =
                poll_fn(|cx| hyper::rt::Write::poll_write(Pin::new(&mut upgraded), cx, b"pong"));
            assert_eq!(written.await.unwrap(), 4);
            assert_eq!(&bytes, b"ping");
        }));
        (
            StatusCode::SWITCHING_PROTOCOLS,
            [(header::CONNECTION, "upgrade"), (header::UPGRADE, "ping")],
        )
    };
    let app = Router::new().route("/", get(upgrade));
    let server = on_a_runtime(|listener| serve(listener, app).wait().unwrap());
    let mut stream = std::net::TcpStream::connect(server.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: ping\r\n\r\nping")
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 101 ") && said.ends_with("\r\n\r\npong"), "{said:?}");
}
