//! The simulator: a driver with no kernel. Read this one first.
//!
//! It keeps the whole contract of [`Driver`](crate::Driver) in memory, and nothing else: a virtual
//! clock, sockets, files. What a kernel would decide is decided by dice (`Config::seed`): the same
//! seed and the same program give the same run.
//!
//! ```text
//!            turn taken at once: the outcome, inline
//!           ╭──────────────────────────────────────▶ Some(outcome)
//!   submit ─┤
//!           ╰─▶ waiting[(descriptor, side)] ─┬─ stirred, attempt succeeds or fails ─╮
//!                 FIFO of records            ╰─ cancel ─▶ finished ─────────────────┴─▶ done
//!
//!   poll: settle what is stirred ─▶ anything done? woken? ─▶ return
//!              ▲                          │ no
//!              ╰── fire events ◀── jump the clock to the next event, if the wait reaches it
//! ```
//!
//! What the dice decide: whether an operation that could complete at once does so inline or in the
//! next poll; which of several ready operations completes first, and whether the others follow in
//! the same poll; how long everything sent is under way; whether a transfer is short; how large a
//! connection's buffer is; whether a cancel loses the race against a result that is there.
//!
//! Time passes only here. Every poll costs a microsecond, so that a program that keeps polling sees its
//! timers expire and what is under way arrive, however long it said that it would wait. Then
//! [`Wait::AtMost`] jumps to the next event or by the whole of what it was allowed, and
//! [`Wait::Forever`] jumps from event to event. With no event left only another thread can
//! help, and the driver sleeps on its [`Waker`].
//!
//! Files by module: `rng` the dice, `clock` the events, `world` the descriptors, `socket`, `transfer`, `stream`,
//! `datagram` and `files` what is behind them, `attempt` what each operation does, `memory` the
//! bytes it names, `registry` all worlds. A descriptor belongs to the driver that made it and is
//! `EBADF` everywhere else; real descriptors are `EBADF` here. There are no pipes, hence no splice
//! (`EINVAL`), and no Unix-domain sockets (`EAFNOSUPPORT`).
//!
//! Memory ordering: none of its own. A world is shared with other threads only for closing
//! descriptors, under its mutex; wakes are the [`Waker`]'s affair.

mod attempt;
mod clock;
mod datagram;
mod files;
mod memory;
mod registry;
mod rng;
mod socket;
mod stream;
mod transfer;
mod world;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use registry::Shared;
pub(crate) use registry::close_raw;
use world::{Serial, Side, Stop, Try, World};

use super::{Config, Wait};
use crate::sys::c;
use crate::{Done, Op, Outcome, Record, Waker};

/// What a poll costs at the least, in virtual nanoseconds.
const TICK: u64 = 1_000;

/// The simulator's driver.
#[derive(Debug)]
pub(crate) struct Sim {
    shared: Arc<Shared>,
    waker: Waker,
    /// Operations that wait, in the order of their submission.
    waiting: BTreeMap<(Serial, Side), VecDeque<NonNull<Record>>>,
    /// Operations whose outcome is known and has not been handed back.
    finished: Vec<(NonNull<Record>, Outcome)>,
    pending: usize,
}

/// What an attempt came to, if it came to anything.
const fn outcome(tried: Try<i32>) -> Option<Outcome> {
    match tried {
        Ok(n) => Some(Outcome(n)),
        Err(Stop::Errno(errno)) => Some(Outcome::from_errno(errno)),
        Err(Stop::Wait) => None,
    }
}

/// One attempt at a record that waits (or would wait) at `serial`.
///
/// # Safety
/// io 1: `record` is lent.
unsafe fn attempt_record(
    world: &mut World,
    serial: Serial,
    mut record: NonNull<Record>,
) -> Option<Outcome> {
    if !world.items.contains_key(&serial) {
        // Its descriptor has been closed under it (contract io 6).
        return Some(Outcome::CANCELLED);
    }
    // SAFETY: io 1: the record and what its operation names are lent to this driver.
    unsafe {
        let op = record.as_ref().op;
        outcome(attempt::attempt(world, &op, serial, &mut record.as_mut().stage))
    }
}

