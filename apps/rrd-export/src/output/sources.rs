//! Which of a file's sources an output takes, and under which names.

use rrd_file::Fetched;

use crate::job::{Column, FileJob, Layout, Shape};

/// The places of the sources that are taken, in the output's order.
pub(super) fn chosen(shape: &Shape, fetched: &Fetched) -> Result<Vec<usize>, String> {
    let there = &fetched.sources;
    if shape.metrics.is_empty() && shape.layout == Layout::Long {
        return Ok((0..there.len()).collect());
    }
    if shape.exact
        && let Some(other) = there.iter().find(|source| !shape.metrics.contains(source))
    {
        return Err(format!(
            "it has a source `{other}` that the output has no column for ({} are taken); say which sources you want",
            shape.metrics.join(", ")
        ));
    }
    let mut places = Vec::with_capacity(shape.metrics.len());
    for metric in &shape.metrics {
        match there.iter().position(|source| source == metric) {
            Some(place) => places.push(place),
            None if shape.layout == Layout::Long => {}
            None => {
                let has = there.join(", ");
                return Err(format!("it has no source `{metric}` (it has {has})"));
            }
        }
    }
    if places.is_empty() && !shape.metrics.is_empty() {
        let (wanted, has) = (shape.metrics.join(", "), there.join(", "));
        return Err(format!("it has none of the sources {wanted} (it has {has})"));
    }
    Ok(places)
}

/// What the sources are called, in the order of [`chosen`].
pub(super) fn names<'a>(
    shape: &'a Shape,
    job: &FileJob,
    fetched: &'a Fetched,
    chosen: &[usize],
) -> Vec<&'a str> {
    let iface = job.iface().to_string_lossy();
    chosen.iter().map(|place| shape.names.metric(&iface, &fetched.sources[*place])).collect()
}

/// The names of all columns, values last.
pub(super) fn header(shape: &Shape) -> Vec<&str> {
    let before = shape.columns.iter().map(|column| match column {
        Column::Time => "time",
        Column::Device(name) => name,
        Column::Iface => "iface",
        Column::Path => "path",
    });
    match shape.layout {
        Layout::Wide => before
            .chain(shape.metrics.iter().map(|metric| shape.names.metric("", metric)))
            .collect(),
        Layout::Long => before.chain(["metric", "value"]).collect(),
    }
}

/// What a column that does not depend on the row has.
pub(super) fn constant<'a>(column: &Column, job: &'a FileJob) -> &'a [u8] {
    match column {
        Column::Time => b"",
        Column::Device(name) => job.device.get(name).unwrap_or_default().as_bytes(),
        Column::Iface => job.iface().as_encoded_bytes(),
        Column::Path => job.path.as_os_str().as_encoded_bytes(),
    }
}
