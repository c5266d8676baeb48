//! Where connections go: the upstreams in turn, and the next one if one does not answer.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bast::net::TcpStream;

/// The upstreams, at least one.
#[derive(Debug)]
pub struct Upstreams {
    all: Vec<SocketAddr>,
    next: AtomicUsize,
}

impl Upstreams {
    /// In this order.
    #[must_use]
    pub fn new(all: Vec<SocketAddr>) -> Upstreams {
        Upstreams { all, next: AtomicUsize::new(0) }
    }

    /// Connects to the one whose turn it is, or to the first after it that answers within `timeout`.
    ///
    /// # Errors
    /// That of the last one tried.
    pub fn connect(&self, timeout: Duration) -> io::Result<(TcpStream, SocketAddr)> {
        let first = self.next.fetch_add(1, Relaxed);
        let mut fault = io::Error::other("there is no upstream");
        for n in 0..self.all.len() {
            let addr = self.all[first.wrapping_add(n) % self.all.len()];
            match patiently(addr, timeout) {
                Ok(stream) => return Ok((stream, addr)),
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }
}

/// A shortage is ours and not the upstream's: it passes when connections end.
fn patiently(addr: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    const SHORTAGES: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        match TcpStream::connect_timeout(&addr, timeout) {
            Err(error)
                if error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
                    && start.elapsed() < timeout =>
            {
                bast::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}
