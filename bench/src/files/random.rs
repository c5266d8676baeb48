//! `file-read`: 64 tasks read blocks at random offsets, each its own.

use super::sample::{Offsets, Sample, check};
use super::{BLOCK, DEPTH, Stopwatch, unknown};
use crate::micro::{self, Job, Values};
use crate::stats::Span;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// What the tasks tell the one that measures. Relaxed throughout: only counts, and joining orders the rest.
#[derive(Default)]
struct Tally {
    reads: AtomicU64,
    stop: AtomicBool,
}

impl Tally {
    /// Reads and checks until told to stop.
    fn work(
        &self,
        task: usize,
        mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut offsets = Offsets(task as u64 + 1);
        let mut space = vec![0; 2 * BLOCK];
        let block = aligned(&mut space);
        while !self.stop.load(Ordering::Relaxed) {
            let offset = offsets.next();
            if read(block, offset)? != BLOCK {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            check(block, 0, offset)?;
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Counts for as long as the span says, while the others work.
    fn watch(&self, span: Span, sleep: impl Fn(std::time::Duration)) -> io::Result<Values> {
        sleep(span.warm);
        let (before, watch) = (self.reads.load(Ordering::Relaxed), Stopwatch::start()?);
        sleep(span.measure);
        let values = watch.each(self.reads.load(Ordering::Relaxed) - before);
        self.stop.store(true, Ordering::Relaxed);
        values
    }
}

/// A block that starts at a multiple of its size, as reading past the page cache wants it.
pub(super) fn aligned(space: &mut [u8]) -> &mut [u8] {
    let skip = space.as_ptr().align_offset(BLOCK);
    &mut space[skip..skip + BLOCK]
}

/// The flags to open the file with.
pub(super) fn flags(job: &Job) -> i32 {
    if job.param.starts_with("direct") { libc::O_DIRECT } else { 0 }
}

pub(super) fn run(subject: &str, job: &Job) -> io::Result<Values> {
    let sample = Sample::big()?;
    let (path, flags, span) = (sample.big_file(), flags(job), job.span);
    let std_file = || std::fs::File::options().read(true).custom_flags(flags).open(&path);
    let tally = Arc::new(Tally::default());
    match subject {
        "bast-uring" | "bast-epoll" => {
            let rt = micro::bast_runtime(subject, job.workers).map_err(io::Error::other)?;
            rt.run(|| {
                let file = bast::fs::File::options().read(true).custom_flags(flags).open(&path)?;
                bast::scope(|s| {
                    let (file, tally) = (&file, &*tally);
                    let all: Vec<_> = (0..DEPTH)
                        .map(|task| {
                            s.spawn(move || tally.work(task, |buf, at| file.read_at(buf, at)))
                        })
                        .collect();
                    let values = tally.watch(span, bast::sleep);
                    all.into_iter().try_for_each(|t| t.join().expect("no panic"))?;
                    values
                })
            })
        }
        "threads" => {
            let file = &std_file()?;
            thread::scope(|s| {
                let tally = &*tally;
                let all: Vec<_> = (0..DEPTH)
                    .map(|task| s.spawn(move || tally.work(task, |buf, at| file.read_at(buf, at))))
                    .collect();
                let values = tally.watch(span, thread::sleep);
                all.into_iter().try_for_each(|t| t.join().expect("no panic"))?;
                values
            })
        }
        // tokio's files have no reads at an offset: what its users write instead.
        "tokio-current" | "tokio-multi" => {
            let rt = micro::tokio_runtime(subject, job.workers).map_err(io::Error::other)?;
            let file = Arc::new(std_file()?);
            rt.block_on(async {
                let all: Vec<_> = (0..DEPTH)
                    .map(|task| tokio::spawn(pread(task, Arc::clone(&file), Arc::clone(&tally))))
                    .collect();
                let watching = Arc::clone(&tally);
                let values =
                    tokio::task::spawn_blocking(move || watching.watch(span, thread::sleep));
                let values = values.await.expect("no panic");
                for task in all {
                    task.await.expect("no panic")?;
                }
                values
            })
        }
        _ => Err(unknown(subject, job)),
    }
}

async fn pread(task: usize, file: Arc<std::fs::File>, tally: Arc<Tally>) -> io::Result<()> {
    let mut offsets = Offsets(task as u64 + 1);
    let mut space = vec![0; 2 * BLOCK];
    while !tally.stop.load(Ordering::Relaxed) {
        let (file, offset) = (Arc::clone(&file), offsets.next());
        let read = tokio::task::spawn_blocking(move || {
            let block = aligned(&mut space);
            file.read_exact_at(block, offset)?;
            check(block, 0, offset)?;
            io::Result::Ok(space)
        });
        space = read.await.expect("no panic")?;
        tally.reads.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
