//! Devices from MySQL or PostgreSQL, by sqlx as it is: its futures run in tokio's context while this fiber waits.

use std::time::Duration;

use bast::future::Wait;
use futures_util::TryStreamExt;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Column, Connection, Row, TypeInfo, ValueRef};

use super::{Devices, Sink, without_password};

/// How long a server may take to let us in.
const PATIENCE: Duration = Duration::from_secs(15);

pub(super) fn read(url: &str, query: &str) -> Result<Devices, String> {
    sqlx::any::install_default_drivers();
    let shown = without_password(url);
    bast_tokio::run(|| {
        let connected = bast::timeout(PATIENCE, || AnyConnection::connect(url).wait());
        let mut connection = match connected {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                return Err(format!("devices {shown}: {error}; does the server run?"));
            }
            Err(_) => return Err(format!("devices {shown}: no answer for {PATIENCE:?}")),
        };
        let failed = |error: sqlx::Error| format!("devices {shown}: {error}\n  query: {query}");
        let mut sink = None;
        // What the user has asked for, and nothing else, is what is sent.
        let mut rows = sqlx::query(AssertSqlSafe(query.to_owned())).fetch(&mut connection);
        while let Some(row) = rows.try_next().wait().map_err(failed)? {
            let here = |error: String| format!("devices {shown}: {error}");
            let sink = match &mut sink {
                Some(sink) => sink,
                none => none.insert(Sink::new(names(&row)).map_err(here)?),
            };
            let values = values(&row)
                .map_err(|error| here(format!("device {}: {error}", sink.count + 1)))?;
            sink.push(values.iter().map(String::as_str)).map_err(here)?;
        }
        drop(rows);
        // The rows are there, whatever the server says of this.
        let _ = connection.close().wait();
        // Without a row the columns are not known, and matter to nobody.
        sink.map_or_else(|| Sink::new(vec!["id".to_owned()]), Ok)?.finish()
    })
}

fn names(row: &AnyRow) -> Vec<String> {
    row.columns().iter().map(|column| column.name().to_owned()).collect()
}

fn values(row: &AnyRow) -> Result<Vec<String>, String> {
    let value = |at: usize| -> Result<String, sqlx::Error> {
        let raw = row.try_get_raw(at)?;
        if raw.is_null() {
            return Ok(String::new());
        }
        if let Ok(text) = row.try_get::<String, _>(at) {
            return Ok(text);
        }
        if let Ok(number) = row.try_get::<i64, _>(at) {
            return Ok(number.to_string());
        }
        if let Ok(number) = row.try_get::<f64, _>(at) {
            return Ok(number.to_string());
        }
        // MySQL's text in a binary collation.
        let bytes = row.try_get::<Vec<u8>, _>(at)?;
        String::from_utf8(bytes).map_err(|error| sqlx::Error::Decode(error.into()))
    };
    let named = |at: usize| {
        value(at).map_err(|error| {
            let column = &row.columns()[at];
            let (name, kind) = (column.name(), column.type_info().name());
            format!("column {name} ({kind}): {error}; make it text in the query (CAST)")
        })
    };
    (0..row.columns().len()).map(named).collect()
}
