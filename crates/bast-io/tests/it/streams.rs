//! Connections: data arrives, in order, once; ends and errors are told as TCP tells them.

use bast_io::{Half, Handle, Op, c};

use crate::harness::{Dice, Rig, empty, errno, inet, seed, sock};

on_every_driver!(
    echo,
    accept_tells_the_peer,
    accept_before_connect,
    many_connections,
    half_close,
    shut_for_reading,
    peek,
    vectored_messages,
    vectored_reads,
    read_and_write_on_sockets,
    ten_mebibytes,
    blocked_send_is_continued,
    reader_and_writer_at_once,
    readers_are_served_in_order,
    refused,
    reset,
    broken_pipe,
    not_connected,
    dont_wait,
    datagrams,
    connected_datagrams,
    poll_readiness,
);

fn echo(rig: &mut Rig) {
    let (a, b) = rig.pair();
    for round in 0..50_u8 {
        rig.send_all(&a, &[round; 64]);
        let got = rig.recv_exact(&b, 64);
        rig.send_all(&b, &got);
        assert_eq!(rig.recv_exact(&a, 64), [round; 64]);
    }
    drop(a);
    assert_eq!(rig.recv(&b, 10).expect("the end"), b"");
    assert_eq!(rig.recv(&b, 10).expect("still the end"), b"");
}

fn accept_tells_the_peer(rig: &mut Rig) {
    let (listener, addr) = rig.listener(16);
    let client = rig.connect(addr).expect("connected");
    let mut peer = empty();
    let op = Op::Accept { handle: listener.as_ref(), addr: &raw mut peer };
    let fd = rig.run(op).into_result().expect("accepted") as i32;
    assert_eq!(rig.run(Op::Close { fd }).0, 0);
    assert_eq!(inet(&peer), rig.name(&client, false).expect("a name"));
}

fn accept_before_connect(rig: &mut Rig) {
    let (listener, addr) = rig.listener(16);
    let waiting = rig.start_accept(&listener);
    assert!(rig.is_stuck(waiting));
    let _client = rig.connect(addr).expect("connected");
    let fd = rig.wait(waiting).into_result().expect("accepted") as i32;
    assert_eq!(rig.run(Op::Close { fd }).0, 0);
}

fn many_connections(rig: &mut Rig) {
    let (listener, addr) = rig.listener(128);
    let sockets: Vec<_> = (0..100).map(|_| rig.socket(c::SOCK_STREAM)).collect();
    let connects: Vec<_> = sockets.iter().map(|s| rig.start_connect(s, addr)).collect();
    let servers: Vec<_> = (0..100).map(|_| rig.accept(&listener)).collect();
    for ticket in connects {
        assert_eq!(rig.wait(ticket).0, 0);
    }
    let reads: Vec<_> = servers.iter().map(|s| rig.start_recv(s.as_ref(), 8, 0)).collect();
    for (i, socket) in sockets.iter().enumerate() {
        rig.send_all(socket, &[i as u8]);
    }
    let mut got: Vec<u8> =
        reads.into_iter().map(|ticket| rig.received(ticket).expect("received")[0]).collect();
    got.sort_unstable();
    assert_eq!(got, (0..100).collect::<Vec<u8>>());
}

fn half_close(rig: &mut Rig) {
    let (a, b) = rig.pair();
    rig.send_all(&a, b"last words");
    assert_eq!(rig.run(Op::Shutdown { handle: a.as_ref(), how: Half::Write }).0, 0);
    assert_eq!(rig.recv_exact(&b, 100), b"last words");
    // The other direction is open.
    rig.send_all(&b, b"still here");
    assert_eq!(rig.recv_exact(&a, 10), b"still here");
    assert_eq!(errno(rig.send(&a, b"x")), c::EPIPE);
}

fn shut_for_reading(rig: &mut Rig) {
    let (a, _b) = rig.pair();
    let waiting = rig.start_recv(a.as_ref(), 10, 0);
    assert!(rig.is_stuck(waiting));
    assert_eq!(rig.run(Op::Shutdown { handle: a.as_ref(), how: Half::Read }).0, 0);
    assert_eq!(rig.received(waiting).expect("the end"), b"");
}

