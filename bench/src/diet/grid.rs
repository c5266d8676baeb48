//! People x nutrients x subjects, a child process for each measurement, subjects in turns.
//!
//! A run says first about how long it will take: each measurement has a weight, which is what it is
//! known to take roughly. The time left is corrected by how long the measurements so far have taken.

use super::{Cores, Meal, SUBJECTS, Subject, curves};
use crate::report::{self, Record};
use crate::{child, go, ldc};
use std::ops::AddAssign;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// What the command line asks for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A sparse grid, under a minute
    #[arg(long)]
    quick: bool,
    /// The folder for diet.csv, diet.json and diet.html
    #[arg(long, value_name = "DIR", default_value = "diet")]
    out: PathBuf,
    /// Only these subjects; `bast`, `go`, `d` and `tokio` take all of their family
    #[arg(long, value_delimiter = ',', value_name = "S,...")]
    subject: Vec<String>,
    /// Numbers of people (default: the powers of two from 1 to 2048)
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(u32).range(1..))]
    people: Vec<u32>,
    /// Numbers of nutrients (default: 10,100,1000,10000)
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = clap::value_parser!(i32).range(1..))]
    nutrients: Vec<i32>,
    /// Rounds (default: 3; 2 with --quick)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    repeat: Option<u16>,
}

/// The longest that one process may take.
const LIMIT: Duration = Duration::from_secs(120);
/// About what a process takes to start and end.
const START: Duration = Duration::from_millis(15);

/// What one subject has taken for one meal: seconds, over all rounds.
pub(super) struct Cell {
    pub(super) meal: Meal,
    pub(super) subject: &'static str,
    /// The first feeding of each process.
    pub(super) first: Vec<f64>,
    /// Of each process, the median of those after it.
    pub(super) again: Vec<f64>,
}

/// The grid that was asked for.
struct Plan {
    meals: Vec<Meal>,
    subjects: Vec<&'static Subject>,
    rounds: usize,
    /// How long a process goes on feeding.
    measure: Duration,
}

impl Plan {
    fn new(options: &Options) -> Result<Plan, String> {
        let or = |given: &[u32], quick: &[u32], full: Vec<u32>| match (given, options.quick) {
            ([], true) => quick.to_vec(),
            ([], false) => full,
            (given, _) => given.to_vec(),
        };
        let powers = (0..12).map(|e| 1 << e).collect();
        let given: Vec<u32> = options.nutrients.iter().map(|n| n.unsigned_abs()).collect();
        let mut nutrients = or(&given, &[10, 1000], vec![10, 100, 1000, 10_000]);
        let mut people = or(&options.people, &[1, 8, 64, 512, 2048], powers);
        for list in [&mut nutrients, &mut people] {
            list.sort_unstable();
            list.dedup();
        }
        let meal = |p: u32, n: u32| Meal { people: p as usize, nutrients: n as i32 };
        let of = |n: u32| people.iter().map(move |p| meal(*p, n));
        let family = |want: &str, name: &str| {
            name == want || name.strip_prefix(want).is_some_and(|rest| rest.starts_with('-'))
        };
        for want in &options.subject {
            if !SUBJECTS.iter().any(|s| family(want, s.name)) {
                let names: Vec<_> = SUBJECTS.iter().map(|s| s.name).collect();
                return Err(format!("no subject {want}; there are: {}", names.join(", ")));
            }
        }
        let wanted = |s: &&Subject| {
            options.subject.is_empty() || options.subject.iter().any(|want| family(want, s.name))
        };
        Ok(Plan {
            meals: nutrients.iter().flat_map(|n| of(*n)).collect(),
            subjects: SUBJECTS.iter().filter(wanted).collect(),
            rounds: options.repeat.map_or(if options.quick { 2 } else { 3 }, usize::from),
            measure: Duration::from_millis(if options.quick { 20 } else { 100 }),
        })
    }

    /// About what one process takes.
    fn weight(&self, subject: &Subject, meal: Meal) -> Duration {
        let ns =
            meal.feedings() * subject.ns_per_feeding + meal.people as f64 * subject.ns_per_person;
        START + self.measure.max(Duration::from_secs_f64(2.0 * ns / 1e9))
    }

    fn estimate(&self) -> Duration {
        let pairs =
            self.meals.iter().flat_map(|m| self.subjects.iter().map(|s| self.weight(s, *m)));
        pairs.sum::<Duration>() * self.rounds as u32
    }
}

/// Runs the grid: progress to stderr, the table to stdout, the files into the folder. Gives the
/// number of subjects that failed, and the table.
pub(crate) fn run(options: &Options) -> Result<(usize, String), String> {
    let mut plan = Plan::new(options)?;
    plan.subjects.retain(|s| {
        let hint = missing(s.name);
        if let Some(hint) = hint {
            eprintln!("subject {} is skipped: {hint}", s.name);
        }
        hint.is_none()
    });
    let whole = plan.estimate();
    eprintln!(
        "{} meals x {} subjects x {} rounds: about {}",
        plan.meals.len(),
        plan.subjects.len(),
        plan.rounds,
        about(whole)
    );
    let (mut cells, mut broken) = (Vec::new(), Vec::new());
    let (begin, mut done) = (Instant::now(), Duration::ZERO);
    for (i, meal) in plan.meals.iter().enumerate() {
        let mut row: Vec<Cell> = plan
            .subjects
            .iter()
            .map(|s| Cell { meal: *meal, subject: s.name, first: Vec::new(), again: Vec::new() })
            .collect();
        for _ in 0..plan.rounds {
            for (subject, cell) in plan.subjects.iter().zip(&mut row) {
                done.add_assign(plan.weight(subject, *meal));
                if broken.contains(&subject.name) {
                    continue;
                }
                match measure(subject, *meal, plan.measure) {
                    Ok((first, again)) => {
                        cell.first.push(first);
                        cell.again.push(again);
                    }
                    Err(e) => {
                        eprintln!("{} FAILED at {meal}: {e}", subject.name);
                        broken.push(subject.name);
                    }
                }
            }
        }
        let share = done.as_secs_f64() / whole.as_secs_f64();
        let left = begin.elapsed().mul_f64((1.0 - share).max(0.0) / share);
        let at = format!("[{}/{}] {meal}", i + 1, plan.meals.len());
        eprintln!("{at}: {:.0} % done, about {} left", share * 100.0, about(left));
        cells.extend(row.into_iter().filter(|c| !c.first.is_empty()));
    }
    for path in curves::study(&cells).write(&options.out, "diet")? {
        eprintln!("wrote {}", path.display());
    }
    Ok((broken.len(), report::table(&records(&cells))))
}

