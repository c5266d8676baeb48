//! The feeding benchmark of "Getting more fiber in your diet": threads, fibers, and fibers on threads.
//!
//! ```text
//! a person            fiber, calcium, iron: 0 0 0  -- one feeding: one more of each -->  n n n: satisfied
//! who is fed          yields after each feeding, so that all eat at the same time
//! a feeding of all    makes the people and what runs them, feeds, and waits until everybody is satisfied
//!
//! grid.rs   people x nutrients x subjects, a process each    ->  curves.rs: the document's graphs
//! feed.rs   in the process: one feeding function per subject ("first", then "again" and "again")
//! ```
//!
//! The document's program feeds once in a process, and its clock runs while stacks and threads are made:
//! that is `first`. `again` is the median of the feedings after it in the same process, which find warm
//! memory. A person counts with plain integers that the compiler must bring to memory at each feeding;
//! otherwise it would see through the loop of a thread that does not yield. In the end each person has
//! exactly what was fed, or the measurement is an error.
//!
//! The subjects in D and Go are `rivals/d/diet.d` and `rivals/go/diet.go`.

mod curves;
mod feed;
mod grid;

pub(crate) use grid::{Options, run as run_grid};

use crate::micro::{Job, Values};
use std::fmt;
use std::hint::black_box;
use std::time::Instant;

/// Where a subject runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cores {
    One,
    All,
}

/// A way of feeding, and about what it takes: only for the estimate of a run's length.
#[derive(Debug)]
struct Subject {
    name: &'static str,
    cores: Cores,
    ns_per_feeding: f64,
    ns_per_person: f64,
}

const fn one(name: &'static str, ns_per_feeding: f64, ns_per_person: f64) -> Subject {
    Subject { name, cores: Cores::One, ns_per_feeding, ns_per_person }
}

const fn all(name: &'static str, ns_per_feeding: f64, ns_per_person: f64) -> Subject {
    Subject { name, cores: Cores::All, ns_per_feeding, ns_per_person }
}

/// Everybody, in the order of the table. `bast-1` comes first: ratios are to it.
const SUBJECTS: &[Subject] = &[
    one("bast-1", 25.0, 1e3),
    all("bast-all", 15.0, 1e3),
    one("bast-task-1", 25.0, 500.0),
    all("bast-task-all", 25.0, 500.0),
    one("coroutine", 8.0, 500.0),
    all("threads", 2.0, 30e3),
    all("threads-yield", 400.0, 30e3),
    one("d-fibers", 30.0, 5e3),
    all("d-threads", 2.0, 40e3),
    one("go-1", 100.0, 1e3),
    all("go-all", 150.0, 1e3),
    one("tokio-current", 50.0, 500.0),
    all("tokio-multi", 60.0, 500.0),
];

/// Somebody who is fed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Person {
    fiber: i32,
    calcium: i32,
    iron: i32,
    wants: i32,
}

impl Person {
    fn new(wants: i32) -> Person {
        Person { wants, ..Person::default() }
    }

    fn satisfied(&self) -> bool {
        self.fiber == self.wants && self.calcium == self.wants && self.iron == self.wants
    }

    /// One feeding. It is seen in memory, as in a language whose objects live there.
    #[inline]
    fn feed(&mut self) {
        self.fiber += 1;
        self.calcium += 1;
        self.iron += 1;
        black_box(&mut *self);
    }
}

/// How many, and how much each wants: `64x1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meal {
    people: usize,
    nutrients: i32,
}

impl fmt::Display for Meal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.people, self.nutrients)
    }
}

impl Meal {
    fn parse(param: &str) -> Result<Meal, String> {
        let (people, nutrients) = param.split_once('x').unwrap_or((param, ""));
        match (people.parse(), nutrients.parse()) {
            (Ok(people @ 1..), Ok(nutrients @ 1..)) => Ok(Meal { people, nutrients }),
            _ => Err(format!("{param:?} is not PEOPLExNUTRIENTS, such as 64x1000")),
        }
    }

    fn feedings(self) -> f64 {
        self.people as f64 * f64::from(self.nutrients)
    }

    /// Everybody's nutrients, or who did not get what was to be fed.
    fn count(self, people: impl IntoIterator<Item = Person>) -> Result<f64, String> {
        let people: Vec<Person> = people.into_iter().collect();
        if people.len() != self.people {
            return Err(format!("{} of {} people came back", people.len(), self.people));
        }
        let fed = |p: &Person| [p.fiber, p.calcium, p.iron] == [self.nutrients; 3];
        match people.iter().find(|p| !fed(p)) {
            Some(hungry) => Err(format!("{hungry:?} was not fed {} times", self.nutrients)),
            None => Ok(self.feedings() * 3.0),
        }
    }
}

/// Whether this module has the benchmark.
pub(crate) fn has(job: &Job) -> bool {
    job.bench == "diet"
}

/// Feeds at least twice, and until `measure` has passed: seconds of each feeding, and what was fed.
pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let meal = Meal::parse(&job.param)?;
    let mut kitchen = feed::kitchen(subject)?;
    let begin = Instant::now();
    let mut values = Values::new();
    loop {
        let start = Instant::now();
        let people = kitchen(meal)?;
        values.push(("s", start.elapsed().as_secs_f64()));
        let fed = meal.count(people)?;
        if values.len() >= 2 && begin.elapsed() >= job.span.measure {
            values.push(("fed", fed));
            return Ok(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meal_is_people_by_nutrients() {
        assert_eq!(Meal::parse("64x1000"), Ok(Meal { people: 64, nutrients: 1000 }));
        for wrong in ["64", "0x10", "10x0", "x", "-1x5", "5x-1", "axb"] {
            assert!(Meal::parse(wrong).unwrap_err().contains("64x1000"), "{wrong}");
        }
    }

    #[test]
    fn whoever_was_not_fed_exactly_is_found() {
        let meal = Meal { people: 2, nutrients: 3 };
        let fed = |times| {
            let mut p = Person::new(3);
            (0..times).for_each(|_| p.feed());
            assert_eq!(p.satisfied(), times == 3);
            p
        };
        assert_eq!(meal.count([fed(3), fed(3)]), Ok(18.0));
        assert!(meal.count([fed(3), fed(2)]).unwrap_err().contains("calcium: 2"));
        assert!(meal.count([fed(3)]).unwrap_err().contains("1 of 2"));
    }
}