fn peek(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let waiting = rig.start_recv(b.as_ref(), 1, c::MSG_PEEK);
    assert!(rig.is_stuck(waiting));
    rig.send_all(&a, b"p");
    assert_eq!(rig.received(waiting).expect("peeked"), b"p");
    for _ in 0..3 {
        let ticket = rig.start_recv(b.as_ref(), 1, c::MSG_PEEK);
        assert_eq!(rig.received(ticket).expect("peeked"), b"p");
    }
    assert_eq!(rig.recv(&b, 1).expect("received"), b"p");
    let waiting = rig.start_recv(b.as_ref(), 1, 0);
    assert!(rig.is_stuck(waiting), "peeking left a copy behind");
    rig.send_all(&a, b"q");
    assert_eq!(rig.received(waiting).expect("received"), b"q");
}

fn message(iov: &mut [c::iovec]) -> c::msghdr {
    // SAFETY: a msghdr of zeros is valid: no name, no control data.
    let mut msg: c::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = iov.as_mut_ptr();
    msg.msg_iovlen = iov.len() as _;
    msg
}

fn iovec(bytes: &mut [u8]) -> c::iovec {
    c::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() as _ }
}

fn vectored_messages(rig: &mut Rig) {
    let (a, b) = rig.pair();
    (0..50).for_each(|_| vectored_message(rig, &a, &b));
}

fn vectored_message(rig: &mut Rig, a: &Handle, b: &Handle) {
    let (mut one, mut two, mut three) = (*b"one", *b"", *b"three");
    let mut iov = [iovec(&mut one), iovec(&mut two), iovec(&mut three)];
    let msg = message(&mut iov);
    let op = Op::SendMsg { handle: a.as_ref(), msg: &raw const msg, flags: 0 };
    let n = rig.run(op).into_result().expect("sent");
    if n < 8 {
        rig.send_all(a, &b"onethree"[n..]);
    }
    let mut all = Vec::new();
    while all.len() < 8 {
        let (mut x, mut y) = ([0; 2], [0; 20]);
        let mut iov = [iovec(&mut x), iovec(&mut y)];
        let mut msg = message(&mut iov);
        let op = Op::RecvMsg { handle: b.as_ref(), msg: &raw mut msg, flags: 0 };
        let n = rig.run(op).into_result().expect("received");
        all.extend_from_slice(&[&x[..], &y[..]].concat()[..n]);
    }
    assert_eq!(all, b"onethree");
}

fn vectored_reads(rig: &mut Rig) {
    let (a, b) = rig.pair();
    (0..50).for_each(|_| vectored_read(rig, &a, &b));
}

fn vectored_read(rig: &mut Rig, a: &Handle, b: &Handle) {
    let (mut one, mut two) = (*b"hel", *b"lo");
    let iov = [iovec(&mut one), iovec(&mut two)];
    let op = Op::WriteV { handle: a.as_ref(), iov: iov.as_ptr(), count: 2, offset: None };
    let n = rig.run(op).into_result().expect("written");
    if n < 5 {
        rig.send_all(a, &b"hello"[n..]);
    }
    let mut all = Vec::new();
    while all.len() < 5 {
        let (mut x, mut y) = ([0; 4], [0; 4]);
        let iov = [iovec(&mut x), iovec(&mut y)];
        let op = Op::ReadV { handle: b.as_ref(), iov: iov.as_ptr(), count: 2, offset: None };
        let n = rig.run(op).into_result().expect("read");
        all.extend_from_slice(&[&x[..], &y[..]].concat()[..n]);
    }
    assert_eq!(all, b"hello");
}

fn read_and_write_on_sockets(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let waiting = rig.start_read(b.as_ref(), 16, None);
    assert!(rig.is_stuck(waiting));
    let ticket = rig.start_write(a.as_ref(), b"w", None);
    assert_eq!(rig.wait(ticket).0, 1);
    assert_eq!(rig.received(waiting).expect("read"), b"w");
}

