//! Other systems: where a path leads is looked at before it is opened. Whoever can rename directories beneath the root at
//! that very moment can lead out of it.
//!
//! Windows has several names for one thing. A colon begins a stream of a file, a backslash a directory; a device is in
//! every directory; a name may be cut to eight letters. So there are names that are refused, and what is hidden is so by
//! its full name.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bast::fs::{self, File};

use super::super::site::Missing;
use super::{Facts, Opened};
use crate::os::SHORTAGES;

#[derive(Debug)]
pub(crate) struct Root {
    /// Without links, so that others can be compared with it.
    path: PathBuf,
}

/// A directory.
pub(crate) struct Dir(PathBuf);

impl Dir {
    /// Where its entries can be read.
    pub(crate) fn place(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Root {
    pub(crate) fn new(path: &Path) -> io::Result<Root> {
        let path = fs::canonicalize(path)?;
        match fs::metadata(&path)?.is_dir() {
            true => Ok(Root { path }),
            false => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Opens for reading.
    pub(crate) fn open(&self, path: &[u8], follow_links: bool) -> Result<Opened, Missing> {
        let asked = std::str::from_utf8(path).map_err(|_| Missing::NotFound)?;
        if cfg!(windows) && asked.split('/').any(is_special) {
            return Err(Missing::NotFound);
        }
        let real = fs::canonicalize(self.path.join(asked)).map_err(missing)?;
        let beneath = real.strip_prefix(&self.path).ok();
        let is_revealed = beneath.is_some_and(is_hidden) && !is_hidden(Path::new(asked));
        if is_revealed || beneath.is_none() && !follow_links {
            return Err(Missing::NotFound);
        }
        let data = fs::metadata(&real).map_err(missing)?;
        if data.is_dir() {
            return Ok(Opened::Dir(Dir(real)));
        }
        if !data.is_file() {
            return Err(Missing::NotFound);
        }
        let file = File::open(&real).map_err(missing)?;
        let data = file.metadata().map_err(missing)?;
        let since = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = since.map_or((0, 0), |since| (since.as_secs() as i64, since.subsec_nanos()));
        Ok(Opened::File(file, Facts { len: data.len(), modified, inode: 0 }))
    }
}

fn is_hidden(path: &Path) -> bool {
    path.iter().any(|name| name != "." && name.as_encoded_bytes().starts_with(b"."))
}

/// Whether Windows takes this name for something else than a file of this name.
fn is_special(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_device = match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
        port => port.strip_prefix("COM").or(port.strip_prefix("LPT")).is_some_and(|number| {
            let mut digits = number.chars();
            digits.next().is_some_and(|c| c.is_ascii_digit() || "¹²³".contains(c))
                && digits.next().is_none()
        }),
    };
    is_device || name.contains([':', '\\']) || name != "." && name.ends_with(['.', ' '])
}

/// Nothing says what is in memory.
#[allow(clippy::unnecessary_wraps)] // as on Linux
pub(crate) fn read_cached(_: &File, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
    Ok(None)
}

/// A name as the bytes that it has in a path.
pub(crate) fn name(name: &OsStr) -> Vec<u8> {
    name.to_string_lossy().into_owned().into_bytes()
}

fn missing(fault: io::Error) -> Missing {
    match fault.kind() {
        _ if fault.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code)) => Missing::Busy,
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => Missing::NotFound,
        ErrorKind::PermissionDenied => Missing::Forbidden,
        _ => Missing::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_else_are_known() {
        for name in ["nul", "NUL.txt", "con", "Com1", "lpt9.a", "COM¹", "a:b", "a\\b", "a.", "a "]
        {
            assert!(is_special(name), "{name}");
        }
        for name in [".", "null", "com", "com10", "console", ".hidden", "a.b", "conin"] {
            assert!(!is_special(name), "{name}");
        }
    }

    #[test]
    fn hidden_names_are_known() {
        assert!(is_hidden(Path::new("a/.b/c")) && is_hidden(Path::new(".a")));
        assert!(!is_hidden(Path::new("a/b.c")) && !is_hidden(Path::new(".")));
    }
}
