//! Twins: sockets between processes.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::fs::Temp;
use crate::harness::{error_of, needs_kernel, twins, until};

twins! {
    fn a_stream_by_path() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*path));
        assert_eq!(UnixListener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        let server = spawn(move || {
            let (mut stream, from) = listener.accept().unwrap();
            assert!(from.is_unnamed());
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            stream.write_all(text.to_uppercase().as_bytes()).unwrap();
        });
        let mut stream = UnixStream::connect(&path).unwrap();
        assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(&*path));
        assert!(stream.local_addr().unwrap().is_unnamed());
        stream.write_all(b"shout").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "SHOUT");
        server.join().unwrap();
        assert_eq!(error_of(|| UnixStream::connect(&path)).kind(), ErrorKind::ConnectionRefused);
        assert_eq!(UnixStream::connect(dir.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    fn names_in_the_abstract_space() {
        needs_kernel!();
        #[cfg(target_os = "linux")]
        {
        use bast::os::linux::net::SocketAddrExt;
        let name = format!("bast-{}-{:?}", std::process::id(), std::thread::current().id());
        let addr = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let listener = UnixListener::bind_addr(&addr).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
        let client = UnixStream::connect_addr(&addr).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        (&client).write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        }
    }

    fn a_pair_carries_much() {
        needs_kernel!();
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let reader = spawn(move || {
            let mut all = Vec::new();
            b.read_to_end(&mut all).unwrap();
            all
        });
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7) as u8).collect();
        a.write_all(&sent).unwrap();
        drop(a);
        assert!(reader.join().unwrap() == sent);
    }

    fn timeouts_and_modes() {
        needs_kernel!();
        let (mut a, b) = UnixStream::pair().unwrap();
        a.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(a.read_timeout().unwrap(), Some(Duration::from_millis(20)));
        assert_eq!(undisturbed(|| a.read(&mut [0])).unwrap_err().kind(), ErrorKind::WouldBlock);
        a.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        let error = loop {
            if let Err(error) = undisturbed(|| a.write(&[0; 65536])) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        a.set_nonblocking(true).unwrap();
        assert_eq!(a.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(a.take_error().unwrap().is_none());
        drop(b);
        until("it is broken", || {
            let kind = a.write(b"x").unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::WouldBlock), "{kind}");
            kind == ErrorKind::BrokenPipe
        });
    }

    fn clones() {
        needs_kernel!();
        let (a, mut b) = UnixStream::pair().unwrap();
        let mut clone = a.try_clone().unwrap();
        clone.write_all(b"1").unwrap();
        drop(clone);
        (&a).write_all(b"2").unwrap();
        drop(a);
        let mut text = String::new();
        b.read_to_string(&mut text).unwrap();
        assert_eq!(text, "12");
    }

    fn datagrams() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("socket");
        let a = UnixDatagram::bind(&path).unwrap();
        let b = UnixDatagram::unbound().unwrap();
        assert_eq!(b.send_to(b"hello", &path).unwrap(), 5);
        let mut buf = [0; 16];
        let (n, from) = a.recv_from(&mut buf).unwrap();
        assert_eq!((n, from.is_unnamed()), (5, true));
        b.connect(&path).unwrap();
        assert_eq!(b.peer_addr().unwrap().as_pathname(), Some(&*path));
        b.send(b"again").unwrap();
        assert_eq!(a.recv(&mut buf).unwrap(), 5);
        a.set_nonblocking(true).unwrap();
        assert_eq!(a.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        let (a, b) = UnixDatagram::pair().unwrap();
        let receiver = spawn(move || {
            let mut got = 0;
            for _ in 0..1000 {
                got += b.recv(&mut [0; 64]).unwrap();
            }
            got
        });
        for _ in 0..1000 {
            // Waits when the receiver has no room.
            a.send(&[7; 64]).unwrap();
        }
        assert_eq!(receiver.join().unwrap(), 64_000);
        assert_eq!(UnixDatagram::unbound().unwrap().send(b"x").unwrap_err().kind(), ErrorKind::NotConnected);
        a.shutdown(Shutdown::Both).unwrap();
    }

    fn many_connections() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = spawn(move || {
            for stream in listener.incoming().take(50) {
                let mut stream = stream.unwrap();
                spawn(move || {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    stream.write_all(&[byte[0] + 1]).unwrap();
                });
            }
        });
        let clients: Vec<_> = (0..50).map(|n| {
            let path = path.clone();
            spawn(move || {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.write_all(&[n]).unwrap();
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                assert_eq!(byte[0], n + 1);
            })
        }).collect();
        for client in clients {
            client.join().unwrap();
        }
        server.join().unwrap();
    }
}
