//! The switch hook for `tracing`: each fiber is in spans of its own.
//!
//! ```text
//!   fiber A: span.enter() ── parks ┐                    ┌ goes on ──── the guard exits
//!                        exit, all of them     enter again, outermost first
//!   fiber B:                       └─ begins in no span ┘
//! ```
//!
//! tracing's subscribers keep, per thread, which spans have been entered. What the thread is in is asked of the
//! subscriber, innermost first, until there is nothing left. So subscribers see a fiber leave its spans when it
//! waits and enter them when it goes on, as they do with futures that are polled: what they measure as
//! busy time is the time on the processor.
//!
//! The default subscriber is a variable of the thread as well, if it was set for a scope. There is no
//! function to unset it, but one to set another, whose guard puts back what was there: for the time that
//! a fiber waits the global one is set. To know whether there is one to hide, the address of the
//! default is compared with the global one's, which is a static's.
//!
//! A subscriber that suspends while it is being called (it writes to a socket of bast, say) is not in a state
//! that could be taken away: then nothing is.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Once;
use std::thread;

use tracing_core::dispatcher::{self, DefaultGuard, Dispatch};
use tracing_core::span::Id;
use tracing_core::subscriber::NoSubscriber;

use crate::hook::{self, SwitchHook};

/// Spans that are saved without an allocation.
const INLINE: usize = 4;
/// Nobody is in so many. A subscriber that does not let go of a span must not hold up a switch for ever.
const MOST: usize = 10_000;

/// From now on each fiber has its own current span, and its own default subscriber where it has set one
/// (`tracing::subscriber::with_default`, `set_default`). Feature `tracing`.
///
/// To be called at the beginning of `main`, after the global default subscriber has been set. If there is none
/// by then, fibers have spans of their own, but share what `with_default` sets on a worker.
/// Calling it again does nothing.
///
/// A fiber begins in no span. If it is to go on in its parent's, take that along:
///
/// ```
/// use tracing::{Span, info, info_span};
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry().init(); // and layers that do something
/// bast_rt::trace::install();
///
/// let request = bast_rt::spawn(|| {
///     let _request = info_span!("request", id = 7).entered();
///     bast_rt::yield_now();
///     info!("still in `request`, whatever other fibers are in");
///     let here = Span::current();
///     let child = bast_rt::spawn(move || here.in_scope(|| info!("so is this")));
///     child.join().unwrap();
/// });
/// request.join().unwrap();
/// ```
///
/// Subscribers are asked for the current span: those that do not know it (`Subscriber::current_span`) are
/// left as they are. The default one is asked, and the global one; of several scopes inside each other
/// those in between are not. A subscriber should not suspend while it is being called.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Asked on a thread where no scope can have set another.
        let asks = || dispatcher::get_default(|d| Global { at: address(d), dispatch: d.clone() });
        let global = thread::Builder::new().spawn(asks).ok().and_then(|thread| thread.join().ok());
        let global = global.filter(|global| !global.dispatch.is::<NoSubscriber>());
        hook::add(Spans { global });
    });
}

fn address(dispatch: &Dispatch) -> usize {
    ptr::from_ref(dispatch).addr()
}

struct Spans {
    global: Option<Global>,
}

/// The global default.
struct Global {
    at: usize,
    dispatch: Dispatch,
}

/// What a fiber was in.
struct Saved {
    /// Hides the default of a scope. Dropping it would put that back; if the fiber has ended it must not.
    hides: Option<ManuallyDrop<DefaultGuard>>,
    /// The spans of the default subscriber.
    spans: Option<(Dispatch, Entered)>,
    /// Those of the global one, if that was not it.
    outer: Option<Entered>,
}

/// Spans, innermost first.
#[derive(Default)]
struct Entered {
    first: [Option<Id>; INLINE],
    more: Vec<Id>,
}

impl Entered {
    /// Leaves all spans that the thread is in.
    fn leave(dispatch: &Dispatch) -> Option<Entered> {
        let innermost = dispatch.current_span().id().cloned()?;
        let mut all = Entered::default();
        let mut next = Some(innermost);
        let mut count = 0;
        while let Some(id) = next {
            dispatch.exit(&id);
            match all.first.get_mut(count) {
                Some(place) => *place = Some(id),
                None => all.more.push(id),
            }
            count += 1;
            assert!(count < MOST, "the subscriber stays in a span that was exited");
            next = dispatch.current_span().id().cloned();
        }
        Some(all)
    }

    fn enter(&self, dispatch: &Dispatch) {
        let inline = self.first.iter().flatten();
        inline.chain(&self.more).rev().for_each(|id| dispatch.enter(id));
    }
}

impl SwitchHook for Spans {
    type Saved = Saved;

    fn suspend(&self) -> Saved {
        let left = dispatcher::get_current(|dispatch| {
            let scoped = self.global.as_ref().filter(|global| global.at != address(dispatch));
            let spans = Entered::leave(dispatch).map(|spans| (dispatch.clone(), spans));
            (scoped, spans)
        });
        let Some((scoped, spans)) = left else {
            return Saved { hides: None, spans: None, outer: None };
        };
        let hides = scoped.map(|g| ManuallyDrop::new(dispatcher::set_default(&g.dispatch)));
        Saved { hides, spans, outer: scoped.and_then(|g| Entered::leave(&g.dispatch)) }
    }

    fn resume(&self, saved: Saved) {
        if let (Some(global), Some(spans)) = (&self.global, saved.outer) {
            spans.enter(&global.dispatch);
        }
        if let Some(guard) = saved.hides {
            drop(ManuallyDrop::into_inner(guard));
        }
        if let Some((dispatch, spans)) = saved.spans {
            spans.enter(&dispatch);
        }
    }

    fn name(&self) -> &'static str {
        "tracing"
    }
}
