//! `small-files`: 10,000 files are read whole, 256 at a time. They are in the page cache: what is measured is what
//! it costs to get there and back.

use super::sample::{self, Sample, check};
use super::{Stopwatch, unknown};
use crate::micro::{self, Job, Values};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Files that are being read at a time.
const LIMIT: usize = 256;

fn verify(n: usize, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() as u64 != sample::size(n as u64) {
        return Err(io::Error::other(format!("file {n} has {} bytes", bytes.len())));
    }
    check(bytes, n as u64, 0)
}

pub(super) fn run(subject: &str, job: &Job) -> io::Result<Values> {
    let sample = Sample::small()?;
    let paths: Arc<Vec<PathBuf>> =
        Arc::new((0..sample::SMALL).map(|n| sample.small_file(n)).collect());
    // Once to warm up: threads, stacks, the kernel's caches.
    each(subject, job, &paths)?;
    each(subject, job, &paths)
}

fn each(subject: &str, job: &Job, paths: &Arc<Vec<PathBuf>>) -> io::Result<Values> {
    let all = paths.len() as u64;
    match subject {
        "bast-uring" | "bast-epoll" => {
            let rt = micro::bast_runtime(subject, job.workers).map_err(io::Error::other)?;
            rt.run(|| {
                let watch = Stopwatch::start()?;
                let read = |(n, path): (usize, &PathBuf)| verify(n, &bast::fs::read(path)?);
                let results = bast::par_map(paths.iter().enumerate(), LIMIT, read);
                results.into_iter().collect::<io::Result<()>>()?;
                watch.each(all)
            })
        }
        "threads" => {
            let watch = Stopwatch::start()?;
            let next = AtomicUsize::new(0);
            thread::scope(|s| {
                let worker = || {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let Some(path) = paths.get(n) else { return Ok(()) };
                        verify(n, &std::fs::read(path)?)?;
                    }
                };
                let threads: Vec<_> = (0..job.workers).map(|_| s.spawn(worker)).collect();
                threads.into_iter().try_for_each(|t| t.join().expect("no panic"))
            })
            .and_then(|()| watch.each(all))
        }
        "tokio-current" | "tokio-multi" => {
            let rt = micro::tokio_runtime(subject, job.workers).map_err(io::Error::other)?;
            rt.block_on(async {
                let watch = Stopwatch::start()?;
                let limit = Arc::new(tokio::sync::Semaphore::new(LIMIT));
                let mut tasks = tokio::task::JoinSet::new();
                for n in 0..paths.len() {
                    let permit = Arc::clone(&limit).acquire_owned().await.expect("never closed");
                    let paths = Arc::clone(paths);
                    tasks.spawn(async move {
                        let bytes = tokio::fs::read(&paths[n]).await?;
                        drop(permit);
                        verify(n, &bytes)
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    done.expect("no panic")?;
                }
                watch.each(all)
            })
        }
        _ => Err(unknown(subject, job)),
    }
}
