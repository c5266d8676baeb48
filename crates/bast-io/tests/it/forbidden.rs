//! Kernels that have io_uring and do not let us: the driver falls back, and says why.

use bast_io::{Driver, DriverKind};

use crate::harness::{Rig, config, in_child, is_wanted, watched};

/// Makes `io_uring_setup` fail with EPERM in this process, as container runtimes do.
fn forbid_uring() {
    const LOAD: u16 = (bast_io::c::BPF_LD | bast_io::c::BPF_W | bast_io::c::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (bast_io::c::BPF_JMP | bast_io::c::BPF_JEQ | bast_io::c::BPF_K) as u16;
    const RETURN: u16 = (bast_io::c::BPF_RET | bast_io::c::BPF_K) as u16;
    let step = |code, k, jt, jf| bast_io::c::sock_filter { code, k, jt, jf };
    let mut filter = [
        // The system call's number is the first word of `seccomp_data`.
        step(LOAD, 0, 0, 0),
        step(IF_EQUAL, bast_io::c::SYS_io_uring_setup as u32, 0, 1),
        step(RETURN, bast_io::c::SECCOMP_RET_ERRNO | bast_io::c::EPERM as u32, 0, 0),
        step(RETURN, bast_io::c::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = bast_io::c::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter outlives the calls.
    unsafe {
        assert_eq!(bast_io::c::prctl(bast_io::c::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = bast_io::c::SECCOMP_MODE_FILTER;
        assert_eq!(bast_io::c::prctl(bast_io::c::PR_SET_SECCOMP, mode, &raw const program), 0);
        let tried =
            bast_io::c::syscall(bast_io::c::SYS_io_uring_setup, 1, std::ptr::null_mut::<()>());
        assert!(
            tried < 0 && *bast_io::c::__errno_location() == bast_io::c::EPERM,
            "the filter does not work"
        );
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
    if in_child("forbidden::without_io_uring") {
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
    if !is_wanted(DriverKind::Uring) || in_child("forbidden::without_locked_memory") {
        return;
    }
    watched("memlock", std::time::Duration::from_secs(300), || {
        let limit = bast_io::c::rlimit { rlim_cur: 4096, rlim_max: 4096 };
        // SAFETY: plain data; a process of our own.
        unsafe {
            assert_eq!(bast_io::c::setrlimit(bast_io::c::RLIMIT_MEMLOCK, &raw const limit), 0);
            // Root is exempt from the limit; be somebody else.
            if bast_io::c::geteuid() == 0 {
                assert_eq!(bast_io::c::setgid(65_534), 0);
                assert_eq!(bast_io::c::setuid(65_534), 0);
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
