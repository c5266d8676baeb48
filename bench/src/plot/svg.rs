//! One chart as an SVG picture.
//!
//! ```text
//!   y label                                   right of the plot, each line's name
//!   |  grid, and at each tick a figure     ,--o threads     pushed apart where they would
//!   |      band (min to max) < line < mark '---^ bast       overlap, with a leader to the end
//!   +--------------------------------- x label
//! ```
//!
//! Colours are CSS variables `--c0` … that the page sets for light and dark. A subject has a colour, a
//! mark and a dash of its own, so that no two depend on colour alone.

use super::html::escape;
use super::{Chart, Point};
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// About the width of a letter, and what a name takes in height.
const LETTER: f64 = 6.7;
const ROW: f64 = 16.0;
/// Colours that the page has; subjects beyond take them again with hollow marks and dashes.
pub(super) const COLOURS: usize = 7;

/// Where the two axes have their ticks, and so every point its place.
struct Frame<'a> {
    chart: &'a Chart,
    xs: Vec<f64>,
    ys: Vec<f64>,
    right: f64,
}

impl Frame<'_> {
    fn new(chart: &Chart) -> Frame<'_> {
        let points = || chart.lines.iter().flat_map(|l| &l.points);
        let low = |f: fn(&Point) -> f64| points().map(f).fold(f64::INFINITY, f64::min);
        let high = |f: fn(&Point) -> f64| points().map(f).fold(0.0, f64::max);
        let longest = chart.lines.iter().map(|l| l.subject.chars().count()).max().unwrap_or(0);
        Frame {
            chart,
            xs: chart.x.ticks(low(|p| p.x), high(|p| p.x), 13),
            ys: chart.y.ticks(low(|p| p.min), high(|p| p.max), 9),
            right: WIDTH - 44.0 - LETTER * longest.min(32) as f64,
        }
    }

    fn x(&self, v: f64) -> f64 {
        LEFT + (self.right - LEFT) * self.chart.x.place(v, &self.xs)
    }

    fn y(&self, v: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * self.chart.y.place(v, &self.ys)
    }
}

/// The picture; `subjects` are those of the whole study.
pub(super) fn picture(chart: &Chart, subjects: &[&str]) -> String {
    let frame = Frame::new(chart);
    let title = escape(&chart.title);
    let mut out = String::new();
    let _ =
        writeln!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">");
    axes(&mut out, &frame);
    let names = names(&frame);
    for (line, at) in chart.lines.iter().zip(names) {
        let look = subjects.iter().position(|s| *s == line.subject).unwrap_or(0);
        let _ = writeln!(out, "<g class=\"line\" style=\"--c:var(--c{})\">", look % COLOURS);
        let place = |x: f64, y: f64| format!("{:.1},{:.1}", frame.x(x), frame.y(y));
        let upper = line.points.iter().map(|p| place(p.x, p.max));
        let lower = line.points.iter().rev().map(|p| place(p.x, p.min));
        let band: Vec<String> = upper.chain(lower).collect();
        let _ = writeln!(out, "<polygon class=\"band\" points=\"{}\"/>", band.join(" "));
        let way: Vec<String> = line.points.iter().map(|p| place(p.x, p.median)).collect();
        let dash = if look < COLOURS { "" } else { " stroke-dasharray=\"6 3\"" };
        let _ = writeln!(out, "<polyline class=\"way\"{dash} points=\"{}\"/>", way.join(" "));
        let subject = escape(&line.subject);
        for p in &line.points {
            let written = |v| chart.y.quantity.figure(v);
            let (median, min, max) = (written(p.median), written(p.min), written(p.max));
            let at = (frame.x(p.x), frame.y(p.median));
            let tip = format!(
                "{subject} at {}: {median} ({min} to {max}, n = {})",
                chart.x.quantity.figure(p.x),
                p.n
            );
            let _ = writeln!(out, "<g><title>{tip}</title>{}</g>", mark(look, at));
        }
        if let Some(last) = line.points.last() {
            let (x, y) = (frame.x(last.x) + 6.0, frame.y(last.median));
            let bend = frame.right + 8.0;
            let end = frame.right + 22.0;
            let _ = writeln!(
                out,
                "<path class=\"lead\" d=\"M{x:.1} {y:.1}H{:.1}L{:.1} {at:.1}\"/>",
                bend.max(x),
                end - 6.0
            );
            let _ = writeln!(
                out,
                "{}<text x=\"{:.1}\" y=\"{:.1}\">{subject}</text></g>",
                mark(look, (end, at)),
                end + 9.0,
                at + 4.0
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

fn axes(out: &mut String, frame: &Frame<'_>) {
    let (right, bottom) = (frame.right, HEIGHT - BOTTOM);
    for v in &frame.ys {
        let (y, text) = (frame.y(*v), frame.chart.y.tick(*v, &frame.ys));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right:.1}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{text}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for v in &frame.xs {
        let (x, text) = (frame.x(*v), frame.chart.x.tick(*v, &frame.xs));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{:.1}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
            bottom + 4.0,
            bottom + 18.0
        );
    }
    let (x, y) = (escape(&frame.chart.x.label), escape(&frame.chart.y.label));
    let _ = writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{right:.1}\"/>");
    let middle = (LEFT + right) / 2.0;
    let _ = writeln!(
        out,
        "<text class=\"label\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{}\">{x}</text>\
         <text class=\"label\" x=\"8\" y=\"14\">{y}</text>",
        HEIGHT - 6.0
    );
}

/// The heights of the names at the lines' ends: in the order of the ends, none upon another, as near
/// to their ends as that allows.
fn names(frame: &Frame<'_>) -> Vec<f64> {
    let ends: Vec<f64> = frame
        .chart
        .lines
        .iter()
        .map(|l| l.points.last().map_or(TOP, |p| frame.y(p.median)))
        .collect();
    spread(&ends, TOP, HEIGHT - BOTTOM)
}

fn spread(ends: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|a, b| ends[*a].total_cmp(&ends[*b]));
    let row = ROW.min((bottom - top) / (ends.len().max(2) - 1) as f64);
    let mut out = ends.to_vec();
    // Neighbours that would overlap form a group about the middle of their ends; groups that meet join.
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    for i in order {
        let mut group = (ends[i], vec![i]);
        let half = |g: &(f64, Vec<usize>)| (g.1.len() - 1) as f64 * row / 2.0;
        loop {
            // Not beyond the plot.
            let half_own = half(&group);
            group.0 = group.0.clamp(top + half_own, (bottom - half_own).max(top + half_own));
            match groups.pop_if(|g| g.0 + half(g) + row > group.0 - half_own) {
                Some(mut above) => {
                    above.1.append(&mut group.1);
                    let middle = above.1.iter().map(|i| ends[*i]).sum::<f64>();
                    group = (middle / above.1.len() as f64, above.1);
                }
                None => break,
            }
        }
        groups.push(group);
    }
    for (middle, members) in groups {
        let first = middle - (members.len() - 1) as f64 * row / 2.0;
        for (k, i) in members.into_iter().enumerate() {
            out[i] = first + k as f64 * row;
        }
    }
    out
}

