//! hyper on bast and on tokio: the same service, the same settings, one thread.

use super::listening;
use crate::{micro, sys};
use bast_hyper::{BastTimer, Io};
use hyper::body::{Bytes, Incoming};
use hyper::rt::Timer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

type Body = http_body_util::Full<Bytes>;

async fn pong(_: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::new(Bytes::from_static(b"Pong!"))))
}

/// With a timer each head has 30 s to come, which is hyper's default.
fn settings(timer: impl Timer + Send + Sync + 'static) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(timer);
    http
}

pub(super) fn run(subject: &str, addr: SocketAddr) -> Result<(), String> {
    match subject {
        "hyper-tokio" => on_tokio(addr),
        _ => on_bast(subject.trim_start_matches("hyper-"), addr),
    }
}

fn on_tokio(addr: SocketAddr) -> Result<(), String> {
    let rt = micro::tokio_runtime("tokio-current", 1)?;
    let serve = async move {
        let listener = tokio::net::TcpListener::bind(addr).await?;
        sys::long_backlog(&listener)?;
        listening(listener.local_addr()?)?;
        let http = settings(TokioTimer::new());
        loop {
            let (stream, _) = match listener.accept().await {
                Ok(pair) => pair,
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(e) => return Err(e),
            };
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(pong)));
        }
    };
    rt.block_on(serve).map_err(|e: io::Error| e.to_string())
}

fn on_bast(subject: &str, addr: SocketAddr) -> Result<(), String> {
    let rt = micro::bast_runtime(subject, 1)?;
    let serve = move || {
        let listener = bast::net::TcpListener::bind(addr)?;
        sys::long_backlog(&listener)?;
        listening(listener.local_addr()?)?;
        let http = settings(BastTimer::new());
        loop {
            let (stream, _) = match listener.accept() {
                Ok(pair) => pair,
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(e) => return Err(e),
            };
            drop(bast::task::spawn(http.serve_connection(Io::new(stream), service_fn(pong))));
        }
    };
    rt.run(serve).map_err(|e: io::Error| e.to_string())
}
