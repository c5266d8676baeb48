//! What the curves of a run show: a straight line through each, and whether the targets were met.
//!
//! A line is fitted by least squares, `time = offset + slope * n`, through the least value of each size: other work on
//! the machine only adds. Times of rivals are ratios of medians. For a quadratic curve over these sizes r^2 is
//! about 0.93, so 0.99 tells the two apart.

use super::curves::{Curve, curves};
use crate::report::Record;
use std::fmt::Write;

/// So many times faster than Lwt.
const TIMES_LWT: f64 = 10.0;
/// The slope of `recurse` in a fiber may be so many times that of a plain call.
const SLOPE: f64 = 1.25;
/// From here on a curve is a straight line.
const LINEAR: f64 = 0.99;

/// `time = offset + slope * n`
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) slope: f64,
    pub(super) offset: f64,
    pub(super) r2: f64,
}

impl Fit {
    /// `None` with fewer than three points, through which anything is a line.
    fn of(points: &[(f64, f64)]) -> Option<Fit> {
        if points.len() < 3 {
            return None;
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x0, y0) = (mean(|p| p.0), mean(|p| p.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            points.iter().map(|&(x, y)| of(x - x0, y - y0)).sum::<f64>()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        let slope = xy / xx;
        let r2 = if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) };
        Some(Fit { slope, offset: y0 - slope * x0, r2 })
    }
}

/// A target, its figure in this run, and whether that meets it.
struct Verdict {
    what: String,
    figure: f64,
    limit: String,
    met: bool,
}

impl Verdict {
    /// r^2 wants its digits, a ratio does not.
    fn digits(&self) -> usize {
        if self.figure < 2.0 { 4 } else { 1 }
    }
}

fn at_most(what: String, figure: f64, limit: f64) -> Verdict {
    Verdict { what, figure, limit: format!("<= {limit}"), met: figure <= limit }
}

fn at_least(what: String, figure: f64, limit: f64) -> Verdict {
    Verdict { what, figure, limit: format!(">= {limit}"), met: figure >= limit }
}

/// The fits and the verdicts as text; empty if the run has no curves.
pub(crate) fn table(records: &[Record]) -> String {
    let curves = curves(records);
    let mut out = String::new();
    for c in &curves {
        let Some(fit) = Fit::of(&c.leasts()) else { continue };
        if out.is_empty() {
            let _ = writeln!(
                out,
                "{:<17} {:<14} {:>12} {:>12} {:>8}",
                "curve", "subject", "ns per step", "ns at 0", "r^2"
            );
        }
        let name = format!("{} {}", c.pattern, c.mode);
        let Fit { slope, offset, r2 } = fit;
        let _ =
            writeln!(out, "{name:<17} {:<14} {slope:>12.2} {offset:>12.0} {r2:>8.4}", c.subject);
    }
    let verdicts = verdicts(&curves);
    if !verdicts.is_empty() {
        let _ = writeln!(out, "\n{:<62} {:>8} {:>8}", "target", "figure", "limit");
    }
    for v in verdicts {
        let verdict = if v.met { "met" } else { "MISSED" };
        let _ =
            writeln!(out, "{:<62} {:>8.*} {:>8} {verdict}", v.what, v.digits(), v.figure, v.limit);
    }
    out
}

/// One sentence for each target of which the run has the figures.
pub(super) fn sentences(curves: &[Curve]) -> Vec<String> {
    let sentence = |v: Verdict| {
        let verdict = if v.met { "met" } else { "missed" };
        format!("{}: {:.*} (target {}, {verdict}).", v.what, v.digits(), v.figure, v.limit)
    };
    verdicts(curves).into_iter().map(sentence).collect()
}

