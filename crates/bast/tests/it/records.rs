//! `RecordWriter`: 200 fibers and one sink, that is slow, gets full, or breaks.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bast::io::RecordWriter;

use crate::fs::Temp;
use crate::harness::on_bast::run;
use crate::harness::{error_of, needs_kernel};

const FIBERS: usize = 200;

/// Which records of which fiber were acknowledged.
type Acknowledged = Vec<Vec<usize>>;

/// A record says whose it is, which, and how long.
fn record(fiber: usize, number: usize) -> Vec<u8> {
    let len = match (fiber + number) % 40 {
        0 => 10_000,
        n => n * 5,
    };
    let fill = char::from(b'a' + (number % 26) as u8);
    format!("{fiber} {number} {len} {}\n", fill.to_string().repeat(len)).into_bytes()
}

/// Reads records back; any that is not whole fails. `torn` allows half a one at the end.
fn check(bytes: &[u8], acknowledged: &Acknowledged, torn: bool) {
    let mut seen = vec![Vec::new(); acknowledged.len()];
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if torn && !line.ends_with(b"\n") {
            break;
        }
        let text = str::from_utf8(line).unwrap();
        let mut parts = text.split(' ');
        let mut number = || {
            let part = parts.next().unwrap_or_default();
            part.parse::<usize>().unwrap_or_else(|_| panic!("no record begins with {text:?}"))
        };
        let (fiber, number) = (number(), number());
        assert!(line == record(fiber, number), "a record that is not whole: {text}");
        seen[fiber].push(number);
    }
    for (seen, acknowledged) in seen.iter().zip(acknowledged) {
        assert!(seen.is_sorted_by(|a, b| a < b), "out of order, or twice: {seen:?}");
        assert!(acknowledged.iter().all(|number| seen.contains(number)), "one is lost");
    }
}

/// Has many fibers, and a thread, write `each` records; some with a short limit, some are cancelled. Errors are
/// for `judge`.
fn storm<W: Write + Send + 'static>(
    log: &Arc<RecordWriter<W>>,
    each: usize,
    judge: fn(io::Error),
) -> Acknowledged {
    let work = move |fiber: usize, log: &RecordWriter<W>, acknowledged: &Mutex<Vec<usize>>| {
        for number in 0..each {
            let record = record(fiber, number);
            let hasty = (fiber + number).is_multiple_of(5);
            let limit = if hasty { Duration::from_micros(300) } else { Duration::from_secs(60) };
            match bast::timeout(limit, || log.write_record(&record)) {
                Ok(Ok(())) => acknowledged.lock().unwrap().push(number),
                Ok(Err(error)) => judge(error),
                Err(_) => {}
            }
        }
    };
    let all: Vec<_> = (0..=FIBERS).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let thread = std::thread::spawn({
        let (log, acknowledged) = (Arc::clone(log), Arc::clone(&all[FIBERS]));
        move || work(FIBERS, &log, &acknowledged)
    });
    let fibers: Vec<_> = (0..FIBERS)
        .map(|fiber| {
            let (log, acknowledged) = (Arc::clone(log), Arc::clone(&all[fiber]));
            bast::spawn(move || work(fiber, &log, &acknowledged))
        })
        .collect();
    for (n, fiber) in fibers.into_iter().enumerate() {
        if n % 10 == 0 {
            bast::sleep(Duration::from_micros(500));
            fiber.cancel();
        }
        match fiber.join() {
            Err(payload) if !payload.is::<bast::Cancelled>() => std::panic::resume_unwind(payload),
            _ => {}
        }
    }
    bast::blocking(|| thread.join().unwrap());
    all.iter().map(|acknowledged| std::mem::take(&mut *acknowledged.lock().unwrap())).collect()
}

fn count(acknowledged: &Acknowledged) -> usize {
    acknowledged.iter().map(Vec::len).sum()
}

fn unexpected(error: io::Error) {
    panic!("{error}");
}