fn ten_mebibytes(rig: &mut Rig) {
    const SIZE: usize = 10 << 20;
    let (a, b) = rig.pair();
    let mut dice = Dice::new(seed());
    let data: Vec<u8> = (0..SIZE).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
    let (mut sent, mut got) = (0, 0);
    let (mut send, mut recv) = (None, None);
    while got < SIZE {
        if send.is_none() && sent < SIZE {
            let n = (1 + dice.below(256 << 10) as usize).min(SIZE - sent);
            send = Some(rig.start_send(a.as_ref(), &data[sent..sent + n]));
        }
        let ask = 1 + dice.below(96 << 10) as usize;
        let reading = *recv.get_or_insert_with(|| rig.start_recv(b.as_ref(), ask, 0));
        if let Some(ticket) = send
            && rig.peek(ticket).is_some()
        {
            sent += rig.wait(ticket).into_result().expect("sent");
            send = None;
        } else if rig.peek(reading).is_some() {
            let part = rig.received(reading).expect("received");
            assert!(!part.is_empty());
            assert!(part == data[got..got + part.len()], "wrong bytes at {got}");
            got += part.len();
            recv = None;
        } else {
            rig.poll(bast_io::Wait::Forever);
        }
    }
    assert_eq!(sent, SIZE);
    if let Some(ticket) = recv {
        rig.cancel(ticket);
        assert!(rig.wait(ticket).is_errno(c::ECANCELED));
    }
}

fn blocked_send_is_continued(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let (blocked, before) = rig.fill(&a);
    let mut got = 0;
    while got < before {
        got += rig.recv(&b, 256 << 10).expect("received").len();
    }
    let more = rig.wait(blocked).into_result().expect("sent at last");
    assert!(more > 0);
    while got < before + more {
        let part = rig.recv(&b, 256 << 10).expect("received");
        assert!(part.iter().all(|&byte| byte == b'f'));
        got += part.len();
    }
    assert_eq!(got, before + more);
}

fn reader_and_writer_at_once(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let reading = rig.start_recv(a.as_ref(), 100, 0);
    // A waiting reader does not keep a writer from the same handle, even one that blocks.
    let (writing, sent) = rig.fill(&a);
    assert_eq!(rig.peek(reading), None);
    rig.send_all(&b, b"hello");
    let mut hello = rig.received(reading).expect("received");
    hello.extend(rig.recv_exact(&a, 5 - hello.len()));
    assert_eq!(hello, b"hello");
    let mut got = 0;
    while rig.peek(writing).is_none() {
        // (It may have been sent, and not be reported yet.)
        if got < sent + (64 << 10) {
            got += rig.recv(&b, 1 << 20).expect("received").len();
        } else {
            rig.linger(1);
        }
    }
    let total = sent + rig.wait(writing).into_result().expect("sent");
    got += rig.recv_exact(&b, total - got).len();
    assert_eq!(got, total);
}

fn readers_are_served_in_order(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let readers: Vec<_> = (0..5).map(|_| rig.start_recv(b.as_ref(), 1, 0)).collect();
    assert!(rig.is_stuck(readers[0]));
    rig.cancel(readers[2]);
    assert!(rig.wait(readers[2]).is_errno(c::ECANCELED));
    rig.send_all(&a, b"0134");
    for (index, byte) in [(0, b'0'), (1, b'1'), (3, b'3'), (4, b'4')] {
        assert_eq!(rig.received(readers[index]).expect("received"), [byte]);
    }
}

fn refused(rig: &mut Rig) {
    // Its address stays ours, and nobody listens there. (Of a listener that was closed a process that another test has
    // just forked may have a copy for a while.)
    let silent = rig.socket(c::SOCK_STREAM);
    rig.bind(&silent, "127.0.0.1:0").expect("bound");
    let addr = rig.name(&silent, false).expect("a name");
    // libkqueue takes the error to put it into its event, and the next call has another.
    let taken = cfg!(bast_kqueue) && !rig.is_sim();
    let expected = if taken { c::ECONNABORTED } else { c::ECONNREFUSED };
    assert_eq!(errno(rig.connect(addr)), expected);
    if rig.is_sim() {
        let (listener, addr) = rig.listener(16);
        drop(listener);
        assert_eq!(errno(rig.connect(addr)), expected);
    }
}

