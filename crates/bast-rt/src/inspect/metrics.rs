//! Figures of the runtimes: what each worker has counted, and what it has now.
//!
//! Each figure is what its worker last wrote; together they are no snapshot of one moment.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::runtimes;
use crate::shared::Shared;

/// The figures of all runtimes: from [`metrics`]. `Display` is a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// One entry for each runtime that there is, in the order of their making.
    pub runtimes: Vec<RuntimeMetrics>,
}

/// The figures of one runtime. `Display` is a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuntimeMetrics {
    /// The runtime's number in this process, from 1.
    pub runtime: u64,
    /// One entry for each worker.
    pub workers: Vec<WorkerMetrics>,
    /// One entry for each thread that is [bound](crate::Builder::bound) to a fiber now.
    pub bound: Vec<WorkerMetrics>,
    /// Fibers spawned, by fibers of this runtime and from outside. Up to date as of each worker's last look at
    /// its driver.
    pub spawned: u64,
    /// Fibers that have ended.
    pub ended: u64,
    /// Threads of the pool for blocking calls.
    pub blocking_threads: usize,
    /// Those of them that wait for something to do.
    pub blocking_idle: usize,
    /// Calls that no thread has begun with.
    pub blocking_queued: usize,
    /// The most of the pool's threads that were at work at once.
    pub blocking_busy_most: usize,
    /// The most calls that were queued at once.
    pub blocking_queued_most: usize,
    /// Calls that a thread has begun with.
    pub blocking_calls: u64,
    /// Calls that came when every thread had work, and no more were allowed or to be had.
    pub blocking_waits: u64,
    /// The time that all calls together have been queued.
    pub blocking_waited: Duration,
    /// Calls that were refused, as the queue was full.
    pub blocking_refused: u64,
}

/// The figures of one worker. Counts are since its start.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Whether it sleeps in its driver.
    pub asleep: bool,
    /// Looks at the driver, for completions and to submit.
    pub polls: u64,
    /// Fibers resumed: the switches.
    pub resumes: u64,
    /// Times that it took new fibers from another worker.
    pub steals: u64,
    /// Polls of tasks.
    pub task_polls: u64,
    /// Times that it took tasks from another worker.
    pub task_steals: u64,
    /// Tasks that were spawned here, and have not ended. (Those spawned from outside are counted somewhere.)
    pub tasks: usize,
    /// Wakes of its fibers that came from other threads.
    pub remote_wakes: u64,
    /// Timers that went off.
    pub timers: u64,
    /// Operations given to the driver, those that completed at once included.
    pub submitted: u64,
    /// Operations that completed at once.
    pub completed_inline: u64,
    /// Fibers that started here.
    pub started: u64,
    /// Fibers that ended here.
    pub ended: u64,
    /// Fibers that live here now: started, and not ended.
    pub live: usize,
    /// Fibers in the ready queue, at the last look at the driver.
    pub ready: usize,
    /// Fibers that have not run: those spawned here and those sent here.
    pub fresh: usize,
    /// Of those the ones that others have sent here.
    pub mail: usize,
    /// Stacks in use.
    pub stacks_used: usize,
    /// Stacks that were given back and are ready to be taken again.
    pub stacks_cached: usize,
    /// Those of the cached ones that have kept their memory.
    pub stacks_hot: usize,
    /// Address space of all stacks, in bytes. Memory is used only as far as code got.
    pub stack_bytes: usize,
}

/// The figures of all runtimes. Costs a load for each figure; nobody is asked or held up.
///
/// ```
/// bast_rt::spawn(|| bast_rt::yield_now()).join().unwrap();
/// let metrics = bast_rt::metrics();
/// assert!(metrics.runtimes[0].workers.iter().map(|worker| worker.resumes).sum::<u64>() >= 2);
/// println!("{metrics}");
/// ```
#[must_use]
pub fn metrics() -> Metrics {
    Metrics {
        runtimes: runtimes()
            .iter()
            .filter(|runtime| runtime.home.is_none())
            .map(|it| of(it))
            .collect(),
    }
}

