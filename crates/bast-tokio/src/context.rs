//! tokio's context, entered by a fiber and not by its thread.
//!
//! ```text
//!   fiber A                                    the thread's Vec<Slot>         tokio's own thread-local
//!   run_on(&x)                                 [In x]                         x
//!     poll of Tokio::on(&y, …)                 [In x, In y]                   y, over x
//!       suspends: hook.suspend  ── saved ──▶   []                             nothing
//!         fiber B: wait(…)                     [In background]                background
//!                                              []                             nothing
//!       goes on: hook.resume   ◀── saved ──    [In x, In y]                   y, over x
//! ```
//!
//! tokio's guards must be dropped on their thread, in the reverse order of their making; if not, it panics.
//! So no guard is ever left on the thread by a fiber that is suspended: the hook drops them, last first, and
//! enters again before the fiber goes on. What is saved lies in the frames of the suspended fiber. A `Vec` changes
//! hands as a whole, so a switch allocates nothing, for the background runtime.
//!
//! A guard of the user's own, made in between and held across the suspension, is in the way: dropping ours
//! panics. The slot is then `Lost`: it stays entered on this thread, and who entered it panics at its end.
//!
//! Everything here is one thread's. The hook itself is added once, before the first context is entered, so
//! that no fiber was ever suspended inside one without it.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

use bast::hook::{self, SwitchHook};
use self_cell::self_cell;
use tokio::runtime::{EnterGuard, Handle};

use crate::{background, tls};

self_cell! {
    /// A handle of the user's, and the guard that borrows it.
    pub(crate) struct Own {
        owner: Handle,
        #[covariant]
        dependent: EnterGuard,
    }
}

/// A context of a fiber.
pub(crate) enum Slot {
    Background(EnterGuard<'static>),
    Own(Own),
    /// The fiber is suspended. Without a handle: the background runtime.
    Out(Option<Handle>),
    /// The fiber was suspended inside a foreign guard.
    Lost,
}

impl Slot {
    fn enter(handle: Option<Handle>) -> Slot {
        match handle {
            None => Slot::Background(background::handle().enter()),
            Some(handle) => Slot::Own(Own::new(handle, Handle::enter)),
        }
    }

    /// Panics if a guard that was made later is still there.
    fn leave(self) -> Slot {
        match self {
            Slot::Background(guard) => {
                drop(guard);
                Slot::Out(None)
            }
            Slot::Own(own) => Slot::Out(Some(own.into_owner())),
            out => out,
        }
    }
}

/// Runs a closure in the context of a runtime. Without one: in the context that is there, or else
/// the background runtime's.
#[inline]
pub(crate) fn within<R>(handle: Option<&Handle>, f: impl FnOnce() -> R) -> R {
    let _inside = match handle {
        Some(handle) => Some(Inside::enter(Some(handle.clone()))),
        None if is_inside() => None,
        None => Some(Inside::enter(None)),
    };
    f()
}

fn is_inside() -> bool {
    tls::entered(|slots| !slots.is_empty()) == Some(true) || Handle::try_current().is_ok()
}

/// What has been entered, until it is dropped, by the fiber that made it.
struct Inside;

impl Inside {
    fn enter(handle: Option<Handle>) -> Inside {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| hook::add(Contexts));
        let slot = Slot::enter(handle);
        tls::entered(|slots| slots.push(slot)).expect("the thread has not ended");
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        match tls::entered(Vec::pop).flatten() {
            Some(Slot::Lost) if !thread::panicking() => panic!(
                "the fiber was suspended while it held a `tokio::runtime::EnterGuard`, which other \
                 fibers of this worker have seen: use `bast_tokio::run_on(&handle, || …)` instead of \
                 `handle.enter()`"
            ),
            Some(slot) => drop(slot.leave()),
            None => {}
        }
    }
}

/// Takes the contexts off the thread and puts them back.
struct Contexts;

impl SwitchHook for Contexts {
    type Saved = Vec<Slot>;

    fn suspend(&self) -> Vec<Slot> {
        let mut slots = tls::entered(mem::take).unwrap_or_default();
        for slot in slots.iter_mut().rev() {
            let inside = mem::replace(slot, Slot::Lost);
            if let Ok(out) = catch_unwind(AssertUnwindSafe(|| inside.leave())) {
                *slot = out;
            }
        }
        slots
    }

    fn resume(&self, mut slots: Vec<Slot>) {
        if slots.is_empty() {
            return;
        }
        for slot in &mut slots {
            if let Slot::Out(handle) = slot {
                *slot = Slot::enter(handle.take());
            }
        }
        tls::entered(|entered| *entered = slots);
    }

    fn name(&self) -> &'static str {
        "bast-tokio's contexts"
    }
}
