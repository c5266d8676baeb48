//! The reader that asks rrdtool: a pool of daemons, each used by two fibers at a time.
//!
//! ```text
//!   fetch ─ can a line say the name? ─ no ──▶ a child of its own: `rrdtool fetch NAME …`
//!             │ yes
//!             ▼
//!           Pool of seats ─▶ seat ─▶ daemon.ask ─▶ rows, or rrdtool's error
//!             ▲                        │ the daemon died, is stuck, or speaks nonsense
//!             ╰── another seat ◀───────╯ (a few times; then the file is reported)
//! ```
//!
//! The pool's members are *seats* at daemons, `daemon::ASKERS` at each: with a command always waiting for it a daemon
//! need not wait for us, so as many daemons as cores are enough, where one asker each takes twice as many and their
//! memory. A seat at a dead daemon is not given out again, and the next one made starts another daemon.

mod command;
mod daemon;
mod reply;
mod value;

pub(crate) use value::parse as parse_value;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use bast::sync::{Mutex, Pool, PoolError, Semaphore};
use rrd_file::{Fetched, Query};

use super::{ReadError, Reader};
use daemon::{Daemon, Trouble};
use reply::{Replies, Reply};

/// How many daemons may be lost with one file before it is given up.
const ATTEMPTS: u32 = 5;

/// How many daemons may be lost one after the other, with no reply in between, before rrdtool itself is given up.
const BARREN: u64 = 24;

/// How the daemons are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is run; a name without a slash is looked up as a shell does.
    pub program: PathBuf,
    /// At most as many daemons. They are started when they are needed.
    pub daemons: usize,
    /// A daemon that takes longer for a reply is stuck.
    pub timeout: Duration,
}

impl Default for Options {
    /// `rrdtool`, one for each core, 30 seconds.
    fn default() -> Options {
        Options {
            program: "rrdtool".into(),
            daemons: bast::available_parallelism().map_or(1, usize::from),
            timeout: Duration::from_secs(30),
        }
    }
}

/// Reads files by asking rrdtool.
pub struct Rrdtool {
    pool: Pool<Arc<Daemon>, io::Error>,
    children: Semaphore,
    options: Options,
    /// Daemons lost since the last reply. A count and no more: any order will do.
    barren: AtomicU64,
    replaced: AtomicU64,
}

impl Rrdtool {
    /// Starts nothing yet.
    ///
    /// # Panics
    /// If there are to be no daemons.
    #[must_use]
    pub fn new(options: Options) -> Rrdtool {
        let (program, most) = (options.program.clone(), options.daemons);
        let staff = Mutex::new(Vec::new());
        let pool = Pool::new(most * daemon::ASKERS, move || seat(&staff, most, &program))
            .validate(|daemon: &mut Arc<Daemon>| !daemon.is_dead());
        Rrdtool {
            pool,
            children: Semaphore::new(most),
            options,
            barren: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
        }
    }

    /// How many daemons were lost and replaced so far.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    /// How many readers keep the daemons busy.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.options.daemons * daemon::ASKERS
    }

    /// Asks daemon after daemon until one has answered.
    fn by_daemon(&self, line: &[u8], query: &Query) -> Result<Reply, ReadError> {
        let mut lost = 0;
        loop {
            let mut daemon = self.pool.get().map_err(|error| match error {
                PoolError::Create(error) => self.missing(&error),
                full => ReadError::Fatal(full.to_string()),
            })?;
            let trouble = match daemon.ask(line, query, self.options.timeout) {
                Ok(reply) => {
                    self.barren.store(0, Ordering::Relaxed);
                    return Ok(reply);
                }
                Err(trouble) => trouble,
            };
            daemon.fail();
            drop(daemon);
            // It counts for the file that it was lost with, and for no other.
            let Trouble::Lost(why) = trouble else { continue };
            lost += 1;
            self.replaced.fetch_add(1, Ordering::Relaxed);
            if self.barren.fetch_add(1, Ordering::Relaxed) >= BARREN {
                let program = self.options.program.display();
                return Err(ReadError::Fatal(format!(
                    "{program} ends again and again before it answers: {why}. Try it by hand, or use --reader native"
                )));
            }
            if lost == ATTEMPTS {
                return Err(ReadError::Rrdtool(format!("{why} ({lost} times with this file)")));
            }
        }
    }

    /// Asks a child that is there for this file alone.
    fn by_child(&self, path: &Path, query: &Query) -> Result<Reply, ReadError> {
        let _turn = self.children.acquire();
        let mut child = daemon::command(&self.options.program);
        child.args(command::arguments(path, query));
        let Ok(output) = bast::timeout(self.options.timeout, || child.output()) else {
            let limit = self.options.timeout.as_secs_f64();
            return Err(ReadError::Rrdtool(format!("rrdtool has not answered for {limit} s")));
        };
        let Output { status, stdout, stderr } = output.map_err(|error| self.missing(&error))?;
        if status.success() {
            return Ok(Replies::single(&*stdout).read(query)?);
        }
        let stderr = String::from_utf8_lossy(&stderr);
        let text = stderr.trim();
        Ok(Reply::Error(match text.strip_prefix("ERROR: ") {
            Some(words) => words.to_owned(),
            None => format!("rrdtool has ended ({status}): {text}"),
        }))
    }

    fn missing(&self, error: &io::Error) -> ReadError {
        let program = self.options.program.display();
        ReadError::Fatal(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{program} is not installed (`apt-get install rrdtool`); --reader native needs none"
            ),
            _ => format!("{program} cannot be started: {error}"),
        })
    }
}

impl Reader for Rrdtool {
    fn fetch(&self, path: &Path, query: &Query) -> Result<Fetched, ReadError> {
        let reply = match command::line(path, query) {
            Some(line) => self.by_daemon(&line, query)?,
            None => self.by_child(path, query)?,
        };
        match reply {
            Reply::Rows(fetched) => Ok(fetched),
            Reply::Error(text) => Err(ReadError::Rrdtool(text)),
        }
    }
}

/// A seat at the daemon that has most free, or at a new one.
fn seat(
    staff: &Mutex<Vec<Weak<Daemon>>>,
    most: usize,
    program: &Path,
) -> Result<Arc<Daemon>, io::Error> {
    let mut staff = staff.lock().unwrap_or_else(PoisonError::into_inner);
    staff.retain(|daemon| daemon.upgrade().is_some_and(|daemon| !daemon.is_dead()));
    if staff.len() >= most
        && let Some(daemon) = staff.iter().min_by_key(|daemon| daemon.strong_count())
        && let Some(daemon) = daemon.upgrade()
        // A seat is given back a moment after its place: then this one has more askers for a while, which does no harm.
        && !daemon.is_dead()
    {
        return Ok(daemon);
    }
    let daemon = Arc::new(Daemon::start(program)?);
    staff.push(Arc::downgrade(&daemon));
    Ok(daemon)
}
