//! From devices to rows, in direct style.
//!
//! ```text
//!   devices ─▶ list: LISTERS fibers, glob on the blocking pool ─▶ files ─▶ readers: fetch, encode ─▶ one writer
//!   (spool)      a few devices' files, sorted                     seq        batches of blocks, in the files' order
//!      ◀───────────────────── back pressure: each stage takes what the next one asks for ─────────────────────
//! ```
//!
//! Every stage is an iterator, and the loop at the end drives it all: nothing is listed or read that the writer has not
//! room for. Held are the files of some devices and the blocks of `readers` batches, however many files there are.
//!
//! Blocks come in the order of the files, so two runs over the same files give the same bytes, and a run that goes on
//! after another knows where that one was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bast::stream::StreamExt;
use globset::{GlobBuilder, GlobMatcher};
use rrd_file::Query;

use crate::batch::{Batch, Exporter, Outcome, Work};
use crate::devices::Devices;
use crate::exit::Exit;
use crate::job::{Block, Device, FileJob, Layout, Shape};
use crate::journal::{Done, Skip};
use crate::output::{Opened, Output};
use crate::pattern::{Found, Pattern};
use crate::progress::{Progress, Tally, add};
use crate::reader::{ReadError, Reader};
use crate::report::Report;

/// As many parts of the devices' list are worked on at a time,
const LISTERS: usize = 8;

/// and as many devices are a part: to the blocking pool and back takes longer than to read a small directory.
const DEVICES: usize = 16;

/// As many files may fail before one says what the columns are.
const PROBES: usize = 1000;

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
    /// How many files one of them takes at a time, at most.
    pub batch: usize,
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
            io::ErrorKind::StorageFull => {
                format!("output: {error}: make room and go on by --resume").into()
            }
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
            let glob =
                GlobBuilder::new(name).build().map_err(|error| format!("ifaces: {error}"))?;
            Ok::<_, String>(glob.compile_matcher())
        };
        Ok(Ifaces(Arc::new(names.iter().map(glob).collect::<Result<_, _>>()?)))
    }

    fn has(&self, job: &FileJob) -> bool {
        self.0.is_empty() || self.0.iter().any(|glob| glob.is_match(job.iface()))
    }
}

/// Runs the plan to its end. `open` is called when it is known what a row has, and not at all if there is no file.
///
/// # Errors
/// See [`Fault`].
pub fn run(
    plan: Plan,
    watch: &mut Watch<'_>,
    open: impl FnOnce(&Shape) -> Result<Opened, String>,
) -> Result<Exit, Fault> {
    let Plan { devices, pattern, ifaces, query, mut shape, reader, readers, batch } = plan;
    let mut works = works(devices, pattern, ifaces, Arc::clone(&watch.tally));
    let begun = match shape.layout == Layout::Wide && shape.metrics.is_empty() {
        true => probe(&mut works, &mut shape, &*reader, &query, &watch.stop)?,
        false => works.next().into_iter().collect(),
    };
    if begun.is_empty() {
        return Ok(if is_set(&watch.stop) { Exit::Interrupted } else { Exit::NoFiles });
    }
    let (mut output, skip) = match open(&shape)? {
        Opened::Open(output, skip) => (output, skip),
        Opened::Complete(done) => {
            watch.tally.earlier(&done);
            return Ok(exit(&done));
        }
    };
    watch.tally.earlier(&output.done());
    watch.replay(&output)?;

    let stop = Arc::clone(&watch.stop);
    let exporter = Exporter::new(reader, query, output.format(), readers, batch, stop);
    let exporter = Arc::new(exporter);
    let works = rest(begun.into_iter().chain(works), skip, Arc::clone(&watch.stop));
    let batches = exporter.batches(works);
    let all = Arc::clone(&exporter);
    let fed =
        watch.feed(&mut output, &exporter, batches.par_map(readers, move |works| all.run(works)));
    if let Err(fault) = fed {
        // What has been read stays read. If it is the output that has failed, this does nothing.
        let _ = output.checkpoint();
        return Err(fault);
    }
    if is_set(&watch.stop) {
        output.checkpoint().map_err(Fault::writing)?;
        return Ok(Exit::Interrupted);
    }
    output.finish().map_err(Fault::writing).map(|done| exit(&done))
}

fn is_set(stop: &AtomicBool) -> bool {
    // Nothing else is read because of it.
    stop.load(Ordering::Relaxed)
}

fn exit(done: &Done) -> Exit {
    if done.failed > 0 { Exit::SomeFailed } else { Exit::Complete }
}

/// Takes files up to the first that can be read, which says what the columns are. They are all read again.
fn probe(
    works: &mut impl Iterator<Item = Work>,
    shape: &mut Shape,
    reader: &dyn Reader,
    query: &Query,
    stop: &AtomicBool,
) -> Result<Vec<Work>, String> {
    let mut begun = Vec::new();
    while let Some(work) = works.next()
        && !is_set(stop)
    {
        let read = match &work {
            Work::File(job, None) => reader.fetch(&job.path, query),
            Work::File(_, Some(reason)) => Err(ReadError::Rrdtool(reason.clone())),
            Work::Fatal(text) => return Err(text.clone()),
        };
        begun.push(work);
        match read {
            Ok(fetched) => {
                shape.metrics = fetched.sources;
                shape.exact = true;
                return Ok(begun);
            }
            Err(ReadError::Fatal(text)) => return Err(text),
            Err(error) if begun.len() == PROBES => {
                return Err(format!(
                    "none of the first {PROBES} files can be read, so the columns are not known: choose by --metrics, or use \
                     --layout long. The last one: {error}"
                ));
            }
            Err(_) => {}
        }
    }
    match begun.last() {
        Some(Work::File(job, _)) if !is_set(stop) => {
            // The first one's reason is as good as any.
            let reason =
                reader.fetch(&job.path, query).err().map_or_else(String::new, |e| e.to_string());
            let path = job.path.display();
            Err(format!(
                "none of {} files can be read, and nothing was written; {path}: {reason}",
                begun.len()
            ))
        }
        _ => Ok(Vec::new()),
    }
}

