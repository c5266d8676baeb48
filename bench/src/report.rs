//! What came out: one record per benchmark, parameter, subject and unit, as JSON lines and as a
//! table with ratios.

use crate::stats::{least, median, most};
use std::fmt::Write;

/// The figures of one subject over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) bench: String,
    pub(crate) param: String,
    pub(crate) subject: String,
    pub(crate) unit: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    /// Not in the JSON lines.
    pub(crate) max: f64,
    pub(crate) n: usize,
}

impl Record {
    /// `None` without samples.
    pub(crate) fn new(at: [&str; 4], samples: &[f64]) -> Option<Record> {
        let [bench, param, subject, unit] = at.map(str::to_owned);
        let (median, min, max) = (median(samples)?, least(samples)?, most(samples)?);
        Some(Record { bench, param, subject, unit, median, min, max, n: samples.len() })
    }

    /// One JSON object on one line.
    pub(crate) fn json(&self) -> String {
        let text = |s: &str| serde_json::Value::from(s).to_string();
        let number = |v: f64| serde_json::Value::from(v).to_string();
        format!(
            r#"{{"bench":{},"param":{},"subject":{},"unit":{},"median":{},"min":{},"n":{}}}"#,
            text(&self.bench),
            text(&self.param),
            text(&self.subject),
            text(&self.unit),
            number(self.median),
            number(self.min),
            self.n
        )
    }
}

/// The table of `records`, in their order. The last column is the ratio of the median to bast's in
/// the same row group; `~` marks a ratio to another parameter of bast's (another mechanism).
pub(crate) fn table(records: &[Record]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<12} {:<15} {:<14} {:<14} {:>12} {:>12} {:>3} {:>9}",
        "bench", "param", "unit", "subject", "median", "min", "n", "vs bast"
    );
    let mut last = None;
    for r in records {
        let group = (&r.bench, &r.param, &r.unit);
        if last.is_some_and(|l| l != group) {
            out.push('\n');
        }
        last = Some(group);
        let (median, min) = (figure(r.median), figure(r.min));
        let _ = writeln!(
            out,
            "{:<12} {:<15} {:<14} {:<14} {median:>12} {min:>12} {:>3} {:>9}",
            r.bench,
            r.param,
            r.unit,
            r.subject,
            r.n,
            ratio(r, records)
        );
    }
    out
}

/// bast's first record in the group of `of`; else its first in the benchmark, which is marked.
fn ratio(of: &Record, records: &[Record]) -> String {
    let bast = |r: &&Record| {
        r.subject.starts_with("bast") && r.bench == of.bench && r.unit == of.unit && r.median > 0.0
    };
    if let Some(base) = records.iter().filter(bast).find(|r| r.param == of.param) {
        return format!("{:.2}x", of.median / base.median);
    }
    // Only ping-pong compares across parameters: its parameters are mechanisms, not sizes.
    match records.iter().find(bast) {
        Some(base) if of.bench == "ping-pong" => format!("~{:.2}x", of.median / base.median),
        _ => "-".to_owned(),
    }
}

/// Three or four significant digits.
fn figure(v: f64) -> String {
    match v.abs() {
        a if a >= 100.0 || a == 0.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        a if a >= 0.1 => format!("{v:.2}"),
        _ => format!("{v:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(param: &str, subject: &str, samples: &[f64]) -> Record {
        Record::new(["ping-pong", param, subject, "ns"], samples).unwrap()
    }

    #[test]
    fn json_has_exactly_the_agreed_shape() {
        let r = Record::new(["yield", "100", "bast \"x\"", "ns"], &[3.0, 1.5, 2.0]).unwrap();
        let v: serde_json::Value = serde_json::from_str(&r.json()).unwrap();
        let want = serde_json::json!({"bench": "yield", "param": "100", "subject": "bast \"x\"",
            "unit": "ns", "median": 2.0, "min": 1.5, "n": 3});
        assert_eq!(v, want);
        assert!(!r.json().contains('\n'));
        assert!(Record::new(["a", "b", "c", "d"], &[]).is_none());
    }

    #[test]
    fn ratios_are_to_bast_and_say_when_the_mechanism_differs() {
        let all = [
            record("park", "bast", &[10.0]),
            record("park", "may", &[25.0]),
            record("channel", "go", &[250.0]),
        ];
        assert_eq!(ratio(&all[0], &all), "1.00x");
        assert_eq!(ratio(&all[1], &all), "2.50x");
        assert_eq!(ratio(&all[2], &all), "~25.00x");
        assert_eq!(ratio(&all[2], &all[1..]), "-");
        let table = table(&all);
        assert_eq!(table.lines().filter(|l| l.starts_with("ping-pong")).count(), 3);
        assert!(table.contains("2.50x"), "{table}");
    }

    #[test]
    fn figures_keep_their_digits() {
        let all = [1234.5, 12.345, 1.2345, 0.01234, 0.0].map(figure);
        assert_eq!(all, ["1234", "12.3", "1.23", "0.0123", "0"]);
    }
}
