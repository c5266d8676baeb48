//! Watching the inbox for a moment before going to sleep, where that pays.
//!
//! Fibers on two workers that hand something to and fro leave each worker without work for less than a microsecond
//! at a time. To sleep then costs both sides a system call, and the next hand-over the time that the
//! kernel takes to run a thread again: 5 µs on the same core, 30 µs and more on another. That is the
//! convoy of every lock with hand-off in strict order, and no policy of the lock can mend it but giving
//! up the order.
//!
//! The kernel likes to bring the two threads to one core, because each wakes the other. There the one that
//! is woken at once takes the core from the one that wakes it: a full channel with room for 128 messages
//! then moves a few with each switch. So between looks the worker lets others have its core: the other
//! side goes on until it has nothing to do, and finds the first awake. If the core comes back late the
//! attempt was vain: somebody else has taken it.
//!
//! So a worker watches its inbox for [`MOMENT`] first, which is less than what the sleep would cost, but only where
//! that has been of use: each vain attempt doubles the number of sleeps until the next one, up to
//! [`SELDOM`], and each success halves it. A worker that waits for I/O or timers, or shares its core with
//! the other side, spends some 20 ns a sleep on this.
//!
//! No wake depends on it. It is before the worker goes on the idle list and before the driver's waker is told
//! that it sleeps, so for the others it is a worker that still runs; what it overlooks the second look
//! in `idle` and the waker's word find, as always. Completions wait for a moment at most, or for
//! [`IN_A_ROW`] successes, after which the driver is polled (rt 4); so do new fibers of a worker that is held.

use std::cell::Cell;
use std::time::Duration;

use bast_io::Wait;

use super::Worker;

/// How long (ns) it watches.
const MOMENT: u64 = 20_000;
/// Looks before it gives up its core and reads the clock.
const LOOKS: u32 = 16;
/// At least one attempt in so many sleeps.
const SELDOM: u32 = 1024;
/// Successes after which the driver is polled.
const IN_A_ROW: u32 = 16;

/// What a worker remembers of its attempts.
pub(super) struct Linger {
    /// Sleeps to come without an attempt.
    skip: Cell<u32>,
    /// What `skip` will be after the next vain one.
    backoff: Cell<u32>,
    in_a_row: Cell<u32>,
}

impl Linger {
    pub(super) fn new() -> Linger {
        Linger { skip: Cell::new(0), backoff: Cell::new(1), in_a_row: Cell::new(0) }
    }

    /// Whether to try this time.
    fn is_worthwhile(&self) -> bool {
        match self.skip.get() {
            0 => true,
            left => {
                self.skip.set(left - 1);
                false
            }
        }
    }

    fn learn(&self, success: bool) {
        let backoff = self.backoff.get();
        if success {
            self.backoff.set((backoff / 2).max(1));
        } else {
            self.skip.set(backoff);
            self.backoff.set((backoff * 2).min(SELDOM));
        }
    }
}

impl Worker {
    fn has_post(&self) -> bool {
        !self.post.inbox.is_empty() || self.post.tasks.has_mail()
    }

    /// Watches the inbox; true if there is something to run.
    pub(super) fn linger(&self) -> bool {
        let linger = &self.linger;
        let near = |wait| matches!(wait, Wait::AtMost(left) if left < Duration::from_nanos(MOMENT));
        if !linger.is_worthwhile() || near(self.patience()) {
            return false;
        }
        if linger.in_a_row.get() == IN_A_ROW {
            linger.in_a_row.set(0);
            self.poll(Wait::No);
            // That may have used up a wake: the loop looks at all that one can be for.
            return true;
        }
        let end = self.driver().now() + MOMENT;
        let in_time = loop {
            if (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                self.has_post()
            }) {
                // Later than that the thread has been off its core, where perhaps the other side was
                // meanwhile: this was no use.
                break self.driver().now() < end;
            }
            if self.shared.any_work() {
                return false;
            }
            std::thread::yield_now();
            if self.driver().now() >= end {
                break false;
            }
        };
        linger.learn(in_time);
        linger.in_a_row.set(if in_time { linger.in_a_row.get() + 1 } else { 0 });
        self.has_post()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vain_attempts_become_rare_and_successes_bring_them_back() {
        let linger = Linger::new();
        let tried = |sleeps: u32, success: bool| {
            (0..sleeps)
                .filter(|_| linger.is_worthwhile().then(|| linger.learn(success)).is_some())
                .count()
        };
        assert!(tried(2048, false) <= 12);
        assert!((9..=11).contains(&tried(10 * (SELDOM + 1), false)));
        // The first success may be far away; from then on each one is tried.
        let now = tried(SELDOM + 100, true);
        assert!(now >= 100, "{now}");
        assert_eq!(tried(100, true), 100);
        // One that fails after many that did not costs next to nothing.
        assert_eq!(tried(2, false), 1);
        assert!(tried(100, true) >= 99);
    }
}
