//! The watchdog: a thread that reports a fiber which holds its worker for too long, and where it is.
//!
//! ```text
//!   each tick, for each worker:
//!     heartbeat changed, or the worker sleeps ──▶ begin anew
//!     else held for `limit` ──▶ interrupt it (`sample`), report; again after twice, four times, … as long
//! ```
//!
//! The heartbeat is the count of resumes, so it costs a worker one plain store for each. Time is what the
//! clock says: a worker whose thread gets no processor looks as if it were held.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::sample::{self, Sample};
use super::symbols::{self, Frame};
use super::{dump, quiet, text};
use crate::shared::Shared;

/// The thread of one runtime; dropping this ends it.
pub(crate) struct Watchdog {
    leash: Arc<Leash>,
}

#[derive(Default)]
struct Leash {
    gone: Mutex<bool>,
    changed: Condvar,
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.leash.gone.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.leash.changed.notify_all();
    }
}

/// What is known of one worker.
struct Watched {
    resumes: u64,
    since: Instant,
    next: Duration,
}

impl Watchdog {
    /// Begins to watch a runtime's workers.
    pub(crate) fn start(runtime: &Arc<Shared>, limit: Duration) -> std::io::Result<Watchdog> {
        let leash = Arc::new(Leash::default());
        let end = Arc::clone(&leash);
        let runtime = Arc::downgrade(runtime);
        quiet::service("bast-watchdog", move || watch(&runtime, limit, &end))?;
        Ok(Watchdog { leash })
    }
}

fn watch(runtime: &Weak<Shared>, limit: Duration, leash: &Leash) {
    let tick = (limit / 4).clamp(Duration::from_micros(500), Duration::from_secs(1));
    // Reading the program's debug information takes long enough for a hog to be gone.
    symbols::warm();
    let mut workers: Vec<Watched> = Vec::new();
    loop {
        let gone = leash.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = leash.changed.wait_timeout_while(gone, tick, |gone| !*gone);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
        let Some(runtime) = runtime.upgrade() else { return };
        let now = Instant::now();
        for (index, post) in runtime.posts.iter().enumerate() {
            let board = &post.board;
            let resumes = board.resumes.get();
            if workers.len() == index {
                workers.push(Watched { resumes, since: now, next: limit });
            }
            let watched = &mut workers[index];
            if watched.resumes != resumes || board.asleep.load(Relaxed) {
                *watched = Watched { resumes, since: now, next: limit };
                continue;
            }
            let held = now.saturating_duration_since(watched.since);
            if held < watched.next {
                continue;
            }
            match sample::take(board, resumes) {
                Some(sample) => {
                    eprint!("{}", report(runtime.number, index, &sample, held));
                    watched.next = held * 2;
                }
                // Nothing runs there, or it has moved on just now.
                None => *watched = Watched { resumes, since: now, next: limit },
            }
        }
    }
}

fn report(runtime: u64, worker: usize, sample: &Sample, held: Duration) -> String {
    let frames = dump::frames_of(sample);
    let at = symbols::own_line(&frames).or(frames.first()).and_then(Frame::place);
    let mut text = format!(
        "bast: {} has held worker {worker} of runtime {runtime} for {}{}\n    spawned at {}\n",
        text::who(sample.id, sample.name.as_deref()),
        text::time(held),
        at.map(|place| format!(", at {place}")).unwrap_or_default(),
        sample.site
    );
    if let Some((call, instead)) = symbols::blocking_call(&frames) {
        let _ = writeln!(
            text,
            "    {call} blocks the worker's thread, and with it all fibers that live there: \
             use {instead}"
        );
    }
    let _ = text::backtrace(&mut text, &frames);
    text
}
