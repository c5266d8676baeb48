//! Cancelling whatever waits: it ends, once, with `ECANCELED`, and leaves the handle usable.

use bast_io::{Handle, Interest, Kind, Op, c};

use crate::harness::{Rig, Ticket};

on_every_driver!(
    accept,
    recv,
    peek,
    recvmsg,
    datagram,
    read_as_of_a_file,
    blocked_send,
    blocked_sendmsg,
    blocked_sendfile,
    poll,
    connect_to_a_full_backlog,
    twice,
    after_completion,
    the_middle_of_a_queue,
);

#[track_caller]
fn cancelled(rig: &mut Rig, ticket: Ticket) {
    assert!(rig.is_stuck(ticket), "it should wait: {:?}", rig.peek(ticket));
    rig.cancel(ticket);
    let outcome = rig.wait(ticket);
    assert!(outcome.is_errno(c::ECANCELED), "{outcome:?}");
}

/// Cancels what only the kernel keeps waiting; how much it came to, and whether it was cancelled. Nobody reads, but that
/// something is stuck is never certain: who would go on with it may wait for a processor (Wine's server is a process), and
/// a kernel probes a full peer. So it may go on in the moment in which it is cancelled, and then its result counts.
fn cancel_or_count(rig: &mut Rig, ticket: Ticket) -> (usize, bool) {
    let _ = rig.is_stuck(ticket);
    rig.cancel(ticket);
    match rig.wait(ticket).into_result() {
        Ok(n) => (n, false),
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
            (0, true)
        }
    }
}

fn accept(rig: &mut Rig) {
    let (listener, addr) = rig.listener(16);
    let ticket = rig.start_accept(&listener);
    cancelled(rig, ticket);
    let _client = rig.connect(addr).expect("connected");
    drop(rig.accept(&listener));
}

fn recv(rig: &mut Rig) {
    let (a, b) = rig.pair();
    for _ in 0..10 {
        let ticket = rig.start_recv(a.as_ref(), 10, 0);
        cancelled(rig, ticket);
    }
    rig.send_all(&b, b"after");
    assert_eq!(rig.recv_exact(&a, 5), b"after");
}

fn peek(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let ticket = rig.start_recv(a.as_ref(), 10, c::MSG_PEEK);
    cancelled(rig, ticket);
    rig.send_all(&b, b"after");
    assert_eq!(rig.recv_exact(&a, 5), b"after");
}

fn recvmsg(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let mut bytes = [0_u8; 8];
    let mut iov = c::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 };
    // SAFETY: a msghdr of zeros is valid.
    let mut msg: c::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    let ticket = rig.start(Op::RecvMsg { handle: a.as_ref(), msg: &raw mut msg, flags: 0 });
    cancelled(rig, ticket);
    rig.send_all(&b, b"after");
    assert_eq!(rig.recv_exact(&a, 5), b"after");
}

fn blocked_send(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let (ticket, sent) = rig.fill(&a);
    // A send that has moved a part of its bytes when it is cancelled may say so.
    let total = sent + cancel_or_count(rig, ticket).0;
    drop(a);
    let got = rig.recv_exact(&b, total + 1).len();
    assert_eq!(got, total, "what was reported as sent is what arrives");
}

fn datagram(rig: &mut Rig) {
    let socket = rig.socket(c::SOCK_DGRAM);
    rig.bind(&socket, "127.0.0.1:0").expect("bound");
    let ticket = rig.start_recv(socket.as_ref(), 10, 0);
    cancelled(rig, ticket);
}

fn read_as_of_a_file(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let ticket = rig.start_read(a.as_ref(), 10, None);
    cancelled(rig, ticket);
    let mut bytes = [0_u8; 8];
    let iov = c::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 };
    let op = Op::ReadV { handle: a.as_ref(), iov: &raw const iov, count: 1, offset: None };
    let ticket = rig.start(op);
    cancelled(rig, ticket);
    rig.send_all(&b, b"after");
    assert_eq!(rig.recv_exact(&a, 5), b"after");
}

