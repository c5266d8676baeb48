//! The kernel drivers by their own measure: what the common suite cannot see, as it needs a crippled
//! ring, descriptors in the wrong mode, reused numbers or a forbidden system call.
//!
//! Each test runs on epoll, on the ring, and on a ring that has nothing but poll and cancel.

use std::ffi::CString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{NonNull, null, null_mut};
use std::time::{Duration, Instant};

use super::*;
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
        let end = Instant::now() + Duration::from_secs(10);
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
    let config = config();
    test(&mut bench(Inner::Readiness(Box::new(Readiness::new(&config).expect("epoll")))));
    let poll_and_cancel = [io_uring::opcode::PollAdd::CODE, io_uring::opcode::AsyncCancel::CODE];
    let rest: Vec<u8> = (0..=255).filter(|c| !poll_and_cancel.contains(c)).collect();
    for forbidden in [&[][..], &rest] {
        match Uring::without(&config, forbidden) {
            Ok(uring) => test(&mut bench(Inner::Uring(Box::new(uring)))),
            Err(reason) => eprintln!("not tested on io_uring: {reason}"),
        }
    }
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
    let mut fds = [0; 2];
    // SAFETY: room for two; the descriptors are nobody else's.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK), 0);
        (Handle::from_raw(fds[0], Kind::Pipe), Handle::from_raw(fds[1], Kind::Pipe))
    }
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

#[test]
fn a_server_and_a_client_on_one_driver() {
    each(|b| {
        let tcp = Op::Socket { domain: libc::AF_INET, kind: libc::SOCK_STREAM, protocol: 0 };
        // SAFETY: new descriptors belong to the test.
        let socket = unsafe { Handle::from_raw(b.run(tcp).0, Kind::Listener) };
        let any = SockAddr::from("127.0.0.1:0".parse::<SocketAddr>().expect("literal"));
        assert_eq!(b.run(Op::Bind { handle: socket.as_ref(), addr: &raw const any }), Outcome(0));
        assert_eq!(b.run(Op::Listen { handle: socket.as_ref(), backlog: 16 }), Outcome(0));
        let mut addr = SockAddr::zeroed();
        let name = Op::GetName { handle: socket.as_ref(), peer: false, addr: &raw mut addr };
        assert_eq!(b.run(name), Outcome(0));
        for round in 0..3 {
            let mut from = SockAddr::zeroed();
            let accept = b.start(Op::Accept { handle: socket.as_ref(), addr: &raw mut from });
            b.nothing();
            // SAFETY: new descriptors belong to the test.
            let client = unsafe { Handle::from_raw(b.run(tcp).0, Kind::Stream) };
            b.start(Op::Connect { handle: client.as_ref(), addr: &raw const addr });
            let all = b.collect(2);
            let (taken, rest): (Vec<(Lent, Outcome)>, Vec<_>) =
                all.into_iter().partition(|(r, _)| *r == accept);
            assert_eq!(rest[0].1, Outcome(0), "connect in round {round}");
            // SAFETY: as above.
            let server = unsafe { Handle::from_raw(taken[0].1.0, Kind::Stream) };
            assert_eq!(from.to_std().expect("address").ip().to_string(), "127.0.0.1");
            for h in [&client, &server] {
                // SAFETY: the descriptors are open.
                let (status, descriptor) = unsafe {
                    (
                        libc::fcntl(h.as_raw_fd(), libc::F_GETFL),
                        libc::fcntl(h.as_raw_fd(), libc::F_GETFD),
                    )
                };
                assert_eq!(status & libc::O_NONBLOCK, 0, "streams are in blocking mode");
                assert_ne!(descriptor & libc::FD_CLOEXEC, 0);
            }
            let mut buf = [0; 64];
            for _ in 0..20 {
                b.start(recv(&server, &mut buf));
                b.start(send(&client, b"hello"));
                assert!(b.collect(2).iter().all(|(_, o)| *o == Outcome(5)));
                assert_eq!(&buf[..5], b"hello");
            }
            b.start(recv(&server, &mut buf));
            b.nothing();
            drop(client);
            assert_eq!(b.collect(1)[0].1, Outcome(0), "end of stream");
        }
        // Nobody listens there any more.
        drop(socket);
        // SAFETY: as above.
        let client = unsafe { Handle::from_raw(b.run(tcp).0, Kind::Stream) };
        let refused = b.run(Op::Connect { handle: client.as_ref(), addr: &raw const addr });
        assert_eq!(refused, Outcome::from_errno(libc::ECONNREFUSED));
        assert_eq!(b.driver.pending(), 0);
    });
}

