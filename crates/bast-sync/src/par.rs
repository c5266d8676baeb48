//! Work on many items, or by many closures, at once: each in a fiber of its own, all of them ended when the
//! function returns. The mechanism is in `crew`.

use std::thread;

use bast_rt::{Cancelled, wait};

use crate::crew::{self, Plan};
use crate::group::group;

/// The results of `f` for each item, in the items' order. At most `limit` items are worked on at a time.
///
/// The calling fiber or thread takes items from the iterator as there is room for them, never one more, and
/// each is worked on in a fiber of its own. Everything may be borrowed. `usize::MAX` is no limit.
///
/// # Panics
/// With the first panic of `f`, or that of the iterator, after the other fibers have been cancelled and have
/// ended. If `limit` is 0.
///
/// # Cancellation
/// If the calling fiber is cancelled, or a timeout, token or group around the call ends, the fibers are cancelled at
/// once, and the call unwinds after all have ended. With `panic = "abort"` their I/O fails and the call returns.
///
/// ```
/// let words = ["one", "two", "three"];
/// let lengths = bast_sync::par_map(&words, 2, |word| word.len());
/// assert_eq!(lengths, [3, 3, 5]);
/// ```
#[track_caller]
pub fn par_map<I, F, R>(items: I, limit: usize, f: F) -> Vec<R>
where
    I: IntoIterator<Item: Send>,
    F: Fn(I::Item) -> R + Sync,
    R: Send,
{
    check_limit(limit);
    let jobs = jobs(items.into_iter(), &f);
    let mut results = places(&jobs);
    let plan = Plan { batch: true, ..plan("par_map", limit) };
    finish(crew::run(plan, jobs, |index, result| put(&mut results, index, result.ok())));
    whole(results)
}

/// As [`par_map`], but gives each result to `each`, on the calling fiber or thread, as it comes.
///
/// # Panics
/// As [`par_map`], and with the panic of `each`.
///
/// ```
/// let mut sum = 0;
/// bast_sync::par_map_unordered(1..=100, 8, |n| n * n, |square| sum += square);
/// assert_eq!(sum, 338_350);
/// ```
#[track_caller]
pub fn par_map_unordered<I, F, R>(items: I, limit: usize, f: F, mut each: impl FnMut(R))
where
    I: IntoIterator<Item: Send>,
    F: Fn(I::Item) -> R + Sync,
    R: Send,
{
    check_limit(limit);
    let plan = plan("par_map_unordered", limit);
    finish(crew::run(plan, jobs(items.into_iter(), &f), |_, result| {
        if let Ok(result) = result {
            each(result);
        }
    }));
}

/// Calls `f` with each item, in a fiber of its own, at most `limit` at a time.
///
/// # Panics
/// As [`par_map`].
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let sum = AtomicU32::new(0);
/// bast_sync::for_each_concurrent(1..=10, 3, |n| {
///     sum.fetch_add(n, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 55);
/// ```
#[track_caller]
pub fn for_each_concurrent<I, F>(items: I, limit: usize, f: F)
where
    I: IntoIterator<Item: Send>,
    F: Fn(I::Item) + Sync,
{
    check_limit(limit);
    let plan = plan("for_each_concurrent", limit);
    finish(crew::run(plan, jobs(items.into_iter(), &f), |_, _| ()));
}

/// Runs each closure in a fiber of its own and returns what they returned, in order: the value, or the panic's
/// payload. None disturbs the others.
///
/// # Cancellation
/// As [`par_map`].
///
/// ```
/// let results = bast_sync::join_all((1..=3).map(|n| move || 6 / (3 - n)));
/// assert_eq!(results[0].as_ref().unwrap(), &3);
/// assert!(results[2].is_err());
/// ```
pub fn join_all<I, F, T>(closures: I) -> Vec<thread::Result<T>>
where
    I: IntoIterator<Item = F>,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let closures = closures.into_iter();
    let mut results = places(&closures);
    let plan = Plan { batch: true, panics_decide: false, ..plan("join_all", usize::MAX) };
    crew::run(plan, closures, |index, result| put(&mut results, index, Some(result)));
    whole(results)
}

/// Runs each closure in a fiber of its own and returns their values in order. The first error cancels the others,
/// and is returned when they have ended.
///
/// # Errors
/// The first error, in time.
///
/// # Panics
/// With the first panic, after the others have been cancelled and have ended.
///
/// # Cancellation
/// As [`par_map`].
///
/// ```
/// let all = bast_sync::try_join_all(["1", "2", "x"].map(|text| move || text.parse::<u32>()));
/// assert!(all.is_err());
/// ```
pub fn try_join_all<I, F, T, E>(closures: I) -> Result<Vec<T>, E>
where
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Result<T, E> + Send,
    T: Send,
    E: Send,
{
    let closures = closures.into_iter();
    let mut results = places(&closures);
    let plan = Plan { batch: true, decides: Result::is_err, ..plan("try_join_all", usize::MAX) };
    let decided = crew::run(plan, closures, |index, result| {
        put(&mut results, index, result.ok().and_then(Result::ok));
    });
    match finish(decided) {
        Some(Err(error)) => Err(error),
        _ => Ok(whole(results)),
    }
}

