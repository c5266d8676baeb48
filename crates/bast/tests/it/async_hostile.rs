//! What is polled for, dropped at every moment, moved between workers, and outliving its runtime.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use bast::future::{Sleep, Wait, io::Async, sleep};
use bast::net::TcpStream;
use bast::{Builder, Runtime};
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::async_io::{Counter, pair};
use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, on_std, rounds, simulated};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn poll_read(
    stream: &Async<TcpStream>,
    waker: &Waker,
    buf: &mut [u8],
) -> Poll<std::io::Result<usize>> {
    Pin::new(&mut &*stream).poll_read(&mut Context::from_waker(waker), buf)
}

/// Whatever is dropped at whatever moment, here or on another thread: the byte is read by this wait or by the next,
/// and nobody is woken who is not there.
#[test]
fn a_wait_that_is_dropped_loses_nothing() {
    run(|| {
        let rounds = if simulated() { 500 } else { rounds(5_000) };
        let (mut client, server) = pair();
        let (elsewhere, dropping) = mpsc::channel::<Async<TcpStream>>();
        let thread = std::thread::spawn(move || dropping.iter().for_each(drop));
        let waker = Counter::new().1;
        let mut buf = [0; 8];
        for round in 0..rounds {
            let waits = Async::new(server.try_clone().unwrap());
            assert!(poll_read(&waits, &waker, &mut buf).is_pending());
            let byte = [round as u8];
            // Sent before, at the same time, or after; the completion comes at once or is not yet collected.
            if round % 2 == 0 {
                client.write_all(&byte).unwrap();
            }
            for _ in 0..round % 3 {
                bast::yield_now();
            }
            let read = match poll_read(&waits, &waker, &mut buf) {
                Poll::Ready(n) => n.unwrap(),
                Poll::Pending => 0,
            };
            match round % 5 {
                0 | 1 => drop(waits),
                2 | 3 => elsewhere.send(waits).unwrap(),
                _ => drop(waits.into_inner()),
            }
            if round % 2 == 1 {
                client.write_all(&byte).unwrap();
            }
            if read == 0 {
                assert_eq!((&server).read(&mut buf).unwrap(), 1);
            }
            assert_eq!(buf[0], byte[0]);
        }
        drop(elsewhere);
        thread.join().unwrap();
    });
}

#[test]
fn timers_are_dropped_as_they_fire() {
    run(|| {
        let (elsewhere, dropping) = mpsc::channel::<Sleep>();
        let thread = std::thread::spawn(move || dropping.iter().for_each(drop));
        let (counter, waker) = Counter::new();
        for round in 0..5_000_u64 {
            let mut sleep = sleep(Duration::from_micros(round % 50));
            let polled = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
            if round % 7 == 0 && polled.is_pending() {
                (&mut sleep).wait();
                assert!(sleep.is_elapsed());
            }
            if round % 2 == 0 {
                elsewhere.send(sleep).unwrap();
            }
            bast::yield_now();
        }
        drop(elsewhere);
        thread.join().unwrap();
        assert!(counter.wakes() <= 5_000);
        bast::sleep(ms(1));
        while Arc::strong_count(&counter) > 2 {
            bast::sleep(ms(1));
        }
    });
}

/// Tasks that any worker may poll next, with streams that other tasks had before.
#[test]
fn streams_move_between_workers() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(3).build().unwrap();
    runtime.run(|| {
        let pairs: Vec<_> = (0..8).map(|_| pair()).collect();
        let mut tasks = Vec::new();
        for (client, server) in pairs {
            tasks.push(bast::task::spawn(async move {
                let mut server = Async::new(server);
                let mut buf = [0; 64];
                loop {
                    let n = server.read(&mut buf).await.unwrap();
                    if n == 0 {
                        break;
                    }
                    server.write_all(&buf[..n]).await.unwrap();
                    // On by another task.
                    let mut next = server;
                    server = bast::task::spawn(async move {
                        next.flush().await.unwrap();
                        next
                    })
                    .await
                    .unwrap();
                }
            }));
            tasks.push(bast::task::spawn(async move {
                let mut client = Async::new(client);
                for round in 0..rounds(300) {
                    client.write_all(&round.to_le_bytes()).await.unwrap();
                    let mut back = [0; 4];
                    client.read_exact(&mut back).await.unwrap();
                    assert_eq!(u32::from_le_bytes(back), round);
                    if round % 16 == 0 {
                        sleep(Duration::from_micros(20)).await;
                    }
                }
            }));
        }
        for task in tasks {
            task.join().unwrap();
        }
    });
}

