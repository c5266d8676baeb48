//! Work on the items of an iterator by fibers, as the results are asked for: a `crew` that is driven from `next`.
//!
//! ```text
//!   given ≤ started ≤ given + limit
//!     │        └ next item ─▶ crew: a fiber for each ─▶ ready: results that nobody has asked for yet
//!     └────────────────────────────────── next ◀────────┘  in order: only the first, if it is there
//! ```
//!
//! The eager forms (`par`) drive the same crew. What differs is who owns it: here an iterator that may be forgotten, so
//! that members borrow nothing (`Crew::start_owned`).

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use bast_rt::wait;

use crate::crew::{Crew, Plan};

/// The crew, and where it gets its work.
struct Work<I, F, R> {
    /// `None` at its end.
    items: Option<I>,
    f: Arc<F>,
    crew: Crew<R>,
    limit: usize,
    started: usize,
    given: usize,
}

impl<I, F, R> Work<I, F, R>
where
    I: Iterator<Item: Send + 'static>,
    F: Fn(I::Item) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    #[track_caller]
    fn new(name: &'static str, items: I, limit: usize, f: F) -> Work<I, F, R> {
        assert!(limit > 0, "a limit of 0: no item could ever be worked on");
        let plan = Plan { name, limit, batch: false, decides: |_| false, panics_decide: true };
        let crew = Crew::new(plan);
        // Slots of a crew are numbered by 32 bits.
        let limit = limit.min(u32::MAX as usize);
        Work { items: Some(items), f: Arc::new(f), crew, limit, started: 0, given: 0 }
    }

    /// Starts as many as may be.
    fn fill(&mut self) {
        while self.started - self.given < self.limit
            && let Some(items) = &mut self.items
        {
            let Some(item) = items.next() else {
                self.items = None;
                return;
            };
            let f = Arc::clone(&self.f);
            self.crew.start_owned(self.started, move || f(item));
            self.started += 1;
        }
    }

    /// Waits for results. False if there will be none.
    fn wait(&mut self, mut each: impl FnMut(usize, R)) -> bool {
        if self.crew.flying() == 0 {
            return false;
        }
        if let Err(interruption) = self.crew.wait(1) {
            interruption.raise();
        }
        let all_well = self.crew.collect(false, &mut |index, result| {
            // A panic decides, so that this is not called.
            if let Ok(result) = result {
                each(index, result);
            }
        });
        if !all_well {
            self.items = None;
            self.given = self.started;
            if let Some(Err(payload)) = self.crew.dismiss() {
                wait::resume_unwind(payload);
            }
        }
        all_well
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let ahead = self.started - self.given;
        let (least, most) = self.items.as_ref().map_or((0, Some(0)), Iterator::size_hint);
        (least.saturating_add(ahead), most.and_then(|most| most.checked_add(ahead)))
    }
}

/// See [`StreamExt::par_map`](super::StreamExt::par_map).
pub struct ParMap<I, F, R> {
    work: Work<I, F, R>,
    /// From the one that is to be given next.
    ready: VecDeque<Option<R>>,
}

/// See [`StreamExt::par_map_unordered`](super::StreamExt::par_map_unordered).
pub struct ParMapUnordered<I, F, R> {
    work: Work<I, F, R>,
    ready: VecDeque<R>,
}

macro_rules! par_map {
    ($t:ident, $name:literal, $pop:expr, $put:expr) => {
        impl<I, F, R> $t<I, F, R>
        where
            I: Iterator<Item: Send + 'static>,
            F: Fn(I::Item) -> R + Send + Sync + 'static,
            R: Send + 'static,
        {
            #[track_caller]
            pub(super) fn new(items: I, limit: usize, f: F) -> $t<I, F, R> {
                $t { work: Work::new($name, items, limit, f), ready: VecDeque::new() }
            }
        }

        impl<I, F, R> Iterator for $t<I, F, R>
        where
            I: Iterator<Item: Send + 'static>,
            F: Fn(I::Item) -> R + Send + Sync + 'static,
            R: Send + 'static,
        {
            type Item = R;

            fn next(&mut self) -> Option<R> {
                self.work.fill();
                loop {
                    if let Some(result) = $pop(&mut self.ready) {
                        self.work.given += 1;
                        return Some(result);
                    }
                    let (ready, given) = (&mut self.ready, self.work.given);
                    if !self.work.wait(|index, result| $put(ready, given, index, result)) {
                        return None;
                    }
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.work.size_hint()
            }
        }

        impl<I, F, R> FusedIterator for $t<I, F, R>
        where
            I: Iterator<Item: Send + 'static>,
            F: Fn(I::Item) -> R + Send + Sync + 'static,
            R: Send + 'static,
        {
        }

        impl<I, F, R> fmt::Debug for $t<I, F, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($t))
                    .field("limit", &self.work.limit)
                    .field("started", &self.work.started)
                    .field("given", &self.work.given)
                    .finish_non_exhaustive()
            }
        }
    };
}

par_map!(ParMap, "StreamExt::par_map", pop_first, put_at);
par_map!(ParMapUnordered, "StreamExt::par_map_unordered", VecDeque::pop_front, put_last);

fn pop_first<R>(ready: &mut VecDeque<Option<R>>) -> Option<R> {
    let first = ready.front_mut()?.take();
    if first.is_some() {
        ready.pop_front();
    }
    first
}

fn put_at<R>(ready: &mut VecDeque<Option<R>>, given: usize, index: usize, result: R) {
    let place = index - given;
    if place >= ready.len() {
        ready.resize_with(place + 1, || None);
    }
    ready[place] = Some(result);
}

fn put_last<R>(ready: &mut VecDeque<R>, _given: usize, _index: usize, result: R) {
    ready.push_back(result);
}
