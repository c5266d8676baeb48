//! How far a run has come: counters that everybody adds to, a line on a terminal that shows them, and the summary.
//!
//! The counters are single numbers that nothing else depends on, so `Relaxed` is enough; the summary is made after
//! the fibers that count have been joined.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::exit::say;
use crate::job::Block;
use crate::journal::Done;
use bast::JoinHandle;
use bast::time::Instant;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

/// How often the line is drawn.
const PERIOD: Duration = Duration::from_millis(200);

/// The counters.
#[derive(Debug, Default)]
pub struct Tally {
    /// Devices whose files have been listed.
    pub devices: AtomicU64,
    /// Devices without a file.
    pub empty: AtomicU64,
    /// Files in the output.
    pub files: AtomicU64,
    /// Files (and devices) that failed.
    pub failed: AtomicU64,
    /// Files that an earlier run has written.
    pub resumed: AtomicU64,
    /// Rows in the output.
    pub rows: AtomicU64,
    /// Bytes of the output, before it is compressed.
    pub bytes: AtomicU64,
    /// Files that were left to rrdtool by the reader `auto`.
    pub fallbacks: Arc<AtomicU64>,
}

impl Tally {
    /// A file is in the output.
    pub(crate) fn add_block(&self, block: &Block<'_>) {
        add(&self.files, 1);
        add(&self.rows, block.rows);
        add(&self.bytes, block.bytes.len() as u64);
    }

    /// What an earlier run has done.
    pub(crate) fn earlier(&self, done: &Done) {
        add(&self.resumed, done.files - done.failed);
        add(&self.failed, done.failed);
    }
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The line on the terminal; there is none if standard error is something else.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    tally: Arc<Tally>,
    begun: Instant,
    fiber: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to draw, unless `quiet`.
    #[must_use]
    pub fn new(tally: Arc<Tally>, devices: u64, quiet: bool) -> Progress {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(devices) };
        let template = "{elapsed_precise} [{bar:30}] {percent}%  {msg}  ETA {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let begun = Instant::now();
        let fiber = (!bar.is_hidden()).then(|| {
            let (bar, tally) = (bar.clone(), Arc::clone(&tally));
            bast::spawn(move || {
                loop {
                    bast::sleep(PERIOD);
                    bar.set_position(get(&tally.devices));
                    bar.set_message(line(&tally, begun.elapsed()));
                }
            })
        });
        Progress { bar, tally, begun, fiber }
    }

    /// Prints something above the line.
    pub fn tell(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }

    /// Ends the drawing, and says what came of it all.
    #[must_use]
    pub fn finish(self) -> Summary {
        let elapsed = self.begun.elapsed();
        Summary { tally: Arc::clone(&self.tally), elapsed }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(fiber) = self.fiber.take() {
            fiber.cancel();
            // It was cancelled, as it should be.
            let _ = fiber.join();
        }
        self.bar.finish_and_clear();
    }
}

fn line(tally: &Tally, elapsed: Duration) -> String {
    let (files, failed) = (get(&tally.files), get(&tally.failed));
    let mut text = format!("{} files  {} rows", HumanCount(files), HumanCount(get(&tally.rows)));
    text.push_str(&format!("  {}", rate(tally, elapsed)));
    if failed > 0 {
        text.push_str(&format!("  {failed} failed"));
    }
    text
}

fn rate(tally: &Tally, elapsed: Duration) -> String {
    let bytes = get(&tally.bytes) as f64 / elapsed.as_secs_f64().max(1e-9);
    format!("{:.1} MB/s", bytes / 1e6)
}

/// What a run came to, for people.
#[derive(Debug)]
pub struct Summary {
    tally: Arc<Tally>,
    elapsed: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &*self.tally;
        let count = |counter: &AtomicU64| HumanCount(get(counter));
        write!(f, "{} files, {} rows", count(&tally.files), count(&tally.rows))?;
        let bytes = get(&tally.bytes);
        if bytes > 0 {
            write!(f, ", {} in {:.2} s", HumanBytes(bytes), self.elapsed.as_secs_f64())?;
            write!(f, " ({})", rate(tally, self.elapsed))?;
        }
        for (counter, what) in [
            (&tally.failed, "failed"),
            (&tally.resumed, "files written by an earlier run"),
            (&tally.empty, "devices without a file"),
            (&*tally.fallbacks, "files read by rrdtool instead"),
        ] {
            if get(counter) > 0 {
                write!(f, "; {} {what}", count(counter))?;
            }
        }
        Ok(())
    }
}
