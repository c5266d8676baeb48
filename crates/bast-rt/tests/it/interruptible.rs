//! Blocking system calls that are interrupted on the pool.
#![allow(unsafe_code)]

#[cfg_attr(windows, path = "interruptible/windows.rs")]
mod system;

use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
#[cfg(unix)]
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use bast_rt::wait;
use bast_rt::{
    interruptible, mask, run_blocking, run_blocking_interruptible, scope, sleep, spawn, timeout,
    yield_now,
};

#[cfg(unix)]
use system::accept;
use system::{calls, nap};

use crate::support::{
    Drops, OnDrop, Random, builder, is_cancelled, message, panic_of, runtime, scaled, tests, until,
    workers, yield_until,
};

#[cfg(unix)]
use crate::support::{handles, process_tests};

const LONG: Duration = Duration::from_secs(1000);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Runs `f` in a scope that is to end as soon as `f` has set the flag that it is given.
fn asked_once_begun<R>(f: impl FnOnce(&AtomicBool) -> R) -> Option<R> {
    let (begun, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, asks, me) = (Arc::clone(&begun), Arc::clone(&asked), wait::me());
    thread::spawn(move || {
        until("the beginning", || begins.load(SeqCst));
        asks.store(true, SeqCst);
        me.interrupt();
    });
    interruptible(&asked, || f(&begun))
}

