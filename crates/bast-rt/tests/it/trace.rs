//! Fibers in tracing spans of their own: events land in the span of the fiber that made them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bast_rt::{park, run_blocking, scope, sleep, spawn, timeout, trace, yield_now};
use tracing::field::{Field, Visit};
use tracing::{Event, Span, Subscriber, dispatcher, info, info_span, subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::support::{OnDrop, is_cancelled, process_tests, runtime, workers};

/// For each event its text and the spans that it was in, outermost first: `7 request/step`.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(u64, String)>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        #[derive(Default)]
        struct Number(u64);
        impl Visit for Number {
            fn record_u64(&mut self, _: &Field, value: u64) {
                self.0 = value;
            }
            fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
        }
        let mut number = Number::default();
        event.record(&mut number);
        let spans = ctx.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let names: Vec<_> = spans.map(|span| span.name()).collect();
        self.0.lock().unwrap().push((number.0, names.join("/")));
    }
}

impl Seen {
    fn global() -> Seen {
        let seen = Seen::default();
        tracing_subscriber::registry().with(seen.clone()).init();
        seen
    }

    fn take(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Enters spans and suspends in every way. Fiber `n` is to be seen in spans of parity `n`.
fn work(n: u64) {
    assert!(Span::current().is_none(), "a fiber begins in no span");
    let outer = if n.is_multiple_of(2) { info_span!("even") } else { info_span!("odd") };
    let outer = outer.entered();
    for round in 0..6 {
        let inner = if n.is_multiple_of(2) { info_span!("two") } else { info_span!("one") };
        let inner = inner.entered();
        match round {
            0 => sleep(Duration::from_micros(n * 7)),
            1 => drop(timeout(Duration::from_micros(50), park)),
            2 => scope(|s| drop(s.spawn(|| assert!(Span::current().is_none())))),
            3 => run_blocking(|| ()),
            _ => yield_now(),
        }
        info!(n);
        drop(inner);
        yield_now();
        info!(n);
    }
    drop(outer);
    yield_now();
    assert!(Span::current().is_none());
}

fn check(seen: &Seen, fibers: u64) -> usize {
    let mut counts = HashMap::new();
    let mut wrong = 0;
    for (n, spans) in seen.take() {
        *counts.entry(n).or_insert(0) += 1;
        let right = if n % 2 == 0 { ["even", "even/two"] } else { ["odd", "odd/one"] };
        wrong += usize::from(!right.contains(&&*spans));
    }
    assert_eq!(counts.len() as u64, fibers);
    wrong
}

process_tests! {
    fn events_land_in_the_spans_of_their_fibers() {
        let seen = Seen::global();
        trace::install();
        trace::install(); // once is enough
        runtime().run(|| {
            let fibers: Vec<_> = (0..100).map(|n| spawn(move || work(n))).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        assert_eq!(check(&seen, 100), 0);
    }

    /// So that it is known that the test above can fail.
    fn without_the_hook_they_do_not() {
        let seen = Seen::global();
        workers(1).run(|| {
            let fiber = |outer: fn() -> Span, n: u64| spawn(move || {
                let _outer = outer().entered();
                (0..5).for_each(|_| { yield_now(); info!(n) });
            });
            let fibers = [fiber(|| info_span!("even"), 0), fiber(|| info_span!("odd"), 1)];
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        assert!(check(&seen, 2) > 0);
    }

    /// More spans than are saved in place, the same one entered twice, and guards that go in another order.
    fn many_spans_and_odd_orders() {
        let seen = Seen::global();
        trace::install();
        workers(1).run(|| {
            let neighbour = spawn(|| { let _n = info_span!("n").entered(); park() });
            let a = info_span!("a");
            let twice = (a.clone().entered(), a.clone().entered());
            let deep: Vec<_> = (0..10).map(|_| info_span!("d").entered()).collect();
            yield_now();
            info!(n = 1_u64);
            drop(deep.into_iter().rev().collect::<Vec<_>>());
            yield_now();
            info!(n = 2_u64);
            drop(twice.0);
            yield_now();
            info!(n = 3_u64);
            drop(twice.1);
            info!(n = 4_u64);
            let (b, c) = (info_span!("b").entered(), info_span!(parent: None, "c").entered());
            yield_now();
            drop(b);
            yield_now();
            info!(n = 5_u64);
            drop(c);
            yield_now();
            info!(n = 6_u64);
            neighbour.fiber().unpark();
            neighbour.join().unwrap();
        });
        let spans: Vec<_> = seen.take().into_iter().map(|(_, spans)| spans).collect();
        let deep = format!("a{}", "/d".repeat(10));
        assert_eq!(spans, [&deep, "a", "a", "", "c", ""]);
    }

    /// Unwinding and forgetting: what an ended fiber leaves does not come upon the next.
    fn cancelled_fibers_and_forgotten_guards() {
        let seen = Seen::global();
        trace::install();
        workers(1).run(|| {
            let waits = spawn(|| {
                let _span = info_span!("odd").entered();
                let _guard = OnDrop(|| { yield_now(); info!(n = 1_u64) });
                park();
            });
            let forgets = spawn(|| {
                std::mem::forget(info_span!("even").entered());
                std::mem::forget(subscriber::set_default(tracing_subscriber::registry()));
                yield_now();
            });
            yield_now();
            waits.cancel();
            forgets.join().unwrap();
            assert!(is_cancelled(&waits.join()));
            assert!(Span::current().is_none());
            info!(n = 2_u64);
        });
        assert_eq!(seen.take(), [(1, "odd".to_owned()), (2, String::new())]);
    }

    /// A subscriber for a scope is the fiber's own too, in whatever order the scopes end.
    fn a_default_subscriber_for_a_scope() {
        let global = Seen::global();
        trace::install();
        let own: Vec<_> = (0..8).map(|_| Seen::default()).collect();
        let theirs = own.clone();
        runtime().run(move || {
            let fibers: Vec<_> = (0_u64..).zip(theirs).map(|(n, seen)| spawn(move || {
                let scoped = tracing_subscriber::registry().with(seen);
                subscriber::with_default(scoped, || {
                    let _span = info_span!("own").entered();
                    for _ in 0..(n + 1) * 3 { yield_now(); info!(n) }
                });
                let _span = info_span!("all").entered();
                for _ in 0..3 { yield_now(); info!(n) }
                assert!(!dispatcher::get_default(dispatcher::Dispatch::is::<subscriber::NoSubscriber>));
            })).collect();
            for n in 100..110_u64 {
                info!(n);
                yield_now();
            }
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        for (n, seen) in (0..).zip(own) {
            assert_eq!(seen.take(), vec![(n, "own".to_owned()); (n as usize + 1) * 3]);
        }
        let seen = global.take();
        assert_eq!(seen.len(), 8 * 3 + 10);
        for (n, spans) in seen {
            assert_eq!(spans, if n < 8 { "all" } else { "" }, "{n}");
        }
    }

    /// A scope inside a span of the global subscriber, and a span inside the scope.
    fn a_scope_inside_a_span() {
        let global = Seen::global();
        trace::install();
        let inner = Seen::default();
        let theirs = inner.clone();
        workers(1).run(move || {
            let fiber = spawn(move || {
                let _outer = info_span!("outer").entered();
                subscriber::with_default(tracing_subscriber::registry().with(theirs), || {
                    let _inner = info_span!("inner").entered();
                    for _ in 0..3 { yield_now(); info!(n = 1_u64) }
                });
                for _ in 0..3 { yield_now(); info!(n = 2_u64) }
            });
            for _ in 0..10 { yield_now(); info!(n = 3_u64) }
            fiber.join().unwrap();
        });
        assert_eq!(inner.take(), vec![(1, "inner".to_owned()); 3]);
        for (n, spans) in global.take() {
            assert_eq!(spans, if n == 2 { "outer" } else { "" }, "{n}");
        }
    }

    /// Without a global subscriber spans are still the fibers' own, in whatever subscriber they are.
    fn no_global_subscriber() {
        trace::install();
        let seen = Seen::default();
        let layer = seen.clone();
        workers(1).run(move || {
            subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                let fibers: Vec<_> = (0..10).map(|n| spawn(move || work(n))).collect();
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            });
        });
        assert_eq!(check(&seen, 10), 0);
    }
}
