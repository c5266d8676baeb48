//! The dump: every fiber of every runtime at one moment, and how it is made.
//!
//! ```text
//!   plain thread: ask all workers ─▶ answers ─▶ interrupt those that are late ─▶ look symbols up ─▶ Dump
//!   fiber:        a thread is started that does this, and the fiber waits for it
//! ```
//!
//! A fiber does not do it itself: its worker has to be free to answer, and looking symbols up takes more
//! stack than a fiber may have left.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::blocked::{self, Blocked};
use super::collect::{Answer, Waiting};
use super::request::{self, Slot};
use super::symbols::Symbols;
use super::{runtimes, sample};
use crate::shared::Shared;
use crate::{cancel, suspend, task, wait};

pub use super::symbols::Frame;

/// What every fiber does at one moment: from [`dump`].
///
/// `Display` is text for people, in which fibers that wait alike in the same place are one entry;
/// [`to_json`](Dump::to_json) has each by itself.
#[derive(Debug)]
pub struct Dump {
    pub(super) runtimes: Vec<RuntimeDump>,
    pub(super) stacks: Vec<Vec<Frame>>,
    pub(super) threads: Vec<Blocked>,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) struct RuntimeDump {
    pub(super) number: u64,
    /// Not the runtime itself, but a thread that is bound to a fiber of it.
    pub(super) bound: bool,
    pub(super) workers: Vec<WorkerDump>,
    /// Where the tasks that have not ended were spawned, and how many there.
    pub(super) tasks: Vec<(&'static Location<'static>, usize)>,
}

#[derive(Debug)]
pub(super) struct WorkerDump {
    pub(super) state: WorkerState,
    pub(super) live: usize,
    pub(super) ready: usize,
    /// Fibers that have not run.
    pub(super) fresh: usize,
    pub(super) fibers: Vec<FiberDump>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerState {
    /// It answered.
    Well {
        driver: &'static str,
    },
    /// It did not: held by one fiber for at least this long.
    Held {
        at_least: Duration,
    },
    Ended,
}

/// One fiber in a [`Dump`].
#[derive(Debug)]
pub struct FiberDump {
    pub(super) id: u64,
    pub(super) name: Option<Box<str>>,
    pub(super) state: &'static str,
    pub(super) unwinding: bool,
    pub(super) cancelled: bool,
    pub(super) wait: Option<Waiting>,
    pub(super) since: Option<Duration>,
    pub(super) worker: usize,
    pub(super) site: &'static Location<'static>,
    pub(super) stack: usize,
}

impl FiberDump {
    /// The number of its [`FiberId`](crate::FiberId).
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name given by [`Builder::name`](crate::Builder::name).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// `"parked"`: it waits; `"ready"`: it will run when its turn comes; `"running"`: it holds its worker, and has
    /// for a second at least.
    #[must_use]
    pub fn state(&self) -> &'static str {
        self.state
    }

    /// Whether it is suspended in a destructor while it unwinds.
    #[must_use]
    pub fn is_unwinding(&self) -> bool {
        self.unwinding
    }

    /// What it waits for: an operation (`"read"`), or a call of bast (`"Mutex::lock"`).
    #[must_use]
    pub fn waits_in(&self) -> Option<&'static str> {
        self.wait.as_ref().map(|wait| wait.what)
    }

    /// The descriptor that it waits for.
    #[must_use]
    pub fn descriptor(&self) -> Option<i32> {
        self.wait.as_ref()?.descriptor
    }

    /// The fiber or thread that could end the wait, if one is known.
    #[must_use]
    pub fn waits_for(&self) -> Option<u64> {
        Some(self.wait.as_ref()?.holder).filter(|&id| id != 0)
    }

    /// How long it has been in this state, to within 17 ms; not known of a fiber that is ready.
    #[must_use]
    pub fn since(&self) -> Option<Duration> {
        self.since
    }

    /// The worker that it lives on, counted from 0 in its runtime.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Where it was spawned.
    #[must_use]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.site
    }
}

impl Dump {
    /// All fibers, by runtime and worker. Those that have not run are only counted, in the text.
    pub fn fibers(&self) -> impl Iterator<Item = &FiberDump> {
        self.runtimes.iter().flat_map(|runtime| &runtime.workers).flat_map(|worker| &worker.fibers)
    }

