//! What travels through the pipeline: devices, their files, and what makes a run.
//!
//! ```text
//!   Device ──pattern──▶ FileJob, FileJob, … ──reader──▶ Block ──▶ writer
//! ```

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::names::Names;

/// A row of the devices' table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The column `id`.
    pub id: String,
    /// The column `name`; the id if there is none.
    pub name: String,
    /// The column `dc` (data centre); empty if there is none.
    pub dc: String,
    /// All other columns of the query, in its order.
    pub fields: Vec<(String, String)>,
}

impl Device {
    /// A column's value, by the column's name.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&str> {
        match column {
            "id" => Some(&self.id),
            "name" => Some(&self.name),
            "dc" => Some(&self.dc),
            _ => self.fields.iter().find(|(name, _)| name == column).map(|(_, value)| &**value),
        }
    }
}

/// One RRD file to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileJob {
    /// Counts the files of a run from 0, in the order of the devices and, within a device, of the names.
    pub seq: u64,
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub device: Arc<Device>,
}

impl FileJob {
    /// The interface: the file's name without directories and `.rrd`.
    #[must_use]
    pub fn iface(&self) -> &OsStr {
        self.path.file_stem().unwrap_or_default()
    }
}

/// One column of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// Seconds since the epoch.
    Time,
    /// A column of the devices' query.
    Device(String),
    /// See [`FileJob::iface`].
    Iface,
    /// The file's path.
    Path,
}

/// How sources become columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// A line for each time, with a column for each source.
    #[default]
    Wide,
    /// A line for each time and source, with the columns `metric` and `value`.
    Long,
}

/// What a row has, for every output alike.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The columns before the values.
    pub columns: Vec<Column>,
    /// How the values follow.
    pub layout: Layout,
    /// The sources that are taken, in this order: in the wide layout each a column (a file that lacks one is an error).
    /// In the long layout, if this is empty, all that a file has.
    pub metrics: Vec<String>,
    /// Whether a file that has other sources as well is an error: unless somebody has chosen, nothing is left out silently.
    pub exact: bool,
    /// What sources are called in the output.
    pub names: Arc<Names>,
    /// Whether a first line names the columns.
    pub header: bool,
}

/// What one file became: bytes of the output's format, not interrupted by another file's.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// As [`Format::encode`](crate::output::Format::encode) has put them.
    pub bytes: &'a [u8],
    /// How many rows they are.
    pub rows: u64,
}
