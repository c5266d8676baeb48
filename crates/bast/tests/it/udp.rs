//! Twins: UDP.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::harness::{OVERDUE, needs_kernel, std_differs_on_windows, twins, until};

twins! {
    fn datagrams_are_whole_and_say_who_sent_them() {
        std_differs_on_windows!("what is cut off is an error");
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let to = b.local_addr().unwrap();
        assert_eq!(a.send_to(b"first", to).unwrap(), 5);
        assert_eq!(a.send_to(b"", to).unwrap(), 0);
        assert_eq!(a.send_to(b"third and cut", to).unwrap(), 13);
        let mut buf = [0; 8];
        assert_eq!(b.recv_from(&mut buf).unwrap(), (5, a.local_addr().unwrap()));
        assert_eq!(&buf[..5], b"first");
        assert_eq!(b.recv_from(&mut buf).unwrap().0, 0);
        assert_eq!(b.recv_from(&mut buf).unwrap().0, 8);
        assert_eq!(&buf, b"third an");
    }

    fn what_is_too_long_for_a_datagram_is_an_error() {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        let data = vec![7; 70_000];
        // 65,535 bytes without the headers of IPv4 and UDP.
        assert_eq!(a.send(&data[..65_508]).unwrap_err().raw_os_error(), Some(bast_io::c::EMSGSIZE), "EMSGSIZE");
        assert_eq!(a.send_to(&data, b.local_addr().unwrap()).unwrap_err().raw_os_error(), Some(bast_io::c::EMSGSIZE));
        assert_eq!(a.send(&data[..65_507]).unwrap(), 65_507);
        assert_eq!(b.recv(&mut vec![0; 70_000]).unwrap(), 65_507);
    }

    fn connected() {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        assert_eq!(a.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        assert!(a.send(b"x").is_err());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        assert_eq!(a.peer_addr().unwrap(), b.local_addr().unwrap());
        assert_eq!(a.send(b"ping").unwrap(), 4);
        let mut buf = [0; 8];
        assert_eq!(b.recv(&mut buf).unwrap(), 4);
        assert_eq!(b.send(b"pong!").unwrap(), 5);
        assert_eq!(a.recv(&mut buf).unwrap(), 5);
        assert_eq!(&buf[..5], b"pong!");
    }

    fn peeking_leaves_it_there() {
        needs_kernel!();
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.send_to(b"once", b.local_addr().unwrap()).unwrap();
        let mut buf = [0; 8];
        assert_eq!(b.peek_from(&mut buf).unwrap(), (4, a.local_addr().unwrap()));
        assert_eq!(b.peek(&mut buf).unwrap(), 4);
        assert_eq!(b.recv(&mut buf).unwrap(), 4);
        b.set_nonblocking(true).unwrap();
        assert_eq!(b.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    fn a_receive_waits() {
        let a = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = a.local_addr().unwrap();
        let receiver = spawn(move || {
            let mut buf = [0; 8];
            let n = a.recv(&mut buf).unwrap();
            buf[..n].to_vec()
        });
        sleep(Duration::from_millis(20));
        assert!(!receiver.is_finished());
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"late", to).unwrap();
        assert_eq!(receiver.join().unwrap(), b"late");
    }

    fn one_that_does_not_wait_beside_one_that_does() {
        let a = std::sync::Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        // Nobody can see whether the other one waits already. If it came too late it does not wait: once more then.
        let waited = (0..10).any(|n| {
            a.set_nonblocking(false).unwrap();
            let waiting = spawn({
                let a = a.clone();
                move || a.recv(&mut [0; 8]).map_err(|error| error.kind())
            });
            sleep(Duration::from_millis(20 << n));
            a.set_nonblocking(true).unwrap();
            for _ in 0..10 {
                assert_eq!(a.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            }
            let to = a.local_addr().unwrap();
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"end", to).unwrap();
            let got = waiting.join().unwrap();
            if got != Ok(3) {
                assert_eq!(got, Err(ErrorKind::WouldBlock));
                a.set_nonblocking(false).unwrap();
                assert_eq!(a.recv(&mut [0; 8]).unwrap(), 3);
            }
            got == Ok(3)
        });
        assert!(waited);
    }

    fn timeouts() {
        needs_kernel!();
        let a = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(a.read_timeout().unwrap(), None);
        assert_eq!(a.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
        a.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(undisturbed(|| a.recv_from(&mut [0; 8])).unwrap_err().kind(), OVERDUE);
        assert_eq!(undisturbed(|| a.recv(&mut [0; 8])).unwrap_err().kind(), OVERDUE);
        a.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        assert_eq!(a.write_timeout().unwrap(), Some(Duration::from_secs(1)));
    }

    fn options() {
        needs_kernel!();
        let a = UdpSocket::bind("127.0.0.1:0").unwrap();
        a.set_ttl(7).unwrap();
        assert_eq!(a.ttl().unwrap(), 7);
        assert!(!a.broadcast().unwrap());
        assert_eq!(a.send_to(b"x", "255.255.255.255:9").unwrap_err().kind(), ErrorKind::PermissionDenied);
        a.set_broadcast(true).unwrap();
        assert!(a.broadcast().unwrap());
        assert!(a.multicast_loop_v4().unwrap());
        a.set_multicast_loop_v4(false).unwrap();
        assert!(!a.multicast_loop_v4().unwrap());
        a.set_multicast_ttl_v4(3).unwrap();
        assert_eq!(a.multicast_ttl_v4().unwrap(), 3);
        let group = Ipv4Addr::new(239, 1, 2, 3);
        assert!(a.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).is_err());
        assert!(a.take_error().unwrap().is_none());
        assert!(format!("{a:?}").contains("127.0.0.1"));
    }

    fn clones_and_a_closed_peer() {
        needs_kernel!();
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let clone = a.try_clone().unwrap();
        assert_eq!(clone.local_addr().unwrap(), a.local_addr().unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        drop(b);
        // The kernel reports the refusal with the next call.
        a.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        until("it is refused", || {
            let _ = clone.send(b"x");
            let kind = undisturbed(|| a.recv(&mut [0; 8])).unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::ConnectionRefused | OVERDUE), "{kind}");
            kind == ErrorKind::ConnectionRefused
        });
        assert!(UdpSocket::bind("256.0.0.1:0").is_err());
        assert!(clone.send_to(b"x", &[][..]).is_err());
    }
}
