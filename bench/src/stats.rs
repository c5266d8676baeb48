//! Medians, and the two ways of timing that every subject shares.
//!
//! ```text
//! Meter   the task that works also watches the clock:   chunk | chunk | chunk ...
//!         warm-up chunks (size adapts, thrown away) -> measured chunks -> median ns per step
//!
//! Gate    many tasks work, a thread outside watches the clock:
//!         0 warm up --> 1 --> 2 --> ... windows --> STOP
//!         a task that sees a new phase hands in its steps of the last one
//!         -> median over the windows of: length / steps of all tasks
//! ```
//!
//! Medians over many short stretches, because a stretch in which something else had the core is
//! then left out, and not averaged in.
//!
//! Memory ordering: `Gate::phase` is only a hint where to count, so its loads and stores are relaxed.
//! The totals are published by the `fetch_add(AcqRel)` on `done`, after the last adding to them, and
//! read after an acquire load of `done` has seen every task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The median; the mean of the middle two when there are two. `None` without samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mid = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[mid]),
        _ => Some((sorted[mid - 1] + sorted[mid]) / 2.0),
    }
}

/// The least sample. `None` without samples.
pub(crate) fn least(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().min_by(f64::total_cmp)
}

/// The greatest sample. `None` without samples.
pub(crate) fn most(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().max_by(f64::total_cmp)
}

/// How long one subject warms up and is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) warm: Duration,
    pub(crate) measure: Duration,
}

/// Hands out chunks of steps until the time is up; the reader of the clock is the task that works.
pub(crate) struct Meter {
    span: Span,
    chunk: u64,
    fixed: bool,
    warming: bool,
    phase_start: Instant,
    chunk_start: Option<Instant>,
    samples: Vec<f64>,
}

impl Meter {
    /// Chunks of about a millisecond, so that reading the clock costs nothing.
    pub(crate) fn new(span: Span) -> Meter {
        Meter {
            span,
            chunk: 1,
            fixed: false,
            warming: true,
            phase_start: Instant::now(),
            chunk_start: None,
            samples: Vec::new(),
        }
    }

    /// Chunks of exactly `chunk` steps.
    pub(crate) fn fixed(span: Span, chunk: u64) -> Meter {
        Meter { chunk, fixed: true, ..Meter::new(span) }
    }

    /// Ends the chunk before and gives the number of steps of the next one, until enough is known.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let now = Instant::now();
        if let Some(start) = self.chunk_start {
            let took = now - start;
            if self.warming {
                if !self.fixed && took < Duration::from_micros(700) {
                    self.chunk *= 2;
                } else if now - self.phase_start >= self.span.warm {
                    self.warming = false;
                    self.phase_start = now;
                }
            } else {
                self.samples.push(took.as_nanos() as f64 / self.chunk as f64);
                if now - self.phase_start >= self.span.measure {
                    return None;
                }
            }
        }
        self.chunk_start = Some(Instant::now());
        Some(self.chunk)
    }

    /// Begins the chunk anew: what has been done since `next` was preparation.
    pub(crate) fn restart(&mut self) {
        self.chunk_start = Some(Instant::now());
    }

    /// Median nanoseconds per step over the measured chunks.
    pub(crate) fn ns(&self) -> f64 {
        median(&self.samples).expect("a meter runs until it has samples")
    }
}

/// The phase in which tasks end.
const STOP: usize = usize::MAX;
/// The most windows of a gate.
const WINDOWS: usize = 500;

/// Lets many tasks run together and counts what they do in windows of time.
pub(crate) struct Gate {
    phase: AtomicUsize,
    started: AtomicUsize,
    done: AtomicUsize,
    /// Steps of all tasks in each phase.
    totals: Vec<AtomicU64>,
}

/// The steps of one task in the phase that it saw last.
#[derive(Default)]
pub(crate) struct Count {
    phase: usize,
    steps: u64,
}

