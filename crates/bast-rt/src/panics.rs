//! The panics of a fiber that is suspended while it unwinds, taken off its thread's count.
//!
//! std counts per thread how many panics are on their way: one more where one begins, one less where it
//! is caught. `thread::panicking()` says whether that is zero, and locks are poisoned by it. A fiber that
//! suspends in a destructor while it unwinds would leave its panics in the count, and then all its neighbours
//! would seem to unwind: their healthy locks get poisoned, and real poison is missed.
//!
//! std has no function to set the count. But a panic is counted where it begins, and counted off where it is
//! caught, and these need not be the same thread:
//!
//! ```text
//!   a coin          begins on thread A           goes on, on thread B
//!                   resume_unwind    A + 1       its destructor returns
//!                   its destructor suspends      it is caught    B - 1
//! ```
//!
//! A *coin* is a small stack with a panic of our own, suspended in its destructor. Spending one takes 1
//! off the count of the thread that does so; making one adds 1:
//!
//! ```text
//!   fiber, unwinding ── about to be suspended: spend coins until !panicking()       count 0
//!                    ── resumed: make as many again                                 count as it was
//! ```
//!
//! So coins are kept, and only as many as there ever were panics of suspended fibers at once have to
//! be brought in from outside: by a thread that makes some and ends. They are never freed.
//!
//! This leans on how std counts. Whether it does so is tried out before the first coin is used, on
//! threads of their own; if not, or if there are no more coins to be had, `unwinding` does what can be done.
//!
//! Why a coin may change threads although contract coro 2 says that no stack does: the contract is there for
//! frames that keep something of the thread. On this stack are `entry` and `throw`, which have no thread-local,
//! no lock and no reference; `resume_unwind` and `catch_unwind`, which look the count up when they change
//! it; and the unwinder, whose state is in the exception. `throw` is never inlined, so that the two
//! look-ups are not in one function.
//!
//! Ordering: coins are handed over by a mutex.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bast_coro::{Context, PoolConfig, StackPool, Suspender};

use crate::cancel::UNWINDS;

/// How many coins there may be: each has a stack, of which it uses a page or two.
const MOST: usize = 1024;
/// How many are made the first time.
const FIRST: usize = 8;
/// Room for an unwinder, in address space; it needs a few KiB.
const STACK: usize = 32 << 10;
/// The most that one fiber is in at once, by panics in destructors that run as it unwinds. If there are more,
/// they are not all its own, and it must not go through all coins to find that out.
const NESTED: usize = 16;

/// A context with nothing on it (spent), or with a panic that is suspended. Lives for ever.
struct Coin(&'static mut Context);

// SAFETY: see the head of this file for the stack. The context itself is plain data, and its stack's
// pool is gone, so that nobody else refers to it.
unsafe impl Send for Coin {}

struct Throws<'a>(&'a Suspender);

impl Drop for Throws<'_> {
    fn drop(&mut self) {
        self.0.suspend();
    }
}

#[inline(never)]
fn throw(suspender: &Suspender) {
    let _throws = Throws(suspender);
    resume_unwind(Box::new(()));
}

unsafe fn entry(suspender: &Suspender, _: *mut ()) {
    let _ = catch_unwind(AssertUnwindSafe(|| throw(suspender)));
}

impl Coin {
    /// Adds one panic to the thread's count.
    fn make(&mut self) {
        debug_assert!(!self.0.started());
        self.0.resume();
    }

    /// Takes one panic off the thread's count.
    fn spend(&mut self) {
        debug_assert!(self.0.started());
        if !self.0.resume() {
            unreachable!("a coin suspends once");
        }
        // SAFETY: it is done, and is replaced at once; for the new one as in `mint`.
        unsafe {
            let stack = self.0.reclaim();
            *self.0 = Context::new(stack, entry, std::ptr::null_mut());
        }
    }
}

/// All coins that are not in use.
struct Purse {
    full: Vec<Coin>,
    spent: Vec<Coin>,
    /// How many there are, wherever they are.
    all: usize,
    broken: bool,
}

static PURSE: Mutex<Purse> =
    Mutex::new(Purse { full: Vec::new(), spent: Vec::new(), all: 0, broken: false });

fn purse() -> MutexGuard<'static, Purse> {
    // A guard that goes while the thread panics poisons it, and that means nothing here.
    PURSE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The panics that were taken off the count: to be put back.
#[must_use]
pub(crate) struct Taken(usize);

/// Takes all panics off this thread's count: those of the current fiber, if the others that are suspended
/// have done so. `None` if that cannot be done; then the count is as it was.
#[cold]
pub(crate) fn take() -> Option<Taken> {
    if !UNWINDS || cfg!(feature = "sanitizer") {
        return None;
    }
    let mut taken = Taken(0);
    while thread::panicking() {
        let coin = if taken.0 < NESTED { full_coin() } else { None };
        let Some(mut coin) = coin else {
            put_back(taken);
            return None;
        };
        coin.spend();
        purse().spent.push(coin);
        taken.0 += 1;
    }
    Some(taken)
}

/// Puts them back.
#[cold]
pub(crate) fn put_back(taken: Taken) {
    for _ in 0..taken.0 {
        let coin = purse().spent.pop();
        let Some(mut coin) = coin else { unreachable!("it was put there by `take`") };
        coin.make();
        purse().full.push(coin);
    }
}

fn full_coin() -> Option<Coin> {
    let mut purse = purse();
    if purse.full.is_empty() && !purse.broken && purse.all < MOST {
        let count = purse.all.clamp(FIRST, MOST - purse.all);
        let tried = purse.all > 0;
        let made = elsewhere(move || mint(count)).filter(|_| tried || works());
        purse.broken = made.is_none() && !tried;
        let mut made = made.unwrap_or_default();
        purse.all += made.len();
        purse.full.append(&mut made);
        // So that putting one back never allocates.
        let all = purse.all;
        purse.spent.reserve(all);
        purse.full.reserve(all);
    }
    purse.full.pop()
}

/// Runs `f` on a thread that ends then, and whose count does not matter.
fn elsewhere<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    thread::Builder::new().name("bast-coins".into()).spawn(f).ok()?.join().ok()
}

/// Makes coins, for which the calling thread's count pays.
fn mint(count: usize) -> Vec<Coin> {
    let config = PoolConfig::new().stack_size(STACK).first_slab(count);
    let Ok(mut pool) = StackPool::with_config(config) else { return Vec::new() };
    let stacks = std::iter::from_fn(|| pool.take().ok()).take(count);
    let coins = stacks.map(|stack| {
        // SAFETY: `entry` takes no argument and catches; the context stays where it is, for ever. For
        // coro 2 see the head of this file.
        let context = unsafe { Context::new(stack, entry, std::ptr::null_mut()) };
        let mut coin = Coin(Box::leak(Box::new(context)));
        coin.make();
        coin
    });
    // The pool goes, and leaves the memory of its stacks to them.
    coins.collect()
}

/// Whether a coin from another thread takes off what was counted here.
fn works() -> bool {
    let theirs = elsewhere(|| mint(2)).unwrap_or_default();
    let tries = move || {
        let mut theirs = theirs.into_iter();
        let (Some(mut one), Some(mut two)) = (theirs.next(), theirs.next()) else { return false };
        let mine = mint(2);
        let before = thread::panicking();
        one.spend();
        let between = thread::panicking();
        two.spend();
        mine.len() == 2 && before && between && !thread::panicking()
    };
    elsewhere(tries).unwrap_or(false)
}
