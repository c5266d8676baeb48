//! Where an output's bytes go: a file that gets its name when it is complete, or a stream.
//!
//! ```text
//!   out.csv.partial ── write … sync ── rename ──▶ out.csv      (and out.csv.journal, until then)
//! ```

use std::ffi::OsString;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bast::fs::{File, OpenOptions};

/// A name with something appended.
pub(super) fn beside(name: &Path, suffix: &str) -> PathBuf {
    let mut beside = OsString::from(name);
    beside.push(suffix);
    beside.into()
}

/// A file without its last name.
pub(super) struct Partial {
    file: File,
    name: PathBuf,
    /// Whether the disk is waited for.
    sync: bool,
}

impl Partial {
    /// Opens the temporary file of `name` and cuts it at `length`.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` if it is shorter than that.
    pub(super) fn open(name: &Path, length: u64, sync: bool) -> io::Result<Partial> {
        let temporary = beside(name, ".partial");
        let mut file =
            OpenOptions::new().read(true).write(true).create(length == 0).open(&temporary)?;
        if file.metadata()?.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Partial { file, name: name.to_owned(), sync })
    }
}

/// Gives a file that is complete its last name.
pub(super) fn publish(name: &Path, sync: bool) -> io::Result<()> {
    bast::fs::rename(beside(name, ".partial"), name)?;
    if !sync {
        return Ok(());
    }
    let folder = match name.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // The name is on disk when the folder is. Not every file system lets one sync a folder.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// What is written to.
pub(super) enum Sink {
    /// Complete when it is renamed.
    File(Partial),
    /// Written as it comes: stdout, a pipe, a device.
    Stream(Box<dyn Write + Send>),
}

impl Sink {
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::File(partial) => partial.file.write_all(bytes),
            Sink::Stream(stream) => stream.write_all(bytes),
        }
    }

    /// What has been written is on disk (if that is wanted), or with whoever reads the stream.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match self {
            Sink::File(partial) if partial.sync => partial.file.sync_data(),
            Sink::File(_) => Ok(()),
            Sink::Stream(stream) => stream.flush(),
        }
    }

    /// It is complete.
    pub(super) fn publish(self) -> io::Result<()> {
        match self {
            Sink::File(partial) => {
                if partial.sync {
                    partial.file.sync_all()?;
                }
                publish(&partial.name, partial.sync)
            }
            Sink::Stream(mut stream) => stream.flush(),
        }
    }
}
