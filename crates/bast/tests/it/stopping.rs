//! Timeouts and cancellation through the face: around its streams, its calls and its waits.

use std::io::{ErrorKind, Read, Write};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast::fiber::Interrupted;
use bast::net::{TcpListener, TcpStream};
use bast::time::Instant;
use bast::{Cancelled, Elapsed};

use crate::harness::on_bast::run;
use crate::harness::{OVERDUE, message, ms, needs_kernel, pair};

const LONG: Duration = Duration::from_secs(1000);

#[test]
fn a_timeout_ends_a_read_and_the_stream_goes_on() {
    run(|| {
        let (mut client, mut server) = pair();
        let read = bast::timeout(ms(5), || client.read(&mut [0; 8]));
        let _: Elapsed = read.unwrap_err();
        server.write_all(b"late").unwrap();
        let mut buf = [0; 4];
        client.read_exact(&mut buf).unwrap();
        assert_eq!(&buf, b"late");
    });
}

#[test]
fn a_request_has_one_deadline_however_many_operations_it_takes() {
    run(|| {
        let (mut client, mut server) = pair();
        // Bytes trickle in: each read is quick, all together they take too long.
        let trickle = bast::spawn(move || {
            while server.write_all(b"x").is_ok() {
                bast::sleep(ms(1));
            }
        });
        let read = bast::timeout(ms(20), || client.read_exact(&mut vec![0; 1_000_000]));
        assert!(read.is_err());
        // The socket's own time is told apart from it.
        trickle.cancel();
        assert!(trickle.join().unwrap_err().is::<Cancelled>());
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        let (mut client, _server) = pair();
        client.set_read_timeout(Some(ms(1))).unwrap();
        let read = bast::timeout(LONG, || client.read(&mut [0]));
        assert_eq!(read.unwrap().unwrap_err().kind(), OVERDUE);
    });
}

#[test]
fn a_deadline_is_shared() {
    run(|| {
        // The first sleep is in time, unless this thread was held up until after the deadline.
        let mut at = Instant::now();
        let mut first = Err(());
        for limit in (0..10).map(|n| ms(300 << n)) {
            at = Instant::now() + limit;
            first = bast::deadline(at, || bast::sleep(ms(2))).map_err(drop);
            if first.is_ok() {
                break;
            }
            assert!(Instant::now() >= at, "early");
        }
        let second = bast::deadline(at, || bast::sleep(LONG));
        let third = bast::deadline(at, bast::yield_now);
        assert_eq!((first.is_ok(), second.is_ok(), third.is_ok()), (true, false, false));
        assert_eq!(bast::deadline(at, || 3), Ok(3), "what needs no wait");
    });
}

#[test]
fn an_elapsed_time_is_an_error_of_io() {
    run(|| {
        fn request(stream: &mut TcpStream) -> std::io::Result<usize> {
            bast::timeout(ms(1), || stream.read(&mut [0]))?
        }
        let error = request(&mut pair().0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_cleanup_may_talk_to_its_peer() {
    run(|| {
        struct Farewell(TcpStream);
        impl Drop for Farewell {
            fn drop(&mut self) {
                self.0.write_all(b"bye").unwrap();
                let mut answer = [0; 2];
                self.0.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"ok");
            }
        }
        let (client, mut server) = pair();
        let fiber = bast::spawn(move || {
            let _farewell = Farewell(client);
            bast::park();
        });
        bast::sleep(ms(5));
        fiber.cancel();
        let mut said = [0; 3];
        server.read_exact(&mut said).unwrap();
        assert!(!fiber.is_finished(), "it waits for the answer");
        fiber.cancel(); // delivered once: not again, in the destructor
        bast::sleep(ms(2));
        server.write_all(b"ok").unwrap();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        assert_eq!(server.read(&mut said).unwrap(), 0, "the stream has been closed");
    });
}

#[test]
fn user_code_that_catches_everything_lets_it_pass() {
    run(|| {
        let result = bast::timeout(ms(1), || {
            let payload = catch_unwind(|| bast::sleep(LONG)).unwrap_err();
            if payload.is::<Interrupted>() || payload.is::<Cancelled>() {
                std::panic::resume_unwind(payload);
            }
        });
        assert!(result.is_err());
        let panic = catch_unwind(|| bast::timeout(LONG, || panic!("the user's")));
        assert_eq!(message(&*panic.unwrap_err()), "the user's");
    });
}

#[test]
fn a_scope_inside_a_timeout_waits_for_its_children() {
    run(|| {
        let done = AtomicUsize::new(0);
        let result = bast::timeout(ms(1), || {
            bast::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        bast::sleep(ms(5));
                        done.fetch_add(1, SeqCst);
                    });
                }
            });
            bast::yield_now();
        });
        assert!(result.is_err());
        assert_eq!(done.load(SeqCst), 3);
    });
}

