//! Descriptors that travel, under bad conditions: none is lost, and none stays open that nobody owns.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bast::net::{RecvBatch, UdpSocket};
use bast::os::unix::net::{UnixDatagram, UnixStream};
use bast::process::Command;

use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, until};

/// Whether the last reading end of the pipe has been closed.
fn is_unread(writer: &mut std::io::PipeWriter) -> bool {
    match writer.write_all(b"x") {
        Ok(()) => false,
        Err(error) => error.kind() == ErrorKind::BrokenPipe,
    }
}

#[test]
fn each_message_of_a_stream_keeps_its_own() {
    needs_kernel!();
    run(|| {
        let (a, mut b) = UnixStream::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        a.send_with_fds(b"ab", &[null.as_fd()]).unwrap();
        a.send_with_fds(b"cde", &[null.as_fd(), null.as_fd()]).unwrap();
        a.send_with_fds(b"f", &[]).unwrap();
        let mut buf = [0; 16];
        // More room than the first message: the kernel stops where other descriptors begin.
        let (n, fds, cut) = b.recv_with_fds(&mut buf, 8).unwrap();
        assert_eq!((n, fds.len(), cut), (2, 1, false));
        // Less room than the second: they come with its first byte.
        let (n, fds, cut) = b.recv_with_fds(&mut buf[..1], 8).unwrap();
        assert_eq!((n, fds.len(), cut), (1, 2, false));
        let (n, fds, cut) = b.recv_with_fds(&mut buf, 8).unwrap();
        assert!(n >= 2 && fds.is_empty() && !cut);
        drop(a);
        b.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(b.recv_with_fds(&mut buf, 8).map(|(n, fds, _)| (n, fds.len())).unwrap(), (0, 0));
    });
}

#[test]
fn those_that_nobody_takes_are_closed() {
    needs_kernel!();
    run(|| {
        for way in 0..3 {
            let (a, mut b) = UnixStream::pair().unwrap();
            let (reader, mut writer) = std::io::pipe().unwrap();
            a.send_with_fds(b"x", &[reader.as_fd()]).unwrap();
            drop(reader);
            assert!(!is_unread(&mut writer), "it is on its way");
            match way {
                // Read as bytes are read.
                0 => b.read_exact(&mut [0]).unwrap(),
                // Received without room for any.
                1 => assert!(b.recv_with_fds(&mut [0], 0).unwrap().2),
                // Never received.
                _ => drop((a, b)),
            }
            until("closed", || is_unread(&mut writer));
        }
    });
}

#[test]
fn a_receive_that_is_given_up_loses_none() {
    needs_kernel!();
    run(|| {
        const COUNT: usize = 300;
        let (a, b) = UnixDatagram::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        let sender = bast::spawn(move || {
            for n in 0..COUNT {
                a.send_with_fds(b"x", &[null.as_fd()]).unwrap();
                bast::sleep(Duration::from_micros(n as u64 % 7 * 30));
            }
        });
        let (mut got, mut given_up) = (0, 0);
        while got < COUNT {
            let limit = Duration::from_micros(10 + given_up % 11 * 20);
            match bast::timeout(limit, || b.recv_with_fds(&mut [0; 8], 4)) {
                Ok(received) => got += received.unwrap().1.len(),
                Err(_) => given_up += 1,
            }
            bast::yield_now();
        }
        sender.join().unwrap();
    });
}

/// Set for the copy of this program that may have few descriptors.
const FEW: &str = "BAST_TEST_FEW_DESCRIPTORS";

/// How many more descriptors there are.
fn room() -> usize {
    let opened: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    opened.len()
}

#[test]
fn without_room_for_descriptors_nothing_leaks() {
    needs_kernel!();
    if std::env::var_os(FEW).is_none() {
        let name = "unix_rights::without_room_for_descriptors_nothing_leaks";
        let child = Command::new("sh")
            .args(["-c", "ulimit -n 100 && exec \"$@\"", "sh"])
            .args(crate::harness::runner())
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads", "1"])
            .env(FEW, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        let wrong = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && said.contains("1 passed"), "{said}\n{wrong}");
        return;
    }
    run(|| {
        let (a, b) = UnixStream::pair().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let five: [BorrowedFd<'_>; 5] = [reader.as_fd(); 5];
        let before = room();
        assert!(before > 10);
        for left in [0, 1, 3, 5] {
            // All but so many are in use.
            let mut taken: Vec<File> =
                (0..before).map(|_| File::open("/dev/null").unwrap()).collect();
            taken.truncate(before - left);
            a.send_with_fds(b"five", &five).unwrap();
            let mut buf = [0; 8];
            let (n, fds, cut) = b.recv_with_fds(&mut buf, 8).unwrap();
            assert_eq!((&buf[..n], fds.len(), cut), (&b"five"[..], left, left < 5));
            if left == 0 {
                // Others say so too, and clearly.
                for error in [
                    UnixStream::pair().map(drop),
                    UdpSocket::bind("127.0.0.1:0").map(drop),
                    UdpSocket::bind_per_worker("127.0.0.1:0").map(drop),
                    bast::net::TcpListener::bind_per_worker("127.0.0.1:0").map(drop),
                    bast::signal::unix::signal(bast::signal::unix::SignalKind::hangup()).map(drop),
                ] {
                    assert_eq!(error.unwrap_err().raw_os_error(), Some(24), "EMFILE");
                }
            }
            drop((fds, taken));
            assert_eq!(room(), before, "with {left} left");
        }
        // A batch needs no descriptor.
        let (c, d) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        let to = d.local_addr().unwrap();
        let list = [bast::net::Transmit::new(&[0; 100]).segmented(50).to(to)];
        assert_eq!(c.send_many(&list).unwrap(), 2);
        let (mut batch, mut got) = (RecvBatch::new(4, 100), 0);
        while got < 2 {
            got += d.recv_many(&mut batch).unwrap();
        }
        drop(taken);
        drop(reader);
        assert!(is_unread(&mut writer));
    });
}