/// Begun on one worker, polled on another, woken there.
#[test]
fn a_wait_that_was_begun_elsewhere_goes_on() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let on = |worker| Builder::new().worker(worker);
        for round in 0..rounds(200) as usize {
            let (mut client, server) = pair();
            let begun = on(round % 2).spawn(move || {
                let server = Async::new(server);
                let waker = Counter::new().1;
                assert!(poll_read(&server, &waker, &mut [0; 8]).is_pending());
                let mut sleep = sleep(ms(1));
                let _ = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
                (server, sleep)
            });
            let (mut server, sleep) = begun.unwrap().join().unwrap();
            let other = on(1 - round % 2).spawn(move || {
                sleep.wait();
                server.read(&mut [0; 8]).wait().unwrap()
            });
            client.write_all(b"abc").unwrap();
            assert_eq!(other.unwrap().join().unwrap(), 3);
        }
    });
}

#[test]
fn what_outlives_its_runtime_is_woken_and_goes_on_elsewhere() {
    needs_kernel!();
    on_std::run(|| {
        for bound in [false, true] {
            let runtime = Runtime::builder().workers(2).build().unwrap();
            let (counter, waker) = Counter::new();
            let theirs = waker.clone();
            let begin = move || {
                let (client, server) = pair();
                let server = Async::new(server);
                let mut sleep = sleep(Duration::from_secs(3600));
                assert!(poll_read(&server, &theirs, &mut [0; 8]).is_pending());
                assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(&theirs)).is_pending());
                (client, server, sleep)
            };
            let (client, mut server, mut sleep) = if bound {
                // Its worker is its own, and ends with it.
                runtime.run(|| Builder::new().bound().spawn(begin).unwrap().join().unwrap())
            } else {
                runtime.run(begin)
            };
            drop(runtime);
            assert_eq!(counter.wakes(), 2, "both hear that nobody waits for them any more");
            assert!(poll_read(&server, &waker, &mut [0; 8]).is_pending());
            let mut client = std::net::TcpStream::from(client);
            client.write_all(b"late").unwrap();
            let mut buf = [0; 8];
            assert_eq!(futures_executor::block_on(server.read(&mut buf)).unwrap(), 4);
            sleep.reset(bast::time::Instant::now() + ms(1));
            sleep.wait();
        }
    });
}

/// Drops what it was given when it is woken, or when it is dropped itself.
struct Bomb<T>(Mutex<Option<T>>, AtomicUsize);

