//! Seeing what is stuck: what every fiber does, from outside, while it does it.
//!
//! ```text
//!   dump()      ──Request──▶ every worker ──visits──▶ each suspended fiber, and walks its stack
//!                               │ does not answer: it is held by one fiber
//!                               ▼
//!   watchdog    ──signal──▶ the worker's thread, wherever it is: Sample
//!   quiet       the last one to fall asleep sees that nobody is left who could wake anybody
//!   metrics()   reads each worker's Board, which the worker alone writes
//! ```
//!
//! Nothing of this costs a fiber more than a plain store for each resume.
//!
//! Reading order: `board` (what a worker shows at all times), `request` and `collect` (the dump),
//! `symbols` and `text` (what people see), `sample` and `watchdog`, `blocked` and `quiet`.

mod blocked;
mod board;
mod collect;
mod dump;
mod frames;
mod json;
mod metrics;
mod quiet;
mod request;
mod sample;
mod signal;
mod symbols;
mod text;
mod watchdog;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::shared::Shared;

pub use dump::{Dump, FiberDump, Frame, dump};
pub use metrics::{Metrics, RuntimeMetrics, WorkerMetrics, metrics};
pub use signal::dump_on_signal;

pub(crate) use blocked::{enter as thread_blocks, leave as thread_woken};
pub(crate) use board::Board;
pub(crate) use metrics::of as metrics_of;
pub(crate) use quiet::{Calm, Detection, Looks, set as set_detection};
pub(crate) use signal::{Format, listen};
pub(crate) use watchdog::Watchdog;

static RUNTIMES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Makes a runtime known. It is forgotten when it has ended.
pub(crate) fn register(shared: &Arc<Shared>) {
    let mut runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
    runtimes.retain(|runtime| runtime.strong_count() > 0);
    runtimes.push(Arc::downgrade(shared));
}

/// The runtimes that there are.
fn runtimes() -> Vec<Arc<Shared>> {
    let runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
    runtimes.iter().filter_map(Weak::upgrade).collect()
}
