//! One connection that is relayed.
//!
//! ```text
//!   one way ends    │ the other side is told                    │ the other way
//!   ────────────────┼───────────────────────────────────────────┼───────────────────────────────
//!   end of stream   │ the end of the stream: shutdown(Write)    │ goes on
//!   an error        │ nothing yet                               │ ends: its source reads an end
//!   both have ended │ a reset, if there was an error; else both know already
//! ```
//!
//! Memory ordering: `failed` is set before the shutdown that the other way sees, so that it finds it set. SeqCst, as nobody
//! counts these.

use std::io;
use std::net::Shutdown;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use bast::net::TcpStream;

use crate::{os, tcp};

/// A client and its upstream.
pub struct Link {
    /// The client's side.
    pub client: TcpStream,
    /// The upstream's side.
    pub upstream: TcpStream,
    failed: AtomicBool,
    given_up: AtomicBool,
}

impl Link {
    /// Two that belong together from now on.
    #[must_use]
    pub fn new(client: TcpStream, upstream: TcpStream) -> Link {
        for stream in [&client, &upstream] {
            // Who sends something wants it sent; a socket that is gone already says so when it is read.
            let _ = stream.set_nodelay(true);
        }
        Link { client, upstream, failed: AtomicBool::new(false), given_up: AtomicBool::new(false) }
    }

    /// Relays both ways until both have ended: bytes up and down.
    pub fn relay(&self) -> (io::Result<u64>, io::Result<u64>) {
        let both = bast::scope(|s| {
            let up = s.spawn(|| self.one_way(&self.client, &self.upstream));
            let down = self.one_way(&self.upstream, &self.client);
            if down.is_err() {
                // It may be waiting for the upstream to take something, and nobody is there to answer to.
                up.cancel();
            }
            let up = up.join().unwrap_or_else(|payload| match payload.is::<bast::Cancelled>() {
                true => Err(io::ErrorKind::ConnectionAborted.into()),
                false => resume_unwind(payload),
            });
            (up, down)
        });
        if both.0.is_err() || both.1.is_err() {
            tcp::reset_on_close(&self.client);
            tcp::reset_on_close(&self.upstream);
        }
        both
    }

    fn one_way(&self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<u64> {
        let result = bast::io::copy(&mut from, &mut to);
        if result.is_err() {
            self.failed.store(true, SeqCst);
            // Says nothing to the peer; the other way reads the end.
            let _ = to.shutdown(Shutdown::Read);
        } else if !self.failed.load(SeqCst) {
            // It may be gone, which the other way finds out.
            let _ = to.shutdown(Shutdown::Write);
        }
        result
    }

    /// For how long nothing has been received or sent on either side.
    #[must_use]
    pub fn silence(&self) -> Duration {
        os::silence(&self.client).min(os::silence(&self.upstream))
    }

    /// Ends it: both peers read the end of the stream.
    pub fn give_up(&self) {
        self.given_up.store(true, SeqCst);
        self.failed.store(true, SeqCst);
        for stream in [&self.client, &self.upstream] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether it was ended by [`give_up`](Link::give_up).
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(SeqCst)
    }
}
