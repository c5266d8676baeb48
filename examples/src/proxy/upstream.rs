//! Where connections go: the upstreams in turn, and the next one if one does not answer.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bast::net::TcpStream;

use crate::os::SHORTAGES;

/// The upstreams, at least one.
#[derive(Debug)]
pub struct Upstreams {
    all: Vec<SocketAddr>,
    next: AtomicUsize,
    /// How many wait for a descriptor.
    starving: AtomicUsize,
}

impl Upstreams {
    /// In this order.
    #[must_use]
    pub fn new(all: Vec<SocketAddr>) -> Upstreams {
        Upstreams { all, next: AtomicUsize::new(0), starving: AtomicUsize::new(0) }
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
            match self.patiently(addr, timeout) {
                Ok(stream) => return Ok((stream, addr)),
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }

    /// Whether somebody waits for a descriptor, so that nobody else should be accepted.
    #[must_use]
    pub fn is_starving(&self) -> bool {
        self.starving.load(Relaxed) > 0
    }

    /// A shortage is ours and not the upstream's: it passes when connections end.
    fn patiently(&self, addr: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        struct Starving<'a>(&'a AtomicUsize);
        impl Drop for Starving<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }

        let start = Instant::now();
        let mut starving = None;
        loop {
            match TcpStream::connect_timeout(&addr, timeout) {
                Err(error)
                    if error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
                        && start.elapsed() < timeout =>
                {
                    starving.get_or_insert_with(|| {
                        self.starving.fetch_add(1, Relaxed);
                        Starving(&self.starving)
                    });
                    bast::sleep(Duration::from_millis(5));
                }
                result => return result,
            }
        }
    }
}
