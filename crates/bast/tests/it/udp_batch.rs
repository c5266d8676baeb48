//! Many datagrams at once: what std has no counterpart for. Each body runs in a fiber and on a plain thread (whose
//! sockets are the system's, so that fibers of the simulator cannot share them).

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast::net::{RecvBatch, Transmit, UdpSocket};
use bast_io::{Handle, Kind, SockOpt};
use bast_rt::ops;

use crate::harness::{OVERDUE, needs_kernel, on_bast, on_std, simulated, until};

fn everywhere(body: fn()) {
    on_bast::run(body);
    if !simulated() {
        on_std::run(body);
    }
}

fn pair() -> (UdpSocket, UdpSocket) {
    pair_at("127.0.0.1:0")
}

fn pair_at(addr: &str) -> (UdpSocket, UdpSocket) {
    let (a, b) = (UdpSocket::bind(addr).unwrap(), UdpSocket::bind(addr).unwrap());
    // What a test sends is there, or the test fails; it does not hang.
    b.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (a, b)
}

/// The next `count` datagrams.
fn receive(socket: &UdpSocket, batch: &mut RecvBatch, count: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut all = Vec::new();
    while all.len() < count {
        let n = socket.recv_many(batch).unwrap();
        assert!(n > 0 && n == batch.len() && n == batch.iter().count());
        all.extend(batch.iter().map(|datagram| {
            assert!(!datagram.is_truncated);
            (datagram.contents.to_vec(), datagram.source)
        }));
    }
    all
}

#[test]
fn all_come_whole_in_order_and_say_who_sent_them() {
    everywhere(|| {
        let (a, b) = pair();
        let (to, from) = (b.local_addr().unwrap(), a.local_addr().unwrap());
        let texts: Vec<Vec<u8>> = (0..70).map(|n| vec![n; usize::from(n) * 3]).collect();
        let expected: Vec<_> = texts.iter().map(|text| (text.clone(), from)).collect();
        for capacity in [1, 7, 32, 100] {
            let mut batch = RecvBatch::new(capacity, 300);
            let unconnected: Vec<_> = texts.iter().map(|text| Transmit::new(text).to(to)).collect();
            assert_eq!(a.send_many(&unconnected).unwrap(), 70);
            assert_eq!(receive(&b, &mut batch, 70), expected);
        }
        a.connect(to).unwrap();
        let connected: Vec<_> = texts.iter().map(|text| Transmit::new(text)).collect();
        assert_eq!(a.send_many(&connected).unwrap(), 70);
        assert_eq!(receive(&b, &mut RecvBatch::new(32, 300), 70), expected);
        assert_eq!(a.send_many(&[]).unwrap(), 0);
    });
}

