//! What failed and why: a line for each file (or device) in `--report`, the first few on standard error.
//!
//! ```text
//!   path <TAB> device <TAB> reason        tabs, line ends, backslashes and bytes that are no UTF-8: \t \n \r \\ \xFF
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// As many are told on standard error.
const TOLD: u64 = 10;

/// Takes what failed.
#[derive(Debug)]
pub struct Report {
    file: Option<(PathBuf, BufWriter<File>)>,
    count: u64,
    quiet: bool,
}

impl Report {
    /// Into a file, which begins with a line that names the columns; without one, only standard error is told.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(path: Option<&Path>, quiet: bool) -> Result<Report, String> {
        let open = |path: &Path| -> io::Result<_> {
            let mut file = BufWriter::new(File::create(path)?);
            file.write_all(b"path\tdevice\treason\n")?;
            Ok((path.to_owned(), file))
        };
        let file = path.map(|path| open(path).map_err(|error| failed(path, error))).transpose()?;
        Ok(Report { file, count: 0, quiet })
    }

    /// One more that failed. Returns what is to be told on standard error, if anything.
    ///
    /// # Errors
    /// The report cannot be written.
    pub fn add(
        &mut self,
        path: &OsStr,
        device: &str,
        reason: &str,
    ) -> Result<Option<String>, String> {
        self.count += 1;
        let mut line = Vec::new();
        for (at, field) in
            [path.as_bytes(), device.as_bytes(), reason.as_bytes()].iter().enumerate()
        {
            if at > 0 {
                line.push(b'\t');
            }
            escape(field, &mut line);
        }
        line.push(b'\n');
        if let Some((path, file)) = &mut self.file {
            file.write_all(&line).map_err(|error| failed(path, error))?;
        }
        if self.quiet || self.count > TOLD {
            return Ok(None);
        }
        let shown = line.split(|byte| *byte == b'\t').next().unwrap_or_default();
        let mut told = format!("{}: {reason}", String::from_utf8_lossy(shown));
        if self.count == TOLD {
            told.push_str("\n(further ones are counted only; --report FILE has them all)");
        }
        Ok(Some(told))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&mut self) -> Result<(), String> {
        match &mut self.file {
            Some((path, file)) => file.flush().map_err(|error| failed(path, error)),
            None => Ok(()),
        }
    }
}

fn failed(path: &Path, error: io::Error) -> String {
    format!("report {}: {error}", path.display())
}

fn escape(field: &[u8], out: &mut Vec<u8>) {
    for chunk in field.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'\t' => out.extend(b"\\t"),
                b'\n' => out.extend(b"\\n"),
                b'\r' => out.extend(b"\\r"),
                b'\\' => out.extend(b"\\\\"),
                _ => out.push(byte),
            }
        }
        for byte in chunk.invalid() {
            out.extend(format!("\\x{byte:02X}").bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_whatever_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("errors.tsv");
        let mut report = Report::new(Some(&path), false).unwrap();
        let names: [&[u8]; 3] = [b"plain.rrd", b"a\tb\n\xff\\.rrd", b"caf\xc3\xa9.rrd"];
        for name in names {
            report.add(OsStr::from_bytes(name), "7", "is\nbad").unwrap().unwrap();
        }
        for n in 3..20 {
            let told = report.add(OsStr::new("x"), "", "").unwrap();
            assert_eq!(told.is_some(), n < TOLD, "{n}");
        }
        report.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "path\tdevice\treason");
        assert_eq!(lines[1], "plain.rrd\t7\tis\\nbad");
        assert_eq!(lines[2], "a\\tb\\n\\xFF\\\\.rrd\t7\tis\\nbad");
        assert_eq!(lines[3], "caf\u{e9}.rrd\t7\tis\\nbad");
        assert_eq!(lines.len(), 21);
    }

    #[test]
    fn a_report_that_cannot_be_written_is_an_error() {
        let error = Report::new(Some(Path::new("/nowhere/errors.tsv")), true).unwrap_err();
        assert!(error.contains("/nowhere/errors.tsv"), "{error}");
        let mut report = Report::new(Some(Path::new("/dev/full")), true).unwrap();
        report.add(OsStr::new("x"), "", "").unwrap();
        assert!(report.finish().unwrap_err().contains("No space left"));
    }
}
