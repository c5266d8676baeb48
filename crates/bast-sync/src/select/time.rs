//! Moments as events.

use std::cell::Cell;
use std::time::Duration;

use bast_rt::Instant;

use super::arm::{Arm, Event, Place};

/// Completes when `duration` has passed since the select began to wait. [`Duration::ZERO`] completes at once, and one that
/// reaches beyond the clock's range never.
///
/// It costs nothing as long as another arm can complete without a wait.
pub fn after(duration: Duration) -> After {
    After { duration, begun: Cell::new(false), at: Cell::new(None) }
}

/// Completes at `instant`; one that has passed completes at once.
pub fn at(instant: Instant) -> At {
    At { instant }
}

/// See [`after`].
#[derive(Debug)]
pub struct After {
    duration: Duration,
    begun: Cell<bool>,
    at: Cell<Option<Instant>>,
}

impl Arm for After {
    fn attempt(&self) -> bool {
        self.duration.is_zero() || self.check()
    }

    unsafe fn enlist(&self, _: &Place<'_>) -> bool {
        true
    }

    fn delist(&self) {}

    fn deadline(&self) -> Option<Instant> {
        if !self.begun.replace(true) {
            self.at.set(Instant::now().checked_add(self.duration));
        }
        self.at.get()
    }

    fn check(&self) -> bool {
        self.at.get().is_some_and(|at| at <= Instant::now())
    }
}

impl Event for After {
    type Output = ();

    fn finish(self) {}
}

/// See [`at`].
#[derive(Debug)]
pub struct At {
    instant: Instant,
}

impl Arm for At {
    fn attempt(&self) -> bool {
        self.check()
    }

    unsafe fn enlist(&self, _: &Place<'_>) -> bool {
        true
    }

    fn delist(&self) {}

    fn deadline(&self) -> Option<Instant> {
        Some(self.instant)
    }

    fn check(&self) -> bool {
        self.instant <= Instant::now()
    }
}

impl Event for At {
    type Output = ();

    fn finish(self) {}
}
