//! One race: a victim performs an operation, which is made to complete and asked to end.
//!
//! ```text
//!   lane     spawn victim ── delay ── complete ── delay ── interrupt ── join: Some(result) or None
//!                                        └──── in either order ────┘
//!   victim   op ─── or timeout(span, op) ─── or interruptible(flag, op)
//! ```

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bast_rt::{Builder, Cancelled, Fiber, interruptible, sleep, spawn, timeout, wait, yield_now};

use crate::lane::Lane;

/// Longer than anything takes that has not been lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Marsaglia, "Xorshift RNGs" (2003).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// How the victim is asked to end.
enum Ask {
    Cancel(Fiber),
    /// By itself, when its time is up.
    Time,
    Token(Arc<AtomicBool>, Arc<OnceLock<wait::Unparker>>),
}

impl Ask {
    fn make(self) {
        match self {
            Ask::Cancel(fiber) => fiber.cancel(),
            Ask::Time => {}
            Ask::Token(flag, who) => {
                flag.store(true, SeqCst);
                loop {
                    match who.get() {
                        Some(victim) => return victim.interrupt(),
                        None => yield_now(),
                    }
                }
            }
        }
    }
}

/// Races `op` against its end; `complete` makes it complete. `None` if it was interrupted.
pub(crate) fn race<R: Send + 'static>(
    lane: &mut Lane,
    op: impl FnOnce() -> R + Send + 'static,
    complete: impl FnOnce(&mut Lane),
) -> Option<R> {
    let way = lane.random.below(3);
    let span = Duration::from_nanos(lane.random.below(lane.scale()));
    let (flag, who) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
    let (theirs, me) = (Arc::clone(&flag), Arc::clone(&who));
    let body = move || match way {
        0 => Some(op()),
        1 => timeout(span, op).ok(),
        _ => {
            let _ = me.set(wait::me());
            interruptible(&theirs, op)
        }
    };
    let victim = match lane.random.below(2) {
        0 => spawn(body),
        _ => lane.somewhere().spawn(body).expect("the worker exists"),
    };
    let ask = match way {
        0 => Ask::Cancel(victim.fiber()),
        1 => Ask::Time,
        _ => Ask::Token(flag, who),
    };
    delay(lane);
    // From here, or from a fiber on any worker, which then races in earnest.
    let far = lane.random.below(3) == 0;
    let mut ask = Some(ask);
    let mut asker = None;
    let mut interrupt = |lane: &mut Lane| {
        let ask = ask.take().expect("it is asked once");
        if far {
            asker = Some(lane.somewhere().spawn(move || ask.make()).expect("the worker exists"));
        } else {
            ask.make();
        }
    };
    if lane.random.below(2) == 0 {
        complete(lane);
        delay(lane);
        interrupt(lane);
    } else {
        interrupt(lane);
        delay(lane);
        complete(lane);
    }
    if let Some(asker) = asker {
        asker.join().expect("an asker only asks");
    }
    match victim.join() {
        Ok(result) => {
            assert!(result.is_some() || way != 0, "a cancelled fiber does not return");
            result.filter(|_| !(lane.canary && lane.random.below(16) == 0))
        }
        Err(payload) if payload.is::<Cancelled>() => {
            assert_eq!(way, 0, "only a cancellation ends the whole fiber");
            None
        }
        Err(payload) => resume_unwind(payload),
    }
}

/// Up to some microseconds, in one of several ways.
fn delay(lane: &mut Lane) {
    match lane.random.below(8) {
        0 | 1 => {}
        2 => sleep(Duration::from_nanos(lane.random.below(lane.scale()))),
        3 | 4 if lane.real => {
            let (begin, span) = (Instant::now(), Duration::from_nanos(lane.random.below(3_000)));
            while begin.elapsed() < span {
                std::hint::spin_loop();
            }
        }
        // Only a sleep takes time on the simulator's clock.
        3 | 4 => sleep(Duration::from_nanos(lane.random.below(lane.scale()))),
        _ => (0..lane.random.below(4)).for_each(|_| yield_now()),
    }
}

impl Lane {
    /// How long (ns) what is under way may take: the simulator's network is slow.
    fn scale(&self) -> u64 {
        if self.real { 40_000 } else { 2_000_000 }
    }

    /// For a fiber on some worker.
    fn somewhere(&mut self) -> Builder {
        let worker = self.random.below(self.workers as u64) as usize;
        Builder::new().worker(worker)
    }
}
