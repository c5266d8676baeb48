//! CSV: byte for byte what the crate `csv` writes, without asking it for each of millions of fields.
//!
//! Of a file's rows only the time and the values differ. So what stands before, between and behind is made once:
//!
//! ```text
//!   time,id,iface,in,out     pieces: ""  ",7,eth0"   row: piece time piece , value , value
//! ```

use rrd_file::{Fetched, format_time, format_value};

use super::{Format, sources};
use crate::job::{Column, FileJob, Layout, Shape};

/// Rows as text.
pub(super) struct Csv {
    shape: Shape,
}

impl Csv {
    pub(super) fn new(shape: Shape) -> Csv {
        Csv { shape }
    }

    /// The line with the columns' names, if there is to be one.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut line = Vec::new();
        if self.shape.header {
            for (place, name) in sources::header(&self.shape).into_iter().enumerate() {
                if place > 0 {
                    line.push(b',');
                }
                field(name.as_bytes(), &mut line);
            }
            end(0, &mut line);
        }
        line
    }
}

/// Appends a field, in quotes if it needs them.
fn field(text: &[u8], out: &mut Vec<u8>) {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Ends a record. A line with nothing would be none.
fn end(begin: usize, out: &mut Vec<u8>) {
    if out.len() == begin {
        out.extend_from_slice(b"\"\"");
    }
    out.push(b'\n');
}

/// What stands before the first time, between times, and behind the last.
fn pieces(shape: &Shape, job: &FileJob) -> Vec<Vec<u8>> {
    let mut pieces = vec![Vec::new()];
    for (place, column) in shape.columns.iter().enumerate() {
        let last = pieces.last_mut().expect("one at least");
        if place > 0 {
            last.push(b',');
        }
        match column {
            Column::Time => pieces.push(Vec::new()),
            _ => field(sources::constant(column, job), last),
        }
    }
    if !shape.columns.is_empty() {
        pieces.last_mut().expect("one at least").push(b',');
    }
    pieces
}

impl Format for Csv {
    fn encode(&self, job: &FileJob, fetched: &Fetched, out: &mut Vec<u8>) -> Result<u64, String> {
        let shape = &self.shape;
        let chosen = sources::chosen(shape, fetched)?;
        let pieces = pieces(shape, job);
        let (first, rest) = pieces.split_first().expect("one at least");
        let before = |time: i64, out: &mut Vec<u8>| {
            out.extend_from_slice(first);
            for piece in rest {
                format_time(time, out);
                out.extend_from_slice(piece);
            }
        };
        let mut rows = 0;
        match shape.layout {
            Layout::Wide => {
                for (time, values) in fetched.rows() {
                    let begin = out.len();
                    before(time, out);
                    for (place, source) in chosen.iter().enumerate() {
                        if place > 0 {
                            out.push(b',');
                        }
                        format_value(values[*source], out);
                    }
                    end(begin, out);
                    rows += 1;
                }
            }
            Layout::Long => {
                let names: Vec<Vec<u8>> = sources::names(shape, job, fetched, &chosen)
                    .into_iter()
                    .map(|name| {
                        let mut text = Vec::new();
                        field(name.as_bytes(), &mut text);
                        text.push(b',');
                        text
                    })
                    .collect();
                for (time, values) in fetched.rows() {
                    for (source, name) in chosen.iter().zip(&names) {
                        before(time, out);
                        out.extend_from_slice(name);
                        format_value(values[*source], out);
                        out.push(b'\n');
                        rows += 1;
                    }
                }
            }
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Device;
    use std::path::PathBuf;
    use std::sync::Arc;

    /// The same rows through the crate.
    fn by_crate(shape: &Shape, job: &FileJob, fetched: &Fetched) -> Vec<u8> {
        let mut writer =
            csv::WriterBuilder::new().has_headers(false).flexible(true).from_writer(Vec::new());
        writer.write_record(sources::header(shape)).unwrap();
        let chosen = sources::chosen(shape, fetched).unwrap();
        let names = sources::names(shape, job, fetched, &chosen);
        let text = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut text = Vec::new();
            put(&mut text);
            text
        };
        for (time, values) in fetched.rows() {
            let before: Vec<Vec<u8>> = shape
                .columns
                .iter()
                .map(|column| match column {
                    Column::Time => text(&|out| format_time(time, out)),
                    _ => sources::constant(column, job).to_vec(),
                })
                .collect();
            let values = chosen.iter().map(|place| text(&|out| format_value(values[*place], out)));
            match shape.layout {
                Layout::Wide => writer.write_record(before.into_iter().chain(values)).unwrap(),
                Layout::Long => {
                    for (name, value) in names.iter().zip(values) {
                        let more = [name.as_bytes().to_vec(), value];
                        writer.write_record(before.iter().cloned().chain(more)).unwrap();
                    }
                }
            }
        }
        writer.into_inner().unwrap()
    }

    #[test]
    fn it_is_what_the_crate_writes() {
        let texts = [
            "",
            "plain",
            "a,b",
            "say \"hi\"",
            "two\nlines",
            "\r",
            " x ",
            "#no comment",
            "\"",
            "é,",
        ];
        let values = vec![1.5, f64::NAN, -0.0, 1e300, f64::NAN, f64::NAN, f64::INFINITY, 3e-320];
        let mut seen = 0;
        for (turn, text) in texts.into_iter().enumerate() {
            let device = Device {
                id: text.into(),
                name: texts[(turn + 3) % texts.len()].into(),
                dc: texts[(turn + 5) % texts.len()].into(),
                fields: vec![(text.into(), "field".into())],
            };
            let path = PathBuf::from(format!("/rrd/{text}.rrd"));
            let job = FileJob { seq: 0, path, device: Arc::new(device) };
            let sources = vec![text.to_owned(), "out".into()];
            let fetched =
                Fetched { start: 300, step: 300, sources: sources.clone(), values: values.clone() };
            let one = |name: &str| Column::Device(name.into());
            for columns in [
                vec![],
                vec![Column::Time],
                vec![one("id")],
                vec![Column::Time, one("id"), Column::Iface, Column::Path],
                vec![one("name"), Column::Time, one("dc"), Column::Time, one(text), one("none")],
            ] {
                for (layout, metrics) in [
                    (Layout::Wide, sources.clone()),
                    (Layout::Wide, vec!["out".into()]),
                    (Layout::Long, vec![]),
                ] {
                    let shape = Shape {
                        columns: columns.clone(),
                        layout,
                        metrics,
                        header: true,
                        ..Shape::default()
                    };
                    let csv = Csv::new(shape.clone());
                    let mut ours = csv.header();
                    let rows = csv.encode(&job, &fetched, &mut ours).unwrap();
                    let theirs = by_crate(&shape, &job, &fetched);
                    assert_eq!(
                        String::from_utf8_lossy(&ours),
                        String::from_utf8_lossy(&theirs),
                        "{shape:?}"
                    );
                    assert_eq!(rows, if layout == Layout::Wide { 4 } else { 8 });
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 150);
    }

    #[test]
    fn sources_that_do_not_fit_are_told() {
        let job = FileJob { seq: 0, path: "/x.rrd".into(), device: Arc::default() };
        let sources = vec!["in".to_owned(), "out".into()];
        let fetched = Fetched { start: 0, step: 1, sources, values: vec![1.0, 2.0] };
        let try_ = |metrics: &[&str], exact| {
            let metrics = metrics.iter().map(|metric| (*metric).to_owned()).collect();
            Csv::new(Shape { metrics, exact, ..Shape::default() }).encode(
                &job,
                &fetched,
                &mut Vec::new(),
            )
        };
        assert_eq!(try_(&["in", "out"], true), Ok(1));
        assert!(try_(&["in"], true).unwrap_err().contains("`out`"));
        assert_eq!(try_(&["in"], false), Ok(1));
        assert!(try_(&["in", "up"], false).unwrap_err().contains("`up`"));
    }
}