#[test]
fn a_fiber_that_cancels_itself_unwinds_at_its_next_wait() {
    run(|| {
        let steps = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&steps);
        let fiber = bast::spawn(move || {
            bast::current().cancel();
            count.fetch_add(1, SeqCst);
            let (mut client, _server) = pair();
            let _ = client.read(&mut [0]);
            count.fetch_add(10, SeqCst);
        });
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        assert_eq!(steps.load(SeqCst), 1);
    });
}

#[test]
fn a_blocking_call_is_interrupted() {
    needs_kernel!();
    run(|| {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let read =
            bast::timeout(ms(5), || bast::blocking_interruptible(|| reader.read(&mut [0; 8])));
        assert!(read.is_err());
        writer.write_all(b"x").unwrap();
        assert_eq!(bast::blocking_interruptible(|| reader.read(&mut [0; 8])).unwrap(), 1);
        let fiber = bast::spawn(move || bast::blocking_interruptible(|| reader.read(&mut [0; 8])));
        bast::sleep(ms(10));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        drop(writer);
    });
}

/// Computes until it is asked to stop.
fn compute() -> u64 {
    let mut rounds = 0;
    while !bast::stop_requested() {
        rounds += 1;
    }
    rounds
}

#[test]
fn who_computes_can_ask_whether_it_is_to_stop() {
    run(|| {
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let fiber = bast::spawn(move || {
            assert!(!bast::stop_requested());
            begins.store(true, SeqCst);
            compute();
            // It stands until it is delivered, and a mask holds it off.
            assert!(bast::stop_requested());
            assert!(!bast::mask(bast::stop_requested));
            let raised = catch_unwind(bast::yield_now).unwrap_err();
            assert!(raised.is::<Cancelled>());
            assert!(!bast::stop_requested());
            7
        });
        while !begun.load(SeqCst) {
            bast::yield_now();
        }
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), 7, "it has not unwound by itself");
    });
}

#[test]
fn who_computes_hears_of_timeouts_and_tokens() {
    // The simulator's clock stands while somebody computes.
    needs_kernel!();
    let all = || {
        assert!(bast::timeout(ms(5), compute).is_ok());
        let token = bast::CancelToken::new();
        let cancels = token.clone();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let fiber = bast::spawn(move || {
            while !begins.load(SeqCst) {
                bast::sleep(ms(5));
            }
            cancels.cancel();
        });
        let computed = token.run(|| {
            begun.store(true, SeqCst);
            compute()
        });
        assert!(computed.is_ok());
        fiber.join().unwrap();
        assert!(!bast::stop_requested());
    };
    run(all);
    // So does a plain thread.
    all();
}

#[test]
fn a_plain_thread_has_timeouts_too() {
    let (mut client, mut server) = pair_on_a_thread();
    assert!(bast::timeout(ms(5), || client.read(&mut [0; 8])).is_err());
    assert!(bast::timeout(ms(5), || bast::sleep(LONG)).is_err());
    assert!(bast::timeout(ms(5), bast::park).is_err());
    let never = bast::spawn(bast::park);
    let fiber = never.fiber();
    assert!(bast::timeout(ms(5), || never.join()).is_err());
    fiber.cancel();
    // The calls that it makes by itself are not bast's to interrupt.
    assert_eq!(
        bast::timeout(ms(1), || {
            std::thread::sleep(ms(5));
            3
        }),
        Ok(3)
    );
    server.write_all(b"on it goes").unwrap();
    assert_eq!(client.read(&mut [0; 16]).unwrap(), 10);
}

/// As a plain thread makes it, with the kernel's sockets whatever the driver is.
fn pair_on_a_thread() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}
