//! Files by every operation, and what moves bytes between them, pipes and sockets.

use super::*;

#[test]
fn files_by_every_operation() {
    each(|b| {
        let (path, c) = temp("files", b"");
        let flags = c::O_RDWR | c::O_TRUNC;
        let opened = b.run(Op::Open { path: c.as_ptr(), flags, mode: 0 });
        assert!(opened.0 >= 0, "{opened:?}");
        // SAFETY: a new descriptor belongs to the test.
        let file = unsafe { Handle::from_raw(opened.0, Kind::File) };
        let handle = file.as_ref();
        let op = Op::Write { handle, buf: b"hello".as_ptr(), len: 5, offset: Some(2) };
        assert_eq!(b.run(op), Outcome(5));
        let iov = [
            c::iovec { iov_base: b"ab".as_ptr().cast_mut().cast(), iov_len: 2 },
            c::iovec { iov_base: b"c".as_ptr().cast_mut().cast(), iov_len: 1 },
        ];
        let op = Op::WriteV { handle, iov: iov.as_ptr(), count: 2, offset: None };
        assert_eq!(b.run(op), Outcome(3));
        assert_eq!(b.run(Op::Fsync { handle, data_only: true }), Outcome(0));
        assert_eq!(b.run(Op::Fsync { handle, data_only: false }), Outcome(0));
        let mut buf = [0u8; 16];
        let op = Op::Read { handle, buf: buf.as_mut_ptr(), len: 16, offset: Some(0) };
        assert_eq!(b.run(op), Outcome(7));
        assert_eq!(&buf[..7], b"abcello");
        let iov = [c::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: 2 }];
        let op = Op::ReadV { handle, iov: iov.as_ptr(), count: 1, offset: None };
        assert_eq!(b.run(op), Outcome(2));
        assert_eq!(&buf[..2], b"el", "the handle's own position");
        // SAFETY: a statx of zeroes is valid.
        let mut out: c::statx = unsafe { std::mem::zeroed() };
        let op = Op::Statx {
            dir: c::AT_FDCWD,
            path: c.as_ptr(),
            flags: 0,
            mask: c::STATX_BASIC_STATS,
            out: &raw mut out,
        };
        assert_eq!(b.run(op), Outcome(0));
        assert_eq!(out.stx_size, 7);
        let raw = file.into_raw();
        assert_eq!(b.run(Op::Close { fd: raw }), Outcome(0));
        assert_eq!(b.run(Op::Close { fd: raw }), Outcome::from_errno(c::EBADF));
        std::fs::remove_file(path).expect("remove");
        let op = Op::Open { path: c.as_ptr(), flags: c::O_RDONLY, mode: 0 };
        assert_eq!(b.run(op), Outcome::from_errno(c::ENOENT));
    });
}

/// A clone that std has got is set blocking there, and the mode belongs to both.
#[test]
fn a_socket_that_a_clone_has_set_blocking_does_not_block_the_driver() {
    each(|b| {
        let (path, _) = temp("blocking", &vec![1; 16 << 20]);
        let file = std::fs::File::open(&path).expect("open");
        std::fs::remove_file(path).expect("remove");
        let file = Handle::from_owned(file.into(), Kind::File);
        let (ours, mut theirs) = pair();
        // SAFETY: open for as long as `ours` is.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(ours.as_raw_fd()) };
        let clone = TcpStream::from(fd.try_clone_to_owned().expect("clone"));
        let send = |len| Op::SendFile { to: ours.as_ref(), file: file.as_ref(), offset: 0, len };
        assert_eq!(b.run(send(10)), Outcome(10));
        clone.set_nonblocking(false).expect("mode");
        // Read once it is full; or much later, so that a driver's thread that waits is seen to have waited.
        let (full, reads) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let _ = reads.recv_timeout(Duration::from_secs(100));
            std::io::copy(&mut theirs, &mut std::io::sink()).expect("read")
        });
        let (start, mut sent) = (Instant::now(), 10);
        // Until there is no room; then it waits, and can be told to end.
        let record = loop {
            let record = b.start(send(16 << 20));
            b.poll(Wait::AtMost(Duration::from_millis(100)));
            if b.done.is_empty() {
                break record;
            }
            sent += b.collect(1)[0].1.0 as u64;
            assert!(start.elapsed() < Duration::from_secs(90), "the driver's thread waited");
        };
        // SAFETY: it is under way.
        unsafe { b.driver.cancel(record) };
        sent += u64::try_from(b.collect(1)[0].1.0).unwrap_or(0);
        assert!(start.elapsed() < Duration::from_secs(90), "the driver's thread waited");
        full.send(()).expect("somebody listens");
        drop((ours, clone));
        assert_eq!(reader.join().expect("reader"), sent);
    });
}

#[test]
fn sendfile_waits_for_room() {
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
        std::fs::remove_file(path).expect("remove");
    });
}

#[test]
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
fn splice_waits_for_both_ends() {
    // Socket to pipe to file.
    each(|b| {
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
        std::fs::remove_file(out_path).expect("remove");
    });
}
