//! A may coroutine per connection, one worker.

use super::{Protocol, converse, listening};
use crate::sys;
use may::go;
use may::net::TcpListener;
use std::io;
use std::net::SocketAddr;

pub(super) fn run<P: Protocol>(addr: SocketAddr) -> Result<(), String> {
    crate::micro::configure_may(1);
    let main = go!(move || serve::<P>(addr));
    main.join().map_err(|_| "the accept loop panicked")?.map_err(|e| e.to_string())
}

fn serve<P: Protocol>(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr)?;
    sys::long_backlog(&listener)?;
    listening(listener.local_addr()?)?;
    loop {
        let (mut stream, _) = match listener.accept() {
            Ok(pair) => pair,
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        go!(move || {
            // An error ends the connection, and the peer sees the close.
            let _ = converse::<P>(&mut stream);
        });
    }
}
