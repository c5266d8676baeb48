//! Twins: connections, their data and their ends.

use std::io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::time::Duration;

use crate::harness::{error_of, std_differs_on_windows, twins};

/// Two ends of a connection, with the names of the face.
macro_rules! pair {
    () => {{
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        (client, server)
    }};
}
pub(crate) use pair;

/// More than the buffers of two sockets hold.
const BIG: usize = 16 << 20;

twins! {
    fn both_ends_know_each_other() {
        let (client, server) = pair!();
        assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
        assert!(client.local_addr().unwrap().port() != 0);
    }

    fn data_arrives_in_order() {
        let (mut client, mut server) = pair!();
        let writer = spawn(move || {
            for i in 0..2000u32 {
                client.write_all(&i.to_be_bytes()).unwrap();
            }
        });
        for i in 0..2000u32 {
            let mut bytes = [0; 4];
            server.read_exact(&mut bytes).unwrap();
            assert_eq!(u32::from_be_bytes(bytes), i);
        }
        assert_eq!(server.read(&mut [0; 4]).unwrap(), 0);
        writer.join().unwrap();
    }

    fn more_than_the_buffers_hold() {
        let (client, server) = pair!();
        let n = if crate::harness::simulated() { 1 << 20 } else { BIG };
        let writer = spawn(move || (&client).write_all(&vec![7; n]).unwrap());
        let mut all = Vec::new();
        (&server).read_to_end(&mut all).unwrap();
        assert!(all.len() == n && all.iter().all(|&byte| byte == 7));
        writer.join().unwrap();
    }

    fn two_directions_at_once() {
        let (client, server) = pair!();
        let n = if crate::harness::simulated() { 1 << 18 } else { BIG / 2 };
        scope(|s| {
            for (stream, byte) in [(&client, 1u8), (&server, 2)] {
                s.spawn(move || {
                    let mut stream = stream;
                    stream.write_all(&vec![byte; n]).unwrap();
                });
                s.spawn(move || {
                    let mut all = vec![0; n];
                    let mut stream = stream;
                    stream.read_exact(&mut all).unwrap();
                    assert!(all.iter().all(|&other| other == 3 - byte));
                });
            }
        });
    }

    fn lines_through_a_bufreader() {
        let (mut client, server) = pair!();
        client.write_all(b"one\ntwo\n\nfour").unwrap();
        drop(client);
        let lines: Vec<_> = BufReader::new(server).lines().map(Result::unwrap).collect();
        assert_eq!(lines, ["one", "two", "", "four"]);
    }

    fn empty_buffers() {
        let (mut client, mut server) = pair!();
        assert_eq!(client.write(&[]).unwrap(), 0);
        client.write_all(b"x").unwrap();
        assert_eq!(server.peek(&mut [0]).unwrap(), 1);
        assert_eq!(server.read(&mut []).unwrap(), 0);
        assert_eq!(server.read(&mut [0; 2]).unwrap(), 1);
        client.flush().unwrap();
    }

    fn peek_leaves_the_bytes() {
        let (mut client, mut server) = pair!();
        client.write_all(b"abc").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut buf = [0; 8];
        // Short transfers are legal, and the simulator makes them.
        while server.peek(&mut buf).unwrap() < 3 {
            yield_now();
        }
        assert_eq!(&buf[..3], b"abc");
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"abc");
        assert_eq!(server.peek(&mut buf).unwrap(), 0);
    }

    fn vectored() {
        let (mut client, mut server) = pair!();
        // No more than any buffer holds: nobody reads meanwhile.
        let data: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let mut sent = 0;
        while sent < data.len() {
            let rest = &data[sent..];
            let (a, b) = rest.split_at(rest.len() / 3);
            let n = client.write_vectored(&[IoSlice::new(&[]), IoSlice::new(a), IoSlice::new(b)]);
            sent += n.unwrap();
        }
        let (mut a, mut b, mut all) = ([0; 3], [0; 700], Vec::new());
        while all.len() < data.len() {
            let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
            let n = server.read_vectored(&mut bufs).unwrap();
            assert!(n > 0);
            all.extend_from_slice(&a[..n.min(3)]);
            all.extend_from_slice(&b[..n.saturating_sub(3)]);
        }
        assert_eq!(all, data);
    }

    fn vectored_beyond_the_kernels_limit() {
        std_differs_on_windows!("Wine refuses so many pieces");
        let (mut client, mut server) = pair!();
        let bytes: Vec<[u8; 1]> = (0..3000u32).map(|i| [i as u8]).collect();
        let slices: Vec<_> = bytes.iter().map(|byte| IoSlice::new(byte)).collect();
        let n = client.write_vectored(&slices).unwrap();
        assert!((1..=1024).contains(&n), "{n}");
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all, bytes[..n].concat());
    }

    fn half_close() {
        std_differs_on_windows!("WSAESHUTDOWN has no kind");
        let (mut client, mut server) = pair!();
        client.write_all(b"request").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let error = client.write(b"more").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "request");
        server.write_all(b"response").unwrap();
        drop(server);
        text.clear();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "response");
    }

    fn shutdown_wakes_a_reader() {
        std_differs_on_windows!("Wine does not wake it");
        let (client, _server) = pair!();
        let reader = {
            let mut client = client.try_clone().unwrap();
            spawn(move || client.read(&mut [0; 8]).unwrap())
        };
        sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        client.shutdown(Shutdown::Read).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    }

    fn shutdown_wakes_a_writer() {
        std_differs_on_windows!("what was begun waits for the peer");
        for how in [Shutdown::Write, Shutdown::Both] {
            let (client, _server) = pair!();
            let writer = {
                let mut client = client.try_clone().unwrap();
                spawn(move || client.write_all(&vec![0; BIG]).unwrap_err().kind())
            };
            sleep(Duration::from_millis(50));
            assert!(!writer.is_finished());
            client.shutdown(how).unwrap();
            assert_eq!(writer.join().unwrap(), ErrorKind::BrokenPipe, "{how:?}");
        }
    }

    fn shutdown_both() {
        std_differs_on_windows!("WSAESHUTDOWN has no kind");
        let (mut client, mut server) = pair!();
        client.shutdown(Shutdown::Both).unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(client.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
    }

    #[cfg_attr(windows, ignore = "Wine: a reset is read as the end")]
    fn a_close_with_unread_data_resets() {
        std_differs_on_windows!("Wine says nothing of the reset");
        let (mut client, server) = pair!();
        client.write_all(b"never read").unwrap();
        assert!(server.peek(&mut [0]).unwrap() > 0);
        drop(server);
        let error = client.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(client.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    fn a_write_to_a_closed_peer_fails_in_the_end() {
        let (mut client, server) = pair!();
        drop(server);
        let error = loop {
            match client.write_all(&[0; 1024]) {
                Ok(()) => yield_now(),
                Err(error) => break error,
            }
        };
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error:?}");
    }

    fn a_blocked_writer_hears_of_the_reset() {
        let (client, server) = pair!();
        let writer = spawn(move || {
            loop {
                if let Err(error) = (&client).write(&[0; 65536]) {
                    return error.kind();
                }
            }
        });
        sleep(Duration::from_millis(50));
        assert!(!writer.is_finished());
        drop(server);
        let kind = writer.join().unwrap();
        assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{kind:?}");
    }

    fn a_connection_ends_with_its_last_clone() {
        let (client, mut server) = pair!();
        let mut clone = client.try_clone().unwrap();
        let reader = {
            let mut clone = client.try_clone().unwrap();
            spawn(move || {
                let mut byte = [0];
                clone.read_exact(&mut byte).unwrap();
                byte
            })
        };
        sleep(Duration::from_millis(20));
        drop(client); // while another fiber reads a clone
        clone.write_all(b"a").unwrap();
        drop(clone);
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        server.write_all(b"b").unwrap();
        assert_eq!((byte, reader.join().unwrap()), (*b"a", *b"b"));
        assert_eq!(server.read(&mut byte).unwrap(), 0);
    }

    fn incoming_yields_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let client = spawn(move || {
            for i in 0..3u8 {
                TcpStream::connect(addr).unwrap().write_all(&[i]).unwrap();
            }
        });
        for (i, stream) in listener.incoming().take(3).enumerate() {
            let mut byte = [0];
            stream.unwrap().read_exact(&mut byte).unwrap();
            assert_eq!(usize::from(byte[0]), i);
        }
        client.join().unwrap();
    }

    fn a_cloned_listener_shares_the_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let clone = listener.try_clone().unwrap();
        drop(listener);
        let client = TcpStream::connect(addr).unwrap();
        assert_eq!(clone.accept().unwrap().1, client.local_addr().unwrap());
    }

    fn nobody_listens() {
        // An address that no other test uses, so that nobody takes the port meanwhile.
        let gone = TcpListener::bind("127.45.67.1:0").unwrap().local_addr().unwrap();
        let error = error_of(|| TcpStream::connect(gone));
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let limit = Duration::from_secs(60);
        let error = error_of(|| TcpStream::connect_timeout(&gone, limit));
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }

    fn all_addresses_are_tried() {
        let taken = TcpListener::bind("127.45.67.2:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        assert!(TcpStream::connect(&[taken, good][..]).is_ok());
        let free: SocketAddr = "127.45.67.3:0".parse().unwrap();
        let second = TcpListener::bind(&[good, free][..]).unwrap();
        assert_eq!(second.local_addr().unwrap().ip(), free.ip());
        let none: &[SocketAddr] = &[];
        assert_eq!(TcpListener::bind(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(TcpStream::connect(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        // The last error is the one that is told.
        let error = error_of(|| TcpStream::connect(&[good, taken][1..]));
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }

    fn an_address_in_use() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = TcpListener::bind(listener.local_addr().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }

    fn somebody_elses_address() {
        crate::harness::needs_kernel!();
        let error = TcpListener::bind("192.0.2.1:0").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    }

    fn a_port_can_be_had_again_at_once() {
        let listener = TcpListener::bind("127.45.67.4:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(addr).unwrap();
        let (server, _) = listener.accept().unwrap();
        // The server's end closes first, and so has to remember the connection for a while.
        drop(server);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop((client, listener));
        // A child that another test is just starting has the listener for a moment. The connection is remembered for a
        // minute.
        let start = Instant::now();
        let again = loop {
            match TcpListener::bind(addr) {
                Ok(again) => break again,
                Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
            }
            sleep(Duration::from_millis(1));
        };
        assert_eq!(again.local_addr().unwrap(), addr);
    }

    fn ipv6() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert!(from.is_ipv6());
        client.write_all(b"six").unwrap();
        let mut text = [0; 3];
        server.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"six");
    }

    fn addresses_as_text() {
        let resolve = |text: &str| text.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        assert_eq!(resolve("127.0.0.1:80").unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(resolve("[::1]:80").unwrap(), ["[::1]:80".parse().unwrap()]);
        for bad in ["", "localhost", "127.0.0.1", "localhost:", "localhost:http", "1.2.3.4:65536"] {
            assert_eq!(resolve(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
        }
        let local: Vec<SocketAddr> = ("localhost", 7).to_socket_addrs().unwrap().collect();
        assert!(!local.is_empty());
        assert!(local.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 7));
        let owned = (String::from("127.0.0.1"), 7).to_socket_addrs().unwrap();
        assert_eq!(owned.collect::<Vec<_>>(), ["127.0.0.1:7".parse().unwrap()]);
        assert_eq!(String::from("127.0.0.1:7").to_socket_addrs().unwrap().count(), 1);
    }
}
