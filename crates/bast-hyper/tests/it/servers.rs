//! The servers that the tests talk to, each ended when its handle is dropped.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;

use axum::Router;
use bast::Runtime;
use bast::net::TcpListener;
use bast_hyper::{BastExecutor, BastTimer, Io, serve};
use hyper::rt::Executor;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::service::answer;

/// Which server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    HyperTokio,
    HyperBast,
    Axum,
}

pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    _runtime: Box<dyn Send + Sync>,
}

pub(crate) fn start(kind: Kind) -> Server {
    match kind {
        Kind::HyperTokio => on_tokio(),
        Kind::HyperBast => on_bast(),
        Kind::Axum => served(),
    }
}

/// hyper's settings, the same on both. (With `half_close` a client that has sent the end of its stream is answered.)
fn http(timer: impl hyper::rt::Timer + Send + Sync + 'static) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(timer).half_close(true);
    http
}

fn on_tokio() -> Server {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let addr = listener.local_addr().unwrap();
    runtime.spawn(async move {
        let http = http(TokioTimer::new());
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    Server { addr, _runtime: Box::new(runtime) }
}

fn on_bast() -> Server {
    on_a_runtime(|listener| {
        let http = http(BastTimer::new());
        while let Ok((stream, _)) = listener.accept() {
            let connection = http.serve_connection(Io::new(stream), service_fn(answer));
            BastExecutor::new().execute(connection);
        }
    })
}

fn served() -> Server {
    let app = Router::new().fallback_service(tower::service_fn(answer));
    on_a_runtime(move |listener| bast::block_on(serve(listener, app)).unwrap())
}

/// A listener, and a fiber that serves it, on a runtime of their own.
pub(crate) fn on_a_runtime(serve: impl FnOnce(TcpListener) + Send + 'static) -> Server {
    let runtime = Runtime::builder().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let fiber = runtime.spawn(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        sender.send(listener.local_addr().unwrap()).unwrap();
        serve(listener);
    });
    let addr = receiver.recv().unwrap();
    Server { addr, _runtime: Box::new((fiber, runtime)) }
}

/// Reads, as a client of std's. The call is interrupted where a debugger stops the thread.
pub(crate) fn read(mut stream: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buf) {
            Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
