//! One socket for each worker, all bound to one address (`SO_REUSEPORT`): the kernel chooses among them by a hash of
//! the two addresses, so what arrives for one peer stays on one worker, without a hand-over.
//!
//! ```text
//!                        ╭─▶ listener 0 ─▶ accept on worker 0 ─▶ a fiber on worker 0 for each connection
//!   connections ── hash ─┼─▶ listener 1 ─▶ accept on worker 1 ─▶ …
//!                        ╰─▶ …
//! ```
//!
//! Where there is no such option (Windows) all workers have the same socket, and whoever is first takes what comes.
//!
//! The first socket is bound alone: so an address that is in use is an error, as with `bind`, and a port that the kernel
//! chooses is nobody else's. Only then it is opened to the others, which ask for the very same address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bast_io::{Handle, Kind, SockAddr};
use bast_rt::{Builder, JoinHandle, ops};
use bast_sync::mpsc;

use super::{TcpListener, TcpStream, inet};

/// The first and the longest wait after there was no stack for a connection's fiber.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// A bound socket for each worker, or a single one where the kernel cannot choose. What is returned is not listening yet.
pub(super) fn bind(addr: SocketAddr, ty: i32, kind: Kind) -> io::Result<Vec<Handle>> {
    let open = |addr: SocketAddr, share: bool| {
        let handle = ops::socket(ops::family(&addr), ty, 0, kind)?;
        if kind == Kind::Listener {
            ops::set_flag(&handle, ops::REUSE_ADDR, true)?;
        }
        if share {
            ops::set_flag(&handle, ops::REUSE_PORT, true)?;
        }
        ops::bind(&handle, &SockAddr::from(addr))?;
        Ok::<Handle, io::Error>(handle)
    };
    let workers = bast_rt::workers();
    let first = open(addr, false)?;
    if workers > 1 {
        match ops::set_flag(&first, ops::REUSE_PORT, true) {
            Err(error) if ops::is_unknown_option(&error) => return Ok(vec![first]),
            result => result?,
        }
    }
    let addr = inet(&ops::local_addr(&first)?)?;
    let others = (1..workers).map(|_| open(addr, true));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// As many as there are workers: what is missing shares the last.
pub(super) fn shared<T>(
    mut all: Vec<T>,
    clone: impl Fn(&T) -> io::Result<T>,
) -> io::Result<Vec<T>> {
    while let Some(last) = all.last()
        && all.len() < bast_rt::workers()
    {
        all.push(clone(last)?);
    }
    Ok(all)
}

/// Serves each of `listeners` on a worker of its own, the first on worker 0, and each connection in a fiber on the worker
/// that has accepted it. Returns only with an error: to end it, cancel the fiber that it runs in, or put a
/// [`timeout`](crate::timeout()) around it. Then the listeners are closed; connections are served to their end.
///
/// This pays where a connection is much work for the kernel and little for the program. A connection stays with its
/// worker even when that one is busy and others are not: with [`TcpListener::accept`] in one fiber and
/// [`spawn`](crate::spawn) for each connection, whichever worker is free takes the next.
///
/// ```
/// use bast::net::{TcpListener, TcpStream, serve_per_worker};
/// use std::io::{Read, Write};
///
/// # fn main() -> std::io::Result<()> {
/// let listeners = TcpListener::bind_per_worker("127.0.0.1:0")?;
/// let addr = listeners[0].local_addr()?;
/// let server = bast::spawn(|| {
///     serve_per_worker(listeners, |mut stream, peer| {
///         let _ = write!(stream, "hello {peer}");
///     })
/// });
/// let mut text = String::new();
/// TcpStream::connect(addr)?.read_to_string(&mut text)?;
/// assert!(text.starts_with("hello 127.0.0.1:"));
/// server.cancel();
/// # Ok(()) }
/// ```
///
/// # Errors
/// A listener's that will not pass. (When descriptors or stacks run out it waits and goes on.) `InvalidInput` without
/// listeners.
///
/// # Cancellation
/// A suspension point.
pub fn serve_per_worker<F>(listeners: Vec<TcpListener>, handle: F) -> io::Result<()>
where
    F: Fn(TcpStream, SocketAddr) + Send + Sync + 'static,
{
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no listeners to serve"));
    }
    let (handle, workers) = (Arc::new(handle), bast_rt::workers());
    let (ended, ends) = mpsc::channel();
    let mut accepting = Accepting(Vec::new());
    for (n, listener) in listeners.into_iter().enumerate() {
        let (handle, ended) = (Arc::clone(&handle), ended.clone());
        let builder = Builder::new().name(format!("accept {n}")).worker(n % workers);
        accepting.0.push(builder.spawn(move || {
            // Nobody hears of the later errors, when the first one has ended it all.
            let _ = ended.send(accept_all(&listener, &handle));
        })?);
    }
    drop(ended);
    Err(ends.recv().unwrap_or_else(|_| io::Error::other("the accepting fibers were cancelled")))
}

/// The accepting fibers, which end with the one that has started them.
struct Accepting(Vec<JoinHandle<()>>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::cancel);
        for fiber in self.0.drain(..) {
            // It says that it was cancelled.
            let _ = fiber.join();
        }
    }
}

/// Accepts until that fails for good.
fn accept_all<F>(listener: &TcpListener, handle: &Arc<F>) -> io::Error
where
    F: Fn(TcpStream, SocketAddr) + 'static,
{
    let mut pause = PAUSE.0;
    loop {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if ops::is_of_one_connection(&error) => continue,
            // It has waited.
            Err(error) if ops::is_shortage(&error) => continue,
            Err(error) => return error,
        };
        let handle = Arc::clone(handle);
        match Builder::new().spawn_local(move || handle(stream, peer)) {
            Ok(_) => pause = PAUSE.0,
            // The connection is closed. Others end meanwhile, and leave their stacks.
            Err(_) => {
                bast_rt::sleep(pause);
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }
}