tests! {
    fn each_call_ends_with_its_fiber() {
        let runtime = runtime();
        for round in 0..5 {
            for (name, call) in calls() {
                let (drops, begun) = (Drops::default(), Arc::new(AtomicBool::new(false)));
                let (token, begins) = (drops.token(), Arc::clone(&begun));
                let fiber = runtime.spawn(move || {
                    let _token = token;
                    run_blocking_interruptible(move || { begins.store(true, SeqCst); call() })
                });
                until(name, || begun.load(SeqCst));
                thread::sleep(ms(round));
                assert!(!fiber.is_finished(), "{name}");
                fiber.cancel();
                assert!(is_cancelled(&fiber.join()), "{name}");
                assert_eq!(drops.get(), 1);
            }
        }
    }

    fn each_call_ends_with_its_timeout() {
        let runtime = runtime();
        for span in [0, 1, 5] {
            for (name, call) in calls() {
                let result = runtime.run(|| timeout(ms(span), || run_blocking_interruptible(call)));
                assert!(result.is_err(), "{name}");
            }
        }
        runtime.run(|| assert_eq!(run_blocking_interruptible(|| Ok(3)).unwrap(), 3));
    }

    /// A call that returns is not lost, whatever was asked meanwhile.
    fn a_result_wins() {
        runtime().run(|| {
            let seen = Cell::new(None);
            let result = asked_once_begun(|begun| {
                seen.set(run_blocking_interruptible(|| {
                    begun.store(true, SeqCst);
                    // Tries again by itself, as std does.
                    thread::sleep(ms(20));
                    Ok(5)
                }).ok());
                // The request may be later.
                loop { yield_now() }
            });
            assert!(Option::<()>::is_none(&result));
            assert_eq!(seen.get(), Some(5));
            let other = asked_once_begun(|begun| run_blocking_interruptible(|| -> io::Result<()> {
                begun.store(true, SeqCst);
                thread::sleep(ms(5));
                Err(ErrorKind::AddrInUse.into())
            }));
            assert_eq!(other.unwrap().unwrap_err().kind(), ErrorKind::AddrInUse);
            // EINTR that nobody has asked for is an error as any other.
            let own = run_blocking_interruptible(|| -> io::Result<()> { Err(ErrorKind::Interrupted.into()) });
            assert_eq!(own.unwrap_err().kind(), ErrorKind::Interrupted);
            let panic = panic_of(|| asked_once_begun(|begun| run_blocking_interruptible(|| -> io::Result<()> {
                begun.store(true, SeqCst);
                let _ = nap(LONG);
                panic!("over there");
            })));
            assert_eq!(message(&*panic), "over there");
        });
    }

    /// One that is never begun is never run: it waits in the queue of a pool with one thread.
    fn a_call_that_has_not_begun_never_runs() {
        let runtime = builder(1).blocking_threads(1).build().unwrap();
        runtime.run(|| {
            let (gate, open) = io::pipe().unwrap();
            let first = spawn(move || run_blocking(move || (&gate).read(&mut [0]).unwrap()));
            sleep(ms(5));
            let ran = Arc::new(AtomicBool::new(false));
            let runs = Arc::clone(&ran);
            let second = spawn(move || run_blocking_interruptible(move || {
                runs.store(true, SeqCst);
                Ok(())
            }));
            sleep(ms(5));
            second.cancel();
            assert!(is_cancelled(&second.join()));
            (&open).write_all(b"x").unwrap();
            first.join().unwrap();
            assert!(!ran.load(SeqCst));
        });
    }

    fn not_inside_mask_nor_in_a_destructor() {
        runtime().run(|| {
            let result = timeout(ms(1), || {
                mask(|| assert_eq!(run_blocking_interruptible(|| nap(ms(10))).unwrap(), 0));
                yield_now();
            });
            assert!(result.is_err());
            let slept = AtomicUsize::new(0);
            let result = timeout(ms(1), || {
                let _cleanup = OnDrop(|| {
                    assert_eq!(run_blocking_interruptible(|| nap(ms(10))).unwrap(), 0);
                    slept.fetch_add(1, SeqCst);
                });
                sleep(LONG);
            });
            assert!(result.is_err());
            assert_eq!(slept.load(SeqCst), 1);
        });
    }

    fn on_a_plain_thread_it_is_a_call() {
        let here = thread::current().id();
        assert_eq!(run_blocking_interruptible(|| Ok(thread::current().id())).unwrap(), here);
        assert!(timeout(Duration::ZERO, || run_blocking_interruptible(|| Ok(()))).is_err());
    }

    /// Cancelled at random moments: before the call begins, in it, at its end. Beside them others use the same
    /// threads for calls that nobody asked to end, which no signal may hit.
    fn at_random_moments() {
        let runtime = builder(2).blocking_threads(3).build().unwrap();
        let rounds = scaled(2_000);
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (begun, ended) = (&begun, &ended);
        let done = &AtomicBool::new(false);
        runtime.run(|| scope(|s| {
            for _ in 0..2 {
                s.spawn(move || while !done.load(SeqCst) {
                    let slept = run_blocking(|| nap(Duration::from_micros(50)));
                    assert_eq!(slept.expect("a signal that was meant for another call"), 0);
                    let slept = run_blocking_interruptible(|| nap(Duration::from_micros(50)));
                    assert_eq!(slept.expect("a signal that was meant for another call"), 0);
                });
            }
            let mut random = Random(77);
            let (mut cancelled, mut returned) = (0, 0);
            for _ in 0..rounds {
                let span = [0, 30, 100].map(Duration::from_micros).get(random.below(4) as usize).copied();
                let span = span.unwrap_or(LONG);
                let before = (begun.load(SeqCst), ended.load(SeqCst));
                let fiber = s.spawn(move || run_blocking_interruptible(|| {
                    begun.fetch_add(1, SeqCst);
                    let _end = OnDrop(|| { ended.fetch_add(1, SeqCst); });
                    nap(span)
                }));
                let pause = Duration::from_micros(random.below(120));
                match random.below(4) {
                    0 => {}
                    1 => yield_now(),
                    2 => sleep(pause),
                    // On a busy machine no call may have begun by then, for a long time.
                    _ if span == LONG => yield_until("its beginning", || begun.load(SeqCst) > before.0),
                    _ => yield_until("its end", || ended.load(SeqCst) > before.1),
                }
                fiber.cancel();
                match fiber.join() {
                    Ok(slept) => { assert_eq!(slept.unwrap(), 0); returned += 1 }
                    result => { assert!(is_cancelled(&result)); cancelled += 1 }
                }
            }
            done.store(true, SeqCst);
            assert!(cancelled > rounds / 10 && returned > rounds / 10, "{cancelled}, {returned}");
        }));
        assert_eq!(begun.load(SeqCst), ended.load(SeqCst), "what has begun has ended");
    }

    fn many_at_once() {
        let runtime = workers(2);
        let begin = Instant::now();
        let fibers: Vec<_> =
            (0..100).map(|_| runtime.spawn(|| run_blocking_interruptible(|| nap(LONG)))).collect();
        thread::sleep(ms(30));
        fibers.iter().for_each(bast_rt::JoinHandle::cancel);
        fibers.into_iter().for_each(|fiber| assert!(is_cancelled(&fiber.join())));
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    /// A runtime that stops ends them as well.
    fn at_the_end_of_the_runtime() {
        let runtime = workers(2);
        let fibers: Vec<_> =
            (0..10).map(|_| runtime.spawn(|| run_blocking_interruptible(|| nap(LONG)))).collect();
        thread::sleep(ms(10));
        runtime.shutdown(Duration::from_secs(100)).unwrap();
        fibers.into_iter().for_each(|fiber| assert!(is_cancelled(&fiber.join())));
    }
}

#[cfg(unix)]
extern "C" fn theirs(_: libc::c_int) {}

// Windows interrupts without a signal, and no accept.
#[cfg(unix)]
process_tests! {
    /// What an accept brings at the last moment is not lost: it is returned, or it waits still.
    fn an_accepted_socket_is_not_lost() {
        let runtime = builder(1).blocking_threads(2).build().unwrap();
        runtime.run(|| run_blocking_interruptible(|| nap(ms(1))).unwrap());
        let before = handles();
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let mut random = Random(5);
        let mut reports = [0, 0];
        // Some must be accepted before the request comes, which on a busy machine takes longer to happen.
        while reports[0] + reports[1] < scaled(300) || reports[0] == 0 {
            let shared = Arc::clone(&listener);
            let (tell, told) = std::sync::mpsc::channel();
            let fiber = runtime.spawn(move || {
                tell.send(run_blocking_interruptible(|| accept(&shared)).unwrap()).unwrap();
            });
            thread::sleep(Duration::from_micros(random.below(100)));
            let client = std::net::TcpStream::connect(address).unwrap();
            thread::sleep(Duration::from_micros(random.below(60)));
            fiber.cancel();
            let _ = fiber.join();
            let lost = told.try_recv().is_err();
            if lost {
                drop(listener.accept().unwrap());
            }
            reports[usize::from(lost)] += 1;
            drop(client);
        }
        drop(listener);
        assert_eq!(handles(), before, "{reports:?}");
    }

    /// A program's own handler stays, and nobody is interrupted.
    fn a_handler_of_the_programs_own_stays() {
        // SAFETY: a handler that does nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = theirs as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut());
        }
        runtime().run(|| {
            let slept = asked_once_begun(|begun| run_blocking_interruptible(|| {
                begun.store(true, SeqCst);
                nap(ms(30))
            }));
            assert_eq!(slept.unwrap().unwrap(), 0, "its result, in its own time");
        });
        // SAFETY: an answer in a local.
        let now = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGURG, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        };
        assert_eq!(now, theirs as extern "C" fn(libc::c_int) as usize);
    }
}
