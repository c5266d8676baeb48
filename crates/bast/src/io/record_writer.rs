//! Many fibers write whole records to one sink (Lwt's atomic channels).
//!
//! ```text
//!   write_record ─╮
//!   write_record ─┼─▶ Combiner: one at a time, several small ones together ─▶ W::write
//!   write_record ─╯
//! ```

use std::fmt;
use std::io::{self, Seek, Write};

use bast_sync::{Combiner, Failure, Sink};

use crate::fs::File;
use crate::io::PipeWriter;
use crate::net::TcpStream;
#[cfg(unix)]
use crate::os::unix::net::UnixStream;
use crate::process::ChildStdin;

/// As many bytes of small records are put together.
const BATCH: usize = 1 << 16;

/// Says of a writer that a call of `write` which unwinds, because its fiber is cancelled or its time is up, has
/// written nothing.
///
/// It is so for bast's files, sockets and pipes. It is not for writers around them that have a buffer, or make several
/// calls of one: those go into a [`RecordWriter::masked`].
pub trait CancelSafe: Write {}

macro_rules! cancel_safe {
    ($($t:ty),*) => { $(impl CancelSafe for $t {})* };
}
cancel_safe!(
    File,
    &File,
    TcpStream,
    &TcpStream,
    PipeWriter,
    &PipeWriter,
    ChildStdin,
    &ChildStdin,
    Vec<u8>,
    io::Sink
);
#[cfg(unix)]
cancel_safe!(UnixStream, &UnixStream);
impl<W: CancelSafe + ?Sized> CancelSafe for &mut W {}
impl<W: CancelSafe + ?Sized> CancelSafe for Box<W> {}

/// Writes records of many fibers and threads to one sink, each in one piece.
///
/// ```
/// use bast::io::RecordWriter;
///
/// let (reader, writer) = bast::io::pipe()?;
/// let log = RecordWriter::new(writer);
/// bast::scope(|s| {
///     for n in 0..10 {
///         let log = &log;
///         s.spawn(move || log.write_record(format!("record {n}\n").as_bytes()).unwrap());
///     }
/// });
/// drop(log);
/// let text = std::io::read_to_string(reader)?;
/// assert_eq!(text.lines().filter(|line| line.starts_with("record ")).count(), 10);
/// # std::io::Result::Ok(())
/// ```
///
/// A record for which [`write_record`](RecordWriter::write_record) has returned `Ok` has been handed to the sink,
/// whole: to the kernel, if the sink is a file or a socket. Whether it survives a loss of power is up to
/// [`File::sync_data`]: see [`with`](RecordWriter::with). Nothing is kept back in a buffer, so there is nothing to flush
/// before the end.
///
/// Records are written in the order of their arrival. Of those up to 4 KiB that wait at the same time many go into
/// one call; so the sink should not be one that sends each call as a message, unless that is
/// [switched off](RecordWriter::batch). Waiting records stay with their writers, so a slow sink holds its writers up and
/// takes no memory beyond one batch.
///
/// A sink that fails in the middle of a record, as a disk does that gets full, is *torn*: that record's writer gets the
/// error, and every later one is refused, as it would follow half a record. A sink that can take the half back is not
/// torn: see [`undo`](RecordWriter::undo) and [`truncating`](RecordWriter::truncating).
///
/// # Cancellation
/// Writing is a suspension point. The record of a writer that is cancelled, or whose time is up, is written whole or not
/// at all. If it was half written already, the next writer (or `with`) writes the rest first.
pub struct RecordWriter<W: Write> {
    combiner: Combiner<To<W>>,
}

type Undo<W> = Box<dyn FnMut(&mut W, usize) -> io::Result<()> + Send>;

/// The sink.
struct To<W> {
    writer: W,
    undo: Option<Undo<W>>,
    clean: bool,
}

