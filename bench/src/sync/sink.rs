//! Many tasks write records of 100 bytes to one sink, a file or a pipe whose reader keeps up.
//!
//! * `bast`: a `RecordWriter`; each record is in the kernel when its writer goes on.
//! * `bast-mutex`, tokio's, and `threads-each`: a mutex around the sink, and `write_all`.
//! * `threads`: a mutex around a `BufWriter`, whose writers go on before anything is written, and never
//!   hear of errors.
//!
//! Each chunk starts its tasks and joins them; then what has arrived is counted.

use super::host::{Fibers, Host, Threads};
use super::not_run;
use crate::micro::{self, Job};
use crate::stats::Meter;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tokio::io::{AsyncWrite, AsyncWriteExt};

const TASKS: usize = 200;
const RECORDS: u64 = 20_000;
const RECORD: [u8; 100] = [b'r'; 100];

/// Where a chunk's records go, and what has arrived in the end.
enum Place {
    File(PathBuf),
    Pipe(thread::JoinHandle<io::Result<u64>>),
}

impl Place {
    fn new(param: &str) -> io::Result<(Place, OwnedFd)> {
        if param == "file" {
            let path = std::env::temp_dir().join(format!("bast-bench-sink-{}", std::process::id()));
            let file = File::create(&path)?;
            return Ok((Place::File(path), file.into()));
        }
        let (mut reader, writer) = io::pipe()?;
        let count = thread::spawn(move || {
            let (mut buf, mut all) = (vec![0; 1 << 16], 0);
            loop {
                match reader.read(&mut buf)? {
                    0 => return Ok(all),
                    n => all += n as u64,
                }
            }
        });
        Ok((Place::Pipe(count), writer.into()))
    }

    fn arrived(self) -> io::Result<u64> {
        match self {
            Place::File(path) => {
                let len = std::fs::metadata(&path)?.len();
                std::fs::remove_file(&path)?;
                Ok(len)
            }
            Place::Pipe(count) => count.join().expect("no panic"),
        }
    }
}

/// A sink for many.
trait Shared: Send + Sync + 'static {
    fn write(&self, record: &[u8]) -> io::Result<()>;
    fn end(&self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write + Send + 'static> Shared for bast::io::RecordWriter<W> {
    fn write(&self, record: &[u8]) -> io::Result<()> {
        self.write_record(record)
    }
}

impl<W: Write + Send + 'static> Shared for bast::sync::Mutex<W> {
    fn write(&self, record: &[u8]) -> io::Result<()> {
        self.lock().expect("not poisoned").write_all(record)
    }
}

impl<W: Write + Send + 'static> Shared for std::sync::Mutex<W> {
    fn write(&self, record: &[u8]) -> io::Result<()> {
        self.lock().expect("not poisoned").write_all(record)
    }

    fn end(&self) -> io::Result<()> {
        self.lock().expect("not poisoned").flush()
    }
}

type Make = fn(OwnedFd) -> io::Result<Arc<dyn Shared>>;

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    use bast::io::{PipeWriter, RecordWriter};
    use bast::sync::Mutex;

    let file = job.param == "file";
    let make: Make = match subject {
        "bast" if file => |fd| Ok(Arc::new(RecordWriter::new(bast::fs::File::from(fd)))),
        "bast" => |fd| Ok(Arc::new(RecordWriter::new(PipeWriter::try_from(fd)?))),
        "bast-mutex" if file => |fd| Ok(Arc::new(Mutex::new(bast::fs::File::from(fd)))),
        "bast-mutex" => |fd| Ok(Arc::new(Mutex::new(PipeWriter::try_from(fd)?))),
        "threads" => |fd| Ok(Arc::new(std::sync::Mutex::new(BufWriter::new(File::from(fd))))),
        "threads-each" => |fd| Ok(Arc::new(std::sync::Mutex::new(File::from(fd)))),
        "tokio-current" | "tokio-multi" => return of_tokio(subject, job),
        _ => return not_run(subject, job),
    };
    match subject {
        "bast" | "bast-mutex" => blocking::<Fibers>(job, make),
        _ => blocking::<Threads>(job, make),
    }
}

fn blocking<H: Host>(job: &Job, make: Make) -> Result<f64, String> {
    let (param, workers) = (job.param.clone(), job.workers);
    let mut meter = Meter::fixed(job.span, RECORDS);
    let measured = H::enter(job, move || -> io::Result<f64> {
        while let Some(n) = meter.next() {
            let (place, fd) = Place::new(&param)?;
            let sink = make(fd)?;
            let each = n / TASKS as u64;
            let all: Vec<_> = (0..TASKS)
                .map(|i| {
                    let sink = Arc::clone(&sink);
                    H::spawn(i % workers, move || (0..each).try_for_each(|_| sink.write(&RECORD)))
                })
                .collect();
            all.into_iter().try_for_each(|join| join())?;
            sink.end()?;
            drop(sink);
            assert_eq!(place.arrived()?, each * (TASKS * RECORD.len()) as u64);
        }
        Ok(meter.ns())
    });
    measured?.map_err(|e| e.to_string())
}

fn of_tokio(subject: &str, job: &Job) -> Result<f64, String> {
    let rt = micro::tokio_runtime(subject, job.workers)?;
    let param = job.param.clone();
    let mut meter = Meter::fixed(job.span, RECORDS);
    let measured = rt.block_on(rt.spawn(async move {
        while let Some(n) = meter.next() {
            let (place, fd) = Place::new(&param)?;
            let each = n / TASKS as u64;
            if param == "file" {
                write_all(tokio::fs::File::from_std(fd.into()), each).await?;
            } else {
                let sender = tokio::net::unix::pipe::Sender::from_owned_fd(fd)?;
                write_all(sender, each).await?;
            }
            assert_eq!(place.arrived()?, each * (TASKS * RECORD.len()) as u64);
        }
        Ok::<_, io::Error>(meter.ns())
    }));
    measured.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

async fn write_all<W: AsyncWrite + Unpin + Send + 'static>(to: W, each: u64) -> io::Result<()> {
    let sink = Arc::new(tokio::sync::Mutex::new(to));
    let all: Vec<_> = (0..TASKS)
        .map(|_| {
            let sink = Arc::clone(&sink);
            tokio::spawn(async move {
                for _ in 0..each {
                    sink.lock().await.write_all(&RECORD).await?;
                }
                Ok::<_, io::Error>(())
            })
        })
        .collect();
    for task in all {
        task.await.expect("no panic")?;
    }
    sink.lock().await.flush().await
}
