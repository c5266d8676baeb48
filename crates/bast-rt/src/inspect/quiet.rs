//! The report of deadlocks: when nothing can ever happen any more, say who waits for whom, once.
//!
//! ```text
//!   a worker with nothing to run, no timer, no operation pending ──▶ quiet, until it finds work
//!   a plain thread that blocks in bast without a deadline        ──▶ listed (`blocked`), until it is woken
//!
//!   whoever falls asleep last:  100 ms ──▶ all quiet? ──▶ 100 ms ──▶ the very same? ──▶ report
//!                                             │ no: look again later, ever more rarely
//! ```
//!
//! A false alarm is worse than a miss. So the report is made only if *every* thread of the process is
//! accounted for: a quiet worker, an idle thread of a blocking pool, a thread of this module's own, or one
//! that is blocked in bast and has not been woken. A single other thread (one that sleeps in std, waits for
//! a key, belongs to a library) might wake a fiber yet, and then nothing is said; `BAST_DEADLOCK=force`
//! leaves other threads out of account, `BAST_DEADLOCK=off` says nothing ever. On the simulator, whose
//! clock would run ahead, there is no report.
//!
//! Servers do not pay: a worker with an operation or a timer pending is not quiet and does nothing here.
//!
//! Why the look is sound. It reads, for each worker, `quiet` and `spells` (how often it became quiet), and
//! for the threads how often their list has changed; later it reads all of it again and finds the same.
//! * A worker sets `quiet` only before it sleeps, and unsets it *before* it takes anything from its inbox or
//!   a queue of new fibers. So if `quiet` is set both times and `spells` is the same, it has taken nothing
//!   in between.
//! * Whoever wakes a blocked thread takes it off the list before the thread is told. So an unchanged list
//!   means that those on it slept all the time.
//! * So between the two readings there was a moment at which all of them slept. Then the inboxes and queues,
//!   read in between and found empty, were empty at that moment, as only these threads could have taken
//!   something out; and nobody was left to put something in.
//! * No thread is being made at that moment, because no thread runs that could do it; so counting the
//!   threads in between counts them all.
//!
//! All accesses to the flags are SeqCst: they happen around system calls that block.

use std::cell::RefCell;
use std::fmt::Write;
use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
use std::thread;
use std::time::Duration;

use bast_io::{Wait, probe};

use super::dump::{self, Dump};
use super::{blocked, runtimes, text};
use crate::worker::Worker;

/// How long all has to be quiet, twice.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);
/// The longest time between two looks while there are threads that nobody knows.
const RARELY: Duration = Duration::from_secs(60);
/// How many of those that are blocked are listed one by one.
const LISTED: usize = 20;

/// What `BAST_DEADLOCK` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Detection {
    /// Report if every thread is accounted for.
    #[default]
    Auto,
    /// Leave threads that nobody knows out of account.
    Force,
    Off,
}

static DETECTION: AtomicU8 = AtomicU8::new(Detection::Auto as u8);
static REPORTED: AtomicBool = AtomicBool::new(false);
/// Threads of this module and its neighbours, which wake no fiber by themselves.
static SERVICE: AtomicUsize = AtomicUsize::new(0);

/// The last runtime's environment counts; it is the same for all.
pub(crate) fn set(detection: Detection) {
    DETECTION.store(detection as u8, Relaxed);
}

fn is(detection: Detection) -> bool {
    DETECTION.load(Relaxed) == detection as u8
}

/// Starts a thread that only watches.
///
/// It counts itself. If whoever starts it did, and was stopped before there is such a thread, it would itself be taken
/// for that: for one that wakes nobody.
pub(super) fn service(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            SERVICE.fetch_sub(1, SeqCst);
        }
    }
    let body = move || {
        SERVICE.fetch_add(1, SeqCst);
        let _counted = Counted;
        body();
    };
    thread::Builder::new().name(name.into()).spawn(body).map(drop)
}

/// What is to be the same at two looks.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot(Vec<u64>);

/// Why there is no snapshot.
enum Not {
    /// Somebody else will look, or nobody needs to.
    Needed,
    /// There is a thread that nobody knows.
    Known,
}

