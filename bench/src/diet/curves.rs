//! The document's graphs: time against people for each number of nutrients, and the reverse.

use super::grid::Cell;
use super::{Cores, Meal, SUBJECTS};
use crate::plot::{Axis, Chart, Line, Point, Quantity, Scale, Study, command_line, machine};

/// The document's own subjects, and the hybrid that it proposes.
const DOCUMENT: &[&str] =
    &["threads", "threads-yield", "d-threads", "d-fibers", "coroutine", "bast-1", "bast-all"];
/// The numbers of people whose time is drawn against nutrients.
const CROWDS: &[usize] = &[1, 64, 2048];

const ABOUT: [&str; 3] = [
    "People are fed until each has had N of fiber, of calcium and of iron. Whoever feeds one person adds one of \
     each and lets the next person eat (fibers, tasks and threads-yield yield; threads and d-threads do not, as in \
     the document). Making people, fibers and threads, and waiting for their end, is part of the time.",
    "The first feeding in a process is the document's measurement; of the later ones, which find warm memory and \
     stacks to use again, the median counts. Subjects named -1, coroutine, d-fibers and tokio-current have one core, \
     the others all. Each person ends with exactly what was fed: this is checked.",
    "Lines are medians of the processes, the bands their least and greatest. Lower is better.",
];

pub(super) fn study(cells: &[Cell]) -> Study {
    let mut charts = Vec::new();
    let mut nutrients: Vec<i32> = cells.iter().map(|c| c.meal.nutrients).collect();
    nutrients.dedup();
    let on = |cores: Cores| SUBJECTS.iter().filter(move |s| s.cores == cores).map(|s| s.name);
    let groups: [(&str, Vec<&str>, Pick); 3] = [
        ("first feeding", DOCUMENT.to_vec(), |c| &c.first),
        ("again, one core", on(Cores::One).collect(), |c| &c.again),
        ("again, all cores", on(Cores::All).collect(), |c| &c.again),
    ];
    for (name, subjects, pick) in &groups {
        for n in &nutrients {
            let x = |m: Meal| (m.nutrients == *n).then_some(m.people as f64);
            let title = format!("{} nutrients, {name}", Quantity::Number.figure(f64::from(*n)));
            let axis = Axis::new("people", Scale::Log2, Quantity::Number);
            charts.extend(chart(title, axis, lines(cells, subjects, x, *pick)));
        }
    }
    for (name, subjects, pick) in &groups {
        for crowd in CROWDS {
            let x = |m: Meal| (m.people == *crowd).then_some(f64::from(m.nutrients));
            let title = format!("{} people, {name}", Quantity::Number.figure(*crowd as f64));
            let axis = Axis::new("nutrients", Scale::Log10, Quantity::Number);
            charts.extend(chart(title, axis, lines(cells, subjects, x, *pick)));
        }
    }
    Study {
        title: "Getting more fiber in your diet".to_owned(),
        about: ABOUT.map(str::to_owned).into(),
        machine: machine(),
        command: command_line(),
        charts,
    }
}

type Pick = fn(&Cell) -> &Vec<f64>;

fn lines(
    cells: &[Cell],
    subjects: &[&str],
    x: impl Fn(Meal) -> Option<f64>,
    pick: Pick,
) -> Vec<Line> {
    let line = |subject: &&str| {
        let own = cells.iter().filter(|c| c.subject == *subject);
        let points = own.filter_map(|c| Point::new(x(c.meal)?, pick(c))).collect();
        Line { subject: (*subject).to_owned(), points }
    };
    subjects.iter().map(line).filter(|l| !l.points.is_empty()).collect()
}

/// `None` where the grid has nothing of it, or a single point, which is no curve.
fn chart(title: String, x: Axis, lines: Vec<Line>) -> Option<Chart> {
    let y = Axis::new("time to feed all", Scale::Log10, Quantity::Seconds);
    lines.iter().any(|l| l.points.len() > 1).then_some(Chart { title, x, y, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_the_document_are_drawn_with_the_subjects_that_ran() {
        let cell = |people, nutrients, subject| Cell {
            meal: Meal { people, nutrients },
            subject,
            first: vec![1e-3, 3e-3, 2e-3],
            again: vec![1e-4],
        };
        let mut cells = Vec::new();
        for nutrients in [10, 1000] {
            for people in [1, 64] {
                cells.extend(["threads", "bast-1"].map(|s| cell(people, nutrients, s)));
            }
        }
        let study = study(&cells);
        let titles: Vec<_> = study.charts.iter().map(|c| c.title.as_str()).collect();
        // By nutrients and by people, each with three groups.
        assert_eq!(titles.len(), 2 * 3 + 2 * 3, "{titles:?}");
        assert!(titles.contains(&"1,000 nutrients, again, all cores"), "{titles:?}");
        assert!(!titles.iter().any(|t| t.contains("2,048")), "{titles:?}");
        let first = &study.charts[0];
        assert_eq!((first.lines.len(), first.lines[0].points.len()), (2, 2));
        assert_eq!(first.lines[1].points[1], Point::new(64.0, &[1e-3, 2e-3, 3e-3]).unwrap());
    }
}