fn blocked_sendmsg(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let (first, before) = rig.fill(&a);
    let mut sent = before + cancel_or_count(rig, first).0;
    // Large: a kernel that has no room for more packets may still have some in the last one.
    let mut bytes = vec![9_u8; 256 << 10];
    let mut iov = c::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() as _ };
    // SAFETY: a msghdr of zeros is valid.
    let mut msg: c::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    let message = Op::SendMsg { handle: a.as_ref(), msg: &raw const msg, flags: 0 };
    let vectored = Op::WriteV { handle: a.as_ref(), iov: &raw const iov, count: 1, offset: None };
    // The room that the kernel still finds has an end.
    let mut cancelled = 0;
    while cancelled < 3 {
        let tickets =
            [rig.start(message), rig.start(vectored), rig.start_write(a.as_ref(), &bytes, None)];
        cancelled = 0;
        for ticket in tickets {
            let (n, was_cancelled) = cancel_or_count(rig, ticket);
            assert!(n > 0 || was_cancelled);
            sent += n;
            cancelled += usize::from(was_cancelled);
        }
    }
    drop(a);
    assert_eq!(rig.recv_exact(&b, sent + 1).len(), sent, "reported as sent, and received");
}

fn blocked_sendfile(rig: &mut Rig) {
    let temp = crate::files::Temp::new(rig, "blocked_sendfile");
    let file = temp.open(rig, c::O_CREAT | c::O_RDWR).expect("created");
    crate::files::write_all(rig, &file, &[5; 256 << 10], Some(0));
    let (a, b) = rig.pair();
    let (first, before) = rig.fill(&a);
    let mut sent = before + cancel_or_count(rig, first).0;
    let mut was_cancelled = false;
    while !was_cancelled {
        let op = Op::SendFile { to: a.as_ref(), file: file.as_ref(), offset: 0, len: 256 << 10 };
        let ticket = rig.start(op);
        let n;
        (n, was_cancelled) = cancel_or_count(rig, ticket);
        assert!(n > 0 || was_cancelled);
        sent += n;
    }
    drop(a);
    assert_eq!(rig.recv_exact(&b, sent + 1).len(), sent, "reported as sent, and received");
}

fn poll(rig: &mut Rig) {
    let (a, b) = rig.pair();
    for _ in 0..3 {
        let ticket = rig.start(Op::Poll { handle: a.as_ref(), interest: Interest::Readable });
        cancelled(rig, ticket);
    }
    // What it says of a full connection is that it was cancelled, or the truth: then there is less room the next time.
    loop {
        let (blocked, _) = rig.fill(&a);
        let ticket = rig.start(Op::Poll { handle: a.as_ref(), interest: Interest::Writable });
        let (_, was_cancelled) = cancel_or_count(rig, ticket);
        let (more, _) = cancel_or_count(rig, blocked);
        if was_cancelled {
            break;
        }
        let (handle, buf) = (a.as_ref(), b"x".as_ptr());
        let now = rig.run(Op::Send { handle, buf, len: 1, flags: c::MSG_DONTWAIT });
        assert!(more > 0 || now.0 == 1, "ready, and without room: {now:?}");
    }
    rig.send_all(&b, b"x");
    assert_eq!(rig.run(Op::Poll { handle: a.as_ref(), interest: Interest::Readable }).0, 0);
}

fn connect_to_a_full_backlog(rig: &mut Rig) {
    let (_listener, addr) = rig.listener(1);
    let mut sockets = Vec::new();
    for _ in 0..16 {
        let socket = rig.socket(c::SOCK_STREAM);
        let ticket = rig.start_connect(&socket, addr);
        sockets.push(socket);
        if cancel_or_count(rig, ticket).1 {
            return;
        }
    }
    panic!("sixteen connections fit into a backlog of one");
}

fn twice(rig: &mut Rig) {
    let (a, b) = rig.pair();
    let ticket = rig.start_recv(a.as_ref(), 10, 0);
    assert!(rig.is_stuck(ticket));
    rig.cancel(ticket);
    rig.cancel(ticket);
    rig.cancel(ticket);
    assert!(rig.wait(ticket).is_errno(c::ECANCELED));
    // No late completion, and no effect on the next one.
    let ticket = rig.start_recv(a.as_ref(), 10, 0);
    assert!(rig.is_stuck(ticket));
    rig.send_all(&b, b"x");
    assert_eq!(rig.received(ticket).expect("received"), b"x");
    rig.settle();
}

fn after_completion(rig: &mut Rig) {
    // The data is there; nobody has polled; then comes the cancel. Either the byte is reported or
    // it is still there.
    let (a, b) = rig.pair();
    for _ in 0..20 {
        let ticket = rig.start_recv(a.as_ref(), 10, 0);
        rig.send_all(&b, b"x");
        rig.cancel(ticket);
        match rig.received(ticket) {
            Ok(bytes) => assert_eq!(bytes, b"x"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                assert_eq!(rig.recv(&a, 10).expect("received"), b"x");
            }
        }
    }
}

