//! What is kept and what is let go of, seen from inside; on a plain thread, so that Miri can look at it.

use std::sync::{Arc, Mutex, Weak};

use super::cell::Cell;
use super::{Inner, Promise, Resolver};

const MANY: usize = if cfg!(miri) { 100 } else { 20_000 };

type Slot<T> = Arc<Mutex<Option<T>>>;

fn cell<T>(promise: &Promise<T>) -> Weak<Cell<T>> {
    match &promise.0 {
        Inner::Cell(cell) => Arc::downgrade(cell),
        _ => panic!("there is no cell"),
    }
}

/// A loop, each of whose rounds waits for a resolver that it leaves in `next`.
fn rounds(
    n: usize,
    next: Slot<Resolver<()>>,
    cells: Arc<Mutex<Vec<Weak<Cell<usize>>>>>,
) -> Promise<usize> {
    if n == MANY {
        return Promise::ready(n);
    }
    let (turn, resolver) = Promise::new();
    *next.lock().unwrap() = Some(resolver);
    let seen = Arc::clone(&cells);
    let promise = turn.and_then(move |()| rounds(n + 1, next, cells));
    seen.lock().unwrap().push(cell(&promise));
    promise
}

#[test]
fn a_loop_keeps_two_cells_however_long_it_runs() {
    let (next, cells) = (Slot::default(), Arc::<Mutex<Vec<_>>>::default());
    let all = rounds(0, Arc::clone(&next), Arc::clone(&cells));
    let mut most = 0;
    while let Some(resolver) = { next.lock().unwrap().take() } {
        resolver.resolve(());
        // Those of the last rounds and the first one, which is the result.
        let cells = cells.lock().unwrap();
        let old = cells.len().saturating_sub(10);
        let live = |cells: &[Weak<_>]| cells.iter().filter(|c| c.strong_count() != 0).count();
        most = most.max(live(&cells[old..]) + live(&cells[..old.min(10)]));
        if cells.len() % 5000 == 0 {
            assert!(live(&cells) <= 2, "{} cells are kept", live(&cells));
        }
    }
    assert!(most <= 3, "{most} cells are kept");
    assert_eq!(all.wait().unwrap(), MANY);
}

/// Each is returned by a callback of the next, from the inside out: a chain of names.
#[test]
fn a_long_chain_of_merged_cells_is_walked_and_dropped_without_recursion() {
    let (mut inner, resolver) = Promise::new();
    let first = cell(&inner);
    for _ in 0..MANY {
        let (ready, go) = Promise::new();
        let outer = ready.and_then(move |()| inner);
        go.resolve(());
        inner = outer;
    }
    let last = cell(&inner);
    small_stack(move || {
        resolver.resolve(7);
        assert_eq!(inner.wait().unwrap(), 7);
    });
    assert_eq!((first.strong_count(), last.strong_count()), (0, 0));
}

#[test]
fn what_is_cancelled_dropped_and_given_up_is_freed() {
    let (p, r) = Promise::<u32>::new();
    let up = cell(&p);
    let q = p.map(|n| n + 1);
    let down = cell(&q);
    q.cancel();
    assert!(r.is_cancelled());
    r.resolve(1);
    assert!(q.wait().unwrap_err().is_cancelled());
    assert_eq!((up.strong_count(), down.strong_count()), (0, 0));

    let (p, r) = Promise::<u32>::new();
    let q = Promise::all([p.map(|n| n), Promise::ready(1)]);
    let down = cell(&q);
    drop(q);
    drop(r);
    assert_eq!(down.strong_count(), 0);
}

#[test]
fn a_promise_that_a_callback_returns_to_itself_fails_and_is_freed() {
    let slot = Slot::<Promise<()>>::default();
    let (promise, resolver) = Promise::new();
    let taken = Arc::clone(&slot);
    let knot = promise.and_then(move |()| taken.lock().unwrap().take().unwrap());
    let knot_cell = cell(&knot);
    *slot.lock().unwrap() = Some(knot);
    resolver.resolve(());
    assert_eq!(knot_cell.strong_count(), 0);
}

/// Little for one, and not nearly enough for thousands inside each other.
fn small_stack(f: impl FnOnce() + Send + 'static) {
    let builder = std::thread::Builder::new().stack_size(64 << 10);
    builder.spawn(f).unwrap().join().unwrap();
}
