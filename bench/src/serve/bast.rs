//! A bast fiber per connection, one worker, on the driver that the subject names.

use super::{Protocol, converse, listening};
use crate::{micro, sys};
use bast::net::TcpListener;
use std::io;
use std::net::SocketAddr;

pub(super) fn run<P: Protocol>(subject: &str, addr: SocketAddr) -> Result<(), String> {
    let rt = micro::bast_runtime(subject, 1)?;
    rt.run(move || serve::<P>(addr)).map_err(|e| e.to_string())
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
        bast::spawn(move || {
            // An error ends the connection, and the peer sees the close.
            let _ = converse::<P>(&mut stream);
        });
    }
}
