//! Where a worker is now, although it does not come back to its loop: its thread is interrupted, and takes
//! down its own stack.
//!
//! ```text
//!   IDLE ──ask──▶ ASKED ──the signal's handler──▶ WRITING ──▶ DONE ──taken──▶ IDLE
//!                   └────────no answer: taken back────────────────────────────▲
//! ```
//!
//! There is one place for a sample in the process, under a lock of those who ask. `worker` is written before
//! ASKED (Release), and the handler acquires that; what the handler writes is released by DONE and acquired
//! by the one who asked. A handler that comes too late finds IDLE, and does nothing. One that is stopped while it writes
//! is given up on; whoever asks after it has come to its end turns DONE into IDLE.
//!
//! The handler runs on the worker's thread between two instructions of whatever it does. It reads the worker
//! (cells of the same thread), copies the fiber's name, and walks the stack. It does not allocate, lock or
//! panic. Two things could be half done just then:
//! * The fiber is about to be switched out or in, so that the stack pointer is not what the unwinder's tables
//!   say. On the way out its state is no longer Running; on the way in the heartbeat has just gone up, and
//!   so is not what the one who asks has seen. Then nothing is walked.
//! * The fiber ends. Its state is Ended before the stack is left (`fiber::run`), and `current` is cleared
//!   before its record can go.

use std::cell::UnsafeCell;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bast_io::probe;

use super::board::Board;
use super::frames::Frames;
use crate::fiber::State;
use crate::tls;
use crate::worker::Worker;

const IDLE: u8 = 0;
const ASKED: u8 = 1;
const WRITING: u8 = 2;
const DONE: u8 = 3;

/// How long a signal may take to arrive: its thread may wait for a processor.
const PATIENCE: Duration = Duration::from_secs(1);
const NAME: usize = 64;

struct Place {
    state: AtomicU8,
    worker: AtomicPtr<Board>,
    /// The heartbeat at which a stack may be walked.
    resumes: AtomicU64,
    found: UnsafeCell<Found>,
}

// SAFETY: `found` belongs to whoever the state says: the handler while WRITING, else the holder of ASKING.
unsafe impl Sync for Place {}

struct Found {
    id: u64,
    site: Option<&'static Location<'static>>,
    name: [u8; NAME],
    name_len: usize,
    pc: usize,
    frames: Frames,
}

static PLACE: Place = Place {
    state: AtomicU8::new(IDLE),
    worker: AtomicPtr::new(ptr::null_mut()),
    resumes: AtomicU64::new(0),
    found: UnsafeCell::new(Found {
        id: 0,
        site: None,
        name: [0; NAME],
        name_len: 0,
        pc: 0,
        frames: Frames::new(),
    }),
};

static ASKING: Mutex<()> = Mutex::new(());

/// A fiber that was interrupted while it ran.
pub(super) struct Sample {
    pub(super) id: u64,
    pub(super) name: Option<Box<str>>,
    pub(super) site: &'static Location<'static>,
    /// Instruction pointers, the first one exact.
    pub(super) ips: Vec<usize>,
}

/// What runs on a worker, if a fiber does, and the worker's heartbeat is (still) `resumes`.
pub(super) fn take(board: &Board, resumes: u64) -> Option<Sample> {
    let _one_at_a_time = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    // A handler that was given up on may be writing, or have written since.
    let _ = PLACE.state.compare_exchange(DONE, IDLE, AcqRel, Relaxed);
    if PLACE.state.load(Acquire) != IDLE {
        return None;
    }
    // The unwinder's own first use may take locks: not in a handler.
    Frames::new().capture();
    probe::install(on_interrupt).ok()?;
    PLACE.worker.store(ptr::from_ref(board).cast_mut(), Relaxed);
    PLACE.resumes.store(resumes, Relaxed);
    PLACE.state.store(ASKED, Release);
    let start = Instant::now();
    let thread = board.thread.load(Relaxed);
    let sent = thread != 0 && probe::interrupt(thread);
    while PLACE.state.load(Acquire) != DONE {
        let over = !sent || start.elapsed() > PATIENCE;
        if over && PLACE.state.compare_exchange(ASKED, IDLE, AcqRel, Acquire).is_ok() {
            return None;
        }
        if start.elapsed() > 10 * PATIENCE {
            return None;
        }
        thread::sleep(Duration::from_micros(200));
    }
    // SAFETY: DONE: the handler has left it to us.
    let found = unsafe { &*PLACE.found.get() };
    let sample = found.site.map(|site| Sample {
        id: found.id,
        name: (found.name_len > 0)
            .then(|| String::from_utf8_lossy(&found.name[..found.name_len]).into()),
        site,
        ips: found.frames.from(&found.pc).to_vec(),
    });
    PLACE.state.store(IDLE, Release);
    sample
}

/// Runs in the signal's handler.
fn on_interrupt(pc: usize) -> bool {
    let Some(worker) = tls::worker() else { return false };
    if PLACE.state.load(Acquire) != ASKED
        || !ptr::eq(PLACE.worker.load(Relaxed), &raw const worker.post.board)
        || PLACE.state.compare_exchange(ASKED, WRITING, AcqRel, Acquire).is_err()
    {
        return false;
    }
    // SAFETY: WRITING: ours.
    let found = unsafe { &mut *PLACE.found.get() };
    describe(worker, pc, found);
    PLACE.state.store(DONE, Release);
    true
}

fn describe(worker: &Worker, pc: usize, found: &mut Found) {
    found.site = None;
    found.frames.clear();
    let Some(fiber) = worker.current() else { return };
    // SAFETY: the current fiber is alive (see the head of this file), and this is its thread.
    let header = unsafe { fiber.as_ref() };
    let steady = worker.post.board.resumes.get() == PLACE.resumes.load(Relaxed);
    if header.state.get() != State::Running || !steady {
        return;
    }
    found.id = header.id;
    found.site = Some(header.site);
    found.pc = pc;
    let name = header.meta.as_ref().and_then(|meta| meta.name.as_deref()).unwrap_or("").as_bytes();
    found.name_len = name.len().min(NAME);
    found.name[..found.name_len].copy_from_slice(&name[..found.name_len]);
    found.frames.capture();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_handler_has_left_that_was_given_up_on_is_cleared() {
        PLACE.state.store(DONE, Release);
        assert!(take(&Board::default(), 0).is_none());
        assert_eq!(PLACE.state.load(Acquire), IDLE);
    }
}
