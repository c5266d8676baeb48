//! The kernel drivers by their own measure: what the common suite cannot see, as it needs a crippled
//! ring, descriptors in the wrong mode, reused numbers or a forbidden system call.
//!
//! Each test runs on epoll, on the ring, and on a ring that has nothing but poll and cancel.

mod files;
mod life;
mod sockets;
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
mod uring;

use std::ffi::CString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

use super::*;
use crate::sys::c;
use crate::{Handle, HandleRef, Interest, Kind, Op, SockAddr};

/// A driver and the records that are lent to it.
struct Bench {
    driver: Driver,
    done: Done,
}

type Lent = NonNull<Record>;

impl Bench {
    /// Submits; a completion at once is kept in the record like any other.
    fn start(&mut self, op: Op) -> Lent {
        let record = NonNull::from(Box::leak(Box::new(Record::new(op, null_mut()))));
        // SAFETY: io 1: the record is leaked until `take`; the tests keep the memory of the operation.
        if let Some(outcome) = unsafe { self.driver.submit(record) } {
            // SAFETY: it was not kept.
            unsafe { self.done.push(record, outcome) };
        }
        record
    }

    fn poll(&mut self, wait: Wait) {
        self.driver.poll(wait, &mut self.done).expect("poll");
    }

    /// Polls until `n` have completed; outcomes in the order of completion.
    fn collect(&mut self, n: usize) -> Vec<(Lent, Outcome)> {
        let end = Instant::now() + Duration::from_secs(100);
        while self.done.len() < n {
            assert!(Instant::now() < end, "only {} of {n} operations completed", self.done.len());
            self.poll(Wait::AtMost(Duration::from_millis(500)));
            if self.done.is_empty() {
                continue;
            }
            self.poll(Wait::No);
        }
        let mut all = Vec::new();
        while let Some(record) = self.done.pop() {
            // SAFETY: it came back; it was leaked by `start`.
            let outcome = unsafe { Box::from_raw(record.as_ptr()) }.outcome();
            all.push((record, outcome));
        }
        all
    }

    fn run(&mut self, op: Op) -> Outcome {
        let record = self.start(op);
        let all = self.collect(1);
        assert_eq!((all.len(), all[0].0), (1, record));
        all[0].1
    }

    /// Runs the driver a while, in which nothing may complete.
    fn nothing(&mut self) {
        let end = Instant::now() + Duration::from_millis(30);
        while Instant::now() < end {
            self.poll(Wait::AtMost(Duration::from_millis(10)));
            assert!(self.done.is_empty(), "completed early");
        }
    }
}

fn bench(inner: Inner) -> Bench {
    Bench { driver: Driver { inner, fallback: None }, done: Done::new() }
}

fn config() -> Config {
    Config { pool: Arc::new(Pool::new(4)), ..Config::default() }
}

fn each(test: impl Fn(&mut Bench)) {
    let readiness = Readiness::new(&config()).expect("a driver");
    test(&mut bench(Inner::Readiness(Box::new(readiness))));
    #[cfg(all(target_os = "linux", not(bast_kqueue)))]
    uring::each(test);
}

/// A connection: ours as a handle, and the peer's.
fn pair() -> (Handle, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let theirs = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let (ours, _) = listener.accept().expect("accept");
    theirs.set_nodelay(true).expect("nodelay");
    (Handle::from_owned(ours.into(), Kind::Stream), theirs)
}

fn pipe() -> (Handle, Handle) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let adopt = |end| Handle::adopt(end, Kind::Pipe).expect("a mode");
    (adopt(reader.into()), adopt(writer.into()))
}

fn recv(handle: &Handle, buf: &mut [u8]) -> Op {
    Op::Recv { handle: handle.as_ref(), buf: buf.as_mut_ptr(), len: buf.len(), flags: 0 }
}

fn send(handle: &Handle, buf: &[u8]) -> Op {
    Op::Send { handle: handle.as_ref(), buf: buf.as_ptr(), len: buf.len(), flags: 0 }
}

fn temp(name: &str, content: &[u8]) -> (std::path::PathBuf, CString) {
    let path = std::env::temp_dir().join(format!("bast-io-{}-{name}", std::process::id()));
    std::fs::write(&path, content).expect("temporary file");
    let c = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    (path, c)
}
