//! The figures for other programs: CSV with one row per point, and JSON with the same shape as [`Study`].

use super::{Chart, Scale, Study};
use serde_json::{Value, json};

const HEADER: [&str; 9] =
    ["study", "chart", "x_axis", "y_axis", "subject", "x", "median", "min", "max"];

/// One row per point; seconds are plain numbers.
pub(super) fn csv(study: &Study) -> Result<String, String> {
    let mut out = csv::Writer::from_writer(Vec::new());
    let mut write = |row: &[&str]| out.write_record(row).map_err(|e| e.to_string());
    write(&[&HEADER[..], &["n"]].concat())?;
    for chart in &study.charts {
        for line in &chart.lines {
            for p in &line.points {
                let figures = [p.x, p.median, p.min, p.max].map(|v| v.to_string());
                let [x, median, min, max] = figures.each_ref().map(String::as_str);
                let names = [&study.title, &chart.title, &chart.x.label, &chart.y.label];
                let [title, name, x_axis, y_axis] = names.map(String::as_str);
                let row = [title, name, x_axis, y_axis, &line.subject, x, median, min, max];
                write(&[&row[..], &[&p.n.to_string()]].concat())?;
            }
        }
    }
    let bytes = out.into_inner().map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|e| e.to_string())
}

pub(super) fn json(study: &Study) -> String {
    let machine: serde_json::Map<_, _> =
        study.machine.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
    let charts: Vec<Value> = study.charts.iter().map(chart).collect();
    let all = json!({"title": study.title, "about": study.about, "machine": machine,
        "command": study.command, "charts": charts});
    format!("{all:#}\n")
}

fn chart(chart: &Chart) -> Value {
    let axis = |a: &super::Axis| {
        json!({"label": a.label, "scale": match a.scale {
            Scale::Linear => "linear",
            Scale::Log2 => "log2",
            Scale::Log10 => "log10",
        }})
    };
    let lines: Vec<Value> = chart
        .lines
        .iter()
        .map(|line| {
            let points = line.points.iter().map(
                |p| json!({"x": p.x, "median": p.median, "min": p.min, "max": p.max, "n": p.n}),
            );
            json!({"subject": line.subject, "points": points.collect::<Vec<_>>()})
        })
        .collect();
    json!({"title": chart.title, "x": axis(&chart.x), "y": axis(&chart.y), "lines": lines})
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn csv_reads_back_as_it_was() {
        let study = study();
        let text = csv(&study).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let mut lines = study.charts[0].lines.clone();
        lines.iter_mut().for_each(|l| l.points.clear());
        for row in reader.records() {
            let row = row.unwrap();
            assert_eq!(&row[1], "time <all>");
            let f = |i: usize| row[i].parse::<f64>().unwrap();
            let (x, median, min, max) = (f(5), f(6), f(7), f(8));
            let n = row[9].parse().unwrap();
            let line = lines.iter_mut().find(|l| l.subject == row[4]).unwrap();
            line.points.push(super::super::Point { x, median, min, max, n });
        }
        assert_eq!(lines, study.charts[0].lines);
    }

    #[test]
    fn json_reads_back_with_every_figure() {
        let study = study();
        let all: Value = serde_json::from_str(&json(&study)).unwrap();
        assert_eq!(all["command"], "bast-bench x");
        assert_eq!(all["machine"]["cores"], study.machine[1].1);
        let chart = &all["charts"][0];
        assert_eq!((&chart["x"]["scale"], &chart["y"]["scale"]), (&"log2".into(), &"log10".into()));
        assert_eq!(chart["lines"][0]["subject"], "a<\"b\", c>");
        let p = &chart["lines"][1]["points"][2];
        let want = &study.charts[0].lines[1].points[2];
        assert_eq!([&p["x"], &p["median"]], [&json!(want.x), &json!(want.median)]);
    }
}