#[test]
fn segments_are_datagrams_with_and_without_gro() {
    everywhere(|| {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            for gro in [false, true] {
                let (a, b) = pair_at(addr);
                b.set_gro(gro).unwrap();
                assert!(gro || !b.gro().unwrap());
                let to = b.local_addr().unwrap();
                // More segments than go into one message (64). All must have room at the receiver: Windows counts bytes,
                // up to 64 KiB; Linux counts what it keeps them in, which is 92 of 1000 bytes if they were sent one by one.
                let data: Vec<u8> = (0..49_500_u32).map(|n| (n / 70) as u8).collect();
                let (last, expected) = (Transmit::new(b"").segmented(9).to(to), data.chunks(700));
                let sent = a.send_many(&[Transmit::new(&data).segmented(700).to(to), last]);
                assert_eq!(sent.unwrap(), 72);
                let got = receive(&b, &mut RecvBatch::new(8, 65_535), 72);
                assert!(got.iter().map(|(bytes, _)| &bytes[..]).eq(expected.chain([&b""[..]])));
                assert!(got.iter().all(|(_, from)| *from == a.local_addr().unwrap()));
            }
        }
        let (a, b) = pair();
        let to = b.local_addr().unwrap();
        b.set_gro(true).unwrap();
        if b.gro().unwrap() {
            // They are joined indeed: one message is all.
            a.send_many(&[Transmit::new(&[7; 20]).segmented(2).to(to)]).unwrap();
            assert_eq!(b.recv_many(&mut RecvBatch::new(1, 65_535)).unwrap(), 10);
        }
        let error = a.send_many(&[Transmit::new(b"x").to(to).segmented(0)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

/// A second handle of the same socket, for what the face has no name for.
#[allow(clippy::useless_conversion)] // It is one on Windows.
fn handle_of(socket: &UdpSocket) -> Handle {
    Handle::from_owned(crate::harness::duplicate(socket), Kind::Datagram)
}

#[test]
#[cfg_attr(windows, ignore = "no SO_NO_CHECK: segments are always sent one by one")]
fn where_the_kernel_does_not_cut_segments_are_sent_one_by_one() {
    needs_kernel!();
    everywhere(|| {
        let (a, b) = pair();
        // SO_NO_CHECK: without checksums there are no segments (EINVAL), as on some network cards (EIO).
        ops::set_flag(&handle_of(&a), SockOpt { level: 1, name: 11 }, true).unwrap();
        a.connect(b.local_addr().unwrap()).unwrap();
        let data = [7; 2500];
        let list =
            [Transmit::new(b"first"), Transmit::new(&data).segmented(1000), Transmit::new(b"last")];
        assert_eq!(a.send_many(&list).unwrap(), 5);
        let got = receive(&b, &mut RecvBatch::new(8, 2000), 5);
        assert!(got.iter().map(|(bytes, _)| bytes.len()).eq([5, 1000, 1000, 500, 4]));
    });
}

#[test]
fn what_is_cut_off_is_said() {
    everywhere(|| {
        let (a, b) = pair();
        let to = b.local_addr().unwrap();
        a.send_many(&[Transmit::new(b"too long").to(to), Transmit::new(b"fits").to(to)]).unwrap();
        let mut batch = RecvBatch::new(1, 4);
        b.recv_many(&mut batch).unwrap();
        let first = batch.iter().next().unwrap();
        assert_eq!((first.contents, first.is_truncated), (&b"too "[..], true));
        b.recv_many(&mut batch).unwrap();
        let second = batch.iter().next().unwrap();
        assert_eq!((second.contents, second.is_truncated), (&b"fits"[..], false));
        assert!(batch.len() == 1 && batch.capacity() == 1);
        batch.clear();
        assert!(batch.is_empty() && batch.iter().next().is_none());
    });
}

#[test]
fn an_error_stops_a_send_and_is_reported_when_it_is_the_first() {
    everywhere(|| {
        let (a, b) = pair();
        a.connect(b.local_addr().unwrap()).unwrap();
        let long = vec![0; 70_000];
        let list =
            [Transmit::new(b"1"), Transmit::new(b"2"), Transmit::new(&long), Transmit::new(b"4")];
        assert_eq!(a.send_many(&list).unwrap(), 2);
        let error = a.send_many(&list[2..]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(bast_io::c::EMSGSIZE), "EMSGSIZE");
        // A segment that no datagram can be is none in parts either.
        let error = a.send_many(&[Transmit::new(&long).segmented(66_000)]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(bast_io::c::EMSGSIZE), "EMSGSIZE");
        assert_eq!(a.send_many(&list[3..]).unwrap(), 1);
        let got = receive(&b, &mut RecvBatch::new(4, 10), 3);
        assert!(got.iter().map(|(bytes, _)| &bytes[..]).eq([b"1", b"2", b"4"]));
    });
}

#[test]
fn nobody_to_send_to_and_nobody_there() {
    needs_kernel!();
    everywhere(|| {
        let (a, b) = pair();
        let mut batch = RecvBatch::new(4, 10);
        let error = a.send_many(&[Transmit::new(b"x")]).unwrap_err();
        // (Windows says WSAEDESTADDRREQ or WSAENOTCONN, Wine WSAEINVAL.)
        let codes: &[_] = if cfg!(windows) { &[10039, 10057, 10022] } else { &[89] };
        assert!(error.raw_os_error().is_some_and(|code| codes.contains(&code)), "EDESTADDRREQ");
        a.connect(b.local_addr().unwrap()).unwrap();
        a.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        drop(b);
        // The network answers that nobody is there; the next call hears of it, once. (A child that another test is
        // just starting has the socket for a moment.)
        until("it is refused", || {
            let _ = a.send_many(&[Transmit::new(b"x")]);
            let kind = a.recv_many(&mut batch).unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::ConnectionRefused | OVERDUE), "{kind}");
            kind == ErrorKind::ConnectionRefused
        });
        a.set_nonblocking(true).unwrap();
        assert_eq!(a.recv_many(&mut batch).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(batch.is_empty());
    });
}

#[test]
fn a_receive_waits_and_no_longer_than_told() {
    everywhere(|| {
        let (a, b) = pair();
        let (to, mut batch) = (b.local_addr().unwrap(), RecvBatch::new(4, 10));
        b.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(b.recv_many(&mut batch).unwrap_err().kind(), OVERDUE);
        b.set_read_timeout(None).unwrap();
        assert!(bast::timeout(Duration::from_millis(20), || b.recv_many(&mut batch)).is_err());
        let sender = bast::spawn(move || {
            bast::sleep(Duration::from_millis(20));
            a.send_many(&[Transmit::new(b"late").to(to)]).unwrap();
        });
        assert_eq!(b.recv_many(&mut batch).unwrap(), 1);
        sender.join().unwrap();
        let waiting = bast::spawn(move || b.recv_many(&mut batch).map(drop));
        bast::sleep(Duration::from_millis(5));
        waiting.cancel();
        assert!(waiting.join().unwrap_err().is::<bast::Cancelled>());
    });
}

#[test]
fn many_receive_from_one_socket() {
    everywhere(|| {
        let (a, b) = pair();
        a.connect(b.local_addr().unwrap()).unwrap();
        let (b, count) = (Arc::new(b), Arc::new(AtomicUsize::new(0)));
        let receivers: Vec<_> = (0..8)
            .map(|_| {
                let (b, count) = (b.clone(), count.clone());
                bast::spawn(move || {
                    let mut batch = RecvBatch::new(3, 16);
                    while batch.iter().all(|datagram| datagram.contents == b"data") {
                        count.fetch_add(b.recv_many(&mut batch).unwrap(), SeqCst);
                    }
                })
            })
            .collect();
        for burst in 1..=50 {
            assert_eq!(a.send_many(&[Transmit::new(b"data"); 20]).unwrap(), 20);
            // Datagrams for which there is no room are lost: each burst is taken before the next.
            until("the burst is taken", || count.load(SeqCst) >= burst * 20);
        }
        assert_eq!(count.load(SeqCst), 1000);
        // An end for each receiver, and more if one has taken several.
        until("each has its end", || {
            a.send_many(&[Transmit::new(b"")]).unwrap();
            receivers.iter().all(bast::JoinHandle::is_finished)
        });
        receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
    });
}

#[cfg(unix)] // local sockets
#[test]
fn a_send_waits_for_room() {
    needs_kernel!();
    everywhere(|| {
        // Datagrams of UDP are never held up on their way to ourselves; those between processes are.
        let (from, to) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let from = Handle::from_owned(from.into(), Kind::Datagram);
        let list = [Transmit::new(b"one of many"); 1000];
        let none = ops::send_many(&from, &list, ops::DONT_WAIT, None).unwrap();
        assert!((1..1000).contains(&none), "{none}");
        let error = ops::send_many(&from, &list, ops::DONT_WAIT, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let limit = Some(Duration::from_millis(20));
        let error = ops::send_many(&from, &list, 0, limit).unwrap_err();
        assert_eq!(error.kind(), OVERDUE);
        let late = Duration::from_millis(20);
        assert!(bast::timeout(late, || ops::send_many(&from, &list, 0, None)).is_err());
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            (0..none + 1000).for_each(|_| assert_eq!(to.recv(&mut [0; 64]).unwrap(), 11));
        });
        assert_eq!(ops::send_many(&from, &list, 0, None).unwrap(), 1000);
        reader.join().unwrap();
    });
}
