//! A server in plain blocking style: one fiber accepts, one fiber serves each connection.
//!
//! ```text
//!   main fiber            accept fiber (--per-worker:  a fiber for each connection
//!                         one on each worker)
//!   ----------            ------------                 ---------------------------
//!   bind, print
//!   spawn  -------------> accept -> spawn -----------> handle(connection) ... end
//!   wait for Ctrl-C        | EMFILE: wait, try again     ^ waits between two requests, or is
//!     |                    |                             | in the middle of one
//!   stopping = true        v                             |
//!   cancel --------------> unwinds out of accept         |
//!   shut those that wait between requests ---------------+ they read the end of the stream
//!   5 s for the others, then shut those too
//!   print the totals
//! ```
//!
//! Memory ordering. A connection stores `between_requests = true`, then loads `stopping`; the
//! stopper stores `stopping = true`, then loads each `between_requests`. All four are `SeqCst`, so
//! at least one of the two sees the other: an idle connection leaves by itself or is shut, and no
//! stop waits for it. The counters are `Relaxed`: they are read when the fibers have ended, which
//! the registry's lock orders.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bast::net::{TcpListener, TcpStream};
use bast::signal::CtrlC;
use bast::sync::{OwnedSemaphorePermit, Semaphore};

use crate::options::{Options, runs_on};
use crate::os;

/// How long requests in flight may take after Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);

/// What a server does, apart from accepting and stopping.
#[derive(Clone)]
pub struct Service<H> {
    /// The program's name, at the head of what it prints.
    pub name: &'static str,
    /// How to write the address as something that can be opened.
    pub url: fn(SocketAddr) -> String,
    /// What is counted.
    pub unit: &'static str,
    /// Serves one connection until it ends.
    pub handle: H,
}

/// What serves one connection: a function, or a closure that shares something.
pub trait Handle: Fn(&Connection) -> io::Result<()> + Clone + Send + 'static {}

impl<H: Fn(&Connection) -> io::Result<()> + Clone + Send + 'static> Handle for H {}

/// What the fibers of one server share.
struct Shared {
    stopping: AtomicBool,
    idle: Duration,
    open: Mutex<Registry>,
    /// A permit for each connection that may be open; none: there is no limit.
    room: Option<Arc<Semaphore>>,
    /// Connections accepted, and units served on those that have ended.
    connections: AtomicU64,
    served: AtomicU64,
}

/// The connections that are open, so that a stop finds them.
#[derive(Default)]
struct Registry {
    slots: Vec<Option<Arc<Connection>>>,
    free: Vec<usize>,
}

impl Shared {
    /// Nothing is done under this lock that could suspend or panic.
    fn open(&self) -> MutexGuard<'_, Registry> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// One connection.
pub struct Connection {
    /// Its socket.
    pub stream: TcpStream,
    shared: Arc<Shared>,
    between_requests: AtomicBool,
    served: AtomicU64,
}

impl Connection {
    /// To be called in front of each read: whether a request is under way. Returns false when the
    /// server is stopping and nothing is under way, so that the connection should be closed.
    pub fn may_wait(&self, in_request: bool) -> bool {
        self.between_requests.store(!in_request, Ordering::SeqCst);
        in_request || !self.shared.is_stopping()
    }

    /// Counts what has been served. The connection's own fiber alone calls it.
    pub fn count(&self, units: u64) {
        self.served.store(self.served.load(Ordering::Relaxed) + units, Ordering::Relaxed);
    }

