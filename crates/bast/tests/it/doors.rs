//! Doors to what is not bast's: pipes with names, descriptors of other libraries, CPU work.

use std::fs::File as StdFile;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bast::fs::{File, OpenOptions};
use bast::os::unix::{wait_readable, wait_writable};
use bast::{Cancelled, Runtime, RuntimeBuilder, sleep, spawn, timeout};

use crate::fs::Temp;
use crate::harness::{needs_kernel, twins};

const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(10);

fn fifo(dir: &Temp, name: &str) -> PathBuf {
    let path = dir.join(name);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Waiting for pipes must not need more than this.
fn narrow() -> RuntimeBuilder {
    Runtime::builder().workers(1).blocking_threads(1)
}

fn to_write(path: &PathBuf) -> std::io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// The same on std's threads.
mod ends {
    use std::io::{Read, Write};

    use super::{SOON, Temp, fifo, needs_kernel, twins};

    twins! {
        /// Whoever opens one end waits for the other, even if nothing is written; both ways round.
        fn the_ends_of_a_pipe_wait_for_each_other() {
            needs_kernel!();
            let dir = Temp::new();
            for (n, reader_first) in [true, false].into_iter().enumerate() {
                let (there, back) = (fifo(&dir, &format!("there-{n}")), fifo(&dir, &format!("back-{n}")));
                let (first, second) = (there.clone(), back.clone());
                let other = spawn(move || {
                    if !reader_first {
                        sleep(SOON);
                    }
                    // Both are open before a byte is written.
                    let mut input = fs::File::open(first).unwrap();
                    let mut output = fs::OpenOptions::new().write(true).open(second).unwrap();
                    let mut text = String::new();
                    input.read_to_string(&mut text).unwrap();
                    output.write_all(text.to_uppercase().as_bytes()).unwrap();
                });
                if reader_first {
                    sleep(SOON);
                }
                let mut output = fs::OpenOptions::new().write(true).open(&there).unwrap();
                let mut input = fs::File::open(&back).unwrap();
                output.write_all(b"text").unwrap();
                drop(output);
                let mut text = String::new();
                input.read_to_string(&mut text).unwrap();
                assert_eq!(text, "TEXT");
                other.join().unwrap();
            }
        }

        fn a_writer_that_comes_and_goes_is_enough() {
            needs_kernel!();
            let dir = Temp::new();
            let path = fifo(&dir, "fifo");
            let writer = path.clone();
            let writer = spawn(move || drop(fs::File::create(writer).unwrap()));
            let mut text = String::new();
            fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "");
            writer.join().unwrap();
        }

        fn what_is_no_pipe_waits_for_nobody() {
            needs_kernel!();
            let dir = Temp::new();
            let path = dir.join("socket");
            let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
            let error = fs::OpenOptions::new().write(true).open(&path).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(6), "ENXIO");
            let both = fifo(&dir, "fifo");
            drop(fs::OpenOptions::new().read(true).write(true).open(both).unwrap());
        }
    }
}

/// Many more than there are threads wait for peers that do not come, in each way; others go on, also with
/// what needs the pool; and all can be stopped.
#[test]
fn pipes_without_a_peer_hold_up_nobody_and_can_be_stopped() {
    needs_kernel!();
    let dir = Temp::new();
    let path = fifo(&dir, "fifo");
    let other = fifo(&dir, "other");
    narrow().build().unwrap().run(|| {
        let readers: Vec<_> = (0..50)
            .map(|_| {
                let path = path.clone();
                spawn(move || File::open(path).map(drop))
            })
            .collect();
        let writers: Vec<_> = (0..50)
            .map(|n| {
                let path = other.clone();
                spawn(move || {
                    if n % 2 == 0 { to_write(&path) } else { File::create(&path) }.map(drop)
                })
            })
            .collect();
        let limited = timeout(SOON, || File::open(&path).map(drop));
        assert!(limited.is_err());
        assert!(timeout(SOON, || to_write(&other).map(drop)).is_err());
        assert!(timeout(SOON, || File::create(&other).map(drop)).is_err());
        assert_eq!(bast::blocking(|| 5), 5);
        bast::fs::write(dir.join("file"), "text").unwrap();
        assert_eq!(bast::fs::metadata(dir.join("file")).unwrap().len(), 4);
        for fiber in readers.into_iter().chain(writers) {
            assert!(!fiber.is_finished());
            fiber.cancel();
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
        }
    });
}

