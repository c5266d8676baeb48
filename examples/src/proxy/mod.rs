//! A TCP proxy in plain blocking style: two fibers for each connection, each copies one way.
//!
//! ```text
//!   accept ─▶ a fiber for each connection: connect to an upstream, the next one if it is refused
//!                │
//!                ├─ up:   copy(client ─▶ upstream), then the end of the stream goes on to the upstream
//!                └─ down: copy(upstream ─▶ client), then the end of the stream goes on to the client
//!
//!   watch: now and then looks for connections that are silent both ways, and ends them
//! ```
//!
//! Descriptors: two for a connection, and two more for each direction in which much is under way (`bast::io::copy`
//! splices through a pipe then; if there is none it copies by hand). When they run out, a connection
//! that needs one for its upstream waits for as long as connecting may take, and nobody is accepted meanwhile, who would
//! take the next one that comes free.
//!
//! Memory ordering: counters are Relaxed, as each is a figure of its own. The registry's lock orders the rest.

pub mod link;
pub mod upstream;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bast::net::{TcpListener, TcpStream};
use bast::sync::Semaphore;

use crate::tcp;
use link::Link;
use upstream::Upstreams;

/// What a proxy is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where connections go, in turn.
    pub to: Vec<SocketAddr>,
    /// More than these wait to be accepted.
    pub max_connections: usize,
    /// How long connecting to one upstream may take.
    pub connect_timeout: Duration,
    /// How long a connection may be silent both ways.
    pub idle_timeout: Duration,
    /// Whether each connection's end is a line on standard error.
    pub log: bool,
    /// Whether upstreams are told who the client is, by a line of the PROXY protocol, version 1.
    pub header: bool,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    idle: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

/// Figures of a proxy at one moment. Bytes are those of directions that have ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Connections that are relayed now.
    pub open: usize,
    /// Connections accepted so far.
    pub connections: u64,
    /// Those for which there was no upstream.
    pub refused: u64,
    /// Those that ended by an error of either side.
    pub failed: u64,
    /// Those that were ended because they were silent.
    pub idle: u64,
    /// Bytes from clients.
    pub up: u64,
    /// Bytes to clients.
    pub down: u64,
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Metrics { open, connections, refused, failed, idle, up, down } = self;
        write!(
            f,
            "open={open} connections={connections} refused={refused} failed={failed} idle={idle} up={up} down={down}"
        )
    }
}

/// A proxy. Its clones are the same one.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    listener: TcpListener,
    config: Config,
    upstreams: Upstreams,
    room: Arc<Semaphore>,
    counters: Counters,
    links: Mutex<HashMap<u64, Arc<Link>>>,
}

