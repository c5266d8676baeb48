//! Streams and what is polled: whatever mode a descriptor is in, and whoever else has it.

use super::*;

#[test]
fn a_server_and_a_client_on_one_driver() {
    each(|b| {
        let tcp = Op::Socket { domain: c::AF_INET, kind: c::SOCK_STREAM, protocol: 0 };
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
                    (c::fcntl(h.as_raw_fd(), c::F_GETFL), c::fcntl(h.as_raw_fd(), c::F_GETFD))
                };
                assert_eq!(status & c::O_NONBLOCK == 0, sys::STREAMS_BLOCK, "the mode of streams");
                assert_ne!(descriptor & c::FD_CLOEXEC, 0);
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
        // Nobody listens there. (Of a listener that was closed a child that is being started may have a copy still.)
        // SAFETY: as above.
        let [silent, client] =
            [b.run(tcp), b.run(tcp)].map(|new| unsafe { Handle::from_raw(new.0, Kind::Stream) });
        assert_eq!(b.run(Op::Bind { handle: silent.as_ref(), addr: &raw const any }), Outcome(0));
        let name = Op::GetName { handle: silent.as_ref(), peer: false, addr: &raw mut addr };
        assert_eq!(b.run(name), Outcome(0));
        let refused = b.run(Op::Connect { handle: client.as_ref(), addr: &raw const addr });
        // libkqueue takes the error to put it into its event, and the next call has another.
        let told = if cfg!(bast_kqueue) { c::ECONNABORTED } else { c::ECONNREFUSED };
        assert_eq!(refused, Outcome::from_errno(told));
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
        let mut sent = b.run(send(&ours, &big)).0 as usize;
        let mut writer = b.start(send(&ours, &big[sent..]));
        for n in 0..3u8 {
            theirs.write_all(&[n; 4]).expect("write");
            let mut served = false;
            while !served {
                for (record, outcome) in b.collect(1) {
                    if record == writer {
                        // A kernel may find more room, though nobody reads.
                        sent += usize::try_from(outcome.0).expect("sent");
                        assert!(sent < big.len(), "the buffers took it all");
                        writer = b.start(send(&ours, &big[sent..]));
                        continue;
                    }
                    assert_eq!(
                        (record, outcome),
                        (readers[usize::from(n)], Outcome(4)),
                        "oldest first"
                    );
                    assert_eq!(bufs[usize::from(n)], [n; 4]);
                    served = true;
                }
            }
        }
        let mut sink = vec![0; sent];
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
        let n = unsafe { c::send(theirs.as_raw_fd(), b"!".as_ptr().cast(), 1, c::MSG_OOB) };
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
            let again = unsafe { c::dup2(copy.as_raw_fd(), number) };
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
        unsafe { OwnedFd::from_raw_fd(c::fcntl(*self, c::F_DUPFD_CLOEXEC, 200)) }
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
            assert_eq!(c::dup2(r2.as_raw_fd(), number), number);
            drop(r2);
            let record = b.start(readable);
            b.nothing();
            drop(w2);
            assert_eq!(b.collect(1), [(record, Outcome(0))], "the other end is closed");
            OwnedFd::from_raw_fd(number)
        };
        drop(fd);
        let closed = b.run(readable);
        assert_eq!(closed, Outcome::from_errno(c::EBADF));
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