#[test]
fn readers_and_writers_of_one_stream_at_once() {
    each(|b| {
        let (ours, mut theirs) = pair();
        let big = vec![7u8; 32 << 20];
        let mut bufs = [[0u8; 4]; 3];
        let readers: Vec<_> = bufs.iter_mut().map(|buf| b.start(recv(&ours, buf))).collect();
        let first = b.run(send(&ours, &big)).0 as usize;
        assert!(first < big.len(), "the buffers took it all");
        let writer = b.start(send(&ours, &big[first..]));
        b.nothing();
        for n in 0..3u8 {
            theirs.write_all(&[n; 4]).expect("write");
            let all = b.collect(1);
            assert_eq!(all, [(readers[usize::from(n)], Outcome(4))], "oldest first");
            assert_eq!(bufs[usize::from(n)], [n; 4]);
        }
        let mut sink = vec![0; first];
        theirs.read_exact(&mut sink).expect("read");
        let all = b.collect(1);
        assert_eq!(all[0].0, writer);
        assert!(all[0].1.0 > 0);
    });
}

#[test]
fn a_stream_that_somebody_made_nonblocking_still_waits() {
    each(|b| {
        let (ours, mut theirs) = pair();
        theirs.set_nonblocking(false).expect("mode");
        let _ = sys::set_nonblocking(ours.as_raw_fd(), true);
        let mut buf = [0; 8];
        for _ in 0..3 {
            let record = b.start(recv(&ours, &mut buf));
            b.nothing();
            theirs.write_all(b"x").expect("write");
            assert_eq!(b.collect(1), [(record, Outcome(1))]);
        }
        // And its cancelling works in that stage.
        let record = b.start(recv(&ours, &mut buf));
        b.nothing();
        // SAFETY: it has not come back.
        unsafe {
            b.driver.cancel(record);
            b.driver.cancel(record);
        }
        assert_eq!(b.collect(1), [(record, Outcome::CANCELLED)]);
        b.nothing();
    });
}