impl Sim {
    /// A simulator with an empty world of its own.
    pub(crate) fn new(config: &Config) -> io::Result<Sim> {
        let waker = Waker::new()?;
        Ok(Sim {
            shared: Shared::new(config.seed, waker.clone())?,
            waker,
            waiting: BTreeMap::new(),
            finished: Vec::new(),
            pending: 0,
        })
    }

    /// What other threads use to end this driver's `poll`.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Virtual nanoseconds since this driver was made.
    pub(crate) fn now(&self) -> u64 {
        self.shared.world().clock.now()
    }

    /// How many operations are in flight.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Starts an operation; `Some` if it completed at once.
    ///
    /// # Safety
    /// io 1, as for [`Driver::submit`](crate::Driver::submit).
    pub(crate) unsafe fn submit(&mut self, mut record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: io 1: the record is lent from here on. It is `Copy` and stays unchanged.
        let op = unsafe { record.as_ref() }.op;
        if let Op::Call { call, data, .. } = op {
            // Deterministic: there is no pool, the call runs here and now. The world is not locked,
            // as the call may close descriptors. Nothing can happen meanwhile, not even the request to
            // interrupt it: time stands still, and the driver's thread is busy with the call.
            // SAFETY: io 1: whoever submits a call promises that it may be made.
            return Some(Outcome(unsafe { call(data) }));
        }
        // SAFETY: io 1.
        unsafe { record.as_mut() }.stage = attempt::NEW;
        let mut world = self.shared.world();
        match attempt::turn(&world, &op) {
            Err(stop) => outcome(Err(stop)),
            Ok(None) => {
                let mut stage = attempt::NEW;
                // SAFETY: io 1.
                let result = outcome(unsafe { attempt::attempt(&mut world, &op, 0, &mut stage) })
                    .unwrap_or(Outcome::from_errno(c::EIO));
                if world.rng.chance(3, 4) {
                    return Some(result);
                }
                self.finished.push((record, result));
                self.pending += 1;
                None
            }
            Ok(Some((serial, side))) => {
                let first = !self.waiting.contains_key(&(serial, side));
                // What must not wait does not stand behind those that do.
                let now = if first { world.rng.chance(1, 2) } else { op.is_dontwait() };
                if now {
                    // SAFETY: io 1.
                    let result = unsafe { attempt_record(&mut world, serial, record) };
                    if result.is_some() {
                        if result == Some(Outcome::WOULD_BLOCK) {
                            // Asking takes time too, or whoever asks again and again would stop the clock.
                            let later = world.clock.now() + TICK;
                            world.clock.jump(later);
                            world.fire_due();
                        }
                        return result;
                    }
                }
                self.waiting.entry((serial, side)).or_default().push_back(record);
                self.pending += 1;
                world.stir(serial, side);
                None
            }
        }
    }

    /// Does an operation once, if it can be done now.
    ///
    /// # Safety
    /// io 1 for the time of the call, as for [`Driver::attempt`](crate::Driver::attempt).
    pub(crate) unsafe fn attempt(&mut self, op: &Op) -> Outcome {
        let mut world = self.shared.world();
        let tried = attempt::turn(&world, op).and_then(|place| {
            let serial = place.map_or(0, |(serial, _)| serial);
            // SAFETY: the caller's promise.
            unsafe { attempt::attempt(&mut world, op, serial, &mut { attempt::NEW }) }
        });
        let result = outcome(tried).unwrap_or(Outcome::WOULD_BLOCK);
        if result == Outcome::WOULD_BLOCK {
            // Asking takes time, as in `submit`.
            let later = world.clock.now() + TICK;
            world.clock.jump(later);
            world.fire_due();
        }
        result
    }

