//! The access log, in the format that all such servers share.
//!
//! ```text
//!   fiber ──try_send──▶ queue ──▶ one thread ──▶ standard output
//!             └─full: counted, and told with the next line
//! ```
//!
//! A terminal or a pipe that nobody reads holds up the thread, and no worker.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Lines that may wait.
const QUEUE: usize = 8192;

/// Where lines are left to be written.
#[derive(Debug)]
pub struct Log {
    lines: SyncSender<String>,
    /// It guards nothing: Relaxed.
    lost: AtomicU64,
}

impl Log {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn to_stdout() -> io::Result<Log> {
        let (lines, queue) = sync_channel(QUEUE);
        thread::Builder::new().name("log".into()).spawn(move || {
            // Nobody reads it any more: then there is no log.
            let _ = write(&queue, &mut io::BufWriter::new(io::stdout()));
        })?;
        Ok(Log { lines, lost: AtomicU64::new(0) })
    }

    /// One line: `peer - - [date] "request" status bytes`.
    pub(super) fn line(
        &self,
        peer: Option<SocketAddr>,
        date: &str,
        request: &str,
        status: u16,
        bytes: u64,
    ) {
        let peer = peer.map_or_else(|| "-".into(), |peer| peer.ip().to_string());
        let lost = match self.lost.swap(0, Relaxed) {
            0 => String::new(),
            n => format!("({n} lines were lost)\n"),
        };
        let request = request.escape_default();
        let line = format!("{lost}{peer} - - [{date}] \"{request}\" {status} {bytes}\n");
        if self.lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

fn write(queue: &Receiver<String>, out: &mut impl Write) -> io::Result<()> {
    while let Ok(line) = queue.recv() {
        out.write_all(line.as_bytes())?;
        for line in queue.try_iter() {
            out.write_all(line.as_bytes())?;
        }
        out.flush()?;
    }
    Ok(())
}