/// Records for the table: the document's people, or all where there are few.
fn records(cells: &[Cell]) -> Vec<Record> {
    let shown = |c: &&Cell| cells.len() < 100 || [1, 64, 2048].contains(&c.meal.people);
    let mut out: Vec<Record> = Vec::new();
    for (unit, of) in
        [("us first", (|c| &c.first) as fn(&Cell) -> &Vec<f64>), ("us again", |c| &c.again)]
    {
        out.extend(cells.iter().filter(shown).filter_map(|c| {
            let us: Vec<f64> = of(c).iter().map(|s| s * 1e6).collect();
            Record::new(["diet", &c.meal.to_string(), c.subject, unit], &us)
        }));
    }
    out
}

/// What is not installed, and how to get it.
fn missing(subject: &str) -> Option<&'static str> {
    if go::is(subject) && go::missing() {
        return Some("there is no `go` on the PATH");
    }
    if ldc::is(subject) && ldc::missing() {
        return Some("there is no `ldc2` on the PATH (apt-get install -y ldc)");
    }
    None
}

/// One process: the seconds of the first feeding, and the median of the others.
fn measure(subject: &Subject, meal: Meal, measure: Duration) -> Result<(f64, f64), String> {
    let cores = match subject.cores {
        Cores::One => vec![child::CLIENT_CORE],
        Cores::All => (0..thread::available_parallelism().map_or(1, usize::from)).collect(),
    };
    let mut command = if ldc::is(subject.name) {
        Command::new(ldc::program()?)
    } else {
        child::command(subject.name, cores.len())?
    };
    command.args(["subject", "diet", &meal.to_string(), subject.name, "0"]);
    command.arg(measure.as_millis().to_string());
    figures(meal, &child::output(command, cores, LIMIT)?)
}

fn figures(meal: Meal, text: &str) -> Result<(f64, f64), String> {
    let mut seconds = Vec::new();
    let mut fed = None;
    for line in text.lines() {
        let bad = || format!("not a figure of diet: {line:?}");
        let (unit, value) = line.split_once('\t').ok_or_else(bad)?;
        let value: f64 = value.parse().map_err(|_| bad())?;
        match unit {
            "s" => seconds.push(value),
            "fed" => fed = Some(value),
            _ => return Err(bad()),
        }
    }
    let wanted = meal.feedings() * 3.0;
    if fed != Some(wanted) {
        return Err(format!("{fed:?} nutrients were eaten and not {wanted}"));
    }
    let first = seconds.first().copied();
    let again = crate::stats::median(seconds.get(1..).unwrap_or_default());
    first.zip(again).ok_or_else(|| format!("{} feedings are too few", seconds.len()))
}

fn about(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..100 => format!("{s} s"),
        s => format!("{} min", s.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Options {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            options: Options,
        }
        <Only as clap::Parser>::parse_from(std::iter::once(&"x").chain(args)).options
    }

    #[test]
    fn the_full_grid_is_the_documents_and_the_quick_one_is_short() {
        let full = Plan::new(&options(&[])).unwrap();
        assert_eq!((full.meals.len(), full.subjects.len(), full.rounds), (48, SUBJECTS.len(), 3));
        assert_eq!(full.meals[47], Meal { people: 2048, nutrients: 10_000 });
        let quick = Plan::new(&options(&["--quick"])).unwrap();
        assert!(quick.estimate() < Duration::from_secs(45), "{:?}", quick.estimate());
        assert!(quick.meals.iter().any(|m| m.people == 2048), "2048 threads are asked for");
        let some = ["--people", "4,1,4", "--nutrients", "10", "--subject", "go,threads,bast-1"];
        let some = Plan::new(&options(&some)).unwrap();
        assert_eq!(some.meals.iter().map(|m| m.people).collect::<Vec<_>>(), [1, 4]);
        let names: Vec<_> = some.subjects.iter().map(|s| s.name).collect();
        assert_eq!(names, ["bast-1", "threads", "threads-yield", "go-1", "go-all"]);
        let error = Plan::new(&options(&["--subject", "nobody"])).err().unwrap();
        assert!(error.contains("no subject nobody; there are: bast-1,"), "{error}");
    }

    #[test]
    fn figures_need_all_that_was_fed() {
        let meal = Meal { people: 2, nutrients: 10 };
        assert_eq!(figures(meal, "s\t9\ns\t3\ns\t1\ns\t2\nfed\t60\n"), Ok((9.0, 2.0)));
        for wrong in ["s\t9\ns\t1\nfed\t59\n", "s\t9\ns\t1\n", "s\t9\nfed\t60\n", "x\t1\n", "s\n"] {
            assert!(figures(meal, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_short_to_read() {
        assert_eq!(
            [5, 99, 100, 600].map(|s| about(Duration::from_secs(s))),
            ["5 s", "99 s", "2 min", "10 min"]
        );
    }
}
