//! How each subject of this program feeds. What it needs once (a runtime, a pool of stacks) is made before the
//! first feeding, and not timed; people and whatever runs them are.

use super::{Meal, Person};
use crate::micro::{bast_runtime, tokio_runtime};
use bast_coro::{Coroutine, StackPool, State};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

type People = Result<Vec<Person>, String>;
/// Feeds once, and gives the people back.
pub(super) type Kitchen = Box<dyn FnMut(Meal) -> People>;

/// What feeds for `subject`.
pub(super) fn kitchen(subject: &str) -> Result<Kitchen, String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = if subject.ends_with("-1") { 1 } else { cores };
    match subject {
        "bast-1" | "bast-all" => {
            let rt = bast_runtime("bast", workers)?;
            Ok(Box::new(move |meal| rt.run(move || fibers(meal))))
        }
        "bast-task-1" | "bast-task-all" => {
            let rt = bast_runtime("bast", workers)?;
            Ok(Box::new(move |meal| rt.run(move || tasks(meal))))
        }
        "coroutine" => {
            let pool = StackPool::new().map_err(|e| e.to_string())?;
            let pool = Rc::new(RefCell::new(pool));
            Ok(Box::new(move |meal| Ok(coroutines(meal, &pool))))
        }
        "threads" => Ok(Box::new(|meal| threads(meal, || {}))),
        "threads-yield" => Ok(Box::new(|meal| threads(meal, thread::yield_now))),
        "tokio-current" | "tokio-multi" => {
            let rt = Arc::new(tokio_runtime(subject, workers)?);
            Ok(Box::new(move |meal| {
                // Spawned, because what `block_on` drives runs outside the workers.
                rt.block_on(rt.spawn(tokio_tasks(meal))).map_err(|e| e.to_string())?
            }))
        }
        _ => Err(format!("no subject {subject} in this build")),
    }
}

/// A fiber per person: on one worker the document's fibers, on all its hybrid.
fn fibers(meal: Meal) -> People {
    let all: Vec<_> = (0..meal.people)
        .map(|_| {
            bast::spawn(move || {
                let mut person = Person::new(meal.nutrients);
                while !person.satisfied() {
                    person.feed();
                    bast::yield_now();
                }
                person
            })
        })
        .collect();
    all.into_iter().map(|f| f.join().map_err(|_| "a fiber panicked".to_owned())).collect()
}

fn tasks(meal: Meal) -> People {
    let all: Vec<_> = (0..meal.people)
        .map(|_| {
            bast::task::spawn(async move {
                let mut person = Person::new(meal.nutrients);
                while !person.satisfied() {
                    person.feed();
                    bast::task::yield_now().await;
                }
                person
            })
        })
        .collect();
    all.into_iter().map(|t| t.join().map_err(|_| "a task panicked".to_owned())).collect()
}

/// The document's own loop: a fiber object per person, called in turn until it has ended.
fn coroutines(meal: Meal, pool: &Rc<RefCell<StackPool>>) -> Vec<Person> {
    let people: Vec<Rc<Cell<Person>>> =
        (0..meal.people).map(|_| Rc::new(Cell::new(Person::new(meal.nutrients)))).collect();
    let mut fibers: Vec<Option<Coroutine<()>>> = people
        .iter()
        .map(|person| {
            let person = Rc::clone(person);
            Some(Coroutine::with_pool(pool, move |y| {
                while !person.get().satisfied() {
                    let mut fed = person.get();
                    fed.feed();
                    person.set(fed);
                    y.yield_now();
                }
            }))
        })
        .collect();
    let mut ended = 0;
    while ended < fibers.len() {
        for place in &mut fibers {
            if let Some(fiber) = place
                && fiber.call() == State::Term
            {
                ended += 1;
                *place = None;
            }
        }
    }
    people.iter().map(|p| p.get()).collect()
}

/// A thread per person. The document's do not yield; `between` is what happens after each feeding.
fn threads(meal: Meal, between: fn()) -> People {
    let start = |n| {
        let eat = move || {
            let mut person = Person::new(meal.nutrients);
            while !person.satisfied() {
                person.feed();
                between();
            }
            person
        };
        thread::Builder::new().spawn(eat).map_err(|e| {
            format!(
                "thread {n} of {}: {e}; see `ulimit -u`, /proc/sys/kernel/threads-max and the \
                 cgroup's pids.max",
                meal.people
            )
        })
    };
    let all: Vec<_> = (1..=meal.people).map(start).collect();
    // Those that did start are joined before an error is told.
    let join =
        |t: Result<thread::JoinHandle<_>, _>| t?.join().map_err(|_| "a thread panicked".to_owned());
    all.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
}

async fn tokio_tasks(meal: Meal) -> People {
    let all: Vec<_> = (0..meal.people)
        .map(|_| {
            tokio::spawn(async move {
                let mut person = Person::new(meal.nutrients);
                while !person.satisfied() {
                    person.feed();
                    tokio::task::yield_now().await;
                }
                person
            })
        })
        .collect();
    let mut people = Vec::with_capacity(meal.people);
    for task in all {
        people.push(task.await.map_err(|e| e.to_string())?);
    }
    Ok(people)
}
