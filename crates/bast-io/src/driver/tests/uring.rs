//! What only io_uring can do wrong: overflowing queues, and not being there.

use super::*;
use crate::driver::uring::Uring;

/// `test` on a ring that may do everything, and on one that may only wait and cancel.
pub(super) fn each(test: impl Fn(&mut Bench)) {
    let config = config();
    let poll_and_cancel = [io_uring::opcode::PollAdd::CODE, io_uring::opcode::AsyncCancel::CODE];
    let rest: Vec<u8> = (0..=255).filter(|c| !poll_and_cancel.contains(c)).collect();
    for forbidden in [&[][..], &rest] {
        match Uring::without(&config, forbidden) {
            Ok(uring) => test(&mut bench(Inner::Uring(Box::new(uring)))),
            Err(reason) => eprintln!("not tested on io_uring: {reason}"),
        }
    }
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
    let op = |code: u32, jt, jf, k| c::sock_filter { code: code as u16, jt, jf, k };
    let number = c::SYS_io_uring_setup as u32;
    let filter = [
        op(c::BPF_LD | c::BPF_W | c::BPF_ABS, 0, 0, 0),
        op(c::BPF_JMP | c::BPF_JEQ | c::BPF_K, 0, 1, number),
        op(c::BPF_RET | c::BPF_K, 0, 0, c::SECCOMP_RET_ERRNO | c::EPERM as u32),
        op(c::BPF_RET | c::BPF_K, 0, 0, c::SECCOMP_RET_ALLOW),
    ];
    let program = c::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is valid and is copied by the call.
    unsafe {
        assert_eq!(c::prctl(c::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = c::SECCOMP_MODE_FILTER;
        assert_eq!(c::prctl(c::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}
