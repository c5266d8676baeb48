//! Files in batches: what one fiber does before it hands over to the writer.
//!
//! ```text
//!   list ─▶ batch: as many files as make `room` bytes ─▶ fiber: read, encode; read, encode; … ─▶ one buffer, and
//!             └ by the largest of the last ones             └ full before the last?              each file's place in it
//!                                                             what is left is done by the writer's fiber
//! ```
//!
//! A day of a file, every five minutes, takes 20 us of a core. To start a fiber for each, to wake a worker for it and the
//! writer after it takes half as much again, and meanwhile the other workers look for work instead of having some.
//!
//! How much the rows of a file are is known when they are made. So a batch is an estimate, and `room` is what it is held
//! to: in memory are `room` bytes and one file's for each fiber, whatever comes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rrd_file::Query;

use crate::job::FileJob;
use crate::output::Format;
use crate::reader::{ReadError, Reader};

/// A batch is to become as many bytes.
const ROOM: usize = 256 << 10;

/// All batches in hand are to be no more than that, on however many cores.
const IN_HAND: usize = 32 << 20;

/// A file, or what is in the place of files.
pub(crate) enum Work {
    /// With a reason if it has failed already.
    File(FileJob, Option<String>),
    /// The run cannot go on.
    Fatal(String),
}

/// What became of a file.
pub(crate) enum Outcome {
    /// So many rows, in this part of the batch's bytes.
    Rows(FileJob, u64, Range<usize>),
    Failed(FileJob, String),
    Fatal(String),
}

/// What became of files, in the list's order.
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) outcomes: Vec<Outcome>,
    /// The buffer was full before these, or the run is to end.
    pub(crate) left: Vec<Work>,
}

/// Reads and encodes. Shared by the fibers.
pub(crate) struct Exporter {
    reader: Arc<dyn Reader>,
    query: Query,
    format: Arc<dyn Format>,
    /// As many files make a batch at most.
    most: usize,
    room: usize,
    /// Bytes of the largest of the last files. A guess: nothing else depends on it.
    size: AtomicUsize,
    /// No further file is begun. Nothing else is read because of it.
    stop: Arc<AtomicBool>,
}

impl Exporter {
    /// For so many fibers, and batches of `most` files.
    pub(crate) fn new(
        reader: Arc<dyn Reader>,
        query: Query,
        format: Arc<dyn Format>,
        fibers: usize,
        most: usize,
        stop: Arc<AtomicBool>,
    ) -> Exporter {
        let room = ROOM.min(IN_HAND / fibers.max(1)).max(1);
        // The first ones are by themselves.
        let size = AtomicUsize::new(room);
        Exporter { reader, query, format, most, room, size, stop }
    }

    /// The list in batches.
    pub(crate) fn batches(
        self: &Arc<Exporter>,
        mut works: impl Iterator<Item = Work>,
    ) -> impl Iterator<Item = Vec<Work>> {
        let exporter = Arc::clone(self);
        std::iter::from_fn(move || {
            let size = exporter.size.load(Ordering::Relaxed).max(1);
            let count = (exporter.room / size).clamp(1, exporter.most);
            let batch: Vec<_> = works.by_ref().take(count).collect();
            (!batch.is_empty()).then_some(batch)
        })
    }

    /// Does the first files, until the buffer is full: one at least, unless the run is to end.
    pub(crate) fn run(&self, works: Vec<Work>) -> Batch {
        let size = self.size.load(Ordering::Relaxed);
        let room = size.saturating_mul(works.len()).min(self.room);
        let mut bytes = Vec::with_capacity(room);
        let mut outcomes = Vec::with_capacity(works.len());
        let mut works = works.into_iter();
        while bytes.len() < self.room
            && !self.stop.load(Ordering::Relaxed)
            && let Some(work) = works.next()
        {
            outcomes.push(match work {
                Work::File(job, None) => self.export(job, &mut bytes),
                Work::File(job, Some(reason)) => Outcome::Failed(job, reason),
                Work::Fatal(text) => Outcome::Fatal(text),
            });
        }
        Batch { bytes, outcomes, left: works.collect() }
    }

