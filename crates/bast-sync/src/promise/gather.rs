//! Several promises as one: `both`, `all`, `choose`, `pick`.
//!
//! ```text
//!   p0 ─▶ Part 0 ─┐
//!   p1 ─▶ Part 1 ─┼─▶ All:   the last to come completes the cell      All, First ─▶ cell of the result
//!   p2 ─▶ Part 2 ─┘   First: the first one does                          ▲               │ cancel
//!   ▲──────────────────────────────────── Sources ◀──────────────────────┘───────────────┘
//! ```
//!
//! Each part is the callback of its promise. What they share is under a lock of its own, under which the user's
//! values are only moved.

use std::sync::Arc;

use bast_rt::wait::drop_quietly;

use super::cell::{self, Callback, Cancel, Cell, Source};
use super::error::PromiseError;
use super::{Inner, Outcome, POLLED, Promise};
use crate::errands::Step;
use crate::lock::Lock;

/// Promises that are used up, as what a cancellation ends.
struct Sources(Lock<Vec<Arc<dyn Cancel>>>);

impl Cancel for Sources {
    fn cancel(self: Arc<Self>, more: &mut Vec<Arc<dyn Cancel>>) {
        let sources = std::mem::take(&mut *self.0.lock());
        more.extend(sources);
    }
}

impl<T: Send + 'static> Promise<T> {
    /// Its cell, for somebody who waits for several.
    fn into_cell(mut self) -> Arc<Cell<T>> {
        match self.take() {
            Inner::Ready(outcome) => Cell::done(outcome),
            Inner::Cell(cell) => cell,
            Inner::Taken => panic!("{POLLED}"),
        }
    }

    /// Both values. Fails when both are resolved and one has failed, with the first one's error if both have.
    pub fn both<U: Send + 'static>(one: Promise<T>, two: Promise<U>) -> Promise<(T, U)> {
        let two = two.into_cell();
        let one = one.into_cell();
        let ends: [Arc<dyn Cancel>; 2] = [one.clone(), two.clone()];
        let both = Promise(Inner::Cell(one)).then(move |one| {
            Promise(Inner::Cell(two))
                .then(|two| Promise(Inner::Ready(one.and_then(|one| Ok((one, two?))))))
        });
        both.expect_from(Source::Upstream(Arc::new(Sources(Lock::new(ends.into())))));
        both
    }

    /// All values, in the promises' order. Fails when all are resolved and one has failed, with the error that came first:
    /// nothing is left running behind anybody's back.
    pub fn all(promises: impl IntoIterator<Item = Promise<T>>) -> Promise<Vec<T>> {
        let cells: Vec<_> = promises.into_iter().map(Promise::into_cell).collect();
        if cells.is_empty() {
            return Promise::ready(Vec::new());
        }
        let to = result_of(&cells).0;
        let values = cells.iter().map(|_| None).collect();
        let parts = Parts { values, left: cells.len(), error: None, to: Some(Arc::clone(&to)) };
        let all = Arc::new(All(Lock::new(parts)));
        for (index, cell) in cells.into_iter().enumerate() {
            cell.attach(Box::new(Part { all: Arc::clone(&all), index }));
        }
        Promise(Inner::Cell(to))
    }

    /// What the first to be resolved, or to fail, has; the others go on, and their values are dropped when they come.
    ///
    /// # Panics
    /// If there are no promises: nothing would ever come.
    #[track_caller]
    pub fn choose(promises: impl IntoIterator<Item = Promise<T>>) -> Promise<T> {
        first(promises.into_iter().map(Promise::into_cell).collect(), false)
    }

    /// As [`choose`](Promise::choose), and the others are [cancelled](Promise::cancel).
    ///
    /// # Panics
    /// If there are no promises.
    ///
    /// ```
    /// use bast_sync::promise::{Promise, start};
    /// use std::time::Duration;
    ///
    /// let slow = start(|| { bast_rt::sleep(Duration::from_secs(60)); "slow" });
    /// assert_eq!(Promise::pick([slow, start(|| "quick")]).wait().unwrap(), "quick");
    /// ```
    #[track_caller]
    #[doc(alias = "race")]
    pub fn pick(promises: impl IntoIterator<Item = Promise<T>>) -> Promise<T> {
        first(promises.into_iter().map(Promise::into_cell).collect(), true)
    }
}

/// The cell of a result, and what it is made of.
fn result_of<T: Send + 'static, U>(cells: &[Arc<Cell<T>>]) -> (Arc<Cell<U>>, Arc<Sources>) {
    let ends = cells.iter().map(|cell| Arc::clone(cell) as Arc<dyn Cancel>).collect();
    let sources = Arc::new(Sources(Lock::new(ends)));
    (Cell::new(Source::Upstream(sources.clone())), sources)
}

struct All<T>(Lock<Parts<T>>);

struct Parts<T> {
    values: Vec<Option<T>>,
    left: usize,
    error: Option<PromiseError>,
    /// Until the last has come.
    to: Option<Arc<Cell<Vec<T>>>>,
}

struct Part<T> {
    all: Arc<All<T>>,
    index: usize,
}

impl<T: Send + 'static> Callback<T> for Part<T> {
    fn run(self: Box<Self>, outcome: Outcome<T>) -> Option<Arc<dyn Step>> {
        let mut parts = self.all.0.lock();
        let late = match outcome {
            Ok(value) => {
                parts.values[self.index] = Some(value);
                None
            }
            Err(error) if parts.error.is_none() => {
                parts.error = Some(error);
                None
            }
            Err(error) => Some(error),
        };
        parts.left -= 1;
        let last = (parts.left == 0)
            .then(|| (parts.to.take(), parts.error.take(), std::mem::take(&mut parts.values)));
        drop(parts);
        if late.is_some() {
            drop_quietly(late);
        }
        let (to, error, values) = last?;
        let outcome = match error {
            None => Ok(values.into_iter().flatten().collect()),
            Some(error) => {
                drop_quietly(values);
                Err(error)
            }
        };
        to?.complete(outcome)
    }
}

#[track_caller]
fn first<T: Send + 'static>(cells: Vec<Arc<Cell<T>>>, cancels: bool) -> Promise<T> {
    assert!(!cells.is_empty(), "of no promises none is the first: this would wait for ever");
    let (to, sources) = result_of(&cells);
    let seat = Arc::new(Lock::new(Some(Arc::clone(&to))));
    for cell in cells {
        let losers = cancels.then(|| Arc::clone(&sources));
        cell.attach(Box::new(First { seat: Arc::clone(&seat), losers }));
    }
    Promise(Inner::Cell(to))
}

/// Who finds the cell in the seat is the first.
struct First<T> {
    seat: Arc<Lock<Option<Arc<Cell<T>>>>>,
    losers: Option<Arc<Sources>>,
}

impl<T: Send + 'static> Callback<T> for First<T> {
    fn run(self: Box<Self>, outcome: Outcome<T>) -> Option<Arc<dyn Step>> {
        let Some(to) = self.seat.lock().take() else {
            drop_quietly(outcome);
            return None;
        };
        // First, so that the sources are not needed any more when their callbacks run.
        let step = to.complete(outcome);
        if let Some(losers) = self.losers {
            cell::cancel(losers);
        }
        step
    }
}
