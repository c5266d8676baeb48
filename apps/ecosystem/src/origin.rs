//! A small HTTP/1.1 server on fibers, for clients to ask: `/N` answers with N bytes, `/never` not at all.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bast::JoinHandle;
use bast::net::{TcpListener, TcpStream};

/// The longest answer.
const LIMIT: usize = 1 << 20;

/// What the server has seen.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests.
    pub requests: AtomicU64,
    /// Of these, those that will not be answered.
    pub unanswered: AtomicU64,
    /// Clients that went away without their answer.
    pub gone: AtomicU64,
}

/// A server that ends when it is dropped: connections go on until their clients close them.
#[derive(Debug)]
pub struct Origin {
    /// Where it listens.
    pub addr: SocketAddr,
    /// What it has seen.
    pub counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

impl Origin {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// No socket can be bound.
    pub fn start() -> io::Result<Origin> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        let accepting = bast::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&counted);
                bast::spawn(move || serve(&stream, &counts));
            }
        });
        Ok(Origin { addr, counts, accepting })
    }

    /// The address of a page of this many bytes.
    #[must_use]
    pub fn page(&self, bytes: usize) -> String {
        format!("http://{}/{bytes}", self.addr)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.accepting.cancel();
    }
}

/// Answers until the client closes the connection, or breaks it.
fn serve(mut stream: &TcpStream, counts: &Counts) {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            match stream.read(&mut buffer) {
                Ok(n) if n > 0 && head.len() < LIMIT => head.extend_from_slice(&buffer[..n]),
                _ => return,
            }
            continue;
        };
        counts.requests.fetch_add(1, Relaxed);
        let line = String::from_utf8_lossy(&head[..end]).into_owned();
        head.drain(..end + 4);
        let path = line.split(' ').nth(1).unwrap_or_default();
        if path == "/never" {
            counts.unanswered.fetch_add(1, Relaxed);
            // Until the client has gone.
            while matches!(stream.read(&mut buffer), Ok(1..)) {}
            counts.gone.fetch_add(1, Relaxed);
            return;
        }
        let answer = match path[1.min(path.len())..].parse::<usize>() {
            Ok(bytes) if bytes <= LIMIT => {
                let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
                answer.extend(std::iter::repeat_n('x', bytes));
                answer
            }
            _ => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into(),
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
