//! From devices to rows, in direct style.
//!
//! ```text
//!   devices ─▶ list: LISTERS fibers, glob on the blocking pool ─▶ files ─▶ readers: fetch, encode ─▶ one writer
//!   (spool)      a device's files, sorted                         seq        blocks, in the files' order
//!      ◀───────────────────── back pressure: each stage takes what the next one asks for ─────────────────────
//! ```
//!
//! Every stage is an iterator, and the loop at the end drives it all: nothing is listed or read that the writer has not
//! room for. Held are the files of a few devices and the blocks of `readers` files, however many files there are.
//!
//! Blocks come in the order of the files, so two runs over the same files give the same bytes, and a run that goes on
//! after another knows where that one was.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bast::stream::StreamExt;
use globset::{GlobBuilder, GlobMatcher};
use rrd_file::{Fetched, Query};

use crate::devices::Devices;
use crate::exit::Exit;
use crate::job::{Block, Device, FileJob, Layout, Shape};
use crate::output::{Format, Writer};
use crate::pattern::{Found, Pattern};
use crate::progress::{Progress, Tally, add};
use crate::reader::{ReadError, Reader};
use crate::report::Report;

/// As many devices' directories are read at a time.
const LISTERS: usize = 8;

/// What is to be done.
pub struct Plan {
    /// Whose files.
    pub devices: Devices,
    /// Which files.
    pub pattern: Pattern,
    /// Which of them, by their names.
    pub ifaces: Ifaces,
    /// Which rows.
    pub query: Query,
    /// How they are put; the metrics are those of the first file if none were chosen.
    pub shape: Shape,
    /// Who reads them.
    pub reader: Arc<dyn Reader>,
    /// By how many fibers.
    pub readers: usize,
}

/// Where the rows go.
pub struct Output {
    /// Makes blocks.
    pub format: Arc<dyn Format>,
    /// Takes them.
    pub writer: Box<dyn Writer>,
    /// Which files an earlier run has written.
    pub is_done: Arc<dyn Fn(&FileJob) -> bool + Send + Sync>,
}

/// What watches a run, and may end it.
pub struct Watch<'a> {
    /// Counts.
    pub tally: Arc<Tally>,
    /// Draws.
    pub progress: &'a Progress,
    /// Takes what failed.
    pub report: &'a mut Report,
    /// Set by Ctrl-C: no further file is begun.
    pub stop: Arc<AtomicBool>,
}

/// Why a run ended before its end.
#[derive(Debug)]
pub struct Fault {
    /// For the caller of the program.
    pub exit: Exit,
    /// For people; nothing if there is nobody to be told.
    pub text: String,
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault { exit: Exit::Fatal, text }
    }
}

impl Fault {
    fn writing(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Fault { exit: Exit::OutputClosed, text: String::new() },
            io::ErrorKind::StorageFull => format!("output: {error}: make room and go on by --resume").into(),
            _ => format!("output: {error}").into(),
        }
    }
}

/// Names of files without `.rrd` that are taken: all, if there are none.
#[derive(Clone, Debug, Default)]
pub struct Ifaces(Arc<Vec<GlobMatcher>>);

impl Ifaces {
    /// Names or globs.
    ///
    /// # Errors
    /// One is no glob.
    pub fn new(names: &[String]) -> Result<Ifaces, String> {
        let glob = |name: &String| {
            let glob = GlobBuilder::new(name).build().map_err(|error| format!("ifaces: {error}"))?;
            Ok::<_, String>(glob.compile_matcher())
        };
        Ok(Ifaces(Arc::new(names.iter().map(glob).collect::<Result<_, _>>()?)))
    }

    fn has(&self, job: &FileJob) -> bool {
        self.0.is_empty() || self.0.iter().any(|glob| glob.is_match(job.iface()))
    }
}

/// A file, or what is in the place of files.
enum Work {
    File(FileJob),
    /// A device whose files cannot be listed.
    Lost(Lost),
    /// The spool of the devices is broken.
    Fatal(String),
}

struct Lost {
    path: OsString,
    device: Arc<Device>,
    reason: String,
}

/// What became of it.
enum Outcome {
    Block(FileJob, Block),
    Lost(Lost),
    Fatal(String),
}