/// The figures of one.
pub(crate) fn of(runtime: &Shared) -> RuntimeMetrics {
    let pool = runtime.pool.stats();
    let list = runtime.bound.list();
    let all = || list.iter().map(AsRef::as_ref).chain([runtime]).flat_map(|shared| &shared.posts);
    let (spawned, ended) = runtime.bound.past();
    RuntimeMetrics {
        runtime: runtime.number,
        spawned: spawned
            + runtime.spawned_outside()
            + all().map(|post| post.board.spawned.get()).sum::<u64>(),
        ended: ended + all().map(|post| post.board.ended.get()).sum::<u64>(),
        workers: (0..runtime.posts.len()).map(|index| worker(runtime, index)).collect(),
        bound: list.iter().map(|bound| worker(bound, 0)).collect(),
        blocking_threads: pool.threads,
        blocking_idle: pool.idle,
        blocking_queued: pool.queued,
        blocking_busy_most: pool.busy_most,
        blocking_queued_most: pool.queued_most,
        blocking_calls: pool.calls,
        blocking_waits: pool.waits,
        blocking_waited: pool.waited,
        blocking_refused: pool.refused,
    }
}

fn worker(shared: &Shared, index: usize) -> WorkerMetrics {
    let board = &shared.posts[index].board;
    WorkerMetrics {
        asleep: board.asleep.load(Relaxed),
        polls: board.polls.get(),
        resumes: board.resumes.get(),
        steals: board.steals.get(),
        task_polls: board.task_polls.get(),
        task_steals: board.task_steals.get(),
        tasks: shared.posts[index].tasks.live(),
        remote_wakes: board.remote_wakes.get(),
        timers: board.timers.get(),
        submitted: board.submitted.get(),
        completed_inline: board.inline.get(),
        started: board.started.get(),
        ended: board.ended.get(),
        live: shared.loads[index].live.load(Relaxed),
        ready: board.ready.get() as usize,
        fresh: shared.fresh_of(index),
        mail: shared.loads[index].mailed.load(Relaxed),
        stacks_used: board.stacks_live.get() as usize,
        stacks_cached: board.stacks_free.get() as usize,
        stacks_hot: board.stacks_hot.get() as usize,
        stack_bytes: board.stack_bytes.get() as usize,
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.runtimes.iter().try_for_each(|runtime| runtime.fmt(f))
    }
}

impl fmt::Display for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "runtime {}: {} spawned, {} ended; blocking pool: {} threads, {} idle, {} calls queued; \
             at most {} busy, {} queued; {} calls, {} waited for a thread, {:.1?} queued, {} refused",
            self.runtime,
            self.spawned,
            self.ended,
            self.blocking_threads,
            self.blocking_idle,
            self.blocking_queued,
            self.blocking_busy_most,
            self.blocking_queued_most,
            self.blocking_calls,
            self.blocking_waits,
            self.blocking_waited,
            self.blocking_refused
        )?;
        type Row = (&'static str, fn(&WorkerMetrics) -> u64);
        const ROWS: &[Row] = &[
            ("asleep", |w| w.asleep.into()),
            ("polls", |w| w.polls),
            ("resumes", |w| w.resumes),
            ("steals", |w| w.steals),
            ("tasks live", |w| w.tasks as u64),
            ("  polls", |w| w.task_polls),
            ("  steals", |w| w.task_steals),
            ("remote wakes", |w| w.remote_wakes),
            ("timers", |w| w.timers),
            ("operations", |w| w.submitted),
            ("  at once", |w| w.completed_inline),
            ("fibers started", |w| w.started),
            ("  ended", |w| w.ended),
            ("  live", |w| w.live as u64),
            ("  ready", |w| w.ready as u64),
            ("  not started", |w| w.fresh as u64),
            ("  sent here", |w| w.mail as u64),
            ("stacks in use", |w| w.stacks_used as u64),
            ("  cached", |w| w.stacks_cached as u64),
            ("  hot", |w| w.stacks_hot as u64),
            ("  KiB reserved", |w| w.stack_bytes as u64 / 1024),
        ];
        write!(f, "{:<16}", "worker")?;
        for index in 0..self.workers.len() {
            write!(f, "{index:>14}")?;
        }
        for _ in &self.bound {
            write!(f, "{:>14}", "bound")?;
        }
        writeln!(f)?;
        for (name, value) in ROWS {
            write!(f, "{name:<16}")?;
            for worker in self.workers.iter().chain(&self.bound) {
                write!(f, "{:>14}", value(worker))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
