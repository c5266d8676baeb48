//! Devices from an SQLite file, which is opened for reading only.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::{Devices, Sink};

/// How long a writer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn read(path: &Path, query: &str) -> Result<Devices, String> {
    let shown = path.display();
    // SQLite would say "unable to open database file" of a hundred things.
    std::fs::File::open(path).map_err(|error| {
        format!("devices {shown}: {error}; name the database by --devices (SQLite, TSV, mysql://, postgres://)")
    })?;
    let failed = |error: rusqlite::Error| format!("devices {shown}: {error}\n  query: {query}");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags).map_err(failed)?;
    database.busy_timeout(PATIENCE).map_err(failed)?;
    let mut statement = database.prepare(query).map_err(failed)?;
    if !statement.readonly() {
        return Err(format!(
            "devices {shown}: the query would change the database\n  query: {query}"
        ));
    }
    let names: Vec<_> = statement.column_names().into_iter().map(str::to_owned).collect();
    let count = names.len();
    let here = |error: String| format!("devices {shown}: {error}");
    let mut sink = Sink::new(names).map_err(here)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut values = vec![String::new(); count];
    while let Some(row) = rows.next().map_err(failed)? {
        for (at, value) in values.iter_mut().enumerate() {
            value.clear();
            match row.get_ref(at).map_err(failed)? {
                ValueRef::Null => {}
                ValueRef::Integer(number) => value.push_str(&number.to_string()),
                ValueRef::Real(number) => value.push_str(&number.to_string()),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    let text = std::str::from_utf8(bytes).map_err(|error| {
                        let column = &sink.columns.names[at];
                        here(format!("device {}: column {column}: {error}", sink.count + 1))
                    })?;
                    value.push_str(text);
                }
            }
        }
        sink.push(values.iter().map(String::as_str)).map_err(here)?;
    }
    sink.finish()
}