/// Runs the plan to its end. `open` is called when it is known what a row has, and not at all if there is no file.
///
/// # Errors
/// See [`Fault`].
pub fn run(
    plan: Plan,
    watch: &mut Watch<'_>,
    open: impl FnOnce(&Shape) -> Result<Output, String>,
) -> Result<Exit, Fault> {
    let Plan { devices, pattern, ifaces, query, mut shape, reader, readers } = plan;
    let (stop, tally) = (Arc::clone(&watch.stop), Arc::clone(&watch.tally));
    let mut works = works(devices, pattern, ifaces, Arc::clone(&tally))
        .take_while(move |_| !stop.load(Ordering::Relaxed));

    // The first file that can be read says what the columns are.
    let first = loop {
        match works.next() {
            None => break None,
            Some(Work::Fatal(text)) => return Err(text.into()),
            Some(Work::Lost(lost)) => watch.lost(&lost)?,
            Some(Work::File(job)) => match reader.fetch(&job.path, &query) {
                Ok(fetched) => break Some((job, fetched)),
                Err(ReadError::Fatal(text)) => return Err(text.into()),
                Err(error) => watch.lost(&lost(job, &error.to_string()))?,
            },
        }
    };
    let Some((job, fetched)) = first else { return watch.nothing() };
    if shape.layout == Layout::Wide && shape.metrics.is_empty() {
        shape.metrics.clone_from(&fetched.sources);
        shape.exact = true;
    }
    let Output { format, mut writer, is_done } = open(&shape)?;
    drop(fetched);

    let size = AtomicUsize::new(0);
    let outcomes = std::iter::once(Work::File(job))
        .chain(works)
        .filter(move |work| match work {
            Work::File(job) if is_done(job) => {
                add(&tally.resumed, 1);
                false
            }
            _ => true,
        })
        .par_map(readers, move |work| match work {
            Work::File(job) => export(job, &*reader, &query, &*format, &size),
            Work::Lost(lost) => Outcome::Lost(lost),
            Work::Fatal(text) => Outcome::Fatal(text),
        });
    for outcome in outcomes {
        match outcome {
            Outcome::Block(job, block) => {
                writer.put(&job, &block).map_err(Fault::writing)?;
                add(&watch.tally.files, 1);
                add(&watch.tally.rows, block.rows);
                add(&watch.tally.bytes, block.bytes.len() as u64);
            }
            Outcome::Lost(lost) => watch.lost(&lost)?,
            Outcome::Fatal(text) => return Err(text.into()),
        }
    }
    if watch.stop.load(Ordering::Relaxed) {
        writer.checkpoint().map_err(Fault::writing)?;
        return Ok(Exit::Interrupted);
    }
    writer.finish().map_err(Fault::writing)?;
    Ok(if watch.tally.failed.load(Ordering::Relaxed) > 0 { Exit::SomeFailed } else { Exit::Complete })
}

/// All files of all devices.
fn works(
    devices: Devices,
    pattern: Pattern,
    ifaces: Ifaces,
    tally: Arc<Tally>,
) -> impl Iterator<Item = Work> {
    let list = move |device: io::Result<Device>| {
        let device = device.map_err(|error| format!("temporary file of the devices: {error}"))?;
        let found = bast::blocking(|| pattern.files(&device));
        Ok((Arc::new(device), found))
    };
    let mut seq = 0;
    devices.par_map(LISTERS, list).flat_map(move |listed: Result<_, String>| {
        add(&tally.devices, 1);
        let (device, found) = match listed {
            Err(text) => return Works::One(Some(Work::Fatal(text))),
            Ok((device, Ok(found))) => (device, found),
            Ok((device, Err(error))) => {
                let lost = Lost { path: OsString::new(), device, reason: error.to_string() };
                return Works::One(Some(Work::Lost(lost)));
            }
        };
        if found.is_empty() {
            add(&tally.empty, 1);
        }
        Works::Files(Files { device, found: found.into_iter(), names: None })
    })
    .filter_map(move |work| {
        let Work::File(mut job) = work else { return Some(work) };
        if !ifaces.has(&job) {
            return None;
        }
        job.seq = seq;
        seq += 1;
        Some(Work::File(job))
    })
}

enum Works {
    One(Option<Work>),
    Files(Files),
}

impl Iterator for Works {
    type Item = Work;

    fn next(&mut self) -> Option<Work> {
        match self {
            Works::One(work) => work.take(),
            Works::Files(files) => files.next().map(Work::File),
        }
    }
}

/// The files of a device, made one by one of their directories' names.
struct Files {
    device: Arc<Device>,
    found: std::vec::IntoIter<Found>,
    names: Option<(std::path::PathBuf, std::vec::IntoIter<Box<std::ffi::OsStr>>)>,
}

impl Iterator for Files {
    type Item = FileJob;

    fn next(&mut self) -> Option<FileJob> {
        loop {
            if let Some((dir, names)) = &mut self.names
                && let Some(name) = names.next()
            {
                let device = Arc::clone(&self.device);
                return Some(FileJob { seq: 0, path: dir.join(&*name), device });
            }
            let Found { dir, names } = self.found.next()?;
            self.names = Some((dir, names.into_iter()));
        }
    }
}

/// One file, in a fiber of its own.
fn export(
    job: FileJob,
    reader: &dyn Reader,
    query: &Query,
    format: &dyn Format,
    size: &AtomicUsize,
) -> Outcome {
    let fetched: Fetched = match reader.fetch(&job.path, query) {
        Ok(fetched) => fetched,
        Err(ReadError::Fatal(text)) => return Outcome::Fatal(text),
        Err(error) => return Outcome::Lost(lost(job, &error.to_string())),
    };
    // A block is as large as the last one, most likely.
    let mut bytes = Vec::with_capacity(size.load(Ordering::Relaxed));
    match format.encode(&job, &fetched, &mut bytes) {
        Ok(rows) => {
            size.store(bytes.len(), Ordering::Relaxed);
            Outcome::Block(job, Block { bytes, rows })
        }
        Err(reason) => Outcome::Lost(lost(job, &reason)),
    }
}

fn lost(job: FileJob, reason: &str) -> Lost {
    Lost { path: job.path.into(), device: job.device, reason: reason.to_owned() }
}

impl Watch<'_> {
    fn lost(&mut self, lost: &Lost) -> Result<(), String> {
        add(&self.tally.failed, 1);
        if let Some(text) = self.report.add(&lost.path, &lost.device.id, &lost.reason)? {
            self.progress.tell(&text);
        }
        Ok(())
    }

    /// No file could be read.
    fn nothing(&self) -> Result<Exit, Fault> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Exit::Interrupted);
        }
        match self.tally.failed.load(Ordering::Relaxed) {
            0 => Ok(Exit::NoFiles),
            failed => Err(format!("none of {failed} files could be read; nothing was written").into()),
        }
    }
}
