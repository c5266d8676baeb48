//! The driver by its own measure: handles of other ports and of none, and what is left of them.

mod shutdowns;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsHandle, FromRawHandle, FromRawSocket, OwnedHandle};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{GENERIC_WRITE, GetHandleInformation};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_FLAG_OVERLAPPED, OPEN_EXISTING, PIPE_ACCESS_INBOUND,
};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_MESSAGE, PIPE_TYPE_MESSAGE, PIPE_WAIT,
};
use windows_sys::Win32::System::Threading::{CreateEventW, SetEvent};

use crate::{
    Config, Done, Driver, DriverKind, Handle, HandleRef, Interest, Kind, Op, Outcome, Record, Wait,
    pipe,
};

type Lent = NonNull<Record>;

struct Bench {
    driver: Driver,
    done: Done,
}

impl Bench {
    fn new() -> Bench {
        let config = Config { kind: DriverKind::Iocp, ..Config::default() };
        Bench { driver: Driver::new(&config).expect("a port"), done: Done::new() }
    }

    fn start(&mut self, op: Op) -> Lent {
        let record = NonNull::from(Box::leak(Box::new(Record::new(op, null_mut()))));
        // SAFETY: io 1: the record is leaked until `wait`; the tests keep the memory of the operation.
        if let Some(outcome) = unsafe { self.driver.submit(record) } {
            // SAFETY: it was not kept.
            unsafe { self.done.push(record, outcome) };
        }
        record
    }

    fn cancel(&mut self, record: Lent) {
        if self.done.is_empty() {
            // SAFETY: it was submitted, and nothing has come back.
            unsafe { self.driver.cancel(record) };
        }
    }

    /// Polls until something has completed, which is to be `record`.
    fn wait(&mut self, record: Lent) -> Outcome {
        let end = Instant::now() + Duration::from_secs(60);
        while self.done.is_empty() {
            assert!(Instant::now() < end, "no packet");
            self.driver.poll(Wait::AtMost(Duration::from_secs(1)), &mut self.done).expect("poll");
        }
        assert_eq!(self.done.pop(), Some(record));
        // SAFETY: it came back; it was leaked by `start`.
        unsafe { Box::from_raw(record.as_ptr()) }.outcome()
    }

    fn run(&mut self, op: Op) -> Outcome {
        let record = self.start(op);
        self.wait(record)
    }

    /// Makes a connection's packets come here, by a first operation that waits.
    fn adopt(&mut self, handle: HandleRef) {
        let mut buf = [0u8];
        let record = self.start(recv(handle, &mut buf));
        self.cancel(record);
        assert_eq!(self.wait(record), Outcome::CANCELLED);
    }
}

fn pair() -> (Handle, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let theirs = TcpStream::connect(listener.local_addr().expect("a name")).expect("connected");
    let ours = listener.accept().expect("accepted").0;
    (Handle::from_owned(ours.into(), Kind::Stream), theirs)
}

fn recv(handle: HandleRef, buf: &mut [u8]) -> Op {
    Op::Recv { handle, buf: buf.as_mut_ptr(), len: buf.len(), flags: 0 }
}

/// How many handles this process has. (Asked one by one: Wine's `GetProcessHandleCount` says zero.)
fn handles() -> u32 {
    let is_open = |n: i32| {
        let mut flags = 0;
        // SAFETY: room for the answer.
        unsafe { GetHandleInformation(crate::sys::handle(4 * n), &raw mut flags) != 0 }
    };
    (1..4_000).filter(|&n| is_open(n)).count() as u32
}

fn event() -> OwnedHandle {
    // SAFETY: a new event, which is nobody else's.
    unsafe { OwnedHandle::from_raw_handle(CreateEventW(null(), 0, 0, null())) }
}