fn the_middle_of_a_queue(rig: &mut Rig) {
    let (listener, addr) = rig.listener(16);
    let accepts: Vec<_> = (0..8).map(|_| rig.start_accept(&listener)).collect();
    for index in [3, 0, 7, 5] {
        cancelled(rig, accepts[index]);
    }
    let clients: Vec<_> = (0..4).map(|_| rig.connect(addr).expect("connected")).collect();
    for index in [1, 2, 4, 6] {
        let fd = rig.wait(accepts[index]).into_result().expect("accepted") as i32;
        // SAFETY: it was made for us.
        drop(unsafe { Handle::from_raw(fd, Kind::Stream) });
    }
    drop(clients);
}

/// What the simulator does not have: pipes, other people's descriptors, addresses that swallow.
mod with_a_kernel {
    use super::*;

    on_real_drivers!(pipe, full_pipe, blackhole);

    pub fn pipe_ends() -> (Handle, Handle) {
        bast_io::pipe::pair().expect("a pipe")
    }

    fn pipe(rig: &mut Rig) {
        let (reader, writer) = pipe_ends();
        let ticket = rig.start_read(reader.as_ref(), 10, None);
        cancelled(rig, ticket);
        let write = rig.start_write(writer.as_ref(), b"after", None);
        assert_eq!(rig.wait(write).0, 5);
        let read = rig.start_read(reader.as_ref(), 10, None);
        assert_eq!(rig.received(read).expect("read"), b"after");
    }

    fn full_pipe(rig: &mut Rig) {
        let (reader, writer) = pipe_ends();
        let mut written = 0;
        loop {
            let ticket = rig.start_write(writer.as_ref(), &[7; 4096], None);
            let (n, was_cancelled) = cancel_or_count(rig, ticket);
            written += n;
            if was_cancelled {
                break;
            }
        }
        drop(writer);
        let mut read = 0;
        loop {
            let ticket = rig.start_read(reader.as_ref(), 64 << 10, None);
            let n = rig.received(ticket).expect("read").len();
            read += n;
            if n == 0 {
                break;
            }
        }
        assert_eq!(read, written);
    }

    fn blackhole(rig: &mut Rig) {
        // TEST-NET-1: routed nowhere. A machine without any route fails it at once, and a network may at any time.
        let socket = rig.socket(c::SOCK_STREAM);
        let ticket = rig.start_connect(&socket, "192.0.2.1:9".parse().expect("an address"));
        let _ = rig.is_stuck(ticket);
        rig.cancel(ticket);
        let outcome = rig.wait(ticket);
        if !outcome.is_errno(c::ECANCELED) {
            println!("no blackhole here: {outcome:?}");
            assert!(outcome.0 < 0, "nobody lives at 192.0.2.1");
        }
    }
}

/// What is Unix' own: splices, other people's descriptors.
#[cfg(unix)]
mod on_unix {
    use std::os::fd::AsFd;

    use bast_io::HandleRef;

    use super::*;

    on_real_drivers!(foreign_poll);
    #[cfg(all(target_os = "linux", not(bast_kqueue)))]
    mod splice {
        use super::waiting_splice;
        on_real_drivers!(waiting_splice);
    }

    #[cfg(all(target_os = "linux", not(bast_kqueue)))]
    fn waiting_splice(rig: &mut Rig) {
        let (reader, writer) = pipe_ends();
        let (a, b) = rig.pair();
        let op = Op::Splice {
            from: reader.as_ref(),
            from_offset: None,
            to: a.as_ref(),
            to_offset: None,
            len: 100,
        };
        let ticket = rig.start(op);
        cancelled(rig, ticket);
        let write = rig.start_write(writer.as_ref(), b"after", None);
        assert_eq!(rig.wait(write).0, 5);
        assert_eq!(rig.run(op).0, 5);
        assert_eq!(rig.recv_exact(&b, 5), b"after");
    }

    fn foreign_poll(rig: &mut Rig) {
        let (fd, _writer) = std::io::pipe().expect("a pipe");
        for _ in 0..3 {
            let handle = HandleRef::foreign(fd.as_fd());
            let ticket = rig.start(Op::Poll { handle, interest: Interest::Readable });
            cancelled(rig, ticket);
        }
        assert_eq!(rig.pending(), 0);
    }
}

pub use with_a_kernel::pipe_ends;
