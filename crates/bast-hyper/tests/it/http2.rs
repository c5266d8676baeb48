//! What h2spec (`cargo xtask h2spec`, which has all of HTTP/2) cannot judge.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bast_hyper::{BastExecutor, Io};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::servers::on_a_runtime;
use crate::service::answer;

/// hyper closes without having read all, on either runtime.
#[test]
#[cfg_attr(windows, ignore = "Wine: a reset is read as the end")]
fn what_is_no_preface_resets_hyper() {
    let on_bast = on_a_runtime(|listener| {
        while let Ok((stream, _)) = listener.accept() {
            let http = http2::Builder::new(BastExecutor::new());
            BastExecutor::new().execute(http.serve_connection(Io::new(stream), service_fn(answer)));
        }
    });
    assert_eq!(resets(on_bast.addr), Some(ErrorKind::ConnectionReset));

    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = tokio.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let addr = listener.local_addr().unwrap();
    tokio.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let http = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    assert_eq!(resets(addr), Some(ErrorKind::ConnectionReset));
}

/// The error with which a connection ends that begins as h2spec's does.
fn resets(addr: SocketAddr) -> Option<ErrorKind> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"INVALID CONNECTION PREFACE\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).err().map(|fault| fault.kind())
}
