//! The waiter's side of `select`: see the head of the module above.

use bast_rt::Instant;
use bast_rt::wait::{self, Parked, Reason};

use super::arm::{Arm, Place};
use crate::list::Ticket;
use crate::pace;
use crate::shim::{self, Waiter};

/// A set of arms.
pub(super) trait Arms {
    fn count(&self) -> usize;
    fn arm(&self, at: usize) -> &dyn Arm;
}

impl Arms for [&mut dyn Arm] {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn arm(&self, at: usize) -> &dyn Arm {
        &*self[at]
    }
}

/// Completes one of the arms that can, if one can.
#[inline]
fn attempt<S: Arms + ?Sized>(set: &S, first: usize) -> Option<usize> {
    let mut at = first;
    // One loop without a branch on where it begins: that could not be predicted.
    for _ in 0..set.count() {
        if set.arm(at).attempt() {
            return Some(at);
        }
        at = if at + 1 == set.count() { 0 } else { at + 1 };
    }
    None
}

/// A number below `count` (above 0), and now and then the signal to pause.
#[inline]
fn first(count: usize) -> (usize, bool) {
    if cfg!(loom) {
        return (0, false);
    }
    let turn = wait::turn();
    ((((turn >> 32) * count as u64) >> 32) as usize, turn.is_multiple_of(16))
}

/// Completes an arm if one can complete now. A set that has nothing has others run.
pub(super) fn choose_now<S: Arms + ?Sized>(set: &S) -> Option<usize> {
    if set.count() == 0 {
        return None;
    }
    let (first, pause) = first(set.count());
    let chosen = attempt(set, first);
    if pause || chosen.is_none() {
        // Somebody who asks in a loop must not keep the answer from coming.
        wait::spend();
    }
    chosen
}

/// Completes an arm, waiting for it until `deadline` at most.
#[inline]
pub(super) fn choose<S: Arms + ?Sized>(
    set: &S,
    deadline: impl FnOnce() -> Option<Instant>,
) -> Option<usize> {
    if set.count() > 0 {
        let (first, pause) = first(set.count());
        if pause {
            pace::pause();
        }
        if let chosen @ Some(_) = attempt(set, first) {
            return chosen;
        }
    }
    choose_later(set, deadline())
}

#[cold]
fn choose_later<S: Arms + ?Sized>(set: &S, deadline: Option<Instant>) -> Option<usize> {
    assert!(set.count() > 0 || deadline.is_some(), "a select with no events would wait for ever");
    loop {
        let at_latest = (0..set.count()).filter_map(|at| set.arm(at).deadline()).min();
        let at_latest = at_latest.into_iter().chain(deadline).min();
        let reason = Reason::new("select", &deadline);
        match shim::wait(&reason, at_latest, |w| wait_once(set, w.waiter(), || w.park())) {
            Outcome::Granted(arm) => return Some(arm),
            Outcome::Again => {}
            Outcome::TimedOut => {
                let ready = attempt(set, first(set.count().max(1)).0);
                if ready.is_some() || deadline.is_some_and(|at| at <= Instant::now()) {
                    return ready;
                }
            }
        }
        if let chosen @ Some(_) = attempt(set, first(set.count().max(1)).0) {
            return chosen;
        }
    }
}

/// How one wait ended. No arm is in a list then.
enum Outcome {
    /// This arm has been given what it waits for.
    Granted(usize),
    /// Some arm can complete, it seems.
    Again,
    TimedOut,
}

/// The arms that have been enlisted.
struct Enlisted<'a, S: Arms + ?Sized> {
    set: &'a S,
    count: usize,
}

impl<S: Arms + ?Sized> Drop for Enlisted<'_, S> {
    fn drop(&mut self) {
        for at in 0..self.count {
            self.set.arm(at).delist();
        }
    }
}

fn wait_once<S: Arms + ?Sized>(set: &S, waiter: Waiter, park: impl Fn() -> Parked) -> Outcome {
    let ticket = Ticket::new(waiter, true);
    // Goes before the ticket does, whatever happens.
    let mut enlisted = Enlisted { set, count: 0 };
    // Once the ticket is won nobody can grant anything to any arm.
    let or_granted = |outcome| {
        if ticket.win() { outcome } else { Outcome::Granted(ticket.settled()) }
    };
    for at in 0..set.count() {
        enlisted.count = at + 1;
        let place = Place { ticket: &ticket, waiter, arm: at };
        // SAFETY: `set` is borrowed until this returns, and before that `enlisted` delists it.
        if !unsafe { set.arm(at).enlist(&place) } {
            return or_granted(Outcome::Again);
        }
    }
    loop {
        if let Some(arm) = ticket.done() {
            return Outcome::Granted(arm);
        }
        if (0..set.count()).any(|at| set.arm(at).check()) {
            return or_granted(Outcome::Again);
        }
        match park() {
            Parked::Look => {}
            Parked::TimedOut => return or_granted(Outcome::TimedOut),
            Parked::Interrupted(interruption) => {
                let outcome = or_granted(Outcome::Again);
                if let Outcome::Again = outcome {
                    drop(enlisted);
                    interruption.raise();
                }
                return outcome;
            }
        }
    }
}
