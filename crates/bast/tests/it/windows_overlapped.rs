//! The door `with_overlapped`: calls that a program starts itself.

use std::ffi::c_void;
use std::io::{self, ErrorKind, Write};
use std::os::windows::io::AsRawHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast::fs::{File, OpenOptions};
use bast::io::PipeReader;
use bast::os::windows::fs::OpenOptionsExt;
use bast::os::windows::{OVERLAPPED, with_overlapped};

use crate::fs::Temp;
use crate::harness::on_bast::run;
use crate::harness::{on_std, simulated};

const FILE_FLAG_OVERLAPPED: u32 = 0x4000_0000;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn ReadFile(file: *mut c_void, to: *mut u8, room: u32, n: *mut u32, o: *mut OVERLAPPED) -> i32;
}

fn read(
    file: &impl AsRawHandle,
    buf: &mut [u8],
    offset: u32,
    o: *mut OVERLAPPED,
) -> io::Result<()> {
    let (file, null) = (file.as_raw_handle(), std::ptr::null_mut());
    // SAFETY: buffer and OVERLAPPED are lent until the door has closed behind the call.
    let done = unsafe {
        (*o).offset = offset;
        ReadFile(file, buf.as_mut_ptr(), buf.len() as u32, null, o)
    };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn read_pipe(pipe: &PipeReader, buf: &mut [u8]) -> io::Result<usize> {
    with_overlapped(pipe, |o| read(pipe, buf, 0, o))
}

fn file(dir: &Temp) -> File {
    let path = dir.join("f");
    std::fs::write(&path, "0123456789").unwrap();
    OpenOptions::new().read(true).custom_flags(FILE_FLAG_OVERLAPPED).open(path).unwrap()
}

#[test]
fn a_file_is_read_by_hand() {
    let body = || {
        let dir = Temp::new();
        let file = file(&dir);
        let mut buf = [0; 4];
        let n = with_overlapped(&file, |o| read(&file, &mut buf, 3, o)).unwrap();
        assert_eq!((n, &buf), (4, b"3456"));
        let error = with_overlapped(&file, |o| read(&file, &mut buf, 10, o)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(38), "the end of the file");
        // What `start` says itself comes back.
        let error = with_overlapped(&file, |_| Err(io::Error::other("not today"))).unwrap_err();
        assert_eq!(error.to_string(), "not today");
        let refused = with_overlapped(&file, |_| Err(ErrorKind::InvalidInput.into())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    };
    if !simulated() {
        run(body);
        on_std::run(body);
    }
}

#[test]
fn on_the_simulator_there_is_no_such_handle() {
    if simulated() {
        run(|| {
            let stdin = std::io::stdin();
            assert!(with_overlapped(&stdin, |_| unreachable!("it is not started")).is_err());
        });
    }
}

#[test]
fn a_pending_read_ends_with_data_with_time_or_when_it_is_cancelled() {
    if simulated() {
        return;
    }
    run(|| {
        let (reader, mut writer) = bast::io::pipe().unwrap();
        let reader = Arc::new(reader);
        let waiting = bast::spawn({
            let reader = Arc::clone(&reader);
            move || {
                let mut buf = [0; 8];
                read_pipe(&reader, &mut buf).map(|n| buf[..n].to_vec())
            }
        });
        bast::sleep(Duration::from_millis(10));
        assert!(!waiting.is_finished());
        writer.write_all(b"data").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"data");
        let mut buf = [0; 8];
        let timed = bast::timeout(Duration::from_millis(5), || read_pipe(&reader, &mut buf));
        let _: bast::Elapsed = timed.unwrap_err();
        let waiting = bast::spawn({
            let reader = Arc::clone(&reader);
            move || read_pipe(&reader, &mut [0; 8])
        });
        bast::sleep(Duration::from_millis(5));
        waiting.cancel();
        assert!(waiting.join().unwrap_err().is::<bast::Cancelled>());
        // Nothing of these is left that would take what comes now.
        writer.write_all(b"later").unwrap();
        let n = read_pipe(&reader, &mut buf).unwrap();
        assert_eq!(&buf[..n], b"later");
        drop(writer);
        let error = read_pipe(&reader, &mut buf).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn cancelled_or_completed_every_byte_is_somebodys() {
    const ROUNDS: usize = 500;
    if simulated() {
        return;
    }
    run(|| {
        let (reader, mut writer) = bast::io::pipe().unwrap();
        let (reader, taken) = (Arc::new(reader), Arc::new(AtomicUsize::new(0)));
        for round in 0..ROUNDS {
            let waiting = bast::spawn({
                let (reader, taken) = (Arc::clone(&reader), Arc::clone(&taken));
                move || {
                    let mut one = [0];
                    if read_pipe(&reader, &mut one).is_ok() {
                        taken.fetch_add(1, SeqCst);
                    }
                }
            });
            for _ in 0..round % 4 {
                bast::yield_now();
            }
            writer.write_all(b"x").unwrap();
            for _ in 0..round % 3 {
                bast::yield_now();
            }
            waiting.cancel();
            let _ = waiting.join();
        }
        drop(writer);
        let mut rest = 0;
        while let Ok(n @ 1..) = read_pipe(&reader, &mut [0; 64]) {
            rest += n;
        }
        assert_eq!(taken.load(SeqCst) + rest, ROUNDS);
    });
}
