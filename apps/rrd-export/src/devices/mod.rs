//! Where devices come from: a table in SQLite, MySQL or PostgreSQL, or a file.
//!
//! ```text
//!   source ──rows──▶ Sink ──▶ spool: memory up to 1 MiB, then a file without a name ──▶ Devices (an iterator)
//! ```
//!
//! The query is read to its end before the first file is. So a wrong password or column is known before anything is
//! written, it is known how many devices there are, and no database is kept waiting for the length of the export: a
//! reader of SQLite's holds off writers, MySQL drops clients that take their rows slowly. Memory does not grow with
//! the number of devices.

#[cfg(feature = "servers")]
mod sql;
mod sqlite;
mod tsv;

use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::SpooledTempFile;

use crate::job::Device;

/// What is asked of a database, if nothing else is said.
pub const QUERY: &str = "SELECT id, name, dc FROM devices ORDER BY dc, id";

/// As much of the devices is kept in memory.
const IN_MEMORY: usize = 1 << 20;

/// Where devices come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A database file.
    Sqlite(PathBuf),
    /// A file with a line for each device, and the columns' names in the first.
    Tsv(PathBuf),
    /// `mysql://…`, `postgres://…`.
    Server(String),
}

impl Source {
    /// By scheme (`sqlite:`, `tsv:`, `mysql://`, `mariadb://`, `postgres://`), else by extension: `.tsv` and `.txt` are
    /// TSV, and so is `-`, standard input; the rest is SQLite.
    #[must_use]
    pub fn parse(text: &str) -> Source {
        let extension = Path::new(text).extension().and_then(|extension| extension.to_str());
        match text.split_once(':') {
            Some(("sqlite", path)) => Source::Sqlite(path.trim_start_matches("//").into()),
            Some(("tsv", path)) => Source::Tsv(path.into()),
            Some(("mysql" | "mariadb" | "postgres" | "postgresql", rest))
                if rest.starts_with("//") =>
            {
                Source::Server(text.to_owned())
            }
            _ if text == "-" || matches!(extension, Some("tsv" | "txt")) => {
                Source::Tsv(text.into())
            }
            _ => Source::Sqlite(text.into()),
        }
    }

    /// Reads all devices. A suspension point: the databases' clients run elsewhere.
    ///
    /// # Errors
    /// What went wrong and what to do.
    pub fn read(&self, query: &str) -> Result<Devices, String> {
        match self {
            Source::Sqlite(path) => bast::blocking(|| sqlite::read(path, query)),
            Source::Tsv(path) => bast::blocking(|| tsv::read(path)),
            #[cfg(feature = "servers")]
            Source::Server(url) => sql::read(url, query),
            #[cfg(not(feature = "servers"))]
            Source::Server(_) => {
                Err("this rrd-export was built without MySQL and PostgreSQL (feature `servers`)"
                    .into())
            }
        }
    }
}

/// A source for messages and journals.
#[must_use]
pub fn without_password(source: &str) -> String {
    let parts = source.split_once("//").and_then(|(scheme, rest)| {
        let (user, host) = rest.rsplit_once('@')?;
        let (name, _) = user.split_once(':')?;
        Some(format!("{scheme}//{name}:***@{host}"))
    });
    parts.unwrap_or_else(|| source.to_owned())
}

/// Takes rows and spools them.
struct Sink {
    columns: Arc<Columns>,
    spool: SpooledTempFile,
    record: Vec<u8>,
    count: u64,
}

/// The columns of a query, and which of them have a meaning of their own.
#[derive(Debug)]
struct Columns {
    names: Vec<String>,
    id: usize,
    name: Option<usize>,
    dc: Option<usize>,
}

impl Sink {
    fn new(names: Vec<String>) -> Result<Sink, String> {
        let at = |wanted| names.iter().position(|name| name == wanted);
        let (name, dc) = (at("name"), at("dc"));
        let id = at("id").ok_or_else(|| {
            let names = names.join(", ");
            format!("no column is called id, only: {names}; name it in the query (SELECT … AS id)")
        })?;
        let columns = Arc::new(Columns { names, id, name, dc });
        Ok(Sink { columns, spool: SpooledTempFile::new(IN_MEMORY), record: Vec::new(), count: 0 })
    }