/// A read that stops at an urgent mark is short though more is to come.
#[test]
fn a_short_read_at_an_urgent_mark_is_not_the_end() {
    each(|b| {
        let (ours, mut theirs) = pair();
        let mut buf = [0; 64];
        // Registered, and all of it arrives while nobody reads.
        b.start(recv(&ours, &mut buf));
        b.nothing();
        theirs.write_all(b"-").expect("write");
        assert_eq!(b.collect(1)[0].1, Outcome(1));
        theirs.write_all(b"before").expect("write");
        // SAFETY: one byte of a literal.
        let n = unsafe { libc::send(theirs.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
        assert_eq!(n, 1);
        theirs.write_all(b"after").expect("write");
        b.nothing();
        assert_eq!(b.run(recv(&ours, &mut buf)), Outcome(6));
        assert_eq!(b.run(recv(&ours, &mut buf)), Outcome(5));
        assert_eq!(&buf[..5], b"after");
    });
}

#[test]
fn reused_numbers_and_lingering_duplicates() {
    each(|b| {
        let mut buf = [0; 8];
        for _ in 0..3 {
            let (ours, mut theirs) = pair();
            let number = ours.as_raw_fd();
            b.start(recv(&ours, &mut buf));
            b.nothing();
            theirs.write_all(b"a").expect("write");
            assert_eq!(b.collect(1)[0].1, Outcome(1));
            // The number is closed, what it named is not; the number comes to name it again.
            let copy = ours.as_raw_fd().as_owned();
            drop(ours);
            // SAFETY: plain descriptor calls on a number that was just closed.
            let again = unsafe { libc::dup3(copy.as_raw_fd(), number, libc::O_CLOEXEC) };
            assert_eq!(again, number);
            // SAFETY: nobody else has it.
            let ours = unsafe { Handle::from_raw(again, Kind::Stream) };
            theirs.write_all(b"bc").expect("write");
            assert_eq!(b.run(recv(&ours, &mut buf)), Outcome(2));
            let record = b.start(recv(&ours, &mut buf));
            b.nothing();
            theirs.write_all(b"def").expect("write");
            assert_eq!(b.collect(1), [(record, Outcome(3))]);
        }
    });
}

trait AsOwned {
    fn as_owned(&self) -> OwnedFd;
}

impl AsOwned for i32 {
    fn as_owned(&self) -> OwnedFd {
        // SAFETY: a duplicate of an open descriptor is nobody else's.
        unsafe { OwnedFd::from_raw_fd(libc::fcntl(*self, libc::F_DUPFD_CLOEXEC, 200)) }
    }
}

#[test]
fn foreign_descriptors_are_polled_and_forgotten() {
    each(|b| {
        let (r, w) = pipe();
        let fd: OwnedFd = r.into();
        let foreign = HandleRef::foreign(fd.as_fd());
        let readable = Op::Poll { handle: foreign, interest: Interest::Readable };
        let several = [b.start(readable), b.start(readable), b.start(readable)];
        b.nothing();
        // SAFETY: it has not come back.
        unsafe { b.driver.cancel(several[1]) };
        assert_eq!(b.collect(1), [(several[1], Outcome::CANCELLED)]);
        let written = Op::Write { handle: w.as_ref(), buf: b"x".as_ptr(), len: 1, offset: None };
        assert_eq!(b.run(written), Outcome(1));
        assert!(b.collect(2).iter().all(|(_, o)| *o == Outcome(0)));
        assert_eq!(b.run(readable), Outcome(0), "level: it is still readable");
        // Another file of the same number, after a poll was left behind in the kernel.
        let number = fd.into_raw_fd();
        // SAFETY: plain descriptor calls; the number is this test's.
        let fd = unsafe {
            let (r2, w2) = pipe();
            assert_eq!(libc::dup3(r2.as_raw_fd(), number, libc::O_CLOEXEC), number);
            drop(r2);
            let record = b.start(readable);
            b.nothing();
            drop(w2);
            assert_eq!(b.collect(1), [(record, Outcome(0))], "the other end is closed");
            OwnedFd::from_raw_fd(number)
        };
        drop(fd);
        let closed = b.run(readable);
        assert_eq!(closed, Outcome::from_errno(libc::EBADF));
        // A regular file is always ready.
        let (path, _) = temp("always", b"x");
        let file = std::fs::File::open(&path).expect("open");
        let handle = HandleRef::foreign(file.as_fd());
        assert_eq!(b.run(Op::Poll { handle, interest: Interest::Readable }), Outcome(0));
        std::fs::remove_file(path).expect("remove");
        // One of our own, polled as a foreign one while it is waited for.
        let (ours, mut theirs) = pair();
        let mut buf = [0; 4];
        // SAFETY: `ours` outlives the borrow.
        let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(ours.as_raw_fd()) };
        let handle = HandleRef::foreign(borrowed);
        b.start(Op::Poll { handle, interest: Interest::Readable });
        b.start(recv(&ours, &mut buf));
        b.start(Op::Poll { handle, interest: Interest::Readable });
        b.start(Op::Poll { handle: ours.as_ref(), interest: Interest::Readable });
        b.nothing();
        theirs.write_all(b"a").expect("write");
        b.collect(2);
        theirs.write_all(b"a").expect("write");
        b.collect(b.driver.pending());
        assert_eq!(b.driver.pending(), 0);
    });
}

#[test]
fn files_by_every_operation() {
    each(|b| {
        let (path, c) = temp("files", b"");
        let flags = libc::O_RDWR | libc::O_TRUNC;
        let opened = b.run(Op::Open { path: c.as_ptr(), flags, mode: 0 });
        assert!(opened.0 >= 0, "{opened:?}");
        // SAFETY: a new descriptor belongs to the test.
        let file = unsafe { Handle::from_raw(opened.0, Kind::File) };
        let handle = file.as_ref();
        let op = Op::Write { handle, buf: b"hello".as_ptr(), len: 5, offset: Some(2) };
        assert_eq!(b.run(op), Outcome(5));
        let iov = [
            libc::iovec { iov_base: b"ab".as_ptr().cast_mut().cast(), iov_len: 2 },
            libc::iovec { iov_base: b"c".as_ptr().cast_mut().cast(), iov_len: 1 },
        ];
        let op = Op::WriteV { handle, iov: iov.as_ptr(), count: 2, offset: None };
        assert_eq!(b.run(op), Outcome(3));
        assert_eq!(b.run(Op::Fsync { handle, data_only: true }), Outcome(0));
        assert_eq!(b.run(Op::Fsync { handle, data_only: false }), Outcome(0));
        let mut buf = [0u8; 16];
        let op = Op::Read { handle, buf: buf.as_mut_ptr(), len: 16, offset: Some(0) };
        assert_eq!(b.run(op), Outcome(7));
        assert_eq!(&buf[..7], b"abcello");
        let iov = [libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: 2 }];
        let op = Op::ReadV { handle, iov: iov.as_ptr(), count: 1, offset: None };
        assert_eq!(b.run(op), Outcome(2));
        assert_eq!(&buf[..2], b"el", "the handle's own position");
        // SAFETY: a statx of zeroes is valid.
        let mut out: libc::statx = unsafe { std::mem::zeroed() };
        let op = Op::Statx {
            dir: libc::AT_FDCWD,
            path: c.as_ptr(),
            flags: 0,
            mask: libc::STATX_SIZE,
            out: &raw mut out,
        };
        assert_eq!(b.run(op), Outcome(0));
        assert_eq!(out.stx_size, 7);
        let raw = file.into_raw();
        assert_eq!(b.run(Op::Close { fd: raw }), Outcome(0));
        assert_eq!(b.run(Op::Close { fd: raw }), Outcome::from_errno(libc::EBADF));
        std::fs::remove_file(path).expect("remove");
        let op = Op::Open { path: c.as_ptr(), flags: libc::O_RDONLY, mode: 0 };
        assert_eq!(b.run(op), Outcome::from_errno(libc::ENOENT));
    });
}

