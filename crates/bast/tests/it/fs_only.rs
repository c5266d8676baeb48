//! Files: what std has no counterpart for.

#[cfg(unix)]
use std::io::Write;
use std::io::{ErrorKind, Read};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::fs::Temp;
use crate::harness::{needs_kernel, rounds, simulated};

#[test]
fn an_atomic_write_replaces_or_leaves() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("file");
    bast::fs::write_atomic(&path, "first").unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    bast::spawn({
        let path = path.clone();
        move || bast::fs::write_atomic(&path, "second").unwrap()
    })
    .join()
    .unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
    #[cfg(unix)]
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    // A directory cannot be replaced; nothing is left behind.
    let taken = dir.join("taken");
    std::fs::create_dir_all(taken.join("inside")).unwrap();
    assert!(bast::fs::write_atomic(&taken, "x").is_err());
    assert_eq!(bast::fs::write_atomic("/", "x").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(std::fs::read_dir(&*dir).unwrap().count(), 2);
}

#[test]
fn files_of_the_simulator() {
    if !simulated() {
        return;
    }
    bast::spawn(|| {
        bast::fs::write("/of-the-simulator", "text").unwrap();
        assert_eq!(bast::fs::read_to_string("/of-the-simulator").unwrap(), "text");
        assert!(!std::fs::exists("/of-the-simulator").unwrap());
    })
    .join()
    .unwrap();
}

#[cfg_attr(windows, ignore = "Wine: a file that somebody has open cannot be replaced")]
#[test]
fn readers_never_see_half_of_an_atomic_write() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("file");
    bast::fs::write_atomic(&path, vec![0; 10_000]).unwrap();
    bast::scope(|s| {
        let writer = s.spawn(|| {
            for n in 1..=50_u8 {
                bast::fs::write_atomic(&path, vec![n; 10_000]).unwrap();
            }
        });
        while !writer.is_finished() {
            let seen = bast::fs::read(&path).unwrap();
            assert!(seen.len() == 10_000 && seen.iter().all(|byte| *byte == seen[0]));
        }
    });
}

#[cfg(unix)] // how long a name may be
#[test]
fn a_name_as_long_as_can_be_is_written_atomically() {
    needs_kernel!();
    let dir = Temp::new();
    for name in ["x".repeat(255), "é".repeat(127)] {
        bast::fs::write_atomic(dir.join(&name), &name).unwrap();
        assert_eq!(std::fs::read_to_string(dir.join(&name)).unwrap(), name);
    }
    let error = bast::fs::write_atomic(dir.join("x".repeat(256)), "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFilename);
    assert_eq!(std::fs::read_dir(&*dir).unwrap().count(), 2);
}

#[test]
fn an_atomic_write_that_is_cancelled_has_changed_nothing() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("file");
    let mut there = "at first".to_owned();
    std::fs::write(&path, &there).unwrap();
    let (mut cancelled, mut written) = (0, 0);
    for round in 0..u64::from(rounds(300)) {
        let new = format!("of round {round}");
        let writer = bast::spawn({
            let (path, new) = (path.clone(), new.clone());
            move || bast::fs::write_atomic(path, new)
        });
        // From at once to about as long as it takes.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(round % 50 * 20) {
            std::thread::yield_now();
        }
        writer.cancel();
        match writer.join() {
            Ok(result) => {
                result.unwrap();
                there = new;
                written += 1;
            }
            Err(payload) => {
                assert!(payload.is::<bast::Cancelled>());
                cancelled += 1;
            }
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), there);
        assert_eq!(std::fs::read_dir(&*dir).unwrap().count(), 1, "no file is left over");
    }
    println!("{written} written, {cancelled} cancelled");
}

#[cfg_attr(windows, ignore = "Wine: a file that somebody has open cannot be replaced")]
#[test]
fn many_write_one_file_atomically() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("file");
    bast::scope(|s| {
        for n in 0..40_u8 {
            let path = &path;
            s.spawn(move || {
                for _ in 0..5 {
                    bast::fs::write_atomic(path, [n; 5000]).unwrap();
                    let seen = bast::fs::read(path).unwrap();
                    assert!(seen.len() == 5000 && seen.iter().all(|byte| *byte == seen[0]));
                }
            });
        }
    });
    assert_eq!(std::fs::read_dir(&*dir).unwrap().count(), 1);
}

#[cfg(unix)] // a FIFO
#[test]
fn a_reader_that_waits_does_not_keep_the_writer_from_its_turn() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    bast::spawn(move || {
        let both = bast::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        bast::scope(|s| {
            let mut clone = both.try_clone().unwrap();
            let reader = s.spawn(move || {
                let mut five = [0; 5];
                clone.read_exact(&mut five).map(|()| five)
            });
            bast::sleep(Duration::from_millis(5));
            (&both).write_all(b"hello").unwrap();
            assert_eq!(&reader.join().unwrap().unwrap(), b"hello");
        });
    })
    .join()
    .unwrap();
}

#[test]
fn a_fiber_that_waits_for_a_lock_can_be_cancelled() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("file");
    let holder = std::fs::File::create(&path).unwrap();
    holder.lock().unwrap();
    let waiter = bast::spawn({
        let path = path.clone();
        move || bast::fs::File::open(path).unwrap().lock()
    });
    std::thread::sleep(Duration::from_millis(20));
    waiter.cancel();
    assert!(waiter.join().unwrap_err().is::<bast::Cancelled>());
    let waiter = bast::spawn(move || {
        let file = bast::fs::File::open(path).unwrap();
        bast::timeout(Duration::from_millis(10), || file.lock())
    });
    assert!(waiter.join().unwrap().is_err());
}

#[cfg(unix)] // a FIFO
#[test]
fn slow_files_do_not_hold_up_the_worker() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let runtime = bast::Runtime::builder().workers(1).build().unwrap();
    // Opened for both, so that opening does not wait; reading does.
    let text = runtime.run(|| {
        let fifo = bast::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let reader = bast::spawn({
            let mut fifo = fifo.try_clone().unwrap();
            move || {
                let mut text = [0; 5];
                fifo.read_exact(&mut text).unwrap();
                text
            }
        });
        for _ in 0..100 {
            bast::sleep(Duration::from_micros(100));
        }
        assert!(!reader.is_finished());
        (&fifo).write_all(b"hello").unwrap();
        reader.join().unwrap()
    });
    assert_eq!(&text, b"hello");
}

#[test]
fn conversions_keep_the_descriptor() {
    needs_kernel!();
    let dir = Temp::new();
    let path = dir.join("file");
    std::fs::write(&path, "text").unwrap();
    let mut file = bast::fs::File::from(std::fs::File::open(&path).unwrap());
    let mut two = [0; 2];
    file.read_exact(&mut two).unwrap();
    let mut rest = String::new();
    std::fs::File::from(file).read_to_string(&mut rest).unwrap();
    assert_eq!((&two, &*rest), (b"te", "xt"));
}
