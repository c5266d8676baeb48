//! Which fiber unwinds.
//!
//! `std::thread::panicking()` speaks of the thread. A fiber that suspends in a destructor while it
//! unwinds would make it true for all its neighbours, so it takes its panics off the thread's count for
//! that time (module `panics`), and each fiber finds just its own: exact, for bast and for std.
//!
//! Where that cannot be done (no more than 1,024 panics can be put aside; not under AddressSanitizer; not
//! if std no longer counts as it does) the panics of a suspended fiber stay in the count, and this
//! is known of them:
//!
//! * The thread is not panicking: nobody is.
//! * It is, and no *suspended* fiber of this worker has left its panics there: it is this one.
//! * It is, and some suspended fiber has: this one is only if it has begun since its last suspension,
//!   which the panic hook and `cancel::raise` note when it happens.
//!
//! The note is an [`Epoch`]. A new one begins when a worker comes to have a suspended fiber that
//! unwinds, after it had none. Then only that fiber unwinds, so that all notes of before are void: what
//! was noted of a panic that has been caught long ago is not held against anybody.
//!
//! What the last case gets wrong: a panic that was caught in this epoch delays a cancellation until
//! the neighbours have done unwinding; then [`Worker::run`] wakes whoever has a cancellation pending, to look
//! again. (Such a fiber is counted as unwinding when it is suspended. So the count is void once the thread does not
//! panic any more.) A `resume_unwind` of the user's own, or a panic under a hook that does not call the one
//! before it, is not noticed: a cancellation that is delivered in a destructor then aborts the process.
//!
//! [`Worker::run`]: crate::worker::Worker::run

use std::any::Any;
use std::cell::Cell;
use std::panic;
use std::sync::Once;
use std::thread;

use crate::fiber::Header;
use crate::panics::{self, Taken};
use crate::suspend;
use crate::worker::Worker;

/// A time during which a worker always had a suspended fiber that unwinds, and what came before it.
pub(crate) type Epoch = u32;

/// The note on a fiber that has never unwound.
pub(crate) const NEVER: Epoch = 0;

/// The note on a suspended fiber whose panics have been put aside.
const ASIDE: Epoch = Epoch::MAX;

/// What a worker knows of its suspended fibers.
pub(crate) struct Unwinding {
    /// How many have left their panics in the thread's count.
    suspended: Cell<usize>,
    epoch: Cell<Epoch>,
    over: Cell<bool>,
}

impl Default for Unwinding {
    fn default() -> Unwinding {
        Unwinding { suspended: Cell::new(0), epoch: Cell::new(NEVER + 1), over: Cell::new(false) }
    }
}

impl Unwinding {
    /// Whether the current fiber unwinds.
    #[cold]
    pub(crate) fn is(&self, header: &Header) -> bool {
        let noted = header.requests.unwinding.get() == self.epoch.get();
        let it_is = thread::panicking() && (self.suspended.get() == 0 || noted);
        header.requests.unwinding.set(if it_is { self.epoch.get() } else { NEVER });
        it_is
    }

    /// Whether a suspended fiber unwinds. One that caught its panic in this epoch may be taken for one.
    pub(crate) fn of_suspended(&self, header: &Header) -> bool {
        let note = header.requests.unwinding.get();
        note == ASIDE || (self.suspended.get() > 0 && note == self.epoch.get())
    }

    /// The current fiber, which unwinds, is about to be suspended.
    pub(crate) fn suspend(&self, header: &Header) -> Option<Taken> {
        // What others could not take is not this fiber's to take.
        let panics = if self.suspended.get() == 0 { panics::take() } else { None };
        if panics.is_some() {
            header.requests.unwinding.set(ASIDE);
            return panics;
        }
        if self.suspended.get() == 0 {
            self.begin_epoch();
        }
        header.requests.unwinding.set(self.epoch.get());
        self.suspended.set(self.suspended.get() + 1);
        None
    }

    /// It runs again.
    pub(crate) fn resume(&self, header: &Header, panics: Option<Taken>) {
        if let Some(panics) = panics {
            panics::put_back(panics);
            header.requests.unwinding.set(self.epoch.get());
            return;
        }
        if header.requests.unwinding.get() != self.epoch.get() {
            // It was taken for one that unwinds, and is counted no more.
            return;
        }
        let left = self.suspended.get() - 1;
        self.suspended.set(left);
        self.over.set(left == 0);
    }

    /// Whether the last fiber that was suspended while it unwound has gone on since the last call. To be called when
    /// no fiber runs.
    #[inline]
    pub(crate) fn take_over(&self) -> bool {
        (self.over.get() && self.over.replace(false))
            || (self.suspended.get() > 0 && self.nobody_is_left())
    }

    /// Those that are left in the count may all be fibers that only were taken for ones that unwind.
    #[cold]
    fn nobody_is_left(&self) -> bool {
        if thread::panicking() {
            return false;
        }
        self.suspended.set(0);
        self.begin_epoch();
        true
    }

    fn begin_epoch(&self) {
        self.epoch.set(self.epoch.get() % (ASIDE - 1) + 1);
    }
}

/// Goes on with a panic in the current fiber. The hook does not see that, so it is noted here.
pub(crate) fn pass_on(payload: Box<dyn Any + Send>) -> ! {
    begin();
    panic::resume_unwind(payload)
}

/// Notes that the current fiber begins to unwind.
pub(crate) fn begin() {
    if let Some((worker, header)) = suspend::current() {
        header.requests.unwinding.set(worker.unwinding.epoch.get());
    }
}

/// Chains a panic hook that notes the fiber, once per process.
pub(crate) fn watch_panics() {
    static ONCE: Once = Once::new();
    // Hooks cannot be changed by a thread that panics; a later runtime will do it.
    if thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if let Some((_, header)) = suspend::current() {
                begin();
                if let Some(name) = header.meta.as_ref().and_then(|meta| meta.name.as_deref()) {
                    eprintln!("\nfiber '{name}' panicked:");
                }
            }
            before(info);
        }));
    });
}

impl Worker {
    /// Whether the current fiber unwinds.
    #[inline]
    pub(crate) fn is_unwinding(&self, header: &Header) -> bool {
        thread::panicking() && self.unwinding.is(header)
    }
}