fn verdicts(curves: &[Curve]) -> Vec<Verdict> {
    let of = |pattern: &str, mode: &str, subject: &str| {
        curves.iter().find(|c| (c.pattern, c.mode, c.subject) == (pattern, mode, subject))
    };
    let mut out = Vec::new();
    for c in curves.iter().filter(|c| c.subject == "bast" && c.pattern != "basic") {
        let name = format!("{} {}", c.pattern, c.mode);
        if let Some(fit) = Fit::of(&c.leasts()) {
            out.push(at_least(format!("{name}: r^2 of a straight line"), fit.r2, LINEAR));
            let plain = of(c.pattern, c.mode, "plain").and_then(|p| Fit::of(&p.leasts()));
            if let Some(plain) = plain {
                let what = format!("{name}: slope, to that of a plain call");
                out.push(at_most(what, fit.slope / plain.slope, SLOPE));
            }
        }
        let lwt: Vec<_> = ["lwt", "lwt-select"]
            .into_iter()
            .filter_map(|lwt| Some(of(c.pattern, c.mode, lwt)?.medians()))
            .flatten()
            .collect();
        // At each size the faster engine; of the sizes the one that is worst for bast.
        let least = c
            .medians()
            .into_iter()
            .filter_map(|(n, ours)| {
                let theirs = lwt.iter().filter(|(x, _)| *x == n).map(|(_, ns)| *ns);
                Some((theirs.min_by(f64::total_cmp)? / ours, n))
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((ratio, n)) = least
            && c.mode != "quick"
        {
            let what = format!("{name}: Lwt's time to ours, at {n}, where it is least");
            out.push(at_least(what, ratio, TIMES_LWT));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mode, subject, time by size.
    type Made = (&'static str, &'static str, fn(f64) -> f64);

    fn records(of: &[Made]) -> Vec<Record> {
        let sizes = [50.0, 200.0, 600.0, 1000.0];
        of.iter()
            .flat_map(|(param, subject, time)| {
                sizes.map(|n| {
                    let param = format!("{param}-{n}");
                    Record::new(["recurse", &param, subject, "ns"], &[time(n)]).unwrap()
                })
            })
            .collect()
    }

    #[test]
    fn a_line_is_found_and_a_parabola_is_not_one() {
        let xs = [50.0, 100.0, 200.0, 300.0, 400.0, 600.0, 800.0, 1000.0];
        let fit = Fit::of(&xs.map(|x| (x, 7.0 + 3.0 * x))).unwrap();
        assert!((fit.slope - 3.0).abs() < 1e-9 && (fit.offset - 7.0).abs() < 1e-6, "{fit:?}");
        assert!(fit.r2 > 0.999_999, "{fit:?}");
        let fit = Fit::of(&xs.map(|x| (x, x * x))).unwrap();
        assert!((0.9..0.97).contains(&fit.r2), "{fit:?}");
        assert!(Fit::of(&[(1.0, 1.0), (2.0, 2.0)]).is_none());
    }

    #[test]
    fn targets_are_judged_at_the_worst_size_by_the_faster_engine() {
        let all = records(&[
            ("medium", "bast", |n| 100.0 + n),
            ("medium", "plain", |n| n),
            ("medium", "lwt", |n| 5_000.0 + 100.0 * n),
            ("medium", "lwt-select", |n| 900.0 + 50.0 * n),
        ]);
        let table = table(&all);
        let line = |what: &str| table.lines().find(|l| l.contains(what)).unwrap_or_default();
        assert!(line("r^2 of").ends_with(" met"), "{table}");
        assert!(line("slope, to").contains(" 1.0000 "), "{table}");
        // (900 + 50 * 50) / 150 at 50.
        let times = line("at 50, where it is least");
        assert!(times.contains(" 22.7 ") && times.ends_with(" met"), "{table}");
        assert_eq!(super::table(&[]), "");
    }

    #[test]
    fn what_is_missed_is_said() {
        let all = records(&[
            ("slow", "bast", |n| 10.0 * n * n),
            ("slow", "plain", |n| n),
            ("slow", "lwt", |n| 50.0 * n * n),
        ]);
        assert_eq!(table(&all).matches("MISSED").count(), 3, "{}", table(&all));
    }
}
