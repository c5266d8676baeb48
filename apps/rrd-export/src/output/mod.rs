//! Where rows go: formats, and the one writer.
//!
//! ```text
//!   readers' fibers: Format::encode ─▶ Block            in parallel, in the order of the list
//!   one fiber:       Output::put ─▶ chunk ─ full ─▶ seal  (compress; on the pool, several at a time)
//!                                                   │ in order
//!                                                   ▼
//!                    land: bytes ─▶ Sink;  now and then: sync, then `done` into the journal
//! ```
//!
//! A chunk ends where a file's rows end, and carries how far the export is behind it. So whatever is on disk up to a
//! checkpoint is whole files, the first of the list, compressed or not.

mod atomic;
mod compress;
mod csv;
mod error;
mod parquet;
mod seal;
mod sources;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bast::JoinHandle;
use rrd_file::Fetched;

use crate::job::{Block, FileJob, Shape};
use crate::journal::{Done, Entry, Found, Journal, Options, Skip};
use atomic::{Partial, Sink};
pub use error::OutputError;
use parquet::{RowGroup, Table};
use seal::{Chunk, Codec, Sealed};

/// A chunk is closed when it tells of as many files that failed.
const FAILURES: usize = 256;

/// As many chunks are sealed at a time at most: memory counts.
const SEALERS: usize = 8;

/// Makes bytes of what was read. Called by many fibers at once.
pub trait Format: Send + Sync {
    /// Appends the file's rows to `out`, and says how many they are.
    ///
    /// # Errors
    /// The file does not fit the output; its text goes to the report.
    fn encode(&self, job: &FileJob, fetched: &Fetched, out: &mut Vec<u8>) -> Result<u64, String>;
}

/// Where the output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output. There is no journal then.
    Stdout,
    /// A file. Its name ends with `.parquet`, or is CSV's: `.gz` and `.zst` are compressed. What is no regular file (a
    /// device, a named pipe) is written as stdout is.
    File(PathBuf),
}

/// What output is wanted.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it goes.
    pub target: Target,
    /// What its rows have.
    pub shape: Shape,
    /// What has to be the same when it is resumed; see [`RESOLVED`](crate::journal::RESOLVED) for exceptions.
    pub options: Options,
    /// Whether to go on with what an earlier run has left. If it has left nothing, this is the first.
    pub resume: bool,
    /// How often it is made lasting.
    pub every: Duration,
    /// Whether that includes a loss of power: then the disk is waited for.
    pub sync: bool,
    /// Whether what an unfinished run has left may be thrown away.
    pub restart: bool,
}

/// What there is to do.
pub enum Opened {
    /// Rows are awaited.
    Open(Box<Output>, Skip),
    /// An earlier run has had all of them, and only its end was missing.
    Complete(Done),
}

/// The one writer. Used by one fiber.
pub struct Output {
    sink: Sink,
    codec: Codec,
    format: Arc<dyn Format>,
    chunk: Chunk,
    sealing: VecDeque<JoinHandle<io::Result<Sealed>>>,
    sealers: usize,
    groups: Vec<RowGroup>,
    /// What has landed.
    done: Done,
    journal: Option<Journal>,
    last: Instant,
    every: Duration,
    /// Not so from an error on, or when a call did not return: a chunk may be missing then.
    intact: bool,
}

/// The name of an output's journal.
#[must_use]
pub fn journal_of(output: &Path) -> PathBuf {
    atomic::beside(output, ".journal")
}

/// What an output begins with.
struct Start {
    sink: Sink,
    journal: Option<Journal>,
    done: Done,
    groups: Vec<RowGroup>,
}

impl Start {
    /// Writes as it goes.
    fn stream(target: &Target) -> Result<Start, OutputError> {
        let sink = Sink::Stream(match target {
            Target::Stdout => Box::new(bast::io::stdout()),
            Target::File(path) => {
                let file = bast::fs::OpenOptions::new().write(true).open(path);
                Box::new(file.map_err(|error| OutputError::Io(path.clone(), error))?)
            }
        });
        Ok(Start { sink, journal: None, done: Done::default(), groups: Vec::new() })
    }

