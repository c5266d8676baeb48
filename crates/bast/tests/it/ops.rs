//! The typed operations below the face that it does not use yet: files, pipes, splice, linger.

use std::ffi::{CStr, CString};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::time::Duration;

use bast_io::{Handle, Interest, Kind, SockAddr};
use bast_rt::ops;

use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, simulated};

const O_RDWR: i32 = 0o2;
const O_CREAT: i32 = 0o100;
const O_TRUNC: i32 = 0o1000;

/// A file that goes when the test does.
struct Temp(CString);

impl Temp {
    fn new(name: &str) -> Temp {
        let path = std::env::temp_dir().join(format!("bast-{}-{name}", std::process::id()));
        Temp(CString::new(path.to_str().unwrap()).unwrap())
    }

    fn open(&self) -> Handle {
        ops::open(&self.0, O_RDWR | O_CREAT | O_TRUNC, 0o600, Kind::File).unwrap()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // In the simulator it never was a file of this machine.
        let _ = std::fs::remove_file(self.0.to_str().unwrap());
    }
}

/// Writes all, as short writes are legal, and the simulator makes them.
fn write_all(to: &Handle, bytes: &[u8], mut offset: Option<u64>) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = ops::write(to, rest, offset).unwrap();
        rest = &rest[n..];
        offset = offset.map(|offset| offset + n as u64);
    }
}

/// Reads `n` bytes, or less if the file ends before.
fn read_some(from: &Handle, n: usize, mut offset: Option<u64>) -> Vec<u8> {
    let mut all = vec![0; n];
    let mut done = 0;
    while done < n {
        let part = ops::read(from, &mut all[done..], offset).unwrap();
        if part == 0 {
            break;
        }
        done += part;
        offset = offset.map(|offset| offset + part as u64);
    }
    all.truncate(done);
    all
}

#[test]
fn a_file() {
    run(|| {
        let temp = Temp::new("file");
        let file = temp.open();
        write_all(&file, b"hello world", Some(0));
        write_all(&file, b"W", Some(6));
        assert_eq!(read_some(&file, 32, Some(6)), b"World");
        let mut buf = [0; 32];
        assert_eq!(ops::read(&file, &mut buf, Some(11)).unwrap(), 0);
        ops::fsync(&file, false).unwrap();
        ops::fsync(&file, true).unwrap();
        let stat = ops::stat(&file).unwrap();
        assert!(stat.len == 11 && stat.is_file() && !stat.is_dir());
        assert_eq!(ops::stat_path(&temp.0).unwrap().len, 11);
        let (mut a, mut b) = ([0; 4], [0; 4]);
        let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        let n = ops::read_vectored(&file, &mut bufs, Some(0)).unwrap();
        assert_eq!([a, b].concat()[..n], b"hello Wo"[..n]);
        assert!(n == 8 || (n > 0 && simulated()));
        let bufs = [IoSlice::new(b"12"), IoSlice::new(b"3")];
        let n = ops::write_vectored(&file, &bufs, Some(11)).unwrap();
        assert!(n == 3 || (n > 0 && simulated()));
        assert_eq!(ops::stat(&file).unwrap().len, 11 + n as u64);
        assert_eq!(read_some(&file, 9, Some(11)), b"123"[..n]);
        ops::close(file).unwrap();
    });
}

#[test]
fn a_file_read_from_where_it_stands() {
    run(|| {
        let temp = Temp::new("position");
        let file = temp.open();
        for part in [b"ab", b"cd"] {
            write_all(&file, part, None);
        }
        let again = ops::open(&temp.0, O_RDWR, 0, Kind::File).unwrap();
        assert_eq!(read_some(&again, 3, None), b"abc");
        assert_eq!(read_some(&again, 3, None), b"d");
        assert_eq!(ops::read(&again, &mut [0], None).unwrap(), 0);
    });
}

#[test]
fn a_file_that_is_not_there() {
    run(|| {
        let missing: &CStr = c"/nowhere/at/all";
        let error = ops::open(missing, O_RDWR, 0, Kind::File).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(ops::stat_path(missing).unwrap_err().kind(), ErrorKind::NotFound);
        if !simulated() {
            assert!(ops::stat_path(c"/").unwrap().is_dir());
        }
    });
}