#[test]
fn sendfile_and_splice_wait_for_both_ends() {
    each(|b| {
        let content: Vec<u8> = (0..4_000_000u32).map(|i| i as u8).collect();
        let (path, _) = temp("sendfile", &content);
        let file = std::fs::File::open(&path).expect("open");
        let file = Handle::from_owned(file.into(), Kind::File);
        let (ours, mut theirs) = pair();
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).expect("read");
            all
        });
        let mut at = 0;
        while at < content.len() {
            let len = content.len() - at;
            let (to, file) = (ours.as_ref(), file.as_ref());
            let n = b.run(Op::SendFile { to, file, offset: at as u64, len }).0;
            assert!(n > 0, "{n}");
            at += n as usize;
        }
        drop(ours);
        assert!(reader.join().expect("reader") == content);

        // Socket to pipe to file.
        let (ours, mut theirs) = pair();
        let (r, w) = pipe();
        let op = Op::Splice {
            from: ours.as_ref(),
            from_offset: None,
            to: w.as_ref(),
            to_offset: None,
            len: 1 << 16,
        };
        let record = b.start(op);
        b.nothing();
        theirs.write_all(b"through").expect("write");
        assert_eq!(b.collect(1), [(record, Outcome(7))]);
        let (out_path, _) = temp("splice", b"");
        let out = std::fs::File::options().write(true).open(&out_path).expect("open");
        let out = Handle::from_owned(out.into(), Kind::File);
        let op = Op::Splice {
            from: r.as_ref(),
            from_offset: None,
            to: out.as_ref(),
            to_offset: Some(3),
            len: 1 << 16,
        };
        assert_eq!(b.run(op), Outcome(7));
        assert_eq!(std::fs::read(&out_path).expect("read"), b"\0\0\0through");
        let record = b.start(op);
        b.nothing();
        // SAFETY: it has not come back.
        unsafe { b.driver.cancel(record) };
        assert_eq!(b.collect(1), [(record, Outcome::CANCELLED)]);
        for p in [path, out_path] {
            std::fs::remove_file(p).expect("remove");
        }
    });
}

unsafe fn nap(data: *mut ()) -> i32 {
    std::thread::sleep(Duration::from_millis(data as u64));
    9
}