impl<T: Send + 'static> Wake for Bomb<T> {
    fn wake(self: Arc<Bomb<T>>) {
        self.1.fetch_add(1, SeqCst);
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn a_waker_may_drop_what_has_completed_with_it() {
    run(|| {
        for round in 0..rounds(50) {
            let streams: Vec<_> = (0..4).map(|_| pair()).collect();
            let (mut clients, mut bombs) = (Vec::new(), Vec::new());
            let mut servers: Vec<_> = Vec::new();
            for (client, server) in streams {
                clients.push(client);
                servers.push(Arc::new(Async::new(server)));
            }
            for at in 0..4 {
                // Each drops its neighbour's wait: all complete in the same poll of the driver, or nearly.
                let watched = Async::new(servers[(at + 1) % 4].get_ref().try_clone().unwrap());
                let timer = sleep(Duration::from_micros(20));
                let bomb = Arc::new(Bomb(Mutex::new(None), AtomicUsize::new(0)));
                let mut pair = (watched, timer);
                let waker = Waker::from(Arc::clone(&bomb));
                assert!(poll_read(&servers[at], &waker, &mut [0; 8]).is_pending());
                let previous = bombs.last().map_or_else(|| Counter::new().1, Clone::clone);
                assert!(poll_read(&pair.0, &previous, &mut [0; 8]).is_pending());
                let mut context = Context::from_waker(&previous);
                let _ = Pin::new(&mut pair.1).poll(&mut context);
                *bomb.0.lock().unwrap() = Some(pair);
                bombs.push(waker);
            }
            for client in &mut clients {
                client.write_all(b"x").unwrap();
            }
            for server in servers {
                let mut buf = [0; 8];
                let read = poll_fn(|context| poll_read(&server, context.waker(), &mut buf));
                assert_eq!(read.wait().unwrap(), 1, "round {round}");
            }
            drop(bombs);
        }
    });
}

/// The waker before is dropped by the poll that replaces it, and may be the last to have a stream.
#[test]
fn a_waker_that_is_replaced_may_drop_a_stream() {
    run(|| {
        let (_client, server) = pair();
        let server = Async::new(server);
        let other = Async::new(server.get_ref().try_clone().unwrap());
        let (counter, quiet) = Counter::new();
        assert!(poll_read(&other, &quiet, &mut [0; 8]).is_pending());
        let bomb = Bomb(
            Mutex::new(Some((server.get_ref().try_clone().unwrap(), other))),
            AtomicUsize::new(0),
        );
        assert!(poll_read(&server, &Waker::from(Arc::new(bomb)), &mut [0; 8]).is_pending());
        assert!(poll_read(&server, &quiet, &mut [0; 8]).is_pending());
        drop(server);
        while Arc::strong_count(&counter) > 2 {
            bast::sleep(ms(1));
        }
        assert_eq!(counter.wakes(), 0);
    });
}

#[test]
fn a_waker_that_panics_stops_nobody() {
    struct Angry;
    impl Wake for Angry {
        fn wake(self: Arc<Angry>) {
            panic!("a waker, on purpose");
        }
    }
    run(|| {
        let (mut client, server) = pair();
        let mut server = Async::new(server);
        let waker = Waker::from(Arc::new(Angry));
        let mut sleep = sleep(ms(1));
        assert!(poll_read(&server, &waker, &mut [0; 8]).is_pending());
        // If its time has come already, this very poll wakes.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_ready()
        }));
        client.write_all(b"x").unwrap();
        bast::sleep(ms(5));
        sleep.wait();
        assert_eq!(server.read(&mut [0; 8]).wait().unwrap(), 1);
    });
}

/// Somebody who always finds something to read lets others run.
#[test]
fn a_flood_starves_nobody() {
    run(|| {
        let (client, server) = pair();
        let flood = bast::task::spawn(async move {
            let mut client = Async::new(client);
            let blob = [7; 4096];
            while client.write_all(&blob).await.is_ok() {}
        });
        let drain = bast::task::spawn(async move {
            let mut server = Async::new(server);
            let mut buf = [0; 16];
            while server.read(&mut buf).await.is_ok_and(|n| n > 0) {}
        });
        for _ in 0..20 {
            bast::sleep(ms(1));
        }
        // What the kernel still has would be read 16 bytes at a time: that is for nobody to wait for.
        flood.cancel();
        drain.cancel();
        let _ = drain.join();
    });
}

/// The clone of a waker is somebody's code as well, and may come back to the very socket.
#[test]
#[allow(unsafe_code)]
fn a_waker_s_clone_may_poll_what_it_is_for() {
    fn look(stream: *const ()) {
        // SAFETY: the waker and its clones are gone before the stream is.
        let stream = unsafe { &*stream.cast::<Async<TcpStream>>() };
        let _ = poll_read(stream, Waker::noop(), &mut [0; 8]);
    }
    fn clone(stream: *const ()) -> RawWaker {
        look(stream);
        RawWaker::new(stream, &VTABLE)
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| (), |_| (), |_| ());

    run(|| {
        let (_client, server) = pair();
        let stream = Async::new(server);
        // SAFETY: the functions take any thread, and a pointer to a stream.
        let waker = unsafe { Waker::new(std::ptr::from_ref(&stream).cast(), &VTABLE) };
        for _ in 0..2 {
            assert!(poll_read(&stream, &waker, &mut [0; 8]).is_pending());
            assert!(poll_read(&stream, Waker::noop(), &mut [0; 8]).is_pending());
        }
    });
}
