//! Curves that were measured, as files: CSV and JSON to work with, and one HTML page to look at.
//!
//! ```text
//! samples -> Point -> Line (a subject) -> Chart (two axes) -> Study (machine, command)
//!                                                              |-- data.rs   NAME.csv, NAME.json
//!                                                              `-- html.rs   NAME.html: for each chart
//!                                         axis.rs: places, ticks --> svg.rs   a picture, and a table
//! ```
//!
//! The pictures are drawn by hand, because they follow the reader's light or dark theme (colours are
//! CSS variables), name each line at its end and have an axis of powers of two: what a crate for
//! plots would still have to be told is most of `svg.rs`.

// The benchmarks that draw use it.
#![allow(dead_code, unused_imports)]

mod axis;
mod data;
mod html;
mod svg;

pub(crate) use axis::{Axis, Quantity, Scale};

use crate::proc;
use crate::stats::{least, median, most};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What was measured at one `x`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) n: usize,
}

impl Point {
    /// `None` without samples.
    pub(crate) fn new(x: f64, samples: &[f64]) -> Option<Point> {
        let (median, min, max) = (median(samples)?, least(samples)?, most(samples)?);
        Some(Point { x, median, min, max, n: samples.len() })
    }
}

/// The points of one subject, in the order of `x`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) subject: String,
    pub(crate) points: Vec<Point>,
}

/// One picture with its table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// The charts of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Study {
    pub(crate) title: String,
    /// What was measured and how to read it: plain text, one paragraph each.
    pub(crate) about: Vec<String>,
    /// What it was measured on; [`machine`] gives the usual facts.
    pub(crate) machine: Vec<(String, String)>,
    /// The command that makes these files again.
    pub(crate) command: String,
    pub(crate) charts: Vec<Chart>,
}