impl Proxy {
    /// Listens. Nothing is accepted before [`serve`](Proxy::serve).
    ///
    /// # Errors
    /// The address cannot be listened on.
    ///
    /// # Panics
    /// If there is no upstream.
    pub fn bind(addr: SocketAddr, config: Config) -> io::Result<Proxy> {
        assert!(!config.to.is_empty(), "a proxy needs an upstream");
        let listener = TcpListener::bind(addr)?;
        Ok(Proxy {
            shared: Arc::new(Shared {
                listener,
                upstreams: Upstreams::new(config.to.clone()),
                room: Arc::new(Semaphore::new(config.max_connections)),
                config,
                counters: Counters::default(),
                links: Mutex::default(),
            }),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.shared.listener.local_addr()
    }

    /// Accepts and relays until the calling fiber is cancelled. Connections that are under way then go on.
    pub fn serve(&self) {
        let shared = &self.shared;
        let mut pause = Duration::from_millis(1);
        loop {
            let Ok(room) = Arc::clone(&shared.room).acquire_owned() else { return };
            while shared.upstreams.is_starving() {
                bast::sleep(Duration::from_millis(5));
            }
            let fault = match shared.listener.accept() {
                Ok((client, peer)) => {
                    shared.counters.connections.fetch_add(1, Relaxed);
                    let shared = Arc::clone(shared);
                    let fiber = bast::Builder::new().spawn(move || {
                        shared.connection(client, peer);
                        drop(room);
                    });
                    match fiber {
                        Ok(_) => {
                            pause = Duration::from_millis(1);
                            continue;
                        }
                        Err(fault) => fault,
                    }
                }
                // The client gave up before it was accepted.
                Err(fault) if fault.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(fault) => fault,
            };
            // No memory. (For descriptors `accept` waits by itself.) Trying again at once would spin.
            complain(&format!("accept: {fault}"));
            bast::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Ends connections that are silent for too long, until the calling fiber is cancelled.
    pub fn watch(&self) {
        let limit = self.shared.config.idle_timeout;
        let pause = (limit / 8).clamp(Duration::from_millis(5), Duration::from_secs(5));
        loop {
            bast::sleep(pause);
            for link in self.links().iter().filter(|link| link.silence() >= limit) {
                link.give_up();
            }
        }
    }

    fn links(&self) -> Vec<Arc<Link>> {
        self.shared.links().values().cloned().collect()
    }

    /// Figures of this moment.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let counters = &self.shared.counters;
        Metrics {
            open: self.shared.links().len(),
            connections: counters.connections.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            idle: counters.idle.load(Relaxed),
            up: counters.up.load(Relaxed),
            down: counters.down.load(Relaxed),
        }
    }

    /// Waits until no connection is left, for `grace` at most; then ends them, and waits a second for that. Whether none is
    /// left.
    #[must_use]
    pub fn drain(&self, grace: Duration) -> bool {
        let start = Instant::now();
        let mut given_up = false;
        loop {
            // One that is still connecting has no link yet, but takes room.
            let room = &self.shared.room;
            let busy = self.shared.config.max_connections - room.available_permits();
            if busy == 0 {
                return true;
            }
            if start.elapsed() >= grace {
                self.links().iter().for_each(|link| link.give_up());
                given_up = true;
            }
            if given_up && start.elapsed() >= grace + Duration::from_secs(1) {
                return false;
            }
            bast::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    /// Nothing is done under this lock that could suspend or panic.
    fn links(&self) -> MutexGuard<'_, HashMap<u64, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self, client: TcpStream, peer: SocketAddr) {
        let begun = Instant::now();
        let connected = self.upstreams.connect(self.config.connect_timeout);
        let (upstream, to) = match connected {
            Ok(connected) => connected,
            Err(fault) => {
                self.counters.refused.fetch_add(1, Relaxed);
                tcp::reset_on_close(&client);
                drop(client);
                return self.log(|| format!("{peer}: no upstream: {fault}"));
            }
        };
        let link = Arc::new(Link::new(client, upstream));
        let registered = Registered::new(self, &link);
        let result = self.header(&link, peer).map(|()| link.relay());
        drop(registered);
        let (up, down) = match result {
            Ok(both) => both,
            Err(fault) => {
                tcp::reset_on_close(&link.client);
                (Err(fault), Ok(0))
            }
        };
        for (counter, result) in [(&self.counters.up, &up), (&self.counters.down, &down)] {
            counter.fetch_add(*result.as_ref().unwrap_or(&0), Relaxed);
        }
        if link.is_given_up() {
            self.counters.idle.fetch_add(1, Relaxed);
        } else if up.is_err() || down.is_err() {
            self.counters.failed.fetch_add(1, Relaxed);
        }
        drop(link);
        self.log(|| {
            let say = |result: io::Result<u64>| {
                result.map_or_else(|fault| format!("failed ({fault})"), |n| format!("{n} bytes"))
            };
            let seconds = begun.elapsed().as_secs_f64();
            format!("{peer} to {to}: up {}, down {}, {seconds:.3} s", say(up), say(down))
        });
    }

    fn header(&self, link: &Link, peer: SocketAddr) -> io::Result<()> {
        if !self.config.header {
            return Ok(());
        }
        let here = link.client.local_addr()?;
        let family = if peer.is_ipv4() { "TCP4" } else { "TCP6" };
        let line = format!(
            "PROXY {family} {} {} {} {}\r\n",
            peer.ip(),
            here.ip(),
            peer.port(),
            here.port()
        );
        (&link.upstream).write_all(line.as_bytes())
    }

    fn log(&self, line: impl FnOnce() -> String) {
        if self.config.log {
            complain(&line());
        }
    }
}

/// On the pool: nobody knows how slow the reader of standard error is.
fn complain(line: &str) {
    bast::blocking(|| eprintln!("proxy: {line}"));
}

/// Takes the link out of the registry, however its fiber ends.
struct Registered<'a> {
    shared: &'a Shared,
    id: u64,
}

impl<'a> Registered<'a> {
    fn new(shared: &'a Shared, link: &Arc<Link>) -> Registered<'a> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Relaxed);
        shared.links().insert(id, Arc::clone(link));
        Registered { shared, id }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let link = self.shared.links().remove(&self.id);
        drop(link); // not under the lock: it may close the sockets
    }
}
