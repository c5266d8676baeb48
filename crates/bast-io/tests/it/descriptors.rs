//! Descriptors are numbers that are used again, shared and set up by others (contract io 6).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use bast_io::{Driver, Handle, Kind, Op, c};

use crate::cancel::pipe_ends;
use crate::harness::{Rig, errno, open_descriptors, rounds};

on_real_drivers!(
    reuse_of_a_number,
    reuse_under_a_driver_that_polls_rarely,
    the_end_comes_with_the_last_bytes,
    duplicates,
    two_drivers,
    users_nonblocking_sockets,
    pipes,
    no_descriptor_leaks,
);

fn std_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let a = TcpStream::connect(listener.local_addr().expect("a name")).expect("connected");
    (a, listener.accept().expect("accepted").0)
}

fn reuse_of_a_number(rig: &mut Rig) {
    // The same number again and again, each time with data, waits and notes of the one before.
    if crate::harness::in_child(&crate::harness::path("descriptors", rig, "reuse_of_a_number")) {
        return;
    }
    let mut same = 0;
    let mut last = -1;
    for round in 0..(rounds(20_000) / 10) as u32 {
        let (mut other, mine) = std_pair();
        let mine = Handle::from_owned(mine.into(), Kind::Stream);
        same += usize::from(mine.as_ref().raw() == last);
        last = mine.as_ref().raw();
        let text = round.to_ne_bytes();
        match round % 4 {
            0 => {
                // Waits first: the driver now has a note that there is nothing to read.
                let ticket = rig.start_recv(mine.as_ref(), 4, 0);
                rig.poll(bast_io::Wait::No);
                other.write_all(&text).expect("sent");
                assert_eq!(rig.received(ticket).expect("received"), text);
            }
            1 => {
                // Data left unread: a note that there is something.
                other.write_all(&text).expect("sent");
                assert_eq!(rig.recv(&mine, 2).expect("received"), text[..2]);
            }
            2 => {
                let ticket = rig.start_recv(mine.as_ref(), 4, 0);
                rig.poll(bast_io::Wait::No);
                rig.cancel(ticket);
                assert!(rig.wait(ticket).is_errno(c::ECANCELED));
            }
            _ => {
                drop(other);
                assert_eq!(rig.recv(&mine, 4).expect("the end"), b"");
            }
        }
    }
    assert!(same > 0, "no number was ever reused: this tests nothing");
    println!("{same} reused");
}

fn reuse_under_a_driver_that_polls_rarely(rig: &mut Rig) {
    // Events of a closed descriptor that wait in the kernel's queue must not be taken for the
    // successor's.
    for _ in 0..200 {
        let (mut other, mine) = std_pair();
        let mine = Handle::from_owned(mine.into(), Kind::Stream);
        let ticket = rig.start_recv(mine.as_ref(), 4, 0);
        rig.poll(bast_io::Wait::No);
        other.write_all(b"done").expect("sent");
        assert_eq!(rig.received(ticket).expect("received"), b"done");
        other.write_all(b"more").expect("sent");
        drop(mine);
        let (mut other, mine) = std_pair();
        let mine = Handle::from_owned(mine.into(), Kind::Stream);
        let waiting = rig.start_recv(mine.as_ref(), 4, 0);
        rig.settle();
        assert_eq!(rig.peek(waiting), None, "a stranger's data");
        other.write_all(b"mine").expect("sent");
        assert_eq!(rig.received(waiting).expect("received"), b"mine");
    }
}

fn the_end_comes_with_the_last_bytes(rig: &mut Rig) {
    // One event for both: a short read must not hide what comes after it.
    for how in 0..3 {
        for waits_first in [true, false] {
            let (mut other, mine) = std_pair();
            let mine = Handle::from_owned(mine.into(), Kind::Stream);
            if how == 2 {
                // Unread data at the other end: its close is a reset.
                rig.send_all(&mine, b"unread");
            }
            // The driver knows the descriptor and waits for it.
            let warm = rig.start_recv(mine.as_ref(), 10, 0);
            assert!(rig.is_stuck(warm));
            if !waits_first {
                other.write_all(b"warm").expect("sent");
                assert_eq!(rig.received(warm).expect("received"), b"warm");
            }
            other.write_all(b"last").expect("sent");
            match how {
                0 => other.shutdown(std::net::Shutdown::Write).expect("half closed"),
                _ => drop(other),
            }
            // Both are there before the driver looks.
            std::thread::sleep(std::time::Duration::from_millis(5));
            let last = if waits_first {
                warm
            } else {
                rig.settle();
                rig.start_recv(mine.as_ref(), 10, 0)
            };
            let context = format!("how {how}, waits first {waits_first}");
            match rig.received(last) {
                Ok(bytes) => {
                    assert_eq!(bytes, b"last", "{context}");
                    let after = rig.recv(&mine, 10);
                    // (Wine takes the error off the socket when it hears of it.)
                    if how == 2 && !cfg!(windows) {
                        assert_eq!(errno(after), c::ECONNRESET, "{context}");
                    } else if how < 2 {
                        assert_eq!(after.expect("the end"), b"", "{context}");
                    }
                }
                // A kernel may throw away what it has when a reset comes.
                Err(error) => {
                    assert_eq!((how, error.raw_os_error()), (2, Some(c::ECONNRESET)));
                }
            }
        }
    }
}

