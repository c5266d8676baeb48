//! The end of files, and what is added to it: the library behind the program `tail`.
//!
//! ```text
//!   a fiber for each file:
//!     last lines ─▶ read to the end ─▶ replaced? truncated? gone? ─ no ─▶ wait for a change ─╮
//!                        ▲                  ╰─ yes: from the start of what is there now      │
//!                        ╰───────────────────────────────────────────────────────────────────╯
//! ```

#[cfg(target_os = "linux")]
#[path = "tail/watch.rs"]
mod watch;
#[cfg(not(target_os = "linux"))]
#[path = "tail/watch_by_clock.rs"]
mod watch;

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use bast::fs::{self, File};
use bast::sync::Mutex;

use crate::os;

/// How much of a file is read at once.
const BLOCK: usize = 1 << 16;

/// What is wanted of each file.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many of the last lines.
    pub lines: usize,
    /// Whether to go on with what is added.
    pub follow: bool,
}

/// Where the parts of several files go, and the news about them.
#[derive(Debug)]
pub struct Output<W> {
    to: Mutex<To<W>>,
    headers: bool,
}

#[derive(Debug)]
struct To<W> {
    writer: W,
    last: Option<PathBuf>,
}

impl<W: Write> Output<W> {
    /// With `headers` each change from one file to another is announced.
    pub fn new(writer: W, headers: bool) -> Output<W> {
        Output { to: Mutex::new(To { writer, last: None }), headers }
    }

    /// The writer.
    pub fn into_inner(self) -> W {
        self.to.into_inner().unwrap_or_else(PoisonError::into_inner).writer
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        to.write(self.headers, path, bytes).map_err(Fault::output)
    }
}

impl<W: Write> To<W> {
    fn write(&mut self, headers: bool, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if headers && self.last.as_deref() != Some(path) {
            let gap = if self.last.is_some() { "\n" } else { "" };
            writeln!(self.writer, "{gap}==> {} <==", path.display())?;
            self.last = Some(path.to_owned());
        }
        self.writer.write_all(bytes)?;
        self.writer.flush()
    }
}

/// The output failed, and not the file.
#[derive(Debug)]
struct Fault(io::Error);

impl Fault {
    fn output(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), Fault(error))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl std::error::Error for Fault {}

/// Whether an error of [`tail`] is about the output: then there is no point in going on with other files.
pub fn is_output(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Fault>())
}

/// Writes the last lines of a file. If it is to be followed, and is a regular file, what is added to it, or to
/// another that takes its place, until the fiber is cancelled.
///
/// # Errors
/// The file cannot be opened, read or watched; the output cannot be written. A file that is to be followed may
/// come later.
pub fn tail<W: Write>(path: &Path, options: Options, out: &Output<W>) -> io::Result<()> {
    if path == "-" {
        let lines = last_lines(bast::io::stdin().lock(), options.lines)?;
        return lines.iter().try_for_each(|line| out.write("standard input".as_ref(), line));
    }
    if !options.follow {
        return first(path, options, out).map(drop);
    }
    let mut watch = watch::Watch::new(path)?;
    watch.renew();
    let mut file = match first(path, options, out) {
        Ok(None) => return Ok(()),
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            news(path, "does not exist; waiting for it");
            None
        }
        Err(error) => return Err(error),
    };
    loop {
        // Whatever happens from here on ends the wait below.
        watch.drain();
        if let Some(file) = &mut file {
            read_on(path, file, out)?;
        }
        match (fs::metadata(path), &mut file) {
            (Ok(now), Some(open)) if os::is_same(path, &now, open)? => {
                if now.len() < open.stream_position()? {
                    news(path, "was truncated");
                    open.rewind()?;
                    continue;
                }
            }
            (Ok(_), old) => {
                news(path, if old.is_some() { "was replaced" } else { "has come" });
                if let Some(old) = old {
                    // What was added to the old one before the new one came.
                    read_on(path, old, out)?;
                }
                watch.renew();
                match File::open(path) {
                    Ok(new) => file = Some(new),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => file = None,
                    Err(error) => return Err(error),
                }
                continue;
            }
            (Err(error), old) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(mut old) = old.take() {
                    read_on(path, &mut old, out)?;
                    news(path, "is gone; waiting for another");
                }
            }
            (Err(error), _) => return Err(error),
        }
        watch.wait()?;
    }
}

/// On standard error, so that it does not get into the output.
fn news(path: &Path, what: &str) {
    bast::eprintln!("tail: {} {what}", path.display());
}

/// Writes the last lines. The file, standing behind them; `None` if it has come to its end for good.
fn first<W: Write>(path: &Path, options: Options, out: &Output<W>) -> io::Result<Option<File>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        let lines = last_lines(BufReader::new(file), options.lines)?;
        lines.iter().try_for_each(|line| out.write(path, line))?;
        return Ok(None);
    }
    seek_lines(&mut file, options.lines)?;
    read_on(path, &mut file, out)?;
    Ok(Some(file))
}

fn read_on<W: Write>(path: &Path, file: &mut File, out: &Output<W>) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(()),
            n => out.write(path, &block[..n])?,
        }
    }
}

/// The last lines of something that cannot be read backwards.
fn last_lines(mut from: impl BufRead, count: usize) -> io::Result<VecDeque<Vec<u8>>> {
    let mut lines = VecDeque::new();
    loop {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(lines);
        }
        lines.push_back(line);
        if lines.len() > count {
            lines.pop_front();
        }
    }
}

/// Moves to the beginning of the last lines: backwards, block by block.
fn seek_lines(file: &mut File, count: usize) -> io::Result<()> {
    let end = file.seek(SeekFrom::End(0))?;
    let (mut at, mut found) = (end, 0);
    let mut block = vec![0; BLOCK];
    while at > 0 && count > 0 {
        let len = at.min(BLOCK as u64);
        at -= len;
        let block = &mut block[..len as usize];
        file.seek(SeekFrom::Start(at))?;
        match file.read_exact(block) {
            Ok(()) => {}
            // It was truncated just now: all that is left.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return file.rewind(),
            Err(error) => return Err(error),
        }
        for (i, byte) in block.iter().enumerate().rev() {
            let behind = at + i as u64 + 1;
            // The end of the last line does not begin another.
            if *byte == b'\n' && behind < end {
                found += 1;
                if found == count {
                    return file.seek(SeekFrom::Start(behind)).map(drop);
                }
            }
        }
    }
    if count > 0 { file.rewind() } else { Ok(()) }
}