    /// The [tasks](crate::task) of all runtimes that have not ended, by where they were spawned, with their number. A
    /// task has no stack while it is pending, so there is nothing to say of where it waits.
    pub fn tasks(&self) -> impl Iterator<Item = (&'static Location<'static>, usize)> {
        self.runtimes.iter().flat_map(|runtime| runtime.tasks.iter().copied())
    }

    /// A fiber's backtrace, innermost first, beginning with the call of bast that it waits in. Empty if too
    /// little of its stack is left to take it down.
    #[must_use]
    pub fn backtrace(&self, fiber: &FiberDump) -> &[Frame] {
        self.stacks.get(fiber.stack).map_or(&[], Vec::as_slice)
    }

    /// All of it for programs.
    ///
    /// ```text
    /// {"runtimes": [{"runtime": 1, "workers": [{"worker": 0, "state": "well", "driver": "uring", "ready": 0,
    ///    "not_started": 0, "fibers": [{"id": 1, "name": null, "state": "parked", "unwinding": false,
    ///    "cancel_requested": false, "waits_in": "read", "descriptor": 7, "object": null, "waits_for": null,
    ///    "nanoseconds": 16777216, "spawned_at": {"file": "src/main.rs", "line": 5, "column": 9}, "stack": 0}]}],
    ///    "tasks": [{"spawned_at": {"file": "src/main.rs", "line": 9, "column": 5}, "count": 3}]}],
    ///  "threads": [{"id": 2048, "name": "main", "waits_in": "JoinHandle::join", "object": "0x7f…", "waits_for": 1}],
    ///  "stacks": [[{"function": "bast::net::…", "file": "…", "line": 12, "address": "0x55…"}]]}
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        super::json::write(self)
    }
}

/// What every fiber of every runtime does: its state, what it waits for, and where, with its backtrace.
///
/// Each suspended fiber is visited by its own worker, which takes down its stack; no code of the fiber runs, and it
/// stays in the same suspension. The workers do nothing else meanwhile: some microseconds for each fiber. A worker that
/// does not come back to its loop within a second is interrupted by a signal (SIGVTALRM), and shown with the
/// fiber that holds it.
///
/// Works from fibers and plain threads, several at a time. It takes some 3 KiB of each fiber's stack, and a
/// page of memory with that where the fiber had not used it yet. Backtraces have lines if the
/// program has debug information (`debug = "line-tables-only"` suffices).
///
/// # Cancellation
/// A suspension point that is not interrupted: a request is delivered after it.
///
/// ```
/// let fiber = bast_rt::spawn(|| bast_rt::park());
/// while !bast_rt::dump().to_string().contains("park") {}
/// fiber.fiber().unpark();
/// fiber.join().unwrap();
/// ```
#[must_use]
pub fn dump() -> Dump {
    if suspend::current().is_none() {
        task::must_not_wait("dump");
        return gather();
    }
    let result = Arc::new((Mutex::new(None), AtomicBool::new(false)));
    let theirs = Arc::clone(&result);
    let me = wait::me();
    // Not one of `quiet`'s service threads: this one wakes a fiber.
    let started = thread::Builder::new().name("bast-dump".into()).spawn(move || {
        let dump = gather();
        *theirs.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(dump);
        // Release: the fiber sees the dump.
        theirs.1.store(true, Release);
        me.wake();
    });
    if started.is_ok() {
        static DUMP: wait::Reason<'_> = wait::Reason::plain("dump");
        cancel::mask(|| {
            wait::wait(&DUMP, None, |wait| {
                while !result.1.load(Acquire) {
                    let _ = wait.park();
                }
            });
        });
    }
    let dump = result.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Without another thread there is at least what others can see.
    dump.unwrap_or_else(|| assemble(&[], Vec::new(), Instant::now()))
}

/// As [`dump`], on a plain thread.
pub(super) fn gather() -> Dump {
    gather_within(request::PATIENCE)
}

/// As [`gather`]. A worker that has not come to its desk after this is left out.
pub(super) fn gather_within(patience: Duration) -> Dump {
    let start = Instant::now();
    let runtimes = runtimes();
    // What a worker had done when it was asked, in case that it does not answer.
    let beats = runtimes
        .iter()
        .map(|runtime| runtime.posts.iter().map(|post| post.board.resumes.get()).collect())
        .collect::<Vec<Vec<u64>>>();
    let answers = request::ask(&runtimes, patience);
    assemble(&runtimes, answers.into_iter().zip(beats).collect(), start)
}