fn duplicates(rig: &mut Rig) {
    let (mut other, mine) = std_pair();
    let twin = mine.try_clone().expect("a clone");
    let mine = Handle::from_owned(mine.into(), Kind::Stream);
    let twin = Handle::from_owned(twin.into(), Kind::Stream);
    // Both wait; either may be served.
    let first = rig.start_recv(mine.as_ref(), 1, 0);
    let second = rig.start_recv(twin.as_ref(), 1, 0);
    assert!(rig.is_stuck(first) && rig.is_stuck(second));
    other.write_all(b"12").expect("sent");
    let mut got = [rig.received(first).expect("received"), rig.received(second).expect("received")];
    got.sort();
    assert_eq!(got, [b"1", b"2"]);
    // Closing one leaves the other alive, though the number was registered first.
    let waiting = rig.start_recv(twin.as_ref(), 10, 0);
    assert!(rig.is_stuck(waiting));
    drop(mine);
    assert!(rig.is_stuck(waiting), "closing one's twin is no event");
    other.write_all(b"still").expect("sent");
    assert_eq!(rig.received(waiting).expect("received"), b"still");
    // A new descriptor with the closed one's number.
    let (mut other2, mine2) = std_pair();
    let mine2 = Handle::from_owned(mine2.into(), Kind::Stream);
    let waiting2 = rig.start_recv(mine2.as_ref(), 10, 0);
    let waiting = rig.start_recv(twin.as_ref(), 10, 0);
    assert!(rig.is_stuck(waiting2) && rig.is_stuck(waiting));
    other2.write_all(b"two").expect("sent");
    assert_eq!(rig.received(waiting2).expect("received"), b"two");
    other.write_all(b"one").expect("sent");
    assert_eq!(rig.received(waiting).expect("received"), b"one");
}

fn two_drivers(rig: &mut Rig) {
    // One socket: this thread's driver receives, another thread's sends and receives too.
    let (mut other, mine) = std_pair();
    let mine = Handle::from_owned(mine.into(), Kind::Stream);
    let (kind, shared) = (rig.kind, mine.as_ref());
    let warm = rig.start_recv(shared, 1, 0);
    assert!(rig.is_stuck(warm));
    other.write_all(b"w").expect("sent");
    assert_eq!(rig.received(warm).expect("received"), b"w");
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let mut theirs = Rig::new(kind).expect("the driver was there before");
            for byte in 0..200_u8 {
                let ticket = theirs.start_send(shared, &[byte]);
                assert_eq!(theirs.wait(ticket).0, 1);
            }
            let ticket = theirs.start_recv(shared, 1, 0);
            theirs.received(ticket).expect("received")
        });
        let mut sent = [0; 200];
        other.read_exact(&mut sent).expect("received");
        assert!(sent.iter().copied().eq(0..200));
        let here = rig.start_recv(shared, 1, 0);
        assert!(rig.is_stuck(here));
        other.write_all(b"ab").expect("sent");
        let mut got = rig.received(here).expect("received");
        got.extend(thread.join().expect("the other driver"));
        got.sort_unstable();
        assert_eq!(got, b"ab");
    });
}

fn users_nonblocking_sockets(rig: &mut Rig) {
    // Somebody else has set O_NONBLOCK on a stream: operations wait all the same.
    let (mut other, mine) = std_pair();
    mine.set_nonblocking(true).expect("non-blocking");
    let mine = Handle::from_owned(mine.into(), Kind::Stream);
    let waiting = rig.start_recv(mine.as_ref(), 10, 0);
    assert!(rig.is_stuck(waiting), "{:?}", rig.peek(waiting));
    other.write_all(b"x").expect("sent");
    assert_eq!(rig.received(waiting).expect("received"), b"x");
    let (blocked, mut sent) = rig.fill(&mine);
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        other.read_to_end(&mut all).expect("received")
    });
    sent += rig.wait(blocked).into_result().expect("sent");
    drop(mine);
    assert_eq!(reader.join().expect("the reader"), sent);
}