/// Cancels against completions, on a handle of the driver's own and on one of another's, while another thread sends. Each
/// round has its packet, every byte comes once and in its order, and no event is left. (Other tests of this process have
/// handles too: hence the margin, a hundredth of what a leak of one a round would be.)
#[test]
fn cancels_race_with_completions() {
    let rounds = std::env::var("BAST_ROUNDS").map_or(20_000, |n| n.parse().expect("a number"));
    let pause = |round: u32| {
        (0..round.wrapping_mul(0x9E37_79B9) >> 22).for_each(|_| std::hint::spin_loop());
    };
    for is_home in [true, false] {
        let (mut other, mut bench) = (Bench::new(), Bench::new());
        let (ours, mut theirs) = pair();
        theirs.set_nodelay(true).expect("no delay");
        let mut buf = [0u8; 4];
        if !is_home {
            other.adopt(ours.as_ref());
        }
        let before = handles();
        let begun = AtomicU32::new(0);
        let (mut next, mut sent, mut cancelled) = (0u32, 0, 0u32);
        let mut check = |buf: &[u8]| {
            for &byte in buf {
                assert_eq!(byte, next as u8, "lost, doubled or out of order");
                next += 1;
            }
        };
        std::thread::scope(|s| {
            // Two bytes for each three rounds, each at about the time when its round is cancelled.
            let sender = s.spawn(|| {
                let mut sent = 0u32;
                for round in 0..rounds {
                    while begun.load(SeqCst) <= round {
                        std::thread::yield_now();
                    }
                    pause(round ^ 0xA5);
                    if round % 3 != 0 {
                        theirs.write_all(&[sent as u8]).expect("sent");
                        sent += 1;
                    }
                }
                sent
            });
            for round in 0..rounds {
                let record = bench.start(recv(ours.as_ref(), &mut buf));
                begun.store(round + 1, SeqCst);
                pause(round);
                bench.cancel(record);
                match bench.wait(record).into_result() {
                    Ok(n) => check(&buf[..n]),
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(crate::sys::c::ECANCELED));
                        cancelled += 1;
                    }
                }
            }
            sent = sender.join().expect("the sender");
        });
        // What came after the last round, and then the end.
        theirs.shutdown(std::net::Shutdown::Write).expect("half closed");
        loop {
            let n = bench.run(recv(ours.as_ref(), &mut buf)).into_result().expect("it is there");
            check(&buf[..n]);
            if n == 0 {
                break;
            }
        }
        assert_eq!(next, sent);
        let after = handles();
        assert!(before > 5, "they are not counted");
        println!("home {is_home}: {cancelled} of {rounds} cancelled, handles {before}, {after}");
        assert!(cancelled > 0 && cancelled < rounds, "the race was never a race");
        assert!(after < before + (rounds / 100).max(50), "{before} handles, then {after}");
    }
}

/// A send of more than there is room for ends when it is cancelled, at whatever moment of the peer's reading that is,
/// though the peer reads no more. (Wine does not find an operation that it is just about to go on with.)
#[test]
fn a_send_that_goes_on_is_cancelled() {
    let (rounds, much) = (200u32, vec![0u8; 64 << 20]);
    for is_home in [true, false] {
        let (mut other, mut bench) = (Bench::new(), Bench::new());
        let (ours, mut theirs) = pair();
        let handle = ours.as_ref();
        if !is_home {
            other.adopt(handle);
        }
        theirs.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        // Odd: the peer is to read.
        let (turn, begun) = (AtomicU32::new(0), Instant::now());
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let mut part = vec![0; 64 << 10];
                // (It ends by itself if a round fails.)
                while turn.load(SeqCst) != u32::MAX && begun.elapsed() < Duration::from_secs(100) {
                    match turn.load(SeqCst) % 2 {
                        0 => std::thread::sleep(Duration::from_micros(50)),
                        _ => drop(theirs.read(&mut part)),
                    }
                }
            });
            for round in 0..rounds {
                turn.store(2 * round + 1, SeqCst);
                let op = Op::Send { handle, buf: much.as_ptr(), len: much.len(), flags: 0 };
                let record = bench.start(op);
                (0..round.wrapping_mul(0x9E37_79B9) >> 14).for_each(|_| std::hint::spin_loop());
                bench.cancel(record);
                turn.store(2 * round + 2, SeqCst);
                let outcome = bench.wait(record);
                assert!(outcome == Outcome::CANCELLED || outcome.0 > 0, "{outcome:?}");
            }
            turn.store(u32::MAX, SeqCst);
            drop(ours);
            reader.join().expect("the reader");
        });
    }
}

