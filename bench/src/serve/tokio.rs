//! A tokio task per connection, on one thread.

use super::{Protocol, listening};
use crate::{micro, sys};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) fn run<P: Protocol>(subject: &str, addr: SocketAddr) -> Result<(), String> {
    let rt = micro::tokio_runtime(subject, 1)?;
    let main = rt.spawn(serve::<P>(addr));
    rt.block_on(main).map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

async fn serve<P: Protocol>(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    sys::long_backlog(&listener)?;
    listening(listener.local_addr()?)?;
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(pair) => pair,
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        tokio::spawn(async move {
            // An error ends the connection, and the peer sees the close.
            let _ = converse::<P>(stream).await;
        });
    }
}

async fn converse<P: Protocol>(mut stream: TcpStream) -> io::Result<()> {
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
