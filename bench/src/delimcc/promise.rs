//! The patterns with promises, as the document has them for Lwt.

use super::{Case, Mode, Pattern};
use crate::stats::Meter;
use bast::promise::{Promise, pause, start};
use std::hint::black_box;
use std::time::Duration;

/// A wait.
trait Wait: 'static {
    fn wait() -> Promise<()>;
}

struct Quick;
struct Medium;
struct Slow;

impl Wait for Quick {
    fn wait() -> Promise<()> {
        black_box(Promise::ready(()))
    }
}

impl Wait for Medium {
    fn wait() -> Promise<()> {
        pause()
    }
}

impl Wait for Slow {
    fn wait() -> Promise<()> {
        start(|| bast::sleep(Duration::ZERO))
    }
}

/// To be called in a fiber, which waits for the promise of each round.
pub(super) fn fiber(case: Case, meter: Meter) -> f64 {
    match case.mode {
        Mode::Quick => rounds::<Quick>(case, meter),
        Mode::Medium => rounds::<Medium>(case, meter),
        Mode::Slow => rounds::<Slow>(case, meter),
    }
}

fn rounds<W: Wait>(case: Case, mut meter: Meter) -> f64 {
    while let Some(rounds) = meter.next() {
        for _ in 0..rounds {
            let n = black_box(case.n);
            let round = match case.pattern {
                Pattern::Basic => basic::<W>(0, n),
                Pattern::Recurse => recurse::<W>(n),
                Pattern::Recurse2 => recurse2::<W>(n),
            };
            assert_eq!(round.wait().expect("nothing fails"), case.answer());
        }
    }
    meter.ns()
}

fn basic<W: Wait>(waits: u64, yields: u64) -> Promise<u64> {
    if waits == yields {
        return Promise::ready(waits);
    }
    W::wait().and_then(move |()| basic::<W>(waits + 1, yields))
}

fn recurse<W: Wait>(n: u64) -> Promise<u64> {
    if n == 0 {
        return W::wait().map(|()| 1);
    }
    recurse::<W>(n - 1).map(move |below| n + below)
}

fn recurse2<W: Wait>(n: u64) -> Promise<u64> {
    W::wait().and_then(move |()| {
        if n == 0 {
            return Promise::ready(1);
        }
        recurse2::<W>(n - 1).map(move |below| n + 1 + below)
    })
}