    /// A device's values, as many as there are columns.
    fn push<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        self.record.clear();
        let mut count = 0;
        for value in values {
            if count == self.columns.id && value.is_empty() {
                return Err(format!("device {}: its id is empty", self.count + 1));
            }
            self.record.extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.record.extend_from_slice(value.as_bytes());
            count += 1;
        }
        debug_assert_eq!(count, self.columns.names.len());
        self.count += 1;
        self.spool.write_all(&self.record).map_err(spool_error)
    }

    fn finish(mut self) -> Result<Devices, String> {
        self.spool.rewind().map_err(spool_error)?;
        let Sink { columns, spool, count, .. } = self;
        Ok(Devices { columns, spool: BufReader::new(spool), count })
    }
}

fn spool_error(error: io::Error) -> String {
    let dir = std::env::temp_dir();
    format!("the devices do not fit into a temporary file in {} (TMPDIR): {error}", dir.display())
}

/// All devices, in the query's order.
#[derive(Debug)]
pub struct Devices {
    columns: Arc<Columns>,
    spool: BufReader<SpooledTempFile>,
    count: u64,
}

impl Devices {
    /// How many there were at first.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.count
    }

    /// The columns' names.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns.names
    }

    fn device(&mut self) -> io::Result<Option<Device>> {
        if self.spool.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let columns = Arc::clone(&self.columns);
        let mut device = Device::default();
        for (at, column) in columns.names.iter().enumerate() {
            let mut length = [0; 4];
            self.spool.read_exact(&mut length)?;
            let mut value = vec![0; u32::from_le_bytes(length) as usize];
            self.spool.read_exact(&mut value)?;
            let value = String::from_utf8(value).map_err(io::Error::other)?;
            if at == columns.id {
                device.id = value;
            } else if Some(at) == columns.name {
                device.name = value;
            } else if Some(at) == columns.dc {
                device.dc = value;
            } else {
                device.fields.push((column.clone(), value));
            }
        }
        if columns.name.is_none() {
            device.name.clone_from(&device.id);
        }
        Ok(Some(device))
    }
}

impl Iterator for Devices {
    type Item = io::Result<Device>;

    fn next(&mut self) -> Option<io::Result<Device>> {
        self.device().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_known_by_their_names() {
        for (text, source) in [
            ("devices.db", Source::Sqlite("devices.db".into())),
            ("sqlite:a.tsv", Source::Sqlite("a.tsv".into())),
            ("sqlite:///a/b", Source::Sqlite("/a/b".into())),
            ("devices.tsv", Source::Tsv("devices.tsv".into())),
            ("-", Source::Tsv("-".into())),
            ("tsv:devices", Source::Tsv("devices".into())),
            ("mysql://u@h/d", Source::Server("mysql://u@h/d".into())),
            ("C:devices", Source::Sqlite("C:devices".into())),
        ] {
            assert_eq!(Source::parse(text), source, "{text}");
        }
    }

    #[test]
    fn devices_survive_the_spool_when_it_becomes_a_file() {
        let names = ["site", "id", "dc"].map(str::to_owned).to_vec();
        let mut sink = Sink::new(names).unwrap();
        let long = "x".repeat(1000);
        let rows = 2 * IN_MEMORY / long.len();
        for n in 0..rows {
            sink.push([&*long, &n.to_string(), "a\nb"]).unwrap();
        }
        let devices = sink.finish().unwrap();
        assert_eq!(devices.total(), rows as u64);
        for (n, device) in devices.enumerate() {
            let device = device.unwrap();
            assert_eq!(
                (device.id.as_str(), device.name.as_str()),
                (&*n.to_string(), &*n.to_string())
            );
            assert_eq!((device.get("dc"), device.get("site")), (Some("a\nb"), Some(&*long)));
        }
    }

    #[test]
    fn passwords_are_not_told() {
        assert_eq!(without_password("mysql://me:p@ss:w@host/db"), "mysql://me:***@host/db");
        assert_eq!(without_password("postgres://me@host/db"), "postgres://me@host/db");
        assert_eq!(without_password("a:b@c.sqlite"), "a:b@c.sqlite");
    }

    #[test]
    fn an_id_is_needed() {
        let error = Sink::new(vec!["host".to_owned()]).err().unwrap();
        assert!(error.contains("no column is called id, only: host"), "{error}");
        let mut sink = Sink::new(vec!["id".to_owned()]).unwrap();
        assert!(sink.push([""]).unwrap_err().contains("its id is empty"));
    }
}
