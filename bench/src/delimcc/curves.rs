//! The records of a run as curves, and the charts of the document.

use super::fit;
use crate::plot::{self, Axis, Chart, Line, Point, Quantity, Scale, Study};
use crate::report::Record;

/// The times of one subject in one pattern and mode, by size.
pub(super) struct Curve<'a> {
    pub(super) pattern: &'a str,
    pub(super) mode: &'a str,
    pub(super) subject: &'a str,
    points: Vec<(f64, &'a Record)>,
}

impl Curve<'_> {
    /// Size and ns.
    pub(super) fn medians(&self) -> Vec<(f64, f64)> {
        self.points.iter().map(|(n, r)| (*n, r.median)).collect()
    }

    /// Size and the least ns over the rounds.
    pub(super) fn leasts(&self) -> Vec<(f64, f64)> {
        self.points.iter().map(|(n, r)| (*n, r.min)).collect()
    }

    fn line(&self, name: String) -> Line {
        let point = |(n, r): &(f64, &Record)| {
            let [median, min, max] = [r.median, r.min, r.max].map(|ns| ns / 1e9);
            Point { x: *n, median, min, max, n: r.n }
        };
        Line { subject: name, points: self.points.iter().map(point).collect() }
    }
}

/// The curves in `records`, in their order.
pub(super) fn curves(records: &[Record]) -> Vec<Curve<'_>> {
    let mut all: Vec<Curve<'_>> = Vec::new();
    for r in records.iter().filter(|r| super::Pattern::of(&r.bench).is_some()) {
        let Some((mode, n)) = r.param.split_once('-') else { continue };
        let Ok(n) = n.parse() else { continue };
        let at = (r.bench.as_str(), mode, r.subject.as_str());
        match all.iter_mut().find(|c| (c.pattern, c.mode, c.subject) == at) {
            Some(curve) => curve.points.push((n, r)),
            None => {
                let (pattern, mode, subject) = at;
                all.push(Curve { pattern, mode, subject, points: vec![(n, r)] });
            }
        }
    }
    all
}

/// Title, x axis, scale of y, and which curves under which name.
type Plot = (&'static str, &'static str, Scale, fn(&Curve<'_>) -> Option<String>);

const YIELDS: &str = "yields";
const DEPTH: &str = "stack depth";

fn only(c: &Curve<'_>, pattern: &str, mode: &str) -> Option<String> {
    (c.pattern == pattern && c.mode == mode).then(|| c.subject.to_owned())
}

/// The two of the document. Lwt with the faster engine for the mode.
fn is_pair(c: &Curve<'_>) -> bool {
    c.subject == "bast" || c.subject == if c.mode == "slow" { "lwt-select" } else { "lwt" }
}

/// What the document plotted, in its order, with our subjects; then the rest.
const PLOTS: &[Plot] = &[
    ("Direct non-blocking overhead: basic, quick", YIELDS, Scale::Log10, |c| {
        only(c, "basic", "quick")
    }),
    ("Direct blocking overhead: basic, medium and slow", YIELDS, Scale::Log10, |c| {
        let drawn = is_pair(c) && c.pattern == "basic" && c.mode != "quick";
        drawn.then(|| format!("{} {}", c.subject, c.mode))
    }),
    ("Recurse2 vs basic: slow", DEPTH, Scale::Log10, |c| {
        let drawn = is_pair(c) && c.pattern != "recurse" && c.mode == "slow";
        drawn.then(|| format!("{} {}", c.subject, c.pattern))
    }),
    ("A wait at every level: recurse2, slow", DEPTH, Scale::Log10, |c| only(c, "recurse2", "slow")),
    ("One wait at the bottom: recurse, slow", DEPTH, Scale::Log10, |c| only(c, "recurse", "slow")),
    ("recurse in a fiber, and a plain call", DEPTH, Scale::Linear, |c| match c.subject {
        "bast" if c.pattern == "recurse" => Some(format!("bast {}", c.mode)),
        "plain" if c.mode == "quick" => Some("plain call".to_owned()),
        _ => None,
    }),
    ("recurse2, medium", DEPTH, Scale::Log10, |c| only(c, "recurse2", "medium")),
    ("recurse, medium", DEPTH, Scale::Log10, |c| only(c, "recurse", "medium")),
    ("recurse2, quick", DEPTH, Scale::Log10, |c| only(c, "recurse2", "quick")),
    ("recurse, quick", DEPTH, Scale::Log10, |c| only(c, "recurse", "quick")),
    ("basic, medium", YIELDS, Scale::Log10, |c| only(c, "basic", "medium")),
    ("basic, slow", YIELDS, Scale::Log10, |c| only(c, "basic", "slow")),
];

const ABOUT: &[&str] = &[
    "The benchmark of “Delimited Continuations vs Lwt for Threads” (mirage.io, 2011), one round where the document has 15,000. basic waits n times in a loop; recurse waits once, at the bottom of n calls; recurse2 waits in each of n + 1 calls. The document calls recurse2 “recurse” in its first text.",
    "quick waits for what is there already, medium yields (Lwt.pause), slow sleeps for no time (Lwt_unix.sleep 0.0).",
    "bast is a fiber that calls plainly, bast-task and tokio-current are async functions whose recursive calls are boxed, bast-promise binds promises as the document does, lwt is native OCaml with Lwt's default engine, lwt-select the same with its select engine, whose sleeps of no time are the faster ones, plain the fiber's function without anything to wait for. One core for all.",
    "Where both axes are logarithmic, a linear curve rises by one decade in a decade and a quadratic one by two: a chain of boxed futures is polled from its top at each wait, as the delimited continuations were copied at each.",
    "tokio's timers round up to the next millisecond. Go's sleep of no time returns at once and is left out.",
];

/// Everything for the report; `None` if the run has no curves.
pub(crate) fn study(records: &[Record]) -> Option<Study> {
    let curves = curves(records);
    let charts: Vec<Chart> = PLOTS
        .iter()
        .filter_map(|(title, x, scale, name)| {
            let lines: Vec<_> = curves.iter().filter_map(|c| Some(c.line(name(c)?))).collect();
            (!lines.is_empty()).then(|| Chart {
                title: (*title).to_owned(),
                x: Axis::new(x, *scale, Quantity::Number),
                y: Axis::new("time of one round", *scale, Quantity::Seconds),
                lines,
            })
        })
        .collect();
    let about = ABOUT.iter().map(|p| (*p).to_owned()).chain(fit::sentences(&curves));
    (!charts.is_empty()).then(|| Study {
        title: "Waits in a loop and under recursion".to_owned(),
        about: about.collect(),
        machine: plot::machine(),
        command: plot::command_line(),
        charts,
    })
}
