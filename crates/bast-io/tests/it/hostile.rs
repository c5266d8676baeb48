//! Machines that say no: no descriptors left, no io_uring, no locked memory. Each in a process of
//! its own.

use bast_io::{Driver, DriverKind, Op, c};

use crate::harness::{Rig, config, errno};

mod limits {
    use super::*;
    on_real_drivers!(emfile);

    fn emfile(rig: &mut Rig) {
        if crate::harness::in_child(&crate::harness::path("hostile::limits", rig, "emfile")) {
            return;
        }
        let (listener, addr) = rig.listener(16);
        let client = rig.connect(addr).expect("connected");
        let lower = |n| {
            let limit = c::rlimit { rlim_cur: n, rlim_max: 1024 };
            // SAFETY: plain data.
            assert_eq!(unsafe { c::setrlimit(c::RLIMIT_NOFILE, &raw const limit) }, 0);
        };
        lower(1024);
        // Fill up what is left, so that the next number is beyond the limit.
        lower(64);
        let mut hoard = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            hoard.push(file);
        }
        let ticket = rig.start_accept(&listener);
        assert_eq!(errno(rig.wait(ticket).into_result()), c::EMFILE);
        let op = Op::Socket { domain: c::AF_INET, kind: c::SOCK_STREAM, protocol: 0 };
        assert!(rig.run(op).is_errno(c::EMFILE));
        let op = Op::Open { path: c"/dev/null".as_ptr(), flags: c::O_RDONLY, mode: 0 };
        assert!(rig.run(op).is_errno(c::EMFILE));
        // The connection is still there once there is room again.
        drop(hoard);
        let server = rig.accept(&listener);
        rig.send_all(&client, b"x");
        assert_eq!(rig.recv(&server, 1).expect("received"), b"x");
    }
}

#[test]
fn names_of_the_drivers() {
    let linux = cfg!(all(target_os = "linux", not(bast_kqueue)));
    let readiness =
        if linux { (DriverKind::Epoll, "epoll") } else { (DriverKind::Kqueue, "kqueue") };
    for (kind, name) in [(DriverKind::Sim, "sim"), readiness] {
        let driver = Driver::new(&config(kind, 1)).expect("a driver");
        assert_eq!(driver.name(), name);
        assert_eq!(driver.fallback_reason(), None);
    }
    let driver = Driver::new(&config(DriverKind::Uring, 1)).expect("a driver");
    assert_eq!(driver.name() == "uring", driver.fallback_reason().is_none());
}