    fn export(&self, job: FileJob, bytes: &mut Vec<u8>) -> Outcome {
        let fetched = match self.reader.fetch(&job.path, &self.query) {
            Ok(fetched) => fetched,
            Err(ReadError::Fatal(text)) => return Outcome::Fatal(text),
            Err(error) => return Outcome::Failed(job, error.to_string()),
        };
        let begin = bytes.len();
        match self.format.encode(&job, &fetched, bytes) {
            Ok(rows) => {
                let last = self.size.load(Ordering::Relaxed);
                let size = (bytes.len() - begin).max(last - last / 16);
                self.size.store(size, Ordering::Relaxed);
                Outcome::Rows(job, rows, begin..bytes.len())
            }
            Err(reason) => {
                bytes.truncate(begin);
                Outcome::Failed(job, reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrd_file::{Cf, Fetched};
    use std::path::Path;

    const NO_ROW: usize = 13;

    /// A file is called by how many bytes it becomes.
    struct Named;

    impl Reader for Named {
        fn fetch(&self, _: &Path, _: &Query) -> Result<Fetched, ReadError> {
            Ok(Fetched { start: 0, step: 1, sources: Vec::new(), values: Vec::new() })
        }
    }

    impl Format for Named {
        fn encode(&self, job: &FileJob, _: &Fetched, out: &mut Vec<u8>) -> Result<u64, String> {
            let size = job.path.to_str().unwrap().parse().unwrap();
            out.extend(std::iter::repeat_n(job.seq as u8, size));
            if size == NO_ROW { Err("half-way".into()) } else { Ok(1) }
        }
    }

    fn exporter(stop: bool) -> Arc<Exporter> {
        let query = Query::new(Cf::Average, 0, 1);
        let stop = Arc::new(AtomicBool::new(stop));
        Arc::new(Exporter::new(Arc::new(Named), query, Arc::new(Named), 4, 32, stop))
    }

    fn works(sizes: &[usize]) -> Vec<Work> {
        let job = |(seq, size): (usize, &usize)| {
            let path = size.to_string().into();
            Work::File(FileJob { seq: seq as u64, path, device: Arc::default() }, None)
        };
        sizes.iter().enumerate().map(job).collect()
    }

    #[test]
    fn whatever_a_file_becomes_its_bytes_are_its_own_and_the_buffer_is_bounded() {
        let exporter = exporter(false);
        // Small ones that make large batches, then such as do not fit.
        let sizes: Vec<usize> =
            (0..200).map(|n| if n < 100 { 20 } else { [NO_ROW, 0, 100, ROOM][n % 4] }).collect();
        let (mut seen, mut batches, mut largest) = (0, 0, 0);
        for mut works in exporter.batches(works(&sizes).into_iter()) {
            batches += 1;
            largest = largest.max(works.len());
            while !works.is_empty() {
                let Batch { bytes, outcomes, left } = exporter.run(works);
                assert!(!outcomes.is_empty() && bytes.len() < 2 * ROOM);
                let mut end = 0;
                for outcome in outcomes {
                    match outcome {
                        Outcome::Rows(job, 1, place) => {
                            assert_eq!((job.seq, place.len()), (seen, sizes[seen as usize]));
                            assert_eq!(place.start, end);
                            end = place.end;
                            assert!(bytes[place].iter().all(|byte| *byte == seen as u8));
                        }
                        Outcome::Failed(job, why) => {
                            assert_eq!((job.seq, &*why), (seen, "half-way"));
                            assert_eq!(sizes[seen as usize], NO_ROW);
                        }
                        _ => panic!("neither"),
                    }
                    seen += 1;
                }
                assert_eq!(end, bytes.len());
                works = left;
            }
        }
        assert_eq!(seen, 200);
        // By themselves at first and where they are large, else many together.
        assert_eq!(largest, 32);
        assert!((50..=160).contains(&batches), "{batches}");
    }

    #[test]
    fn no_file_is_begun_after_a_stop() {
        let Batch { outcomes, left, .. } = exporter(true).run(works(&[1, 2, 3]));
        assert_eq!((outcomes.len(), left.len()), (0, 3));
    }
}
