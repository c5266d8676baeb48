//! A std thread per connection, with stacks small enough for 10,000 of them.

use super::{Protocol, converse, listening};
use crate::sys;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;

pub(super) fn run<P: Protocol>(addr: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(addr)?;
    sys::long_backlog(&listener)?;
    listening(listener.local_addr()?)?;
    loop {
        let (mut stream, _) = match listener.accept() {
            Ok(pair) => pair,
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        thread::Builder::new().stack_size(64 * 1024).spawn(move || {
            // An error ends the connection, and the peer sees the close.
            let _ = converse::<P>(&mut stream);
        })?;
    }
}
