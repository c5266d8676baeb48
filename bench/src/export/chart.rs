//! The records of a run as curves over the number of rrdtools.

use crate::plot::{self, Axis, Chart, Line, Point, Quantity, Scale, Study};
use crate::registry::units;
use crate::report::Record;

const ABOUT: &[&str] = &[
    "The job of “Async OCaml with Lwt”: every RRD file of a fleet into one CSV. 5,000 files (1,000 with --quick) with 288 rows of two sources each, in the page cache.",
    "sequential is one rrdtool asked by a plain loop, processes one such program for each rrdtool, tokio-multi and lwt are pools with one asker for each, bast is rrd-export --reader rrdtool, whose rrdtools have two askers each.",
    "bast-native is rrd-export with its own reader, and floor what nobody can do without: read each file, decode it, format it. Neither has an rrdtool; they are drawn as level lines.",
    "Memory is that of the whole tree of processes, pages that several have counted once.",
];

/// Everything for the report; `None` if the run has none of it.
pub(crate) fn study(records: &[Record]) -> Option<Study> {
    let plots = [
        ("Wall time by the number of rrdtools", units::WALL_S, "wall time", Quantity::Seconds),
        ("Processor time of the whole tree", units::CPU_TREE, "processor time", Quantity::Seconds),
        ("Memory of the whole tree", units::TREE_MB, "MB", Quantity::Number),
    ];
    let charts: Vec<Chart> = plots
        .into_iter()
        .filter_map(|(title, unit, y, quantity)| {
            let lines = lines(records, unit);
            (!lines.is_empty()).then(|| Chart {
                title: title.to_owned(),
                x: Axis::new("rrdtools", Scale::Log2, Quantity::Number),
                y: Axis::new(y, Scale::Log10, quantity),
                lines,
            })
        })
        .collect();
    (!charts.is_empty()).then(|| Study {
        title: "Every RRD file into one CSV".to_owned(),
        about: ABOUT.iter().map(|text| (*text).to_owned()).collect(),
        machine: plot::machine(),
        command: plot::command_line(),
        charts,
    })
}

fn lines(records: &[Record], unit: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for record in records.iter().filter(|r| r.bench == super::NAME && r.unit == unit) {
        let places = match record.param.parse::<f64>() {
            Ok(rrdtools) => vec![rrdtools],
            Err(_) => vec![1.0, 8.0],
        };
        for x in places {
            let point =
                Point { x, median: record.median, min: record.min, max: record.max, n: record.n };
            match lines.iter_mut().find(|line| line.subject == record.subject) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { subject: record.subject.clone(), points: vec![point] }),
            }
        }
    }
    lines
}
