//! A driver from its making to its end: the fallback, the pool, too much at once, being dropped.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A call that takes a while from the moment in which it is let go. (A test that has failed forgets to.)
unsafe fn held(data: *mut ()) -> i32 {
    // SAFETY: a gate for ever, see `call`.
    let gate = unsafe { &*data.cast::<AtomicBool>() };
    let end = Instant::now() + Duration::from_secs(150);
    while !gate.load(Ordering::Acquire) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(60));
    9
}

fn call(gate: &'static AtomicBool) -> Op {
    let data = std::ptr::from_ref(gate).cast_mut().cast();
    Op::Call { call: held, data, interruptible: false, limited: false }
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
        static GATE: AtomicBool = AtomicBool::new(false);
        GATE.store(false, Ordering::Release);
        ops.push(call(&GATE));
        let lent: Vec<Lent> = ops.into_iter().map(|op| b.start(op)).collect();
        b.nothing();
        let fresh = Inner::Readiness(Box::new(Readiness::new(&config()).expect("epoll")));
        let start = Instant::now();
        GATE.store(true, Ordering::Release);
        drop(std::mem::replace(&mut b.driver.inner, fresh));
        assert!(start.elapsed() < Duration::from_secs(60));
        for record in lent {
            // SAFETY: leaked by `start`, and nobody has it any more.
            drop(unsafe { Box::from_raw(record.as_ptr()) });
        }
    });
}

#[test]
fn calls_run_on_the_pool_and_wakes_end_waits() {
    each(|b| {
        static GATES: [AtomicBool; 2] = [const { AtomicBool::new(true) }; 2];
        GATES[0].store(false, Ordering::Release);
        let [slow, quick] = GATES.each_ref().map(|gate| b.start(call(gate)));
        assert_eq!(b.driver.pending(), 2);
        assert_eq!(b.collect(1), [(quick, Outcome(9))]);
        GATES[0].store(true, Ordering::Release);
        assert_eq!(b.collect(1), [(slow, Outcome(9))]);
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
                b.poll(Wait::AtMost(Duration::from_secs(100)));
            } else {
                // Told before the wake, so that no poll begins after the wake was used up.
                while !woken.load(Ordering::SeqCst) {
                    b.poll(Wait::AtMost(Duration::from_secs(100)));
                }
                thread.join().expect("waker");
            }
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(5) {
            b.poll(Wait::AtMost(Duration::from_millis(5).saturating_sub(start.elapsed())));
        }
        assert!(b.done.is_empty());
    });
}

#[test]
fn names_of_drivers() {
    assert_eq!("epoll".parse(), Ok(DriverKind::Epoll));
    assert_eq!("auto".parse(), Ok(DriverKind::Auto));
    assert_eq!("kqueue".parse(), Ok(DriverKind::Kqueue));
    let error = "select".parse::<DriverKind>().expect_err("unknown").to_string();
    assert_eq!(
        error,
        "unknown driver \"select\": use one of auto, uring, epoll, kqueue, iocp, sim"
    );
}
