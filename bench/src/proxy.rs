//! The load of `proxy`: both ends of the connections are threads here, on the client's core.
//!
//! ```text
//!   echo-N:  N clients (echo.rs) ──64 B──▶ proxy ──▶ threads that say it back
//!   bulk-N:  N threads that write ───────▶ proxy ──▶ N threads that read
//! ```

use crate::child::{CLIENT_CORE, Server};
use crate::micro::Values;
use crate::registry::units;
use crate::stats::Span;
use crate::{echo, sys};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Bytes of one write and one read of a bulk transfer.
const BLOCK: usize = 256 << 10;

/// Measures `subject` under the load that `param` names. The threads of the upstream end with this process.
pub(crate) fn measure(subject: &str, param: &str, span: Span) -> Result<Values, String> {
    let (load, count) = param.split_once('-').ok_or("a load and a number")?;
    let count: usize = count.parse().map_err(|_| format!("no number: {count}"))?;
    let received = Arc::new(AtomicU64::new(0));
    let handle = match load {
        "echo" => say_back,
        "bulk" => receive,
        _ => return Err(format!("no load {load}")),
    };
    let fail = |e: io::Error| format!("proxy upstream: {e}");
    let upstream = TcpListener::bind("127.0.0.1:0").map_err(fail)?;
    sys::long_backlog(&upstream).map_err(fail)?;
    let service = format!("proxy={}", upstream.local_addr().map_err(fail)?);
    let server = Server::start(&service, subject)?;
    let counter = Arc::clone(&received);
    thread::spawn(move || {
        // Its own pinning is inherited by those that it starts.
        let _ = sys::pin(&[CLIENT_CORE]);
        while let Ok((stream, _)) = upstream.accept() {
            let counter = Arc::clone(&counter);
            thread::spawn(move || handle(&stream, &counter));
        }
    });
    if load == "echo" {
        return echo::load_apart(&server, count, span);
    }
    bulk(&server, count, &received, span).map_err(|e| format!("proxy client: {e}"))
}

fn say_back(mut stream: &TcpStream, _: &AtomicU64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n])?,
        }
    }
}

fn receive(mut stream: &TcpStream, counter: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => counter.fetch_add(n as u64, Relaxed),
        };
    }
}

fn bulk(server: &Server, count: usize, received: &AtomicU64, span: Span) -> io::Result<Values> {
    let streams: Vec<TcpStream> =
        (0..count).map(|_| TcpStream::connect(server.addr)).collect::<io::Result<_>>()?;
    for stream in &streams {
        let mut stream = stream.try_clone()?;
        thread::spawn(move || {
            let _ = sys::pin(&[CLIENT_CORE]);
            // Until it is shut, below.
            while stream.write_all(&[5; BLOCK]).is_ok() {}
        });
    }
    let figures = |interval: Duration| -> io::Result<(Duration, u64)> {
        thread::sleep(interval);
        Ok((server.cpu().map_err(io::Error::other)?, received.load(Relaxed)))
    };
    let (cpu, bytes) = figures(span.warm)?;
    let (cpu_end, bytes_end) = figures(span.measure)?;
    for stream in &streams {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    let gib = (bytes_end - bytes) as f64 / f64::from(1 << 30);
    if gib == 0.0 {
        return Err(io::Error::other("nothing came through"));
    }
    Ok(vec![
        (units::CPU_GIB, (cpu_end - cpu).as_secs_f64() * 1e3 / gib),
        (units::GIB_S, gib / span.measure.as_secs_f64()),
    ])
}