/// The driver that had the handle first has ended, and its port is closed.
#[test]
fn a_handle_outlives_its_home() {
    let mut home = Bench::new();
    let (ours, mut theirs) = pair();
    let mut buf = [0u8; 8];
    let record = home.start(recv(ours.as_ref(), &mut buf));
    home.cancel(record);
    assert_eq!(home.wait(record), Outcome::CANCELLED);
    drop(home);
    let mut bench = Bench::new();
    for _ in 0..10 {
        let waits = bench.start(recv(ours.as_ref(), &mut buf));
        theirs.write_all(b"here").expect("sent");
        assert_eq!(bench.wait(waits), Outcome(4));
        // What is there is had at once.
        theirs.write_all(b"there").expect("sent");
        let poll = Op::Poll { handle: ours.as_ref(), interest: Interest::Readable };
        assert_eq!(bench.run(poll), Outcome(0));
        assert_eq!(bench.run(recv(ours.as_ref(), &mut buf)), Outcome(5));
    }
}

#[test]
fn an_overlapped_file_is_read_and_written_at_offsets() {
    let path = std::env::temp_dir().join(format!("bast-overlapped-{}", std::process::id()));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(FILE_FLAG_OVERLAPPED)
        .open(&path)
        .expect("a file");
    let file = Handle::from_owned(file.into(), Kind::File);
    let mut bench = Bench::new();
    let (handle, data) = (file.as_ref(), *b"0123456789");
    let write = Op::Write { handle, buf: data.as_ptr(), len: 10, offset: Some(5) };
    assert_eq!(bench.run(write), Outcome(10));
    let mut buf = [9u8; 16];
    let mut read = |bench: &mut Bench, at| {
        let op = Op::Read { handle, buf: buf.as_mut_ptr(), len: 16, offset: Some(at) };
        (bench.run(op), buf)
    };
    let (outcome, got) = read(&mut bench, 0);
    assert_eq!((outcome, &got[..15]), (Outcome(15), &b"\0\0\0\0\x000123456789"[..]));
    assert_eq!(read(&mut bench, 12).0, Outcome(3));
    assert_eq!(read(&mut bench, 99).0, Outcome(0), "its end");
    // It has no position.
    let op = Op::Read { handle, buf: buf.as_mut_ptr(), len: 1, offset: None };
    assert!(bench.run(op).0 < 0);
    drop(file);
    std::fs::remove_file(path).expect("ours");
}

#[test]
fn objects_are_waited_for_and_given_up() {
    let mut bench = Bench::new();
    let event = event();
    let handle = HandleRef::object(event.as_handle());
    let poll = Op::Poll { handle, interest: Interest::Readable };
    for round in 0..500 {
        let record = bench.start(poll);
        if round % 2 == 0 {
            // SAFETY: no memory is involved.
            unsafe { SetEvent(crate::sys::handle(handle.raw())) };
        }
        if round % 3 == 0 {
            bench.cancel(record);
        }
        if round % 2 == 0 || round % 3 == 0 {
            let outcome = bench.wait(record);
            assert!(outcome == Outcome(0) || outcome == Outcome::CANCELLED, "{outcome:?}");
        } else {
            bench.driver.poll(Wait::No, &mut bench.done).expect("poll");
            bench.cancel(record);
            let outcome = bench.wait(record);
            // An event that was set when the wait for it had been given up is set still.
            assert!(outcome == Outcome(0) || outcome == Outcome::CANCELLED, "{outcome:?}");
        }
    }
    assert_eq!(bench.driver.pending(), 0);
}

