//! The patterns in direct style: in a fiber, and with nothing to wait for as a plain call.
//!
//! A plain call runs the same recursive function, so that its frames are the same: its slope is what a level
//! costs anyway.

use super::{Case, Mode, Pattern};
use crate::stats::Meter;
use bast::future::Wait as _;
use std::hint::black_box;
use std::time::Duration;

/// A wait; it gives the number of waits that it is, which is one.
trait Wait {
    fn wait() -> u64;
}

/// None at all.
struct Plain;
struct Quick;
struct Medium;
struct Slow;

impl Wait for Plain {
    fn wait() -> u64 {
        black_box(1)
    }
}

impl Wait for Quick {
    fn wait() -> u64 {
        std::future::ready(black_box(1)).wait()
    }
}

impl Wait for Medium {
    fn wait() -> u64 {
        bast::yield_now();
        1
    }
}

impl Wait for Slow {
    fn wait() -> u64 {
        bast::sleep(Duration::ZERO);
        1
    }
}

pub(super) fn plain(case: Case, meter: Meter) -> f64 {
    rounds::<Plain>(case, meter)
}

/// To be called in a fiber.
pub(super) fn fiber(case: Case, meter: Meter) -> f64 {
    match case.mode {
        Mode::Quick => rounds::<Quick>(case, meter),
        Mode::Medium => rounds::<Medium>(case, meter),
        Mode::Slow => rounds::<Slow>(case, meter),
    }
}

fn rounds<W: Wait>(case: Case, mut meter: Meter) -> f64 {
    let round = match case.pattern {
        Pattern::Basic => basic::<W>,
        Pattern::Recurse => recurse::<W>,
        Pattern::Recurse2 => recurse2::<W>,
    };
    while let Some(rounds) = meter.next() {
        for _ in 0..rounds {
            assert_eq!(round(black_box(case.n)), case.answer());
        }
    }
    meter.ns()
}

fn basic<W: Wait>(yields: u64) -> u64 {
    let mut waits = 0;
    for _ in 0..yields {
        waits += W::wait();
    }
    waits
}

fn recurse<W: Wait>(n: u64) -> u64 {
    if n == 0 {
        return bottom::<W>();
    }
    // Without the box the optimiser makes a loop of it.
    n + black_box(recurse::<W>(n - 1))
}

/// Apart, so that what the wait needs of the stack is not in every frame of `recurse`.
#[inline(never)]
fn bottom<W: Wait>() -> u64 {
    W::wait()
}

fn recurse2<W: Wait>(n: u64) -> u64 {
    let wait = W::wait();
    if n == 0 {
        return wait;
    }
    n + wait + black_box(recurse2::<W>(n - 1))
}
