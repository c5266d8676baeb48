//! A driver from its making to its end: the fallback, the pool, too much at once, being dropped.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

unsafe fn nap(data: *mut ()) -> i32 {
    std::thread::sleep(Duration::from_millis(data as u64));
    9
}

#[test]
fn dropping_a_driver_with_everything_pending() {
    each(|b| {
        let (ours, _theirs) = pair();
        let (r, _w) = pipe();
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        listener.set_nonblocking(true).expect("mode");
        let listener = Handle::from_owned(listener.into(), Kind::Listener);
        let (read, accept) = (r.as_ref(), listener.as_ref());
        // The memory is the test's to free only after the drop: ASan and the assertion below watch.
        let mut buf = vec![0u8; 64];
        let poll = Op::Poll { handle: ours.as_ref(), interest: Interest::Readable };
        let mut ops = vec![poll; 1000];
        ops.push(recv(&ours, &mut buf));
        ops.push(recv(&ours, &mut buf[32..]));
        ops.push(Op::Read { handle: read, buf: buf.as_mut_ptr(), len: 8, offset: None });
        ops.push(Op::Accept { handle: accept, addr: null_mut() });
        ops.push(Op::Call {
            call: nap,
            data: 100 as *mut (),
            interruptible: false,
            limited: false,
        });
        let lent: Vec<Lent> = ops.into_iter().map(|op| b.start(op)).collect();
        b.nothing();
        let start = Instant::now();
        let fresh = Inner::Readiness(Box::new(Readiness::new(&config()).expect("epoll")));
        drop(std::mem::replace(&mut b.driver.inner, fresh));
        assert!(start.elapsed() < Duration::from_secs(5));
        for record in lent {
            // SAFETY: leaked by `start`, and nobody has it any more.
            drop(unsafe { Box::from_raw(record.as_ptr()) });
        }
    });
}

#[test]
fn calls_run_on_the_pool_and_wakes_end_waits() {
    each(|b| {
        let (slow, quick) = (
            b.start(Op::Call {
                call: nap,
                data: 60 as *mut (),
                interruptible: false,
                limited: false,
            }),
            b.start(Op::Call {
                call: nap,
                data: null::<()>().cast_mut(),
                interruptible: false,
                limited: false,
            }),
        );
        assert_eq!(b.driver.pending(), 2);
        let all = b.collect(2);
        assert_eq!(all, [(quick, Outcome(9)), (slow, Outcome(9))]);
        let waker = b.driver.waker();
        for early in [true, false] {
            let start = Instant::now();
            let other = waker.clone();
            let woken = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&woken);
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(if early { 0 } else { 40 }));
                told.store(true, Ordering::SeqCst);
                other.wake();
            });
            if early {
                thread.join().expect("waker");
                b.poll(Wait::Forever);
            } else {
                // Told before the wake, so that no poll begins after the wake was used up.
                while !woken.load(Ordering::SeqCst) {
                    b.poll(Wait::AtMost(Duration::from_secs(20)));
                }
                thread.join().expect("waker");
            }
            assert!(start.elapsed() < Duration::from_secs(10));
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(5) {
            b.poll(Wait::AtMost(Duration::from_millis(5).saturating_sub(start.elapsed())));
        }
        assert!(b.done.is_empty());
    });
}

/// More operations than the submission queue has entries, submitted and cancelled in one go.
#[test]
fn many_more_operations_than_entries() {
    let config = Config { entries: 8, ..config() };
    let mut b = bench(match Uring::new(&config) {
        Ok(uring) => Inner::Uring(Box::new(uring)),
        Err(reason) => return eprintln!("not tested on io_uring: {reason}"),
    });
    let (ours, mut theirs) = pair();
    let poll = Op::Poll { handle: ours.as_ref(), interest: Interest::Readable };
    let records: Vec<_> = (0..10_000).map(|_| b.start(poll)).collect();
    b.nothing();
    for r in &records[..5_000] {
        // SAFETY: it has not come back.
        unsafe { b.driver.cancel(*r) };
    }
    assert!(b.collect(5_000).iter().all(|(_, o)| *o == Outcome::CANCELLED));
    // These overflow the completion queue all at once.
    theirs.write_all(b"x").expect("write");
    assert!(b.collect(5_000).iter().all(|(_, o)| *o == Outcome(0)));
    assert_eq!(b.driver.pending(), 0);
}

/// Whatever forbids io_uring, the driver works and says why.
#[test]
fn a_forbidden_ring_falls_back_with_the_reason() {
    // Filters are for the thread that installs them (and its children): no other test is touched.
    let thread = std::thread::spawn(|| {
        forbid_io_uring();
        for kind in [DriverKind::Auto, DriverKind::Uring] {
            let driver = Driver::new(&Config { kind, ..config() }).expect("epoll");
            assert_eq!(driver.name(), "epoll");
            let reason = driver.fallback_reason().expect("a reason");
            assert!(reason.contains("io_uring_setup: Operation not permitted"), "{reason}");
            assert!(reason.contains("seccomp"), "{reason}");
        }
        let driver = Driver::new(&Config { kind: DriverKind::Epoll, ..config() }).expect("epoll");
        assert_eq!(driver.fallback_reason(), None);
    });
    thread.join().expect("filtered thread");
}

fn forbid_io_uring() {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let number = libc::SYS_io_uring_setup as u32;
    let filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is valid and is copied by the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn names_of_drivers() {
    assert_eq!("epoll".parse(), Ok(DriverKind::Epoll));
    assert_eq!("auto".parse(), Ok(DriverKind::Auto));
    let error = "kqueue".parse::<DriverKind>().expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "unknown driver \"kqueue\": use one of auto, uring, epoll, iocp, sim"
    );
}