/// The answers of a runtime's workers, and the heartbeats before.
type Answers = (Vec<Slot>, Vec<u64>);

fn assemble(runtimes: &[Arc<Shared>], answers: Vec<Answers>, start: Instant) -> Dump {
    let mut stacks = Book::default();
    let mut dump = Dump {
        runtimes: Vec::new(),
        stacks: Vec::new(),
        threads: blocked::list(),
        took: Duration::ZERO,
    };
    for (runtime, (slots, beats)) in runtimes.iter().zip(answers) {
        let workers = slots.into_iter().zip(beats).enumerate().map(|(index, (slot, beat))| {
            let mut worker = match slot {
                Slot::Done(answer) => answered(index, answer, &mut stacks),
                Slot::Gone => WorkerDump {
                    state: WorkerState::Ended,
                    live: 0,
                    ready: 0,
                    fresh: 0,
                    fibers: Vec::new(),
                },
                Slot::Open | Slot::Busy | Slot::Late => {
                    held(runtime, index, beat, start, &mut stacks)
                }
            };
            worker.fresh += runtime.fresh_of(index);
            worker
        });
        let workers = workers.collect();
        dump.runtimes.push(RuntimeDump {
            number: runtime.number,
            bound: runtime.home.is_some(),
            workers,
            tasks: task::sites(&runtime.posts),
        });
    }
    dump.stacks = stacks.list;
    dump.took = start.elapsed();
    dump
}

/// Stacks with names, each once.
#[derive(Default)]
struct Book {
    symbols: Symbols,
    numbers: HashMap<Vec<Frame>, usize>,
    list: Vec<Vec<Frame>>,
}

impl Book {
    fn number(&mut self, frames: Vec<Frame>) -> usize {
        *self.numbers.entry(frames).or_insert_with_key(|frames| {
            self.list.push(frames.clone());
            self.list.len() - 1
        })
    }
}

fn answered(index: usize, answer: Answer, stacks: &mut Book) -> WorkerDump {
    let numbers: Vec<usize> = answer
        .stacks
        .iter()
        .map(|ips| {
            let frames = stacks.symbols.suspended(ips);
            stacks.number(frames)
        })
        .collect();
    let fibers = answer.fibers.into_iter().map(|seen| FiberDump {
        id: seen.id,
        name: seen.name,
        state: if seen.ready { "ready" } else { "parked" },
        unwinding: seen.unwinding,
        cancelled: seen.cancelled,
        wait: seen.wait,
        since: seen.since.map(Duration::from_nanos),
        worker: index,
        site: seen.site,
        stack: numbers[seen.stack as usize],
    });
    let fibers: Vec<FiberDump> = fibers.collect();
    WorkerDump {
        state: WorkerState::Well { driver: answer.driver },
        live: fibers.len(),
        ready: answer.ready,
        fresh: answer.unstarted,
        fibers,
    }
}

/// A worker that did not answer: the fiber that holds it.
fn held(
    runtime: &Shared,
    index: usize,
    beat: u64,
    start: Instant,
    stacks: &mut Book,
) -> WorkerDump {
    let board = &runtime.posts[index].board;
    let now = board.resumes.get();
    let at_least = if now == beat { start.elapsed() } else { Duration::ZERO };
    let fibers = sample::take(board, now).map(|sample| {
        let frames = stacks.symbols.interrupted(&sample.ips);
        FiberDump {
            id: sample.id,
            name: sample.name,
            state: "running",
            unwinding: false,
            cancelled: false,
            wait: None,
            since: (now == beat).then_some(at_least),
            worker: index,
            site: sample.site,
            stack: stacks.number(frames),
        }
    });
    WorkerDump {
        state: WorkerState::Held { at_least },
        live: runtime.loads[index].live.load(Relaxed),
        ready: board.ready.get() as usize,
        fresh: 0,
        fibers: fibers.into_iter().collect(),
    }
}

/// Looks up the stack of an interrupted fiber, for the watchdog.
pub(super) fn frames_of(sample: &sample::Sample) -> Vec<Frame> {
    Symbols::default().interrupted(&sample.ips)
}