    /// Opens a file and its journal. Says, instead, if nothing is left to do.
    fn file(name: &Path, plan: &Plan, codec: &Codec) -> Result<Result<Start, Done>, OutputError> {
        let temporary = atomic::beside(name, ".partial");
        let io = |error| OutputError::Io(temporary.clone(), error);
        if name.is_dir() {
            return Err(OutputError::Io(name.to_owned(), io::ErrorKind::IsADirectory.into()));
        }
        let path = journal_of(name);
        let found =
            if plan.resume { Journal::resume(&path, &plan.options, plan.sync)? } else { None };
        let Some(Found { journal, done, complete }) = found else {
            let journal = Some(Journal::create(&path, plan)?);
            let sink = Sink::File(Partial::open(name, 0, plan.sync).map_err(io)?);
            return Ok(Ok(Start { sink, journal, done: Done::default(), groups: Vec::new() }));
        };
        if complete {
            match atomic::publish(name, plan.sync) {
                // It had its name, and only the journal was left.
                Err(error) if error.kind() == io::ErrorKind::NotFound && name.exists() => {}
                published => published.map_err(io)?,
            }
            journal.remove().map_err(io)?;
            return Ok(Err(done));
        }
        let partial =
            Partial::open(name, done.bytes, plan.sync).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
                    OutputError::Gone(temporary.clone())
                }
                _ => io(error),
            })?;
        let mut groups = Vec::new();
        if matches!(codec, Codec::Parquet(_)) {
            let read = journal.entries(|entry| {
                if let Entry::Note(note) = entry {
                    groups.push(RowGroup::from_note(&note)?);
                }
                Ok(())
            });
            read.map_err(io)?;
        }
        Ok(Ok(Start { sink: Sink::File(partial), journal: Some(journal), done, groups }))
    }
}

impl Output {
    /// Opens an output, or what there is of it.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn open(plan: Plan) -> Result<Opened, OutputError> {
        let name = match &plan.target {
            Target::Stdout => None,
            // Through a link it is the file that gets written, not the link.
            Target::File(path) => {
                Some(bast::fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
            }
        };
        let ends = |suffix: &str| {
            let name = name.as_ref().map(|name| name.as_os_str().as_encoded_bytes());
            name.is_some_and(|name| name.ends_with(suffix.as_bytes()))
        };
        let mut head;
        let (codec, format): (Codec, Arc<dyn Format>) = if ends(".parquet") {
            let table = Arc::new(Table::new(plan.shape.clone()).map_err(OutputError::Shape)?);
            head = Vec::new();
            (Codec::Parquet(Arc::clone(&table)), table)
        } else {
            let csv = csv::Csv::new(plan.shape.clone());
            head = csv.header();
            let codec = match (ends(".gz"), ends(".zst")) {
                (true, _) => Codec::Gzip,
                (_, true) => Codec::Zstd,
                _ => Codec::Plain,
            };
            (codec, Arc::new(csv))
        };
        let start = match name.filter(|name| !is_special(name)) {
            None if plan.resume => return Err(OutputError::Stream),
            None => Start::stream(&plan.target)?,
            Some(name) => match Start::file(&name, &plan, &codec)? {
                Ok(start) => start,
                Err(done) => return Ok(Opened::Complete(done)),
            },
        };
        let Start { sink, journal, done, groups } = start;
        if done.bytes > 0 {
            head.clear();
        }
        let mut output = Output {
            sink,
            codec,
            format,
            chunk: Chunk { bytes: head, done, failures: Vec::new() },
            sealing: VecDeque::new(),
            sealers: bast::available_parallelism().map_or(1, usize::from).min(SEALERS),
            groups,
            done,
            journal,
            last: Instant::now(),
            every: plan.every,
            intact: true,
        };
        if done.bytes == 0 && matches!(output.codec, Codec::Parquet(_)) {
            let written = output.write(parquet::MAGIC);
            written.map_err(|error| OutputError::Io("the output".into(), error))?;
        }
        Ok(Opened::Open(Box::new(output), Skip::new(done)))
    }

    /// Makes blocks for this output.
    #[must_use]
    pub fn format(&self) -> Arc<dyn Format> {
        Arc::clone(&self.format)
    }

    /// How far it has come, with what an earlier run has done.
    #[must_use]
    pub fn done(&self) -> Done {
        self.chunk.done.with_bytes(self.done.bytes)
    }