fn pipes(rig: &mut Rig) {
    let (reader, writer) = pipe_ends();
    let waiting = rig.start_read(reader.as_ref(), 100, None);
    assert!(rig.is_stuck(waiting));
    let ticket = rig.start_write(writer.as_ref(), b"through", None);
    assert_eq!(rig.wait(ticket).0, 7);
    assert_eq!(rig.received(waiting).expect("read"), b"through");
    let end = rig.start_read(reader.as_ref(), 100, None);
    assert!(rig.is_stuck(end));
    drop(writer);
    assert_eq!(rig.received(end).expect("the end"), b"");
    let (reader, writer) = pipe_ends();
    drop(reader);
    // (A child that another test is starting may have a copy of it for a moment.)
    for _ in 0..1_000 {
        let ticket = rig.start_write(writer.as_ref(), b"x", None);
        let outcome = rig.wait(ticket);
        if outcome.is_errno(c::EPIPE) {
            return;
        }
        assert_eq!(outcome.0, 1);
        rig.linger(1);
    }
    panic!("somebody reads");
}

fn no_descriptor_leaks(rig: &mut Rig) {
    if crate::harness::in_child(&crate::harness::path("descriptors", rig, "no_descriptor_leaks")) {
        return;
    }
    let config = crate::harness::config(rig.kind, 1);
    drop(Driver::new(&config).expect("a driver"));
    let before = open_descriptors();
    for _ in 0..20 {
        drop(Driver::new(&config).expect("a driver"));
        let (a, b) = rig.pair();
        let ticket = rig.start_recv(a.as_ref(), 1, 0);
        rig.settle();
        rig.cancel(ticket);
        let _ = rig.wait(ticket);
        // Given up and closed by an operation.
        let fd = b.into_raw();
        assert_eq!(rig.run(Op::Close { fd }).0, 0);
        assert_eq!(rig.recv(&a, 1).expect("the end"), b"");
        // Out of bast and back.
        #[allow(clippy::useless_conversion)] // It is one on Windows.
        drop(Handle::from_owned(a.into_blocking().expect("a mode").into(), Kind::Stream));
    }
    rig.settle();
    assert_eq!(open_descriptors(), before);
}

/// Readiness of what is not ours, and of what is no socket.
#[cfg(unix)]
mod on_unix {
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use bast_io::{HandleRef, Interest};

    use super::*;

    on_real_drivers!(foreign_polls, regular_files_are_ready);

    fn foreign_polls(rig: &mut Rig) {
        // Sockets and pipes that are not ours, waited for again and again; the driver
        // keeps nothing of them, so the numbers may be closed and reused between.
        for round in 0..200 {
            let (fd, mut writer) = UnixStream::pair().expect("a pair");
            let handle = HandleRef::foreign(fd.as_fd());
            let readable = rig.start(Op::Poll { handle, interest: Interest::Readable });
            assert_eq!(rig.run(Op::Poll { handle, interest: Interest::Writable }).0, 0);
            rig.settle();
            assert_eq!(rig.peek(readable), None, "round {round}");
            // Two waiters at once.
            let twice = rig.start(Op::Poll { handle, interest: Interest::Readable });
            writer.write_all(b"x").expect("written");
            assert_eq!(rig.wait(readable).0, 0);
            assert_eq!(rig.wait(twice).0, 0);
            assert_eq!(rig.run(Op::Poll { handle, interest: Interest::Readable }).0, 0);
        }
        // A pipe: readable at the end of its writer, an error is readiness too.
        let (reader, writer) = pipe_ends();
        let [reader, writer] = [reader, writer].map(OwnedFd::from);
        let handle = HandleRef::foreign(reader.as_fd());
        let waiting = rig.start(Op::Poll { handle, interest: Interest::Readable });
        assert!(rig.is_stuck(waiting));
        drop(writer);
        assert_eq!(rig.wait(waiting).0, 0);
        let (reader, writer) = pipe_ends();
        drop(reader);
        let writer = OwnedFd::from(writer);
        let handle = HandleRef::foreign(writer.as_fd());
        assert_eq!(rig.run(Op::Poll { handle, interest: Interest::Writable }).0, 0);
    }

    fn regular_files_are_ready(rig: &mut Rig) {
        let file = std::fs::File::open(std::env::current_exe().expect("a path")).expect("opened");
        let handle = HandleRef::foreign(file.as_fd());
        for interest in [Interest::Readable, Interest::Writable] {
            assert_eq!(rig.run(Op::Poll { handle, interest }).0, 0);
        }
        let owned = Handle::from_owned(file.into(), Kind::File);
        for interest in [Interest::Readable, Interest::Writable] {
            assert_eq!(rig.run(Op::Poll { handle: owned.as_ref(), interest }).0, 0);
        }
        // A number that is nobody's.
        // SAFETY: only borrowed for the number; 1_000_000 is above what is open here.
        let nobody = unsafe { std::os::fd::BorrowedFd::borrow_raw(1_000_000) };
        let op = Op::Poll { handle: HandleRef::foreign(nobody), interest: Interest::Readable };
        assert!(rig.run(op).is_errno(c::EBADF));
    }
}