    /// Asks a pending operation to end.
    ///
    /// # Safety
    /// `record` was submitted to this driver and has not come back.
    pub(crate) unsafe fn cancel(&mut self, record: NonNull<Record>) {
        let place = self.waiting.iter().find_map(|(&key, queue)| {
            queue.iter().position(|&other| other == record).map(|index| (key, index))
        });
        // Not waiting: its outcome is known already, and stands.
        let Some((key, index)) = place else { return };
        let mut world = self.shared.world();
        let late = index == 0 && world.rng.chance(1, 4);
        // SAFETY: io 1: the record has not come back.
        let result = if late { unsafe { attempt_record(&mut world, key.0, record) } } else { None };
        if let Some(queue) = self.waiting.get_mut(&key) {
            queue.remove(index);
            if queue.is_empty() {
                self.waiting.remove(&key);
            }
        }
        world.stir(key.0, key.1);
        self.finished.push((record, result.unwrap_or(Outcome::CANCELLED)));
    }

    /// Moves completed records to `done`; waits as `wait` allows while there are none.
    pub(crate) fn poll(&mut self, wait: Wait, done: &mut Done) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut world = shared.world();
        let start = world.clock.now();
        let tick = start + TICK;
        world.clock.jump(tick);
        let until = match wait {
            Wait::No | Wait::AtMost(Duration::ZERO) => Some(tick),
            // Beyond the end of time (584 years) is for ever.
            Wait::AtMost(d) => u64::try_from(d.as_nanos()).ok().and_then(|d| start.checked_add(d)),
            Wait::Forever => None,
        };
        loop {
            world.fire_due();
            // SAFETY: io 1: every record in our lists is lent to us.
            unsafe { self.settle(&mut world, done) };
            // `end` also takes a wake that came while this driver was awake.
            if self.waker.sleep().end() || !done.is_empty() {
                return Ok(());
            }
            match (world.clock.next_at(), until) {
                (Some(at), None) => world.clock.jump(at),
                (Some(at), Some(until)) if at <= until => world.clock.jump(at),
                (_, Some(until)) => {
                    world.clock.jump(until);
                    return Ok(());
                }
                (None, None) => {
                    // Nothing here can happen any more: only another thread can help, by a wake or
                    // by closing a descriptor (which wakes too).
                    drop(world);
                    self.waker.wait(None);
                    world = shared.world();
                    // SAFETY: io 1: every record in our lists is lent to us.
                    unsafe { self.settle(&mut world, done) };
                    return Ok(());
                }
            }
        }
    }

    /// Lets every operation that may get further do so, in the order of the dice.
    ///
    /// # Safety
    /// io 1: every record in our lists is lent to us.
    unsafe fn settle(&mut self, world: &mut World, done: &mut Done) {
        loop {
            let choices = self.finished.len() + world.stirred();
            if choices == 0 || (!done.is_empty() && world.rng.chance(1, 16)) {
                return;
            }
            let choice = world.rng.below(choices);
            if choice < self.finished.len() {
                let (record, outcome) = self.finished.swap_remove(choice);
                self.pending -= 1;
                // SAFETY: io 1, and it was on no other list.
                unsafe { done.push(record, outcome) };
                continue;
            }
            let (serial, side) = world.take_stirred(choice - self.finished.len());
            let Some(queue) = self.waiting.get_mut(&(serial, side)) else { continue };
            let Some(&record) = queue.front() else { continue };
            // SAFETY: io 1: it waits, so it is lent.
            if let Some(outcome) = unsafe { attempt_record(world, serial, record) } {
                queue.pop_front();
                if queue.is_empty() {
                    self.waiting.remove(&(serial, side));
                } else {
                    // The next in line may go too.
                    world.stir(serial, side);
                }
                self.pending -= 1;
                // SAFETY: io 1, and it is on no list any more.
                unsafe { done.push(record, outcome) };
            }
        }
    }
}

impl Drop for Sim {
    /// Lets go of everything: what waits is never completed (its memory is its owner's again), and a
    /// descriptor that was made for nobody is closed (contract io 2).
    fn drop(&mut self) {
        {
            let mut world = self.shared.world();
            for (record, outcome) in self.finished.drain(..) {
                // SAFETY: io 1: it has not come back, so it is still lent.
                let made = unsafe { record.as_ref() }.op.yields_handle();
                if made && outcome.0 >= 0 {
                    let _ = world.close(outcome.0);
                }
            }
        }
        self.shared.leave();
    }
}
