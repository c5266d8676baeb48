//! A bast task per connection, one worker: as `tokio`, by the traits of futures-io.

use super::{Protocol, listening};
use crate::{micro, sys};
use bast::future::{Wait, io::Async};
use bast::net::{TcpListener, TcpStream};
use futures_util::{AsyncReadExt, AsyncWriteExt};
use std::io;
use std::net::SocketAddr;

pub(super) fn run<P: Protocol>(subject: &str, addr: SocketAddr) -> Result<(), String> {
    let rt = micro::bast_runtime(subject.trim_end_matches("-task"), 1)?;
    rt.run(move || bast::task::spawn(serve::<P>(addr)).wait())
        .map_err(|_| "the server panicked".to_owned())?
        .map_err(|e: io::Error| e.to_string())
}

async fn serve<P: Protocol>(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr)?;
    sys::long_backlog(&listener)?;
    listening(listener.local_addr()?)?;
    let listener = Async::new(listener);
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(pair) => pair,
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        drop(bast::task::spawn(async move {
            // An error ends the connection, and the peer sees the close.
            let _ = converse::<P>(stream).await;
        }));
    }
}

async fn converse<P: Protocol>(mut stream: Async<TcpStream>) -> io::Result<()> {
    let mut conn = P::new();
    loop {
        let n = stream.read(conn.space()).await?;
        if n == 0 {
            return Ok(());
        }
        let keep = conn.filled(n);
        if !conn.out().is_empty() {
            stream.write_all(conn.out()).await?;
            conn.sent();
        }
        if !keep {
            return Ok(());
        }
    }
}
