//! A worker's answer: it walks its fibers and takes down the stack of each, on that very stack.
//!
//! ```text
//!   worker (its loop; no fiber runs)             a suspended fiber
//!   visit(capture, &mut frames) ───────────────▶ … suspend()          where it is suspended
//!                                                     capture(frames) as if called from there
//!   reads the frames  ◀──────────────────────────────── and back
//!                                                … suspend()          still there: nothing of it has run
//! ```
//!
//! Why a fiber does not notice, also one in the middle of a wait: no instruction of it is executed. What
//! runs on its stack lies below its innermost frame, and is gone afterwards; its record, its state and what
//! it waits for are read and not written, and it is put in no queue and taken from none. The worker's
//! `current` stays empty, so that nothing that runs meanwhile could take itself for the fiber. (Contract
//! rt 1: its own worker does this, when no fiber runs; coro 2.) A fiber that is suspended in a destructor
//! while it unwinds has all frames from there to its root in order: the unwinder has left those below the
//! destructor's. Walking the stack does not suspend, panic or allocate.
//!
//! It is done by a visit, and not by a request that the fiber looks for when it is resumed, because the
//! look costs each switch 1.5 ns (`micro`, ping-pong: 40.0 ns with it, 37.0 without).
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
        let mut frames = Frames::new();
        let now = self.coarse.get();
        let mut next = self.first_fiber();
        // SAFETY: fibers on the list are alive, and nothing here ends one or changes a link.
        while let Some(header) = unsafe { next.as_ref() } {
            next = header.next.get();
            walk(header, &mut frames);
            let parked = header.state.get() == State::Parked;
            fibers.push(Seen {
                id: header.id,
                name: header.meta.as_ref().and_then(|meta| meta.name.clone()),
                site: header.site,
                ready: !parked,
                unwinding: self.unwinding.of_suspended(header),
                cancelled: header.requests.cancel.get() && !header.requests.raised.get(),
                wait: waiting(header),
                since: parked.then(|| u64::from(now.wrapping_sub(header.since.get())) << COARSE),
                stack: stacks.number(frames.all()),
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
}

/// Takes down the stack of a suspended fiber of this worker.
fn walk(header: &Header, frames: &mut Frames) {
    unsafe fn capture(frames: *mut ()) {
        // SAFETY: the frames below, whose owner waits.
        unsafe { &mut *frames.cast::<Frames>() }.capture();
    }

    // SAFETY: started, so initialised.
    let context = unsafe { (*header.context.get()).assume_init_ref() };
    frames.clear();
    if context.room_below(context.stack_pointer()) >= ROOM {
        // SAFETY: started, not running (the loop is), and of this thread; `capture` only walks.
        unsafe { context.visit(capture, ptr::from_mut(frames).cast()) };
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