/// What an earlier run has not done, until somebody says stop.
fn rest(
    mut works: impl Iterator<Item = Work>,
    mut skip: Skip,
    stop: Arc<AtomicBool>,
) -> impl Iterator<Item = Work> {
    let mut ended = false;
    std::iter::from_fn(move || {
        while !ended && !is_set(&stop) {
            let checked = match works.next() {
                Some(Work::File(job, reason)) => match skip.passes(&job) {
                    Ok(true) => continue,
                    Ok(false) => return Some(Work::File(job, reason)),
                    Err(changed) => Err(changed),
                },
                Some(fatal) => return Some(fatal),
                None => skip.end(),
            };
            ended = true;
            return checked.err().map(|changed| Work::Fatal(changed.to_string()));
        }
        None
    })
}

/// All files of all devices.
fn works(
    devices: Devices,
    pattern: Pattern,
    ifaces: Ifaces,
    tally: Arc<Tally>,
) -> impl Iterator<Item = Work> {
    let list = move |devices: Vec<io::Result<Device>>| {
        let list = |device: io::Result<Device>| {
            let device =
                device.map_err(|error| format!("temporary file of the devices: {error}"))?;
            let found = pattern.files(&device);
            Ok((Arc::new(device), found))
        };
        bast::blocking(|| devices.into_iter().map(list).collect::<Vec<_>>())
    };
    let mut seq = 0;
    let listed = devices.chunks(DEVICES).par_map(LISTERS, list).flatten();
    let listed = listed.flat_map(move |listed: Result<_, String>| {
        add(&tally.devices, 1);
        let (device, found) = match listed {
            Err(text) => return Works::One(Some(Work::Fatal(text))),
            Ok((device, Ok(found))) => (device, found),
            Ok((device, Err(error))) => {
                let job = FileJob { seq: 0, path: PathBuf::new(), device };
                return Works::One(Some(Work::File(job, Some(error.to_string()))));
            }
        };
        if found.is_empty() {
            add(&tally.empty, 1);
        }
        Works::Files(Files { device, found: found.into_iter(), names: None })
    });
    listed.filter_map(move |work| {
        let Work::File(mut job, reason) = work else { return Some(work) };
        if reason.is_none() && !ifaces.has(&job) {
            return None;
        }
        job.seq = seq;
        seq += 1;
        Some(Work::File(job, reason))
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
            Works::Files(files) => files.next().map(|job| Work::File(job, None)),
        }
    }
}

/// The files of a device, made one by one of their directories' names.
struct Files {
    device: Arc<Device>,
    found: std::vec::IntoIter<Found>,
    names: Option<(PathBuf, std::vec::IntoIter<Box<std::ffi::OsStr>>)>,
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

impl Watch<'_> {
    /// Puts what the batches come to, until there are no more or somebody says stop.
    fn feed(
        &mut self,
        output: &mut Output,
        exporter: &Exporter,
        batches: impl Iterator<Item = Batch>,
    ) -> Result<(), Fault> {
        for batch in batches {
            let mut left = self.put(output, batch)?;
            while !left.is_empty() {
                if is_set(&self.stop) {
                    return Ok(());
                }
                left = self.put(output, exporter.run(left))?;
            }
        }
        Ok(())
    }

    /// Hands a batch to the output. Returns what is left of it to do.
    fn put(&mut self, output: &mut Output, batch: Batch) -> Result<Vec<Work>, Fault> {
        for outcome in batch.outcomes {
            match outcome {
                Outcome::Rows(job, rows, place) => {
                    let block = Block { bytes: &batch.bytes[place], rows };
                    output.put(&job, &block).map_err(Fault::writing)?;
                    self.tally.add_block(&block);
                }
                Outcome::Failed(job, reason) => {
                    output.failed(&job, &reason).map_err(Fault::writing)?;
                    add(&self.tally.failed, 1);
                    self.tell(&job.path, &job.device.id, &reason)?;
                }
                Outcome::Fatal(text) => return Err(text.into()),
            }
        }
        Ok(batch.left)
    }

    fn tell(&mut self, path: &Path, device: &str, reason: &str) -> Result<(), String> {
        if let Some(text) = self.report.add(path.as_os_str(), device, reason)? {
            self.progress.tell(&text);
        }
        Ok(())
    }

    /// What failed in an earlier run belongs into this one's report.
    fn replay(&mut self, output: &Output) -> Result<(), Fault> {
        let told =
            output.failures(|_, path, why| self.tell(path, "", why).map_err(io::Error::other));
        told.map_err(Fault::writing)
    }
}