/// Runs each closure in a fiber of its own and returns what the first to return has returned. The others are
/// cancelled, and have ended when this returns; what they return nevertheless is dropped.
///
/// # Panics
/// With the panic of a closure, if that comes before the first value: a panic is a fault in the program and not a way
/// to lose. If there is no closure.
///
/// # Cancellation
/// As [`par_map`].
///
/// ```
/// use std::time::Duration;
///
/// let first = bast_sync::race([5_000, 1, 5_000].map(|millis| move || {
///     bast_rt::sleep(Duration::from_millis(millis));
///     millis
/// }));
/// assert_eq!(first, 1);
///
/// // Closures of different types:
/// let first: [Box<dyn FnOnce() -> u32 + Send>; 2] =
///     [Box::new(|| loop { bast_rt::park() }), Box::new(|| 2)];
/// assert_eq!(bast_sync::race(first), 2);
/// ```
#[track_caller]
pub fn race<I, F, T>(closures: I) -> T
where
    I: IntoIterator<Item = F>,
    F: FnOnce() -> T + Send,
    T: Send,
{
    let plan = Plan { decides: |_| true, ..plan("race", usize::MAX) };
    match finish(crew::run(plan, closures.into_iter(), |_, _| ())) {
        Some(value) => value,
        None => panic!("race: nobody takes part"),
    }
}

/// As [`race`], but an error only loses: the first to return `Ok` wins.
///
/// # Errors
/// All errors, in the closures' order, if none returned `Ok`.
///
/// # Panics
/// With the panic of a closure, if that comes before the first `Ok`.
///
/// ```
/// let won = bast_sync::race_ok(["x", "7", "y"].map(|text| move || text.parse::<u32>()));
/// assert_eq!(won.unwrap(), 7);
/// let lost = bast_sync::race_ok(["x", "y"].map(|text| move || text.parse::<u32>()));
/// assert_eq!(lost.unwrap_err().len(), 2);
/// ```
pub fn race_ok<I, F, T, E>(closures: I) -> Result<T, Vec<E>>
where
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Result<T, E> + Send,
    T: Send,
    E: Send,
{
    let closures = closures.into_iter();
    let mut errors = places(&closures);
    let plan = Plan { batch: true, decides: Result::is_ok, ..plan("race_ok", usize::MAX) };
    let decided = crew::run(plan, closures, |index, result| {
        put(&mut errors, index, result.ok().and_then(Result::err));
    });
    match finish(decided) {
        Some(Ok(value)) => Ok(value),
        _ => Err(whole(errors)),
    }
}

/// Runs `f` here and `g` in a fiber, at the same time, and returns what both returned. Same as rayon's `join`; only
/// `g` has to be `Send`.
///
/// # Panics
/// With the first panic of the two, after the other has been cancelled and has ended.
///
/// # Cancellation
/// As [`par_map`].
///
/// ```
/// let numbers = [1, 2, 3, 4];
/// let (left, right) = bast_sync::join(|| numbers[..2].iter().sum::<i32>(), || numbers[2..].len());
/// assert_eq!((left, right), (3, 2));
/// ```
pub fn join<A, B>(f: impl FnOnce() -> A, g: impl FnOnce() -> B + Send) -> (A, B)
where
    B: Send,
{
    let both = group(|members| {
        let g = members.spawn(|| Ok(g()));
        let a = f();
        Ok((a, g.join()?))
    });
    // Cancelled alone: its runtime ends, or it has cancelled itself.
    both.unwrap_or_else(|cancelled: Cancelled| wait::resume_unwind(Box::new(cancelled)))
}

fn plan<R>(name: &'static str, limit: usize) -> Plan<R> {
    Plan { name, limit, batch: false, decides: |_| false, panics_decide: true }
}

#[track_caller]
fn check_limit(limit: usize) {
    assert!(limit > 0, "a limit of 0: no item could ever be worked on");
}

fn jobs<T, R, F: Fn(T) -> R + Sync>(
    items: impl Iterator<Item = T>,
    f: &F,
) -> impl Iterator<Item = impl FnOnce() -> R> {
    items.map(move |item| move || f(item))
}

/// Places for what the jobs return.
fn places<R>(jobs: &impl Iterator) -> Vec<Option<R>> {
    Vec::with_capacity(jobs.size_hint().0.min(crew::SOME))
}

fn put<R>(places: &mut Vec<Option<R>>, index: usize, result: Option<R>) {
    if index == places.len() {
        return places.push(result);
    }
    if index > places.len() {
        places.resize_with(index + 1, || None);
    }
    places[index] = result;
}

/// What is in the places, after everybody has ended without a decision: then none is empty.
fn whole<R>(places: Vec<Option<R>>) -> Vec<R> {
    places.into_iter().map(|result| result.expect("every job has its result")).collect()
}

/// The result that has decided, if one has.
fn finish<R>(decided: Option<thread::Result<R>>) -> Option<R> {
    decided.map(|result| result.unwrap_or_else(|payload| wait::resume_unwind(payload)))
}