/// A driver that goes away takes what is in flight back from the kernel, from the waiting threads and from a thread
/// that waits in its call.
#[test]
fn a_driver_ends_with_everything_pending() {
    use windows_sys::Win32::System::Pipes::CreatePipe;
    let mut other = Bench::new();
    for _ in 0..20 {
        let mut bench = Bench::new();
        let ((home, mut theirs), (away, mut others)) = (pair(), pair());
        let (reader, _writer) = pipe::pair().expect("a pipe");
        let (mut inside, mut end) = (null_mut(), null_mut());
        // SAFETY: room for two handles, which are ours.
        let (inside, _end) = unsafe {
            assert_ne!(CreatePipe(&raw mut inside, &raw mut end, null(), 0), 0);
            (OwnedHandle::from_raw_handle(inside), OwnedHandle::from_raw_handle(end))
        };
        let inside = Handle::from_owned(inside.into(), Kind::Pipe);
        let event = event();
        let mut bufs = [[0u8; 4]; 5];
        let [a, b, c, d, e] = &mut bufs;
        let first = other.start(recv(away.as_ref(), a));
        let read = |handle: &Handle, buf: &mut [u8; 4]| {
            let (handle, buf) = (handle.as_ref(), buf.as_mut_ptr());
            Op::Read { handle, buf, len: 4, offset: None }
        };
        let object = HandleRef::object(event.as_handle());
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let name = listener.local_addr().expect("a name");
        let listener = Handle::from_owned(listener.into(), Kind::Listener);
        let records = [
            recv(home.as_ref(), b),
            recv(away.as_ref(), c),
            read(&reader, d),
            read(&inside, e),
            Op::Poll { handle: object, interest: Interest::Readable },
            Op::Poll { handle: home.as_ref(), interest: Interest::Readable },
            Op::Accept { handle: listener.as_ref(), addr: null_mut() },
        ]
        .map(|op| bench.start(op));
        assert_eq!(bench.driver.pending(), records.len());
        drop(bench);
        // Now all that they waited for happens. It is nothing to them any more.
        let bytes = |record: Lent| {
            // SAFETY: it is there, and nobody else has it.
            unsafe { std::slice::from_raw_parts(record.as_ptr().cast::<u8>(), size_of::<Record>()) }
        };
        let before = records.map(|record| bytes(record).to_vec());
        // SAFETY: no memory is involved.
        unsafe { SetEvent(crate::sys::handle(object.raw())) };
        for end in [&mut theirs, &mut others] {
            end.write_all(b"late").expect("sent");
        }
        let client = TcpStream::connect(name).expect("connected");
        std::thread::sleep(Duration::from_millis(5));
        drop(client);
        for (record, before) in records.into_iter().zip(before) {
            assert!(bytes(record) == before, "written to after the driver's end");
            // SAFETY: the driver has let go of it.
            drop(unsafe { Box::from_raw(record.as_ptr()) });
        }
        assert_eq!(other.wait(first), Outcome(4));
    }
}

/// What is cut off, or too long, is a warning to the kernel, which posts a packet for it: the record is not given back
/// before that.
#[test]
fn a_warning_has_a_packet() {
    let (mut bench, peer) = (Bench::new(), UdpSocket::bind("127.0.0.1:0").expect("bound"));
    let ours = UdpSocket::bind("127.0.0.1:0").expect("bound");
    ours.connect(peer.local_addr().expect("a name")).expect("connected");
    peer.connect(ours.local_addr().expect("a name")).expect("connected");
    let ours = Handle::from_owned(ours.into(), Kind::Datagram);
    let long = vec![0u8; 70_000];
    for round in 0..100 {
        let (handle, buf) = (ours.as_ref(), long.as_ptr());
        let outcome = bench.run(Op::Send { handle, buf, len: long.len(), flags: 0 });
        assert!(outcome.is_errno(crate::sys::c::EMSGSIZE), "{round}: {outcome:?}");
        peer.send(b"12345678").expect("sent");
        assert_eq!(bench.run(recv(ours.as_ref(), &mut [0; 4])), Outcome(4));
        assert_eq!(bench.driver.pending(), 0);
    }
    bench.driver.poll(Wait::AtMost(Duration::from_millis(10)), &mut bench.done).expect("poll");
    assert!(bench.done.is_empty());
}

/// Many drivers wait for one listener: each connection is somebody's, and nobody fails for having been too late.
#[test]
fn who_is_too_late_for_a_connection_waits_for_the_next() {
    const COUNT: usize = 2_000;
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let addr = listener.local_addr().expect("a name");
    let listener = Handle::from_owned(listener.into(), Kind::Listener);
    let (taken, end) = (AtomicUsize::new(0), Instant::now() + Duration::from_secs(100));
    // Takes what has completed; the number of its connections.
    let take = |bench: &mut Bench| {
        let mut count = 0;
        while let Some(record) = bench.done.pop() {
            // SAFETY: it came back; it was leaked by `start`.
            let outcome = unsafe { Box::from_raw(record.as_ptr()) }.outcome();
            assert!(outcome.0 >= 0, "{outcome:?}");
            // SAFETY: a new socket, which is nobody else's.
            drop(unsafe { TcpStream::from_raw_socket(outcome.0 as u64) });
            count += 1;
        }
        taken.fetch_add(count, SeqCst);
        count
    };
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                let (mut bench, mut waiting) = (Bench::new(), 0);
                while taken.load(SeqCst) < COUNT {
                    assert!(Instant::now() < end, "{taken:?}");
                    while waiting < 2 {
                        let (handle, addr) = (listener.as_ref(), null_mut());
                        bench.start(Op::Accept { handle, addr });
                        waiting += 1;
                    }
                    let wait = Wait::AtMost(Duration::from_millis(10));
                    bench.driver.poll(wait, &mut bench.done).expect("poll");
                    waiting -= take(&mut bench);
                }
            });
        }
        for _ in 0..4 {
            s.spawn(|| {
                (0..COUNT / 4).for_each(|_| drop(TcpStream::connect(addr).expect("connected")))
            });
        }
    });
}