#[test]
fn to_a_slow_pipe() {
    needs_kernel!();
    run(|| {
        let (reader, writer) = bast::io::pipe().unwrap();
        let mut reader = io::PipeReader::from(crate::harness::OwnedPipe::try_from(reader).unwrap());
        let reader = std::thread::spawn(move || {
            let (mut all, mut buf) = (Vec::new(), [0; 5000]);
            loop {
                match reader.read(&mut buf).unwrap() {
                    0 => return all,
                    n => all.extend_from_slice(&buf[..n]),
                }
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let log = Arc::new(RecordWriter::new(writer));
        let acknowledged = storm(&log, 20, unexpected);
        // Completes what the last of the cancelled has left.
        log.with(|_| ()).unwrap();
        drop(log);
        let all = bast::blocking(|| reader.join().unwrap());
        check(&all, &acknowledged, false);
        assert!(count(&acknowledged) > 10 * FIBERS, "{}", count(&acknowledged));
    });
}

#[test]
fn to_a_connection() {
    needs_kernel!();
    run(|| {
        let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = bast::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = bast::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            all
        });
        let log = Arc::new(RecordWriter::new(stream));
        let acknowledged = storm(&log, 40, unexpected);
        log.with(|_| ()).unwrap();
        drop(log);
        check(&reader.join().unwrap(), &acknowledged, false);
        assert!(count(&acknowledged) > 20 * FIBERS);
    });
}

#[test]
fn to_a_connection_that_breaks() {
    needs_kernel!();
    run(|| {
        let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = bast::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = bast::spawn(move || {
            let mut some = vec![0; 200_000];
            peer.read_exact(&mut some).unwrap();
            some
        });
        let log = Arc::new(RecordWriter::new(stream));
        let acknowledged = storm(&log, 40, drop);
        // What was acknowledged after that the connection has lost: the kernel had it.
        check(&reader.join().unwrap(), &vec![Vec::new(); acknowledged.len()], true);
        error_of(|| log.write_record(b"x"));
    });
}

/// Fails when so many bytes are in it, in the middle of a record: what a disk does, without a disk.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Limited {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        bast::yield_now();
        match buf.len().min(self.limit - self.bytes.len()) {
            0 => Err(ErrorKind::StorageFull.into()),
            n => {
                self.bytes.extend_from_slice(&buf[..n]);
                Ok(n)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn to_something_that_gets_full() {
    run(|| {
        for undoes in [false, true] {
            let sink = Limited { bytes: Vec::new(), limit: 300_007 };
            let mut log = RecordWriter::masked(sink);
            if undoes {
                log = log.undo(|sink, count| {
                    sink.bytes.truncate(sink.bytes.len() - count);
                    Ok(())
                });
            }
            let log = Arc::new(log);
            let acknowledged = storm(&log, 20, |error| {
                let full = error.kind() == ErrorKind::StorageFull;
                assert!(full || error.to_string().contains("open a new sink"), "{error}");
            });
            let torn = log.with(|_| ()).is_err();
            let sink = Arc::into_inner(log).unwrap().into_inner();
            assert!(sink.bytes.len() > 250_000);
            // By chance it is full at the end of a record.
            assert_eq!(torn, !undoes && !sink.bytes.ends_with(b"\n"));
            check(&sink.bytes, &acknowledged, !undoes);
        }
    });
}

#[cfg(unix)] // /dev/full
#[test]
fn a_full_device_refuses_each_record_and_tears_none() {
    needs_kernel!();
    run(|| {
        let full = bast::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let log = Arc::new(RecordWriter::new(full));
        let acknowledged = storm(&log, 5, |error| assert_eq!(error.kind(), ErrorKind::StorageFull));
        assert_eq!(count(&acknowledged), 0);
        log.with(|_| ()).unwrap();
    });
}

/// A file system of 256 KiB, if that is permitted.
struct Small(Temp);

impl Small {
    fn mount() -> Option<Small> {
        let dir = Temp::new();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "bast-test"]).arg(&*dir);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&*self.0).status();
    }
}

#[test]
fn to_a_disk_that_gets_full() {
    needs_kernel!();
    run(|| {
        let Some(disk) = Small::mount() else {
            return eprintln!("mounting a small tmpfs is not permitted here: left out");
        };
        for truncates in [false, true] {
            let path = disk.0.join(format!("log-{truncates}"));
            let file = bast::fs::File::create(&path).unwrap();
            let log =
                if truncates { RecordWriter::truncating(file) } else { RecordWriter::new(file) };
            let log = Arc::new(log);
            let acknowledged = storm(&log, 20, |error| {
                let full = error.kind() == ErrorKind::StorageFull;
                assert!(full || error.to_string().contains("open a new sink"), "{error}");
            });
            let _ = log.with(|_| ());
            let all = std::fs::read(&path).unwrap();
            assert!(all.len() > 200_000);
            check(&all, &acknowledged, !truncates);
            std::fs::remove_file(&path).unwrap();
        }
    });
}

#[test]
fn to_a_file_with_a_fiber_that_syncs() {
    needs_kernel!();
    run(|| {
        let dir = Temp::new();
        let path = dir.join("log");
        let file =
            bast::fs::File::from(OpenOptions::new().append(true).create(true).open(&path).unwrap());
        let log = Arc::new(RecordWriter::new(file).batch(1000));
        let syncer = bast::spawn({
            let log = Arc::clone(&log);
            move || (0..5).for_each(|_| log.with(|file| file.sync_data()).unwrap().unwrap())
        });
        let acknowledged = storm(&log, 20, unexpected);
        syncer.join().unwrap();
        log.with(|_| ()).unwrap();
        check(&std::fs::read(&path).unwrap(), &acknowledged, false);
        assert!(count(&acknowledged) > 10 * FIBERS);
    });
}