#[test]
fn dropping_a_driver_with_everything_pending() {
    each(|b| {
        let (ours, _theirs) = pair();
        let (r, _w) = pipe();
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        listener.set_nonblocking(true).expect("mode");
        let listener = Handle::from_owned(listener.into(), Kind::Listener);
        let (read, accept) = (r.as_ref(), listener.as_ref());
        // The memory is the test's to free only after the drop: ASan and the assertion below watch.
        let mut buf = vec![0u8; 64];
        let poll = Op::Poll { handle: ours.as_ref(), interest: Interest::Readable };
        let mut ops = vec![poll; 1000];
        ops.push(recv(&ours, &mut buf));
        ops.push(recv(&ours, &mut buf[32..]));
        ops.push(Op::Read { handle: read, buf: buf.as_mut_ptr(), len: 8, offset: None });
        ops.push(Op::Accept { handle: accept, addr: null_mut() });
        ops.push(Op::Call { call: nap, data: 100 as *mut () });
        let lent: Vec<Lent> = ops.into_iter().map(|op| b.start(op)).collect();
        b.nothing();
        let start = Instant::now();
        let fresh = Inner::Readiness(Box::new(Readiness::new(&config()).expect("epoll")));
        drop(std::mem::replace(&mut b.driver.inner, fresh));
        assert!(start.elapsed() < Duration::from_secs(5));
        for record in lent {
            // SAFETY: leaked by `start`, and nobody has it any more.
            drop(unsafe { Box::from_raw(record.as_ptr()) });
        }
    });
}

#[test]
fn calls_run_on_the_pool_and_wakes_end_waits() {
    each(|b| {
        let (slow, quick) = (
            b.start(Op::Call { call: nap, data: 60 as *mut () }),
            b.start(Op::Call { call: nap, data: null::<()>().cast_mut() }),
        );
        assert_eq!(b.driver.pending(), 2);
        let all = b.collect(2);
        assert_eq!(all, [(quick, Outcome(9)), (slow, Outcome(9))]);
        let waker = b.driver.waker();
        for early in [true, false] {
            let start = Instant::now();
            let other = waker.clone();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(if early { 0 } else { 40 }));
                other.wake();
            });
            if early {
                thread.join().expect("waker");
                b.poll(Wait::Forever);
            } else {
                while !thread.is_finished() {
                    b.poll(Wait::AtMost(Duration::from_secs(20)));
                }
            }
            assert!(start.elapsed() < Duration::from_secs(10));
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(5) {
            b.poll(Wait::AtMost(Duration::from_millis(5) - start.elapsed()));
        }
        assert!(b.done.is_empty());
    });
}

/// More operations than the submission queue has entries, submitted and cancelled in one go.
#[test]
fn many_more_operations_than_entries() {
    let config = Config { entries: 8, ..config() };
    let mut b = bench(match Uring::new(&config) {
        Ok(uring) => Inner::Uring(Box::new(uring)),
        Err(reason) => return eprintln!("not tested on io_uring: {reason}"),
    });
    let (ours, mut theirs) = pair();
    let poll = Op::Poll { handle: ours.as_ref(), interest: Interest::Readable };
    let records: Vec<_> = (0..10_000).map(|_| b.start(poll)).collect();
    b.nothing();
    for r in &records[..5_000] {
        // SAFETY: it has not come back.
        unsafe { b.driver.cancel(*r) };
    }
    assert!(b.collect(5_000).iter().all(|(_, o)| *o == Outcome::CANCELLED));
    // These overflow the completion queue all at once.
    theirs.write_all(b"x").expect("write");
    assert!(b.collect(5_000).iter().all(|(_, o)| *o == Outcome(0)));
    assert_eq!(b.driver.pending(), 0);
}

/// Whatever forbids io_uring, the driver works and says why.
#[test]
fn a_forbidden_ring_falls_back_with_the_reason() {
    // Filters are for the thread that installs them (and its children): no other test is touched.
    let thread = std::thread::spawn(|| {
        forbid_io_uring();
        for kind in [DriverKind::Auto, DriverKind::Uring] {
            let driver = Driver::new(&Config { kind, ..config() }).expect("epoll");
            assert_eq!(driver.name(), "epoll");
            let reason = driver.fallback_reason().expect("a reason");
            assert!(reason.contains("io_uring_setup: Operation not permitted"), "{reason}");
            assert!(reason.contains("seccomp"), "{reason}");
        }
        let driver = Driver::new(&Config { kind: DriverKind::Epoll, ..config() }).expect("epoll");
        assert_eq!(driver.fallback_reason(), None);
    });
    thread.join().expect("filtered thread");
}

fn forbid_io_uring() {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let number = libc::SYS_io_uring_setup as u32;
    let filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is valid and is copied by the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn names_of_drivers() {
    assert_eq!("epoll".parse(), Ok(DriverKind::Epoll));
    assert_eq!("auto".parse(), Ok(DriverKind::Auto));
    let error = "kqueue".parse::<DriverKind>().expect_err("unknown");
    assert_eq!(error.to_string(), "unknown driver \"kqueue\": use one of auto, uring, epoll, sim");
}
