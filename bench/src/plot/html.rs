//! The page: about, the charts with their tables, the machine, and the command that makes it again.
//! One file, without scripts and without anything to load.

use super::{Chart, Study, svg};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Text that is only text, also within an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

pub(super) fn page(study: &Study) -> String {
    let title = escape(&study.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for paragraph in &study.about {
        let _ = writeln!(out, "<p>{}</p>", escape(paragraph));
    }
    out.push_str("<dl>\n");
    for (key, value) in &study.machine {
        let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(key), escape(value));
    }
    let _ = writeln!(out, "</dl>\n<pre>{}</pre>\n<main>", escape(&study.command));
    let subjects = study.subjects();
    for chart in &study.charts {
        let (title, picture) = (escape(&chart.title), svg::picture(chart, &subjects));
        let _ = writeln!(out, "<section>\n<h2>{title}</h2>\n{picture}{}</section>", table(chart));
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// A row per `x`, a column per subject; what a subject has not measured stays empty.
fn table(chart: &Chart) -> String {
    let mut out = format!("<div><table>\n<tr><th>{}</th>", escape(&chart.x.label));
    for line in &chart.lines {
        let _ = write!(out, "<th>{}</th>", escape(&line.subject));
    }
    out.push_str("</tr>\n");
    let mut xs: Vec<f64> = chart.lines.iter().flat_map(|l| l.points.iter().map(|p| p.x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    for x in xs {
        let _ = write!(out, "<tr><th>{}</th>", chart.x.quantity.figure(x));
        for line in &chart.lines {
            let cell = match line.points.iter().find(|p| p.x == x) {
                Some(p) => chart.y.quantity.figure(p.median),
                None => String::new(),
            };
            let _ = write!(out, "<td>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn a_page_has_every_figure_and_escapes_every_name() {
        let study = study();
        let page = page(&study);
        for text in ["A &amp; B", "if a &lt; b", "time &lt;all&gt;", "<pre>bast-bench x</pre>"] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<all>") && !page.contains("a<\"b"), "{page}");
        // A row of titles and one per x; a cell per subject.
        assert_eq!(page.matches("<tr>").count(), 1 + 3);
        assert_eq!(page.matches("<td>").count(), 3 * 2);
        assert!(page.contains("<td>1.5 µs</td><td>45 µs</td>"), "{page}");
        assert!(!page.contains("<script") && !page.contains("http"), "nothing to load");
    }

    #[test]
    fn what_is_missing_stays_empty() {
        let mut study = study();
        study.charts[0].lines[0].points.remove(1);
        assert!(page(&study).contains("<th>8</th><td></td><td>"));
    }

    #[test]
    fn there_are_as_many_colours_as_the_pictures_use_in_both_themes() {
        for i in 0..svg::COLOURS {
            assert_eq!(STYLE.matches(&format!("--c{i}:")).count(), 2, "light and dark");
        }
    }
}