/// A pipe of messages: one that is there makes it readable, and what there is no room for is read later.
#[test]
fn a_message_is_something_to_read() {
    let name: Vec<u16> =
        format!("\\\\.\\pipe\\bast-messages-{}\0", std::process::id()).encode_utf16().collect();
    let access = PIPE_ACCESS_INBOUND | FILE_FLAG_OVERLAPPED;
    let mode = PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_WAIT;
    // SAFETY: the name ends with a zero; new handles are nobody else's.
    let (reader, mut writer) = unsafe {
        let reader = CreateNamedPipeW(name.as_ptr(), access, mode, 1, 4096, 4096, 0, null());
        let writer =
            CreateFileW(name.as_ptr(), GENERIC_WRITE, 0, null(), OPEN_EXISTING, 0, null_mut());
        (OwnedHandle::from_raw_handle(reader), File::from_raw_handle(writer))
    };
    let reader = Handle::from_owned(reader.into(), Kind::Pipe);
    let handle = reader.as_ref();
    let mut home = Bench::new();
    for bench in [&mut home, &mut Bench::new()] {
        for waits_first in [true, false] {
            let poll = Op::Poll { handle, interest: Interest::Readable };
            let waiting = waits_first.then(|| bench.start(poll));
            assert_eq!(bench.driver.pending(), usize::from(waits_first));
            writer.write_all(b"12345678").expect("written");
            let ready = waiting.unwrap_or_else(|| bench.start(poll));
            assert_eq!(bench.wait(ready), Outcome(0), "waits first {waits_first}");
            let mut buf = [0; 6];
            let read = Op::Read { handle, buf: buf.as_mut_ptr(), len: 6, offset: None };
            assert_eq!((bench.run(read), bench.run(read)), (Outcome(6), Outcome(2)));
            // One that waits, and has too little room.
            let waits = bench.start(read);
            writer.write_all(b"12345678").expect("written");
            assert_eq!((bench.wait(waits), bench.run(read)), (Outcome(6), Outcome(2)));
            assert_eq!(bench.driver.pending(), 0);
        }
    }
}

/// Whoever closes a handle under what waits (no safe code can) ends it: each has its packet, and nothing is read of
/// the handle that has the number next.
#[test]
fn a_handle_that_is_closed_ends_what_waits() {
    for is_home in [true, false] {
        for _ in 0..100 {
            let (mut other, mut bench) = (Bench::new(), Bench::new());
            let (ours, theirs) = pair();
            let (handle, raw) = (ours.as_ref(), ours.raw());
            let mut bufs = [[0u8; 4]; 2];
            let [a, b] = &mut bufs;
            if !is_home {
                other.adopt(handle);
            }
            let poll = Op::Poll { handle, interest: Interest::Readable };
            let records = [recv(handle, a), poll].map(|op| bench.start(op));
            drop(ours);
            // Its number may be another's now, which has something to read.
            let (next, mut sender) = pair();
            sender.write_all(b"mine").expect("sent");
            let end = Instant::now() + Duration::from_secs(60);
            while bench.driver.pending() > 0 {
                assert!(Instant::now() < end, "no packet, home {is_home}");
                let wait = Wait::AtMost(Duration::from_secs(1));
                bench.driver.poll(wait, &mut bench.done).expect("poll");
            }
            for _ in records {
                let record = bench.done.pop().expect("both");
                // SAFETY: it came back; it was leaked by `start`.
                let record = unsafe { Box::from_raw(record.as_ptr()) };
                assert!(record.outcome().0 <= 0, "{:?}", record.outcome());
            }
            assert_eq!(bench.run(recv(next.as_ref(), b)), Outcome(4));
            assert_eq!(b, b"mine", "{raw}, {}", next.raw());
            drop(theirs);
        }
    }
}