fn reset(rig: &mut Rig) {
    // Unread data at the moment of closing resets the connection.
    let (a, b) = rig.pair();
    rig.send_all(&a, b"unread");
    let ticket = rig.start(Op::Poll { handle: b.as_ref(), interest: bast_io::Interest::Readable });
    assert_eq!(rig.wait(ticket).0, 0);
    let waiting = rig.start_recv(a.as_ref(), 10, 0);
    assert!(rig.is_stuck(waiting));
    drop(b);
    assert_eq!(errno(rig.received(waiting)), c::ECONNRESET);
    let sent = errno(rig.send(&a, b"x"));
    assert!(is_broken(rig, sent), "{sent}");
}

/// Whether a send says that nobody is there. Windows, unlike the others, goes on saying that the connection was reset.
fn is_broken(rig: &Rig, code: i32) -> bool {
    let resets = [c::ECONNRESET, c::ECONNABORTED];
    code == c::EPIPE || cfg!(windows) && !rig.is_sim() && resets.contains(&code)
}

fn broken_pipe(rig: &mut Rig) {
    // If any of this raised SIGPIPE, the test process (Rust ignores it) would not notice: restore
    // the default for the duration, in a process of its own.
    if crate::harness::in_child(&crate::harness::path("streams", rig, "broken_pipe")) {
        return;
    }
    // SAFETY: a process of our own.
    #[cfg(unix)]
    unsafe {
        c::signal(c::SIGPIPE, c::SIG_DFL)
    };
    let (a, b) = rig.pair();
    drop(b);
    for _ in 0..1_000 {
        rig.linger(1);
        let mut byte = *b"x";
        let mut iov = [iovec(&mut byte)];
        let msg = message(&mut iov);
        let op = Op::SendMsg { handle: a.as_ref(), msg: &raw const msg, flags: 0 };
        let by_message = rig.run(op);
        if is_broken(rig, -by_message.0) {
            let sent = errno(rig.send(&a, b"x"));
            assert!(is_broken(rig, sent), "{sent}");
            let ticket = rig.start_write(a.as_ref(), b"x", None);
            let written = rig.wait(ticket).0;
            assert!(is_broken(rig, -written), "{written}");
            let iov = [iovec(&mut byte)];
            let op = Op::WriteV { handle: a.as_ref(), iov: iov.as_ptr(), count: 1, offset: None };
            let written = rig.run(op).0;
            assert!(is_broken(rig, -written), "{written}");
            return;
        }
        assert!(by_message.0 == 1 || by_message.is_errno(c::ECONNRESET), "{by_message:?}");
    }
    panic!("a thousand sends to nobody succeeded");
}

fn not_connected(rig: &mut Rig) {
    let lonely = rig.socket(c::SOCK_STREAM);
    assert_eq!(errno(rig.recv(&lonely, 1)), c::ENOTCONN);
    let sent = errno(rig.send(&lonely, b"x"));
    // Linux says EPIPE for TCP.
    assert!(sent == c::ENOTCONN || is_broken(rig, sent), "{sent}");
    let op = Op::Shutdown { handle: lonely.as_ref(), how: Half::Both };
    assert!(rig.run(op).is_errno(c::ENOTCONN));
}

fn dont_wait(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let ticket = rig.start_recv(a.as_ref(), 1, c::MSG_DONTWAIT);
    assert_eq!(errno(rig.received(ticket)), c::EAGAIN);
    rig.send_all(&b, b"x");
    assert_eq!(rig.recv(&a, 1).expect("received"), b"x");
}

fn datagrams(rig: &mut Rig) {
    let (a, b) = (rig.socket(c::SOCK_DGRAM), rig.socket(c::SOCK_DGRAM));
    rig.bind(&a, "127.0.0.1:0").expect("bound");
    rig.bind(&b, "127.0.0.1:0").expect("bound");
    let (from, to) = (rig.name(&a, false).expect("a name"), rig.name(&b, false).expect("a name"));
    for text in [&b"first"[..], b"", b"third, and longer"] {
        let mut bytes = text.to_vec();
        let mut iov = [iovec(&mut bytes)];
        let mut msg = message(&mut iov);
        let name = sock(to);
        msg.msg_name = name.as_ptr().cast_mut().cast();
        msg.msg_namelen = name.len();
        let op = Op::SendMsg { handle: a.as_ref(), msg: &raw const msg, flags: 0 };
        assert_eq!(rig.run(op).into_result().expect("sent"), text.len());
    }
    for (text, cut) in [(&b"first"[..], false), (b"", false), (b"third, and", true)] {
        let mut bytes = [0; 10];
        let mut iov = [iovec(&mut bytes)];
        let mut msg = message(&mut iov);
        let mut name = [0_u8; 128];
        msg.msg_name = name.as_mut_ptr().cast();
        msg.msg_namelen = 128;
        let op = Op::RecvMsg { handle: b.as_ref(), msg: &raw mut msg, flags: 0 };
        let n = rig.run(op).into_result().expect("received");
        assert_eq!(&bytes[..n], text);
        assert_eq!(msg.msg_flags & c::MSG_TRUNC != 0, cut);
        let source = bast_io::SockAddr::from_bytes(&name[..msg.msg_namelen as usize]);
        assert_eq!(inet(&source.expect("an address")), from);
    }
}

