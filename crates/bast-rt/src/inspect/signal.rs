//! Ctrl-\ (SIGQUIT) prints a dump, and the program goes on.
//!
//! A plain thread listens, so that it works although all workers are held.

use std::io;
use std::sync::{Mutex, PoisonError};

use bast_io::signal::{SIGQUIT, Signal};

use super::{dump, quiet};
use crate::ops;

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// From now on SIGQUIT (Ctrl-\ on a terminal) prints a [`dump`](crate::dump()) to stderr, instead of ending the
/// process. Calling it again does nothing.
///
/// The environment does the same without a change of the program: `BAST_DUMP=1` prints text, `BAST_DUMP=json`
/// JSON, from the start of the first runtime on.
///
/// # Errors
/// No thread or no descriptor was to be had.
pub fn dump_on_signal() -> io::Result<()> {
    listen(Format::Text)
}

/// Begins to listen; the first call counts.
pub(crate) fn listen(format: Format) -> io::Result<()> {
    static LISTENS: Mutex<bool> = Mutex::new(false);
    let mut listens = LISTENS.lock().unwrap_or_else(PoisonError::into_inner);
    if *listens {
        return Ok(());
    }
    let signal = Signal::new(SIGQUIT)?;
    quiet::service("bast-dump-signal", move || {
        let mut count = [0; size_of::<u64>()];
        while ops::read(signal.handle(), &mut count, None).is_ok() {
            let dump = dump::gather();
            match format {
                Format::Text => eprint!("{dump}"),
                Format::Json => eprint!("{}", dump.to_json()),
            }
        }
    })?;
    *listens = true;
    Ok(())
}
