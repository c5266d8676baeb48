//! TCP proxies, for the load of `crate::proxy`: every connection is relayed to one upstream, each direction until it
//! ends. The name of the service carries the upstream's address: `proxy=127.0.0.1:4711`.
//!
//! | subject | each direction |
//! |---|---|
//! | bast-uring, bast-epoll | `bast::io::copy`: splices what is a stream |
//! | bast-uring-plain, bast-epoll-plain | `read` and `write_all`, 64 KiB |
//! | tokio-current | `copy_bidirectional`, 8 KiB each |
//! | tokio-current-64k | `copy_bidirectional_with_sizes`, 64 KiB each |

use super::listening;
use crate::{micro, sys};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};

pub(super) fn run(subject: &str, addr: SocketAddr, to: SocketAddr) -> Result<(), String> {
    if let Some(scheduler) = subject.strip_suffix("-64k") {
        return on_tokio(scheduler, addr, to, 64 << 10);
    }
    if subject.starts_with("tokio-") {
        return on_tokio(subject, addr, to, 8 << 10);
    }
    let (driver, relay): (_, fn(&Stream, &Stream) -> io::Result<()>) =
        match subject.strip_suffix("-plain") {
            Some(driver) => (driver, by_hand),
            None => (subject, |from, to| bast::io::copy(&mut { from }, &mut { to }).map(drop)),
        };
    let rt = micro::bast_runtime(driver, 1)?;
    rt.run(move || on_bast(addr, to, relay)).map_err(|e| e.to_string())
}

type Stream = bast::net::TcpStream;

fn by_hand(mut from: &Stream, mut to: &Stream) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            n => to.write_all(&buffer[..n])?,
        }
    }
}

fn on_bast(
    addr: SocketAddr,
    to: SocketAddr,
    relay: fn(&Stream, &Stream) -> io::Result<()>,
) -> io::Result<()> {
    let listener = bast::net::TcpListener::bind(addr)?;
    sys::long_backlog(&listener)?;
    listening(listener.local_addr()?)?;
    loop {
        let (client, _) = listener.accept()?;
        bast::spawn(move || -> io::Result<()> {
            let upstream = Stream::connect(to)?;
            client.set_nodelay(true)?;
            upstream.set_nodelay(true)?;
            let one_way = |from: &Stream, to: &Stream| {
                relay(from, to).and_then(|()| to.shutdown(Shutdown::Write))
            };
            bast::scope(|s| {
                let up = s.spawn(|| one_way(&client, &upstream));
                let down = one_way(&upstream, &client);
                up.join().unwrap_or(Ok(())).and(down)
            })
        });
    }
}

fn on_tokio(
    scheduler: &str,
    addr: SocketAddr,
    to: SocketAddr,
    buffer: usize,
) -> Result<(), String> {
    let rt = micro::tokio_runtime(scheduler, 1)?;
    let serve = async move {
        let listener = tokio::net::TcpListener::bind(addr).await?;
        sys::long_backlog(&listener)?;
        listening(listener.local_addr()?)?;
        loop {
            let (mut client, _) = listener.accept().await?;
            tokio::spawn(async move {
                let mut upstream = tokio::net::TcpStream::connect(to).await?;
                client.set_nodelay(true)?;
                upstream.set_nodelay(true)?;
                tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, buffer, buffer)
                    .await
            });
        }
    };
    let serve = rt.spawn(serve);
    let result: io::Result<()> = rt.block_on(serve).map_err(|e| e.to_string())?;
    result.map_err(|e| e.to_string())
}