impl Study {
    /// Writes `NAME.csv`, `NAME.json` and `NAME.html` into `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// Nothing to draw or what no axis can show, and that a file cannot be written.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
        self.check()?;
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let files =
            [("csv", data::csv(self)?), ("json", data::json(self)), ("html", html::page(self))];
        files
            .into_iter()
            .map(|(ending, text)| {
                let path = folder.join(format!("{name}.{ending}"));
                fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
                Ok(path)
            })
            .collect()
    }

    /// What the pictures take for granted.
    fn check(&self) -> Result<(), String> {
        if self.charts.is_empty() {
            return Err(format!("{:?} has no chart: nothing was measured", self.title));
        }
        for chart in &self.charts {
            let at = |what: &str| format!("chart {:?}: {what}", chart.title);
            if chart.lines.is_empty() {
                return Err(at("no line: nothing was measured"));
            }
            let mut seen = BTreeSet::new();
            for line in &chart.lines {
                let at = |what: &str| at(&format!("line {:?}: {what}", line.subject));
                if !seen.insert(&line.subject) {
                    return Err(at("is there twice"));
                }
                if line.points.is_empty() {
                    return Err(at("no point: nothing was measured"));
                }
                if !line.points.is_sorted_by(|a, b| a.x < b.x) {
                    return Err(at("its x do not rise"));
                }
                for p in &line.points {
                    let ys = [p.min, p.median, p.max];
                    if !ys.is_sorted() || !ys.iter().all(|y| chart.y.shows(*y)) {
                        return Err(at(&format!("{ys:?} at {} cannot be drawn", p.x)));
                    }
                    if !chart.x.shows(p.x) {
                        return Err(at(&format!("x = {} cannot be drawn", p.x)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Each subject once, in the order of their first lines: it has one look in all charts.
    fn subjects(&self) -> Vec<&str> {
        let mut all = Vec::new();
        for line in self.charts.iter().flat_map(|c| &c.lines) {
            if !all.contains(&line.subject.as_str()) {
                all.push(line.subject.as_str());
            }
        }
        all
    }
}

/// The processor, the cores that this program may use, the memory and the kernel.
pub(crate) fn machine() -> Vec<(String, String)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let gib = proc::status_kib(&read("/proc/meminfo"), "MemTotal") / (1024.0 * 1024.0);
    let kernel = read("/proc/sys/kernel/osrelease");
    [
        ("processor", model.map_or("unknown", |(_, m)| m.trim()).to_owned()),
        ("cores", cores.to_string()),
        ("memory", format!("{gib:.1} GiB")),
        ("kernel", format!("{} {}", std::env::consts::OS, kernel.trim())),
    ]
    .map(|(k, v)| (k.to_owned(), v))
    .into()
}

/// This program's own command line, as a shell would take it.
pub(crate) fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@+%".contains(c);
    let args = std::env::args().skip(1).map(|arg| match arg.chars().all(plain) {
        true if !arg.is_empty() => arg,
        _ => format!("'{}'", arg.replace('\'', r"'\''")),
    });
    let all: Vec<String> =
        std::iter::once("cargo run --release -p bast-bench --".to_owned()).chain(args).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two subjects; the first has a name that needs care in each format.
    pub(super) fn study() -> Study {
        let line = |subject: &str, factor: f64| {
            let at = |x: f64| Point::new(x, &[x * factor, x * factor * 1.5, x * factor * 4.0]);
            let points = [1.0, 8.0, 64.0].into_iter().filter_map(at).collect();
            Line { subject: subject.to_owned(), points }
        };
        Study {
            title: "A & B".to_owned(),
            about: vec!["if a < b".to_owned()],
            machine: machine(),
            command: "bast-bench x".to_owned(),
            charts: vec![Chart {
                title: "time <all>".to_owned(),
                x: Axis::new("people", Scale::Log2, Quantity::Number),
                y: Axis::new("time", Scale::Log10, Quantity::Seconds),
                lines: vec![line("a<\"b\", c>", 1e-6), line("plain", 3e-5)],
            }],
        }
    }

    #[test]
    fn three_files_are_written() {
        let folder = std::env::temp_dir().join(format!("bast-plot-{}", std::process::id()));
        let paths = study().write(&folder, "x").unwrap();
        assert_eq!(paths, ["csv", "json", "html"].map(|e| folder.join(format!("x.{e}"))));
        assert!(paths.iter().all(|p| fs::metadata(p).unwrap().len() > 100));
        fs::remove_dir_all(folder).unwrap();
        let error = study().write(Path::new("/dev/null/no"), "x").unwrap_err();
        assert!(error.contains("/dev/null/no"), "{error}");
    }

    #[test]
    fn what_cannot_be_drawn_is_an_error_that_names_it() {
        let wrong = |change: fn(&mut Study), what: &str| {
            let mut study = study();
            change(&mut study);
            let error = study.write(&std::env::temp_dir(), "never").unwrap_err();
            assert!(error.contains(what), "{error}");
        };
        wrong(|s| s.charts.clear(), "\"A & B\" has no chart");
        wrong(|s| s.charts[0].lines.clear(), "\"time <all>\": no line");
        wrong(|s| s.charts[0].lines[1].points.clear(), "line \"plain\": no point");
        wrong(|s| s.charts[0].lines[1].points[0].min = 0.0, "[0.0, ");
        wrong(|s| s.charts[0].lines[1].points[0].max = f64::NAN, "NaN");
        wrong(|s| s.charts[0].lines[1].points[0].median = 9.0, "[3e-5, 9.0, ");
        wrong(|s| s.charts[0].lines[1].points[0].x = 0.0, "x = 0 ");
        wrong(|s| s.charts[0].lines[1].points.reverse(), "do not rise");
        wrong(|s| s.charts[0].lines[1] = s.charts[0].lines[0].clone(), "twice");
        assert!(Point::new(1.0, &[]).is_none());
        assert_eq!(study().check(), Ok(()));
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_shows_it() {
        let mut study = study();
        study.charts[0].y.scale = Scale::Linear;
        study.charts[0].lines[0].points[0].min = 0.0;
        assert_eq!(study.check(), Ok(()));
    }
}