/// The peer is another program's, as far as the kernel can tell, and the mode is as it should be.
#[test]
fn pipes_meet_plain_threads() {
    needs_kernel!();
    let dir = Temp::new();
    // One for each way: if a child that another test is just starting still has the end that the thread has written to,
    // the thread itself would find a writer there, and read what was for the fiber.
    let (there, back) = (fifo(&dir, "there"), fifo(&dir, "back"));
    let (to, from) = (there.clone(), back.clone());
    let thread = std::thread::spawn(move || {
        StdFile::create(to).unwrap().write_all(b"from a thread").unwrap();
        let mut text = String::new();
        StdFile::open(from).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    let text = spawn(move || {
        let mut text = String::new();
        File::open(&there).unwrap().read_to_string(&mut text).unwrap();
        to_write(&back).unwrap().write_all(b"from a fiber").unwrap();
        text
    });
    assert_eq!(text.join().unwrap(), "from a thread");
    assert_eq!(thread.join().unwrap(), "from a fiber");
}

/// A library's socket, driven by hand: non-blocking calls, and waits in between.
#[test]
fn a_foreign_socket_is_driven_by_hand() {
    needs_kernel!();
    const SIZE: usize = 4 << 20;
    let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let (full, is_full) = bast::sync::mpsc::channel();
    let writer = spawn(move || {
        let (data, mut at, mut waits) = (vec![7; SIZE], 0, 0);
        while at < SIZE {
            match ours.write(&data[at..]) {
                Ok(n) => at += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    waits += 1;
                    full.send(()).unwrap();
                    wait_writable(&ours).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        waits
    });
    let reader = spawn(move || {
        is_full.recv().unwrap();
        let (mut room, mut sum) = (vec![0; 64 << 10], 0);
        loop {
            match theirs.read(&mut room) {
                Ok(0) => return sum,
                Ok(n) => sum += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait_readable(&theirs).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(writer.join().unwrap() > 0);
    assert_eq!(reader.join().unwrap(), SIZE);
}

/// Each kind says the same on each driver: ready or not, and what ends the wait.
#[test]
fn every_kind_of_descriptor() {
    needs_kernel!();
    let body = || {
        let not_ready = |fd: BorrowedFd<'_>| timeout(SOON, || wait_readable(fd)).is_err();
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(not_ready(reader.as_fd()));
        wait_writable(&writer).unwrap();
        writer.write_all(b"x").unwrap();
        wait_readable(&reader).unwrap();
        drop(writer);
        wait_readable(&reader).unwrap();
        // A full pipe cannot be written to; once nobody reads, writing would fail, so it is ready.
        let (reader, writer) = std::io::pipe().unwrap();
        let full = StdFile::from(std::os::fd::OwnedFd::from(writer));
        let (tell, told) = bast::sync::mpsc::channel();
        let waits = spawn({
            let full = full.try_clone().unwrap();
            move || {
                (&full).write_all(&[0; 65_536]).unwrap();
                tell.send(timeout(SOON, || wait_writable(&full)).is_ok()).unwrap();
                wait_writable(&full)
            }
        });
        assert!(!told.recv().unwrap(), "early");
        sleep(SOON);
        drop(reader);
        waits.join().unwrap().unwrap();
        // Files are always ready, and so is what has no end and takes everything.
        for path in ["/proc/self/exe", "/dev/zero"] {
            let file = StdFile::open(path).unwrap();
            wait_readable(&file).unwrap();
            wait_writable(&file).unwrap();
        }
        // A terminal that was asked for by a library.
        if let Ok(terminal) = StdFile::options().read(true).write(true).open("/dev/ptmx") {
            wait_writable(&terminal).unwrap();
            assert!(not_ready(terminal.as_fd()));
        }
    };
    spawn(body).join().unwrap();
    spawn(body).join().unwrap();
}

/// A number that is no descriptor is an error at once.
#[test]
#[allow(unsafe_code)]
fn a_descriptor_that_is_closed_already() {
    needs_kernel!();
    let wait = || {
        // SAFETY: nothing is ever done with it but asking.
        let none = unsafe { BorrowedFd::borrow_raw(1_000_000_000) };
        [wait_readable(none), wait_writable(none)].map(|r| r.unwrap_err().raw_os_error())
    };
    assert_eq!(wait(), [Some(9); 2], "EBADF, on a plain thread");
    assert_eq!(spawn(wait).join().unwrap(), [Some(9); 2], "EBADF");
}

/// Nothing need announce that somebody else has closed it: the wait ends by a timeout or a cancellation, and the
/// next descriptor of that number is not confused with it.
#[test]
#[allow(unsafe_code)]
fn a_descriptor_that_is_closed_by_others_meanwhile() {
    needs_kernel!();
    spawn(|| {
        for round in 0..20 {
            let (reader, writer) = std::io::pipe().unwrap();
            let number = reader.as_raw_fd();
            let wait = move || {
                // SAFETY: this very test is what happens if it does not stay open.
                wait_readable(unsafe { BorrowedFd::borrow_raw(number) })
            };
            let limited = spawn(move || drop(timeout(SOON, wait)));
            let cancelled = spawn(wait);
            sleep(Duration::from_micros(200));
            drop((reader, writer));
            // The number is taken again, most likely.
            let (reader, mut writer) = std::io::pipe().unwrap();
            if round % 2 == 0 {
                // Its time is up, or the kernel has kept the pipe for it and tells of the writer's end.
                limited.join().unwrap();
            }
            let waits = spawn(move || {
                wait_readable(&reader).unwrap();
                reader
            });
            sleep(Duration::from_micros(200));
            cancelled.cancel();
            let _ = cancelled.join();
            writer.write_all(b"x").unwrap();
            let mut reader = waits.join().unwrap();
            reader.read_exact(&mut [0]).unwrap();
        }
    })
    .join()
    .unwrap();
}

#[test]
fn waits_are_cancelled() {
    needs_kernel!();
    let (reader, _writer) = std::io::pipe().unwrap();
    let begun = Instant::now();
    let waits: Vec<_> = (0..20)
        .map(|_| {
            let reader = reader.try_clone().unwrap();
            spawn(move || wait_readable(&reader))
        })
        .collect();
    sleep(SOON);
    for fiber in waits {
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
    }
    assert!(begun.elapsed() < PATIENCE);
}

/// The worker goes on; borrows, results and panics pass; it runs where rayon works.
#[cfg(feature = "rayon")]
#[test]
fn work_is_computed_elsewhere() {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    needs_kernel!();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let numbers: Vec<u64> = (0..1000).collect();
        let (met, done) = (AtomicBool::new(false), AtomicBool::new(false));
        bast::scope(|s| {
            s.spawn(|| {
                while !done.load(SeqCst) {
                    met.store(true, SeqCst);
                    sleep(Duration::from_micros(100));
                }
            });
            let sum = bast::compute(|| {
                assert!(rayon::current_thread_index().is_some());
                let begun = Instant::now();
                // It ends because a fiber of the very worker that waits for it runs.
                while !met.load(SeqCst) {
                    assert!(begun.elapsed() < PATIENCE);
                    std::thread::yield_now();
                }
                let (low, high) = numbers.split_at(500);
                let (low, high) =
                    rayon::join(|| low.iter().sum::<u64>(), || high.iter().sum::<u64>());
                low + high
            });
            done.store(true, SeqCst);
            assert_eq!(sum, 499_500);
        });
        let panics = spawn(|| bast::compute(|| std::panic::resume_unwind(Box::new("over there"))));
        let payload: Box<dyn std::any::Any + Send> = panics.join().unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"over there"));
        let cancelled = spawn(|| bast::compute(|| std::thread::sleep(SOON)));
        cancelled.cancel();
        let _ = cancelled.join();
    });
}