fn snapshot() -> Result<Snapshot, Not> {
    if is(Detection::Off) || REPORTED.load(Relaxed) {
        return Err(Not::Needed);
    }
    let runtimes = runtimes();
    let live: usize = runtimes.iter().map(|runtime| runtime.live()).sum();
    if live == 0 {
        return Err(Not::Needed);
    }
    let read = || {
        let (blocked, changes) = blocked::count();
        let mut numbers = vec![blocked as u64, changes];
        for post in runtimes.iter().flat_map(|runtime| &runtime.posts) {
            if !post.board.quiet.load(SeqCst) {
                return None;
            }
            numbers.push(post.board.spells.load(SeqCst));
        }
        Some(Snapshot(numbers))
    };
    let Some(before) = read() else { return Err(Not::Needed) };
    let mut known = before.0[0] as usize + SERVICE.load(SeqCst);
    for runtime in &runtimes {
        let pool = runtime.pool.stats();
        let empty = runtime
            .posts
            .iter()
            .all(|post| post.inbox.is_empty() && post.flights.is_empty() && !post.tasks.has_mail());
        if runtime.is_stopping() || !empty || runtime.any_work() || pool.queued > 0 {
            return Err(Not::Needed);
        }
        if pool.idle < pool.threads {
            return Err(Not::Known);
        }
        // The threads that are bound to a runtime use its pool.
        let pooled = if runtime.home.is_none() { pool.threads } else { 0 };
        known += runtime.posts.len() + pooled;
    }
    if !is(Detection::Force) && probe::threads().ok() != Some(known) {
        return Err(Not::Known);
    }
    if read().as_ref() == Some(&before) { Ok(before) } else { Err(Not::Needed) }
}

/// The looks of one sleeper: when the next one is due, and what the last one saw.
#[derive(Debug)]
pub(crate) struct Looks {
    next: Option<Duration>,
    seen: Option<Snapshot>,
}

impl Looks {
    pub(crate) fn new() -> Looks {
        Looks { next: (!is(Detection::Off)).then_some(PATIENCE), seen: None }
    }

    /// How long to sleep before the next look; `None`: no more.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Looks, after that time.
    #[cold]
    pub(crate) fn look(&mut self) {
        match snapshot() {
            Ok(now) if self.seen.as_ref() == Some(&now) => {
                self.next = None;
                report();
            }
            Ok(now) => {
                self.seen = Some(now);
                self.next = Some(PATIENCE);
            }
            Err(Not::Needed) => self.next = None,
            Err(Not::Known) => {
                self.seen = None;
                self.next = self.next.map(|last| (last * 2).min(RARELY));
            }
        }
    }
}

/// A worker's looks.
pub(crate) struct Calm {
    looks: RefCell<Looks>,
    since: std::cell::Cell<u64>,
}

impl Calm {
    pub(crate) fn new() -> Calm {
        Calm { looks: RefCell::new(Looks::new()), since: std::cell::Cell::new(0) }
    }
}

impl Worker {
    /// The worker is about to sleep for as long as `wait` says, with nothing to run. Says for how long it
    /// should sleep, so that it can look whether anybody else is awake.
    #[inline]
    pub(crate) fn settle(&self, wait: Wait) -> Wait {
        if wait == Wait::Forever && self.driver().pending() == 0 { self.be_quiet() } else { wait }
    }

    #[cold]
    fn be_quiet(&self) -> Wait {
        // The simulator's clock jumps to the end of each wait.
        if is(Detection::Off) || self.driver().name() == "sim" || self.shared.is_stopping() {
            return Wait::Forever;
        }
        let (board, calm, now) = (&self.post.board, &self.calm, self.driver().now());
        let mut looks = calm.looks.borrow_mut();
        if !board.quiet.load(Relaxed) {
            *looks = Looks::new();
            calm.since.set(now);
            board.spells.fetch_add(1, SeqCst);
            board.quiet.store(true, SeqCst);
        }
        let Some(due) = looks.next() else { return Wait::Forever };
        let slept = Duration::from_nanos(now - calm.since.get());
        if slept < due {
            return Wait::AtMost(due - slept);
        }
        looks.look();
        calm.since.set(now);
        looks.next().map_or(Wait::Forever, Wait::AtMost)
    }

