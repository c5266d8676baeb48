//! Sockets between processes: what std has no stable counterpart for.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};

use bast::os::unix::net::{UnixDatagram, UnixStream};

use crate::harness::{error_of, needs_kernel};

#[test]
fn descriptors_travel_with_bytes() {
    needs_kernel!();
    bast::spawn(|| {
        let (a, b) = UnixStream::pair().unwrap();
        let pipes: Vec<_> = (0..5).map(|_| std::io::pipe().unwrap()).collect();
        let fds: Vec<_> = pipes.iter().map(|(reader, _)| reader.as_fd()).collect();
        assert_eq!(a.send_with_fds(b"five", &fds).unwrap(), 4);
        a.send_with_fds(b"none", &[]).unwrap();
        let mut buf = [0; 4];
        let (n, got, cut) = b.recv_with_fds(&mut buf, 8).unwrap();
        assert_eq!((n, got.len(), cut, &buf), (4, 5, false, b"five"));
        let (n, none, cut) = b.recv_with_fds(&mut buf, 8).unwrap();
        assert_eq!((n, none.len(), cut), (4, 0, false));
        for (n, (fd, (reader, mut writer))) in got.into_iter().zip(pipes).enumerate() {
            assert_ne!(fd.as_raw_fd(), reader.as_raw_fd());
            drop(reader);
            writer.write_all(&[n as u8]).unwrap();
            let mut byte = [9];
            std::fs::File::from(fd).read_exact(&mut byte).unwrap();
            assert_eq!(byte[0], n as u8);
        }
    })
    .join()
    .unwrap();
}

#[test]
fn what_does_not_fit_is_said_and_closed() {
    needs_kernel!();
    let (a, b) = UnixDatagram::pair().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let others: Vec<_> = (0..4).map(|_| reader.try_clone().unwrap()).collect();
    let fds: Vec<_> = others.iter().map(AsFd::as_fd).collect();
    a.send_with_fds(b"x", &fds).unwrap();
    drop((others, reader));
    let (n, got, cut) = b.recv_with_fds(&mut [0; 8], 2).unwrap();
    assert_eq!((n, got.len(), cut), (1, 2, true));
    drop(got);
    // All reading ends are closed: the kernel did it for those that were cut off.
    assert_eq!(error_of(|| writer.write(b"x")).kind(), ErrorKind::BrokenPipe);
}

#[test]
fn bad_messages_are_refused() {
    needs_kernel!();
    let (a, _b) = UnixStream::pair().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let many = vec![null.as_fd(); 254];
    assert_eq!(a.send_with_fds(b"x", &many).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(a.send_with_fds(b"", &many[..1]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(a.send_with_fds(b"x", &many[..253]).unwrap(), 1);
}

#[test]
fn waiting_can_be_cancelled() {
    needs_kernel!();
    let (_a, b) = UnixDatagram::pair().unwrap();
    let fiber = bast::spawn(move || b.recv_with_fds(&mut [0; 8], 1).map(drop));
    std::thread::sleep(std::time::Duration::from_millis(10));
    fiber.cancel();
    assert!(fiber.join().unwrap_err().is::<bast::Cancelled>());
}
