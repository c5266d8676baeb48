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