    /// There is something to do: to be called before it is taken from where it lies.
    #[inline]
    pub(crate) fn stir(&self) {
        let quiet = &self.post.board.quiet;
        if quiet.load(Relaxed) {
            quiet.store(false, SeqCst);
        }
        self.recount();
    }
}

fn report() {
    if REPORTED.swap(true, SeqCst) {
        return;
    }
    // Not here: the worker that looks has to answer, too.
    if let Err(error) =
        service("bast-deadlock", || eprint!("{}", describe(&dump::gather_within(UNHURRIED))))
    {
        eprintln!("bast: deadlock: all fibers wait for each other, or for nobody ({error})");
    }
}

/// How long the workers are waited for: all sleep, so each comes as soon as the system runs it, and there is no other
/// report if one was left out of this.
const UNHURRIED: Duration = Duration::from_secs(30);

/// One who waits, and for whom.
struct Edge {
    id: u64,
    what: &'static str,
    holder: u64,
}

fn describe(dump: &Dump) -> String {
    let fibers = dump.fibers().filter_map(|fiber| {
        let wait = fiber.wait.as_ref()?;
        Some(Edge { id: fiber.id, what: wait.what, holder: wait.holder })
    });
    let threads = dump.threads.iter().map(|thread| Edge {
        id: thread.id,
        what: thread.wait.what,
        holder: thread.wait.holder,
    });
    let edges: Vec<Edge> = fibers.chain(threads).collect();
    let mut text = format!(
        "bast: deadlock: nothing is left that could wake {}{}\n",
        text::count(edges.len() - dump.threads.len(), "fiber"),
        match dump.threads.len() {
            0 => String::new(),
            n => format!(" and {}", text::count(n, "thread")),
        }
    );
    for edge in edges.iter().take(LISTED) {
        let who = dump.name_of(edge.id);
        let _ = write!(text, "    {who} is blocked indefinitely on {}", edge.what);
        if edge.holder != 0 {
            let _ = write!(text, ", which {} could end", dump.name_of(edge.holder));
        }
        text.push('\n');
    }
    if edges.len() > LISTED {
        let _ = writeln!(text, "    … and {} more", text::number((edges.len() - LISTED) as u64));
    }
    for cycle in cycles(&edges) {
        let _ = write!(text, "    a cycle: ");
        for edge in &cycle {
            let _ = write!(text, "{} ({}) -> ", dump.name_of(edge.id), edge.what);
        }
        let _ = writeln!(text, "{}", dump.name_of(cycle[0].id));
    }
    let _ = write!(text, "{dump}");
    text
}

/// The cycles among those who wait. Each waits for one other at most, so they have no edge in common.
fn cycles(edges: &[Edge]) -> Vec<Vec<&Edge>> {
    let by_id: std::collections::HashMap<u64, &Edge> =
        edges.iter().map(|edge| (edge.id, edge)).collect();
    let mut visited = std::collections::HashSet::new();
    let mut cycles = Vec::new();
    for edge in edges {
        let mut path: Vec<&Edge> = Vec::new();
        let mut next = Some(edge);
        while let Some(at) = next {
            if !visited.insert(at.id) {
                if let Some(first) = path.iter().position(|seen| seen.id == at.id) {
                    cycles.push(path.split_off(first));
                }
                break;
            }
            path.push(at);
            next = by_id.get(&at.holder).copied();
        }
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let edges: Vec<Edge> =
            edges.iter().map(|&(id, holder)| Edge { id, what: "lock", holder }).collect();
        let ids = |cycle: Vec<&Edge>| cycle.iter().map(|edge| edge.id).collect();
        cycles(&edges).into_iter().map(ids).collect()
    }

    #[test]
    fn cycles_are_found_once() {
        assert_eq!(found(&[(1, 2), (2, 3), (3, 1), (4, 1)]), [vec![1, 2, 3]]);
        assert_eq!(found(&[(4, 1), (1, 2), (2, 1), (7, 7)]), [vec![1, 2], vec![7]]);
        assert!(found(&[(1, 2), (2, 3), (3, 0), (5, 9)]).is_empty());
    }
}