/// A connection of bare handles.
fn pair() -> (Handle, Handle) {
    let addr = "127.0.0.1:0".parse().unwrap();
    let listener = ops::socket(ops::family(&addr), ops::STREAM, 0, Kind::Listener).unwrap();
    ops::bind(&listener, &SockAddr::from(addr)).unwrap();
    ops::listen(&listener, 1).unwrap();
    let client = ops::socket(ops::family(&addr), ops::STREAM, 0, Kind::Stream).unwrap();
    ops::connect(&client, &ops::local_addr(&listener).unwrap(), None).unwrap();
    let (server, from) = ops::accept(&listener, None).unwrap();
    assert_eq!(from.to_std(), ops::local_addr(&client).unwrap().to_std());
    (client, server)
}

fn read_all(from: &Handle) -> Vec<u8> {
    let (mut all, mut buf) = (Vec::new(), [0; 4096]);
    loop {
        match ops::recv(from, &mut buf, 0, None).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

#[test]
fn a_file_is_sent() {
    run(|| {
        let (client, server) = pair();
        let temp = Temp::new("sendfile");
        let file = temp.open();
        let data: Vec<u8> = (0..=255).cycle().take(30_000).collect();
        write_all(&file, &data, Some(0));
        let reader = bast::spawn(move || read_all(&client));
        let mut offset = 100;
        while offset < data.len() {
            let n = ops::sendfile(&server, &file, offset as u64, data.len(), None).unwrap();
            assert!(n > 0);
            offset += n;
        }
        assert_eq!(ops::sendfile(&server, &file, offset as u64, 10, None).unwrap(), 0);
        drop(server);
        assert!(reader.join().unwrap() == data[100..]);
    });
}

#[cfg(target_os = "linux")] // splice(2)
#[test]
fn bytes_are_spliced_through_a_pipe() {
    needs_kernel!();
    run(|| {
        let (client, server) = pair();
        let (end, start) = std::io::pipe().unwrap();
        let (start, end): (std::os::fd::OwnedFd, std::os::fd::OwnedFd) = (start.into(), end.into());
        let start = Handle::from_owned(start, Kind::Pipe);
        let end = Handle::from_owned(end, Kind::Pipe);
        let mover = bast::spawn(move || {
            let n = ops::splice(&server, None, &start, None, 4096, None).unwrap();
            (n, ops::splice(&end, None, &server, None, n as u32, None).unwrap())
        });
        bast::sleep(Duration::from_millis(20));
        assert!(!mover.is_finished());
        assert_eq!(ops::send(&client, b"round trip", 0, None).unwrap(), 10);
        assert_eq!(mover.join().unwrap(), (10, 10));
        assert_eq!(read_all(&client), b"round trip");
    });
}

#[test]
fn readiness() {
    run(|| {
        let (client, server) = pair();
        ops::poll(&client, Interest::Writable, None).unwrap();
        let limit = Some(Duration::from_millis(50));
        let error = ops::poll(&server, Interest::Readable, limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(ops::send(&client, b"x", 0, None).unwrap(), 1);
        ops::poll(&server, Interest::Readable, None).unwrap();
    });
}

#[cfg_attr(windows, ignore = "Wine: a reset is read as the end")]
#[test]
fn lingering_for_nothing_resets() {
    needs_kernel!();
    run(|| {
        let (client, server) = pair();
        assert_eq!(ops::linger(&client).unwrap(), None);
        ops::set_linger(&client, Some(Duration::from_secs(3))).unwrap();
        assert_eq!(ops::linger(&client).unwrap(), Some(Duration::from_secs(3)));
        ops::set_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        let error = ops::recv(&server, &mut [0], 0, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[cfg(unix)] // the number of an option
#[test]
fn options_that_are_times() {
    needs_kernel!();
    run(|| {
        const RECEIVE_TIMEOUT: bast_io::SockOpt = bast_io::SockOpt { level: 1, name: 20 };
        let (client, _server) = pair();
        assert_eq!(ops::time(&client, RECEIVE_TIMEOUT).unwrap(), None);
        ops::set_time(&client, RECEIVE_TIMEOUT, Some(Duration::from_secs(2))).unwrap();
        assert_eq!(ops::time(&client, RECEIVE_TIMEOUT).unwrap(), Some(Duration::from_secs(2)));
        // Too short to be counted is not "never".
        ops::set_time(&client, RECEIVE_TIMEOUT, Some(Duration::from_nanos(1))).unwrap();
        assert!(ops::time(&client, RECEIVE_TIMEOUT).unwrap().is_some());
        ops::set_time(&client, RECEIVE_TIMEOUT, None).unwrap();
        assert_eq!(ops::time(&client, RECEIVE_TIMEOUT).unwrap(), None);
        let std = std::net::TcpStream::from(std::os::fd::OwnedFd::from(client));
        use std::io::Read;
        assert_eq!((&std).take(0).read(&mut [0]).unwrap(), 0);
    });
}