    /// What files failed in the run that this one goes on with.
    ///
    /// # Errors
    /// The system's, or of `each`.
    pub fn failures(
        &self,
        mut each: impl FnMut(u64, &Path, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.entries(|entry| match entry {
            Entry::Failed { seq, path, why } => each(seq, &path, &why),
            Entry::Note(_) => Ok(()),
        })
    }

    /// Takes the next file's block.
    ///
    /// # Errors
    /// The system's: the run ends. What is on disk up to the last checkpoint can be resumed.
    ///
    /// # Panics
    /// If it is not the next file of the list.
    pub fn put(&mut self, job: &FileJob, block: &Block<'_>) -> io::Result<()> {
        self.chunk.bytes.extend_from_slice(block.bytes);
        self.chunk.done.rows += block.rows;
        self.advance(job)
    }

    /// The next file has failed.
    ///
    /// # Errors
    /// As [`put`](Output::put).
    ///
    /// # Panics
    /// As [`put`](Output::put).
    pub fn failed(&mut self, job: &FileJob, why: &str) -> io::Result<()> {
        self.chunk.failures.push((job.clone(), why.to_owned()));
        self.chunk.done.failed += 1;
        self.advance(job)
    }

    fn guarded<R>(&mut self, f: impl FnOnce(&mut Output) -> io::Result<R>) -> io::Result<R> {
        if !mem::replace(&mut self.intact, false) {
            return Err(io::Error::other("nothing is written any more: a write has failed before"));
        }
        let result = f(self)?;
        self.intact = true;
        Ok(result)
    }

    fn advance(&mut self, job: &FileJob) -> io::Result<()> {
        assert_eq!(job.seq, self.chunk.done.files, "files come in the order of the list");
        self.chunk.done.advance(job);
        self.guarded(Output::work)
    }

    /// Closes what is full, lands what is sealed, makes last what is due.
    fn work(&mut self) -> io::Result<()> {
        // A row group should be large; what it takes to make it again is the price.
        let late = !matches!(self.codec, Codec::Parquet(_)) && self.last.elapsed() >= self.every;
        let full =
            self.chunk.bytes.len() >= self.codec.chunk() || self.chunk.failures.len() >= FAILURES;
        if full || late {
            self.close()?;
        }
        while self.sealing.front().is_some_and(JoinHandle::is_finished) {
            self.land_first()?;
        }
        if self.last.elapsed() >= self.every { self.settle() } else { Ok(()) }
    }

    /// Begins another chunk.
    fn close(&mut self) -> io::Result<()> {
        let next = Chunk { done: self.chunk.done, ..Chunk::default() };
        let chunk = mem::replace(&mut self.chunk, next);
        if matches!(self.codec, Codec::Plain) {
            let sealed = chunk.seal(&Codec::Plain)?;
            // The memory serves again.
            self.chunk.bytes = self.land(sealed)?;
            self.chunk.bytes.clear();
            return Ok(());
        }
        if self.sealing.len() >= self.sealers {
            self.land_first()?;
        }
        let codec = self.codec.clone();
        self.sealing.push_back(bast::spawn(move || bast::blocking(move || chunk.seal(&codec))));
        Ok(())
    }

    fn land_first(&mut self) -> io::Result<()> {
        let Some(first) = self.sealing.pop_front() else { return Ok(()) };
        match first.join() {
            Ok(sealed) => self.land(sealed?).map(drop),
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    fn land(&mut self, Sealed { chunk, group }: Sealed) -> io::Result<Vec<u8>> {
        let at = self.done.bytes;
        self.write(&chunk.bytes)?;
        self.done = chunk.done.with_bytes(self.done.bytes);
        if let Some(group) = group {
            let group = group.moved(at, self.groups.len())?;
            if let Some(journal) = &mut self.journal {
                journal.note(&group.note()?);
            }
            self.groups.push(group);
        }
        if let Some(journal) = &mut self.journal {
            for (job, why) in &chunk.failures {
                journal.failed(job, why);
            }
            journal.relieve()?;
        }
        Ok(chunk.bytes)
    }

    /// Makes what has landed last.
    fn settle(&mut self) -> io::Result<()> {
        self.sink.sync()?;
        if let Some(journal) = &mut self.journal {
            journal.checkpoint(&self.done)?;
        }
        self.last = Instant::now();
        Ok(())
    }

    /// Makes everything so far last, for a run that ends before its time.
    ///
    /// # Errors
    /// As [`put`](Output::put).
    pub fn checkpoint(&mut self) -> io::Result<()> {
        self.guarded(Output::land_all)
    }

    fn land_all(&mut self) -> io::Result<()> {
        self.close()?;
        while !self.sealing.is_empty() {
            self.land_first()?;
        }
        self.settle()
    }

    /// Completes the output, and gives it its name.
    ///
    /// # Errors
    /// As [`put`](Output::put).
    pub fn finish(mut self) -> io::Result<Done> {
        self.checkpoint()?;
        if self.done.bytes == 0 && matches!(self.codec, Codec::Gzip | Codec::Zstd) {
            // No bytes at all are no compressed file.
            let empty = if matches!(self.codec, Codec::Gzip) {
                compress::gzip(&[])?
            } else {
                compress::zstd(&[])?
            };
            self.write(&empty)?;
            self.settle()?;
        }
        if let Codec::Parquet(table) = self.codec.clone() {
            let footer = table.footer(mem::take(&mut self.groups))?;
            // Not counted: a run that has to go on from here writes it again.
            self.sink.write_all(&footer)?;
            self.sink.sync()?;
        }
        if let Some(journal) = &mut self.journal {
            journal.complete()?;
        }
        self.sink.publish()?;
        if let Some(journal) = self.journal {
            journal.remove()?;
        }
        Ok(self.done)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sink.write_all(bytes)?;
        self.done.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Whether it is there and no file that could be replaced.
fn is_special(name: &Path) -> bool {
    name.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}
