//! Machines that say no: no descriptors left, no io_uring, no locked memory. Each in a process of
//! its own.

use bast_io::{Driver, DriverKind, Op, c};

use crate::harness::{Rig, config, errno, in_child, is_wanted, watched};

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

/// Makes `io_uring_setup` fail with EPERM in this process, as container runtimes do.
fn forbid_uring() {
    const LOAD: u16 = (c::BPF_LD | c::BPF_W | c::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (c::BPF_JMP | c::BPF_JEQ | c::BPF_K) as u16;
    const RETURN: u16 = (c::BPF_RET | c::BPF_K) as u16;
    let step = |code, k, jt, jf| c::sock_filter { code, k, jt, jf };
    let mut filter = [
        // The system call's number is the first word of `seccomp_data`.
        step(LOAD, 0, 0, 0),
        step(IF_EQUAL, c::SYS_io_uring_setup as u32, 0, 1),
        step(RETURN, c::SECCOMP_RET_ERRNO | c::EPERM as u32, 0, 0),
        step(RETURN, c::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = c::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter outlives the calls.
    unsafe {
        assert_eq!(c::prctl(c::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = c::SECCOMP_MODE_FILTER;
        assert_eq!(c::prctl(c::PR_SET_SECCOMP, mode, &raw const program), 0);
        let tried = c::syscall(c::SYS_io_uring_setup, 1, std::ptr::null_mut::<()>());
        assert!(tried < 0 && *c::__errno_location() == c::EPERM, "the filter does not work");
    }
}

/// A connection works and so does a file: whatever the driver fell back to.
fn works(kind: DriverKind, driver: Driver) {
    let mut rig = Rig::on(kind, driver);
    let (a, b) = rig.pair();
    let waiting = rig.start_recv(b.as_ref(), 5, 0);
    assert!(rig.is_stuck(waiting));
    rig.send_all(&a, b"hello");
    assert_eq!(rig.received(waiting).expect("received"), b"hello");
}

#[test]
fn without_io_uring() {
    if in_child("hostile::without_io_uring") {
        return;
    }
    watched("seccomp", std::time::Duration::from_secs(300), || {
        forbid_uring();
        for kind in [DriverKind::Auto, DriverKind::Uring] {
            let driver = Driver::new(&config(kind, 1)).expect("epoll at least");
            assert_eq!(driver.name(), "epoll");
            let reason = driver.fallback_reason().expect("a reason").to_owned();
            println!("{reason}");
            assert!(reason.len() > 10, "a sentence, not {reason:?}");
            works(DriverKind::Epoll, driver);
        }
        // Nobody asked for io_uring, so there is nothing to explain.
        let driver = Driver::new(&config(DriverKind::Epoll, 1)).expect("epoll");
        assert_eq!(driver.fallback_reason(), None);
    });
}

#[test]
fn without_locked_memory() {
    if !is_wanted(DriverKind::Uring) || in_child("hostile::without_locked_memory") {
        return;
    }
    watched("memlock", std::time::Duration::from_secs(300), || {
        let limit = c::rlimit { rlim_cur: 4096, rlim_max: 4096 };
        // SAFETY: plain data; a process of our own.
        unsafe {
            assert_eq!(c::setrlimit(c::RLIMIT_MEMLOCK, &raw const limit), 0);
            // Root is exempt from the limit; be somebody else.
            if c::geteuid() == 0 {
                assert_eq!(c::setgid(65_534), 0);
                assert_eq!(c::setuid(65_534), 0);
            }
        }
        // Several, as a runtime has one for each worker.
        let drivers: Vec<Driver> = (0..8)
            .map(|_| Driver::new(&config(DriverKind::Auto, 1)).expect("some driver"))
            .collect();
        for driver in drivers {
            match driver.name() {
                "uring" => assert_eq!(driver.fallback_reason(), None),
                "epoll" => println!("{}", driver.fallback_reason().expect("a reason")),
                other => panic!("{other}"),
            }
            works(DriverKind::Auto, driver);
        }
    });
}

#[test]
fn names_of_the_drivers() {
    for (kind, name) in [(DriverKind::Sim, "sim"), (DriverKind::Epoll, "epoll")] {
        let driver = Driver::new(&config(kind, 1)).expect("a driver");
        assert_eq!(driver.name(), name);
        assert_eq!(driver.fallback_reason(), None);
    }
    let driver = Driver::new(&config(DriverKind::Uring, 1)).expect("a driver");
    assert_eq!(driver.name() == "uring", driver.fallback_reason().is_none());
}