/// The mark of the subject with this number.
fn mark(look: usize, (x, y): (f64, f64)) -> String {
    let class = if look < COLOURS { "mark" } else { "mark hollow" };
    let corners = |all: &[(f64, f64)]| {
        let all: Vec<String> =
            all.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy)).collect();
        format!("<path class=\"{class}\" d=\"M{}Z\"/>", all.join("L"))
    };
    match look % COLOURS {
        0 => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.8\"/>"),
        1 => corners(&[(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
        2 => corners(&[(0.0, -4.8), (4.5, 3.6), (-4.5, 3.6)]),
        3 => corners(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
        4 => corners(&[(0.0, 4.8), (4.5, -3.6), (-4.5, -3.6)]),
        5 => corners(&[(-5.2, -1.9), (5.2, -1.9), (5.2, 1.9), (-5.2, 1.9)]),
        _ => {
            let d = 1.7;
            corners(&[
                (0.0, -5.6),
                (d, -d),
                (5.6, 0.0),
                (d, d),
                (0.0, 5.6),
                (-d, d),
                (-5.6, 0.0),
                (-d, -d),
            ])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn a_line_per_subject_a_mark_per_point_and_no_raw_names() {
        let study = study();
        let svg = picture(&study.charts[0], &study.subjects());
        assert_eq!(svg.matches("<polyline").count(), 2);
        // Three points, and one at the name.
        assert_eq!(svg.matches("class=\"mark\"").count(), 2 * (3 + 1));
        assert!(svg.contains(">a&lt;&quot;b&quot;, c&gt;</text>") && !svg.contains("a<"), "{svg}");
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn names_keep_apart_in_order_and_inside() {
        let apart = |ends: &[f64]| {
            let mut at: Vec<_> = ends.iter().copied().zip(spread(ends, 0.0, 300.0)).collect();
            at.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(at.windows(2).all(|w| w[1].1 - w[0].1 > ROW - 1e-6), "{at:?}");
            assert!(at.iter().all(|(_, y)| (-1e-6..=300.0 + 1e-6).contains(y)), "{at:?}");
        };
        apart(&[10.0, 200.0]);
        apart(&[100.0, 100.0, 101.0, 99.0, 250.0]);
        apart(&[0.0, 1.0, 2.0, 299.0, 300.0]);
        apart(&[290.0, 291.0, 292.0, 280.0, 150.0, 260.0]);
        assert_eq!(spread(&[10.0, 200.0], 0.0, 300.0), [10.0, 200.0]);
        // More than there is room for: still inside.
        let crowd = spread(&[5.0; 40], 0.0, 300.0);
        assert!(crowd.iter().all(|y| (-1e-6..=300.0 + 1e-6).contains(y)), "{crowd:?}");
    }
}