impl<W: Write> Sink for To<W> {
    type Error = io::Error;

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.writer.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn undo(&mut self, count: usize) -> bool {
        self.undo.as_mut().is_some_and(|undo| undo(&mut self.writer, count).is_ok())
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl<W: CancelSafe> RecordWriter<W> {
    /// Around one of bast's own streams, or what writes as they do.
    pub fn new(writer: W) -> RecordWriter<W> {
        RecordWriter::around(To { writer, undo: None, clean: true })
    }
}

impl RecordWriter<File> {
    /// Around a file that is written at its end, and by nobody else: half a record is cut off again.
    #[must_use]
    pub fn truncating(file: File) -> RecordWriter<File> {
        RecordWriter::new(file).undo(|file, count| {
            let start = file.metadata()?.len().checked_sub(count as u64);
            let start = start.ok_or(io::ErrorKind::InvalidData)?;
            file.set_len(start)?;
            file.seek(io::SeekFrom::Start(start)).map(drop)
        })
    }
}

impl<W: Write> RecordWriter<W> {
    fn around(to: To<W>) -> RecordWriter<W> {
        RecordWriter { combiner: Combiner::new(to, BATCH) }
    }

    /// Around any writer. Its calls are not interrupted: who is cancelled while the writer waits is let go when
    /// the call returns. If it panics the sink is torn.
    pub fn masked(writer: W) -> RecordWriter<W> {
        RecordWriter::around(To { writer, undo: None, clean: false })
    }

    /// How many bytes of small records are put together, about; 0: each record is a call of its own. Default: 64 KiB.
    #[must_use]
    pub fn batch(mut self, bytes: usize) -> RecordWriter<W> {
        self.combiner.set_limit(bytes);
        self
    }

    /// Takes back the last bytes, which are the beginning of a record that failed: `undo` gets the writer and their
    /// number. If it succeeds, the record's writer gets the error, and the others go on. If it panics the sink is torn.
    #[must_use]
    pub fn undo(
        mut self,
        undo: impl FnMut(&mut W, usize) -> io::Result<()> + Send + 'static,
    ) -> RecordWriter<W> {
        self.combiner.get_mut().undo = Some(Box::new(undo));
        self
    }

    /// Writes a record, and returns when the sink has all of it.
    ///
    /// # Errors
    /// What the sink said of this very record. If an earlier one was torn: an error that says so.
    ///
    /// # Panics
    /// With the panic of the writer, if the call was made for this record. Within [`with`](RecordWriter::with), or by the
    /// writer itself: it would wait for itself.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn write_record(&self, record: &[u8]) -> io::Result<()> {
        self.combiner.write(record).map_err(error)
    }

    /// Calls `f` with the writer, between two records: to flush or sync it, for instance.
    ///
    /// ```
    /// use bast::{fs::File, io::RecordWriter};
    ///
    /// # let path = std::env::temp_dir().join(format!("bast-with-{}", std::process::id()));
    /// let journal = RecordWriter::truncating(File::create(&path)?);
    /// journal.write_record(b"a record\n")?;
    /// journal.with(|file| file.sync_data())??;
    /// # std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// If a record was torn.
    ///
    /// # Panics
    /// With the panic of `f`; as [`write_record`](RecordWriter::write_record).
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn with<R>(&self, f: impl FnOnce(&mut W) -> R) -> io::Result<R> {
        self.combiner.with(|to| f(&mut to.writer)).map_err(error)
    }

    /// The writer. If a writer of records was cancelled, half a record may be its last; call [`with`](RecordWriter::with)
    /// before to have it completed.
    #[must_use]
    pub fn into_inner(self) -> W {
        self.combiner.into_inner().writer
    }
}

fn error(failure: Failure<io::Error>) -> io::Error {
    match failure {
        Failure::Sink(error) => error,
        Failure::Torn => io::Error::other(
            "an earlier record was written in part, and nothing may follow that: open a new sink",
        ),
    }
}

impl<W: Write> fmt::Debug for RecordWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWriter").field("sink", &self.combiner).finish()
    }
}