    /// How long the peer may be silent.
    pub fn idle(&self) -> Duration {
        self.shared.idle
    }
}

/// Takes the connection out of the registry however its fiber ends: served, failed, panicked.
struct Registered {
    connection: Arc<Connection>,
    slot: usize,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Registered {
    fn new(
        stream: TcpStream,
        shared: &Arc<Shared>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Registered {
        let connection = Arc::new(Connection {
            stream,
            shared: Arc::clone(shared),
            between_requests: AtomicBool::new(false),
            served: AtomicU64::new(0),
        });
        let mut open = shared.open();
        let slot = open.free.pop().unwrap_or(open.slots.len());
        if slot == open.slots.len() {
            open.slots.push(None);
        }
        open.slots[slot] = Some(Arc::clone(&connection));
        drop(open);
        shared.connections.fetch_add(1, Ordering::Relaxed);
        Registered { connection, slot, _permit: permit }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let shared = &self.connection.shared;
        shared.served.fetch_add(self.connection.served.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut open = shared.open();
        let taken = open.slots[self.slot].take();
        open.free.push(self.slot);
        drop(open);
        drop(taken); // outside the lock: it may close the socket
    }
}

/// Runs a server until Ctrl-C, and returns what the process should end with.
pub fn run<H: Handle>(service: Service<H>, options: &Options) -> ExitCode {
    os::raise_open_files();
    let name = service.name;
    let outcome = options.runtime().and_then(|runtime| {
        let runs_on = runs_on(&runtime);
        let outcome = runtime.run(move || serve(&service, options, &runs_on));
        if runtime.shutdown(Duration::from_secs(1)).is_err() {
            eprintln!("{name}: some fibers did not end in time");
        }
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{name}: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn serve<H: Handle>(service: &Service<H>, options: &Options, runs_on: &str) -> io::Result<()> {
    let (addr, per_worker) = (options.addr, options.per_worker);
    let with_addr = |fault: io::Error| io::Error::new(fault.kind(), format!("{addr}: {fault}"));
    let bound = if per_worker {
        TcpListener::bind_per_worker(addr)
    } else {
        TcpListener::bind(addr).map(|listener| vec![listener])
    };
    let listeners = bound.map_err(with_addr)?;
    let addr = listeners[0].local_addr()?;
    let shared = Arc::new(Shared {
        stopping: AtomicBool::new(false),
        idle: options.idle(),
        open: Mutex::default(),
        room: options.max_connections.map(|n| Arc::new(Semaphore::new(n))),
        connections: AtomicU64::new(0),
        served: AtomicU64::new(0),
    });
    // From here on no Ctrl-C is missed: whoever reads the line below may send one at once.
    let ctrl_c = CtrlC::new()?;
    println!("{}: {} on {runs_on}", service.name, (service.url)(addr));
    let mut accepting = Vec::new();
    for (worker, listener) in listeners.into_iter().enumerate() {
        let (service, shared) = (service.clone(), Arc::clone(&shared));
        let accept = move || accept_all(&listener, &service, &shared, per_worker);
        let fiber = bast::Builder::new();
        accepting.push(if per_worker { fiber.worker(worker) } else { fiber }.spawn(accept)?);
    }
    ctrl_c.wait()?;
    // Whoever is in a hurry presses it again.
    drop(bast::spawn(move || {
        if ctrl_c.wait().is_ok() {
            std::process::exit(130);
        }
    }));
    shared.stopping.store(true, Ordering::SeqCst);
    accepting.iter().for_each(bast::JoinHandle::cancel);
    for fiber in accepting {
        if let Err(payload) = fiber.join()
            && !payload.is::<bast::Cancelled>()
        {
            eprintln!("{}: an accepting fiber panicked", service.name);
        }
    }
    end_connections(&shared);
    let (connections, served) = (&shared.connections, &shared.served);
    println!(
        "{}: {} connections, {} {}",
        service.name,
        connections.load(Ordering::Relaxed),
        served.load(Ordering::Relaxed),
        service.unit
    );
    Ok(())
}

/// Accepts until it is cancelled. Connections `stay` on this worker, or go to whichever is free.
fn accept_all<H: Handle>(
    listener: &TcpListener,
    service: &Service<H>,
    shared: &Arc<Shared>,
    stay: bool,
) {
    const FIRST_PAUSE: Duration = Duration::from_millis(1);
    const LONGEST_PAUSE: Duration = Duration::from_millis(50);
    let mut pause = FIRST_PAUSE;
    let mut complaints = Complaints { name: service.name, last: None, unsaid: 0 };
    loop {
        // It is never closed, so that this cannot fail.
        let permit = shared.room.as_ref().and_then(|room| Arc::clone(room).acquire_owned().ok());
        let fault = match listener.accept() {
            Ok((stream, _)) => {
                let registered = Registered::new(stream, shared, permit);
                let handle = service.handle.clone();
                let serve = move || {
                    // The peer's faults (reset, silence) end the connection and concern nobody.
                    let _ = handle(&registered.connection);
                };
                let fiber = bast::Builder::new();
                match if stay { fiber.spawn_local(serve) } else { fiber.spawn(serve) } {
                    Ok(_) => {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    Err(fault) => fault,
                }
            }
            // The peer gave up before it was accepted: nothing is wrong here.
            Err(fault) if fault.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(fault) => fault,
        };
        // No descriptors, no memory: it passes when connections end. Trying at once would spin.
        // (bast's `accept` waits by itself when descriptors run out, but not for other faults.)
        complaints.say(&fault);
        bast::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Says what goes wrong, at most once a second.
struct Complaints {
    name: &'static str,
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaints {
    fn say(&mut self, fault: &io::Error) {
        if self.last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
            self.unsaid += 1;
            return;
        }
        let again = match self.unsaid {
            0 => String::new(),
            times => format!(" (and {times} times since the last such line)"),
        };
        eprintln!("{}: accept: {fault}{again}", self.name);
        (self.last, self.unsaid) = (Some(Instant::now()), 0);
    }
}

/// Ends idle connections at once, the others when their request is answered or the grace is over.
fn end_connections(shared: &Shared) {
    let start = Instant::now();
    shut(shared, |connection| connection.between_requests.load(Ordering::SeqCst));
    while is_busy(shared) && start.elapsed() < GRACE {
        bast::sleep(Duration::from_millis(5));
    }
    shut(shared, |_| true);
    while is_busy(shared) && start.elapsed() < GRACE + Duration::from_secs(1) {
        bast::sleep(Duration::from_millis(5));
    }
}

fn is_busy(shared: &Shared) -> bool {
    shared.open().slots.iter().any(Option::is_some)
}

/// Shuts the connections for which it holds: their fibers read the end of the stream. What has been
/// received before that is still read, and answered.
fn shut(shared: &Shared, which: impl Fn(&Connection) -> bool) {
    // Not under the lock: shutting is an operation of the kernel's, and may suspend.
    let open: Vec<Arc<Connection>> = shared.open().slots.iter().flatten().cloned().collect();
    for connection in open.iter().filter(|connection| which(connection)) {
        // It may have been closed by the peer meanwhile.
        let _ = connection.stream.shutdown(Shutdown::Read);
    }
}

/// Closes in such a way that the peer can read the last answer although it was still sending: a
/// socket closed with unread data is reset, and a reset destroys what the peer has not read yet.
///
/// # Errors
/// The connection's: it is gone.
#[cold]
pub fn linger(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    const SILENCE: Duration = Duration::from_secs(1);
    const AT_MOST: Duration = Duration::from_secs(5);
    let start = Instant::now();
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(SILENCE))?;
    while start.elapsed() < AT_MOST && stream.read(buffer)? > 0 {}
    Ok(())
}