impl Gate {
    pub(crate) fn new() -> Arc<Gate> {
        Arc::new(Gate {
            phase: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            totals: (0..=WINDOWS).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// A task says that it has begun.
    pub(crate) fn enter(&self) -> Count {
        self.started.fetch_add(1, Ordering::Relaxed);
        Count::default()
    }

    /// After each step: counts it; `false` means stop.
    #[inline]
    pub(crate) fn step(&self, count: &mut Count) -> bool {
        let phase = self.phase.load(Ordering::Relaxed);
        if phase == count.phase {
            count.steps += 1;
            return true;
        }
        self.turn(count, phase)
    }

    /// Hands in the steps of the phase before.
    #[cold]
    fn turn(&self, count: &mut Count, phase: usize) -> bool {
        self.totals[count.phase].fetch_add(count.steps, Ordering::Relaxed);
        *count = Count { phase, steps: 1 };
        phase != STOP
    }

    /// Stops the tasks of a gate that nobody watches.
    pub(crate) fn stop(&self) {
        self.phase.store(STOP, Ordering::Relaxed);
    }

    /// A task ends, after `step` has said so.
    pub(crate) fn leave(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// Starts the thread that opens and closes the windows; it gives the ns per step.
    pub(crate) fn watch(self: &Arc<Gate>, tasks: usize, span: Span) -> thread::JoinHandle<f64> {
        let gate = Arc::clone(self);
        thread::spawn(move || {
            while gate.started.load(Ordering::Relaxed) < tasks {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(span.warm);
            // Many tasks get longer windows, so that handing in costs little of them.
            let length = Duration::from_millis(2).max(Duration::from_micros(tasks as u64));
            let windows = (span.measure.as_micros() / length.as_micros()) as usize;
            let windows = windows.clamp(5, WINDOWS);
            let mut stamps = Vec::with_capacity(windows + 1);
            for phase in (1..=windows).chain([STOP]) {
                stamps.push(Instant::now());
                gate.phase.store(phase, Ordering::Relaxed);
                if phase != STOP {
                    thread::sleep(length);
                }
            }
            while gate.done.load(Ordering::Acquire) < tasks {
                thread::sleep(Duration::from_millis(1));
            }
            let samples: Vec<_> = stamps
                .windows(2)
                .zip(&gate.totals[1..])
                .map(|(w, total)| {
                    let steps = total.load(Ordering::Relaxed).max(1);
                    (w[1] - w[0]).as_nanos() as f64 / steps as f64
                })
                .collect();
            median(&samples).expect("there are windows")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Span = Span { warm: Duration::from_millis(5), measure: Duration::from_millis(20) };

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(least(&[3.0, 1.0, 2.0]), Some(1.0));
        assert_eq!(least(&[]), None);
        assert_eq!(most(&[3.0, 1.0, 2.0]), Some(3.0));
        assert_eq!(most(&[]), None);
    }

    #[test]
    fn a_meter_times_a_known_delay() {
        let mut meter = Meter::new(SHORT);
        while let Some(n) = meter.next() {
            for _ in 0..n {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let ms = meter.ns() / 1e6;
        assert!((1.0..20.0).contains(&ms), "{ms} ms for a sleep of 1 ms");
    }

    #[test]
    fn a_fixed_meter_keeps_its_chunk() {
        let mut meter = Meter::fixed(SHORT, 77);
        while let Some(n) = meter.next() {
            assert_eq!(n, 77);
        }
        assert!(!meter.samples.is_empty());
    }

    #[test]
    fn a_gate_counts_every_step_in_its_phase() {
        let gate = Gate::new();
        let watcher = gate.watch(2, SHORT);
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || {
                    let mut count = gate.enter();
                    let mut all = 0u64;
                    loop {
                        thread::sleep(Duration::from_micros(200));
                        all += 1;
                        if !gate.step(&mut count) {
                            break;
                        }
                    }
                    gate.leave();
                    all
                })
            })
            .collect();
        let all: u64 = tasks.into_iter().map(|t| t.join().unwrap()).sum();
        // Two sleepers of at least 200 us each: at least 100 us a step.
        assert!(watcher.join().unwrap() >= 0.1e6);
        let counted: u64 = gate.totals.iter().map(|t| t.load(Ordering::Relaxed)).sum();
        // The step that sees the stop is in no phase.
        assert_eq!(counted, all - 2);
        assert!(gate.totals[0].load(Ordering::Relaxed) > 0, "the warm-up is counted apart");
    }
}