fn connected_datagrams(rig: &mut Rig) {
    let (a, b) = (rig.socket(c::SOCK_DGRAM), rig.socket(c::SOCK_DGRAM));
    rig.bind(&b, "127.0.0.1:0").expect("bound");
    let to = rig.name(&b, false).expect("a name");
    let ticket = rig.start_connect(&a, to);
    assert_eq!(rig.wait(ticket).0, 0);
    let back = rig.name(&a, false).expect("a name");
    let ticket = rig.start_connect(&b, back);
    assert_eq!(rig.wait(ticket).0, 0);
    let waiting = rig.start_recv(b.as_ref(), 100, 0);
    assert!(rig.is_stuck(waiting));
    assert_eq!(rig.send(&a, b"ping").expect("sent"), 4);
    assert_eq!(rig.received(waiting).expect("received"), b"ping");
    assert_eq!(rig.send(&b, b"pong!").expect("sent"), 5);
    assert_eq!(rig.recv(&a, 100).expect("received"), b"pong!");
}

fn poll_readiness(rig: &mut Rig) {
    use bast_io::Interest::{Readable, Writable};
    let (listener, addr) = rig.listener(16);
    let connection = rig.start(Op::Poll { handle: listener.as_ref(), interest: Readable });
    assert!(rig.is_stuck(connection));
    let a = rig.connect(addr).expect("connected");
    assert_eq!(rig.wait(connection).0, 0);
    let b = rig.accept(&listener);

    let readable = rig.start(Op::Poll { handle: b.as_ref(), interest: Readable });
    assert_eq!(rig.run(Op::Poll { handle: b.as_ref(), interest: Writable }).0, 0);
    assert!(rig.is_stuck(readable));
    rig.send_all(&a, b"x");
    assert_eq!(rig.wait(readable).0, 0);
    // It stays so until the byte has been taken.
    assert_eq!(rig.run(Op::Poll { handle: b.as_ref(), interest: Readable }).0, 0);
    assert_eq!(rig.recv(&b, 1).expect("received"), b"x");
    let readable = rig.start(Op::Poll { handle: b.as_ref(), interest: Readable });
    assert!(rig.is_stuck(readable));

    let (blocked, _) = rig.fill(&a);
    let writable = rig.start(Op::Poll { handle: a.as_ref(), interest: Writable });
    // (A kernel may find room though nobody reads; on a completion port a send may be stuck with some room left.)
    assert!(rig.is_stuck(writable) || !rig.is_sim());
    let mut reading = rig.start_recv(b.as_ref(), 64 << 10, 0);
    while rig.peek(blocked).is_none() || rig.peek(writable).is_none() {
        if rig.peek(reading).is_some() {
            assert!(!rig.received(reading).expect("received").is_empty());
            reading = rig.start_recv(b.as_ref(), 64 << 10, 0);
        }
        rig.linger(1);
    }
    rig.cancel(reading);
    let _ = rig.wait(reading);
    assert!(rig.wait(blocked).into_result().expect("sent") > 0);
    assert_eq!(rig.wait(writable).0, 0);
    // `readable` has seen the flood; the end of the stream is readable too.
    assert_eq!(rig.wait(readable).0, 0);
    drop(a);
    assert_eq!(rig.run(Op::Poll { handle: b.as_ref(), interest: Readable }).0, 0);
}
