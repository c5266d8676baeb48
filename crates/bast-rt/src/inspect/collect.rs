//! A worker's answer: it walks its fibers and has each take down its own stack.
//!
//! ```text
//!   worker (its loop; no fiber runs)             a suspended fiber
//!   probe = &mut Probe ──resume────────────────▶ switch_out: suspend() has returned
//!                                                probe is set: capture, suspend again
//!   reads the frames  ◀──────────────────────────┘
//!   probe = null                                  … still where it was, in the same suspension
//! ```
//!
//! Why a fiber does not notice. Every suspension of a fiber is the one `suspend()` in `Worker::switch_out`,
//! and the test of `probe` is what comes next: nothing has been noted, undone or looked at before it. The
//! probe touches neither the state of the fiber nor what it waits for; its record is neither made ready nor
//! taken from a queue, and the worker's `current` stays empty, so that nothing that runs meanwhile could
//! take itself for the fiber. (Contract rt 1: its own worker resumes it, when no fiber runs.) A fiber that
//! is suspended in a destructor while it unwinds has all frames from there to its root in order, as the
//! unwinder has left those below the destructor's; taking them down reads them only, and does not suspend,
//! panic or allocate. What `switch_out` knows of its unwinding is passed on.
//!
//! It takes some 3 KiB of the fiber's stack. One that has less than [`ROOM`] left is shown without frames.

use std::panic::Location;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use bast_io::Record;

use super::frames::{Frames, Stacks};
use crate::fiber::{Header, State};
use crate::wait::Reason;
use crate::worker::{COARSE, Worker};

/// What the unwinder may need, generously.
const ROOM: usize = 8 << 10;

/// What a fiber fills in.
pub(crate) struct Probe {
    frames: Frames,
    unwinding: bool,
}

/// What a worker knows of its fibers.
pub(super) struct Answer {
    pub(super) fibers: Vec<Seen>,
    pub(super) stacks: Vec<Box<[usize]>>,
    /// Fibers in the ready queue, and those of them that have not started.
    pub(super) ready: usize,
    pub(super) unstarted: usize,
    pub(super) driver: &'static str,
}

/// One started fiber.
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) name: Option<Box<str>>,
    pub(super) site: &'static Location<'static>,
    pub(super) ready: bool,
    pub(super) unwinding: bool,
    pub(super) cancelled: bool,
    pub(super) wait: Option<Waiting>,
    /// How long it has been parked, in nanoseconds.
    pub(super) since: Option<u64>,
    pub(super) stack: u32,
}

/// What it waits for.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) what: &'static str,
    pub(super) object: usize,
    pub(super) descriptor: Option<i32>,
    /// Who could end the wait; 0: nobody is known.
    pub(super) holder: u64,
}

impl Waiting {
    /// # Safety
    /// `reason` is there.
    pub(super) unsafe fn of(reason: *const Reason<'_>) -> Option<Waiting> {
        // SAFETY: the caller's promise, or null.
        let reason = unsafe { reason.as_ref() }?;
        Some(Waiting {
            what: reason.what,
            object: reason.object.addr(),
            descriptor: None,
            holder: reason.holder.map_or(0, |holder| holder.load(Relaxed)),
        })
    }
}

impl Worker {
    /// Answers what is at the desk. Called by the loop, when no fiber runs.
    #[cold]
    #[inline(never)]
    pub(crate) fn answer(&self) {
        let board = &self.post.board;
        for request in board.take() {
            if request.take(board) {
                request.answer(board, self.describe());
            }
        }
    }

    fn describe(&self) -> Answer {
        let mut fibers = Vec::with_capacity(self.live());
        let mut stacks = Stacks::default();
        let mut probe = Probe { frames: Frames::new(), unwinding: false };
        let now = self.coarse.get();
        let mut next = self.first_fiber();
        // SAFETY: fibers on the list are alive, and nothing here ends one or changes a link.
        while let Some(header) = unsafe { next.as_ref() } {
            next = header.next.get();
            self.look_at(header, &mut probe);
            let parked = header.state.get() == State::Parked;
            fibers.push(Seen {
                id: header.id,
                name: header.meta.as_ref().and_then(|meta| meta.name.clone()),
                site: header.site,
                ready: !parked,
                unwinding: probe.unwinding,
                cancelled: header.requests.cancel.get() && !header.requests.raised.get(),
                wait: waiting(header),
                since: parked.then(|| u64::from(now.wrapping_sub(header.since.get())) << COARSE),
                stack: stacks.number(probe.frames.all()),
            });
        }
        let (ready, unstarted) = self.queued();
        Answer {
            fibers,
            stacks: stacks.into_list(),
            ready,
            unstarted,
            driver: self.driver().name(),
        }
    }

    fn look_at(&self, header: &Header, probe: &mut Probe) {
        let probe = ptr::from_mut(probe);
        self.probe.set(probe);
        // SAFETY: coro 2: started, suspended, and on this thread. It comes back at once (`show`).
        unsafe { (*header.context.get()).assume_init_ref() }.resume();
        self.probe.set(ptr::null_mut());
    }

    /// The fiber's side: it has been resumed only to be looked at.
    #[cold]
    #[inline(never)]
    pub(crate) fn show(&self, header: &Header, unwinding: bool) {
        // SAFETY: while it is set the worker waits for us, and does not touch it.
        while let Some(probe) = unsafe { self.probe.get().as_mut() } {
            probe.unwinding = unwinding;
            // SAFETY: started, so initialised; this runs on its stack.
            let context = unsafe { (*header.context.get()).assume_init_ref() };
            let here = 0u8;
            if context.room_below(&raw const here) < ROOM {
                probe.frames.clear();
            } else {
                probe.frames.capture();
            }
            // SAFETY: as in `switch_out`.
            unsafe { &*header.suspender.get() }.suspend();
        }
    }
}

/// What a suspended fiber waits for.
fn waiting(header: &Header) -> Option<Waiting> {
    if let Some(record) = header.blocked_on.get() {
        // SAFETY: the record is on the fiber's stack until `blocked_on` is cleared, by this thread.
        let op = unsafe { Record::look(record) };
        return Some(Waiting {
            what: op.name(),
            object: 0,
            descriptor: op.descriptor(),
            holder: 0,
        });
    }
    // SAFETY: a reason is on the fiber's stack, or static, until the end of the wait, which unsets it.
    unsafe { Waiting::of(header.waiting.get()) }
}
