//! Whose context is on the thread: it is the fiber's, through all suspensions.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use bast::future::Wait;
use bast_tokio::{InTokio, Tokio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{another, background, here, message, ms, run};

/// What a library does: timers, sockets, tasks, blocking calls.
async fn everything() -> u32 {
    tokio::time::sleep(ms(1)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let byte = stream.read_u8().await.unwrap();
        stream.write_u8(byte * 2).await.unwrap();
    });
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_u8(20).await.unwrap();
    let twice = u32::from(stream.read_u8().await.unwrap());
    server.await.unwrap();
    let one = tokio::task::spawn_blocking(|| 1).await.unwrap();
    twice + one + tokio::spawn(async { tokio::task::block_in_place(|| 1) }).await.unwrap()
}

#[test]
fn all_of_tokio_works_from_fibers_threads_and_tokio_itself() {
    run(|| {
        assert_eq!(everything().tokio_wait(), 42);
        assert_eq!(bast_tokio::wait(everything()), 42);
        assert_eq!(bast_tokio::run(|| everything().wait()), 42);
        assert_eq!(bast_tokio::spawn(everything()).wait().unwrap(), 42);
        assert_eq!(here(), None);
    });
    // From plain threads.
    assert_eq!(everything().tokio_wait(), 42);
    assert_eq!(bast_tokio::run(|| everything().wait()), 42);
    assert_eq!(here(), None);
    // A runtime that is there is kept.
    let runtime = another();
    let id = Some(runtime.handle().id());
    runtime.block_on(async move {
        assert_eq!(everything().in_tokio().await, 42);
        assert_eq!(async { here() }.in_tokio().await, id);
        assert_eq!(bast_tokio::run(here), id);
        assert_eq!(bast_tokio::spawn(async { here() }).await.unwrap(), id);
    });
    let inside = runtime.enter();
    assert_eq!(bast_tokio::run(here), id);
    drop(inside);
    assert_eq!(bast_tokio::run(here), background());
}

#[test]
fn many_fibers_wait_at_once() {
    run(|| {
        let fibers: Vec<_> = (0..100)
            .map(|n| {
                bast::spawn(move || {
                    async {
                        tokio::time::sleep(ms(n % 7)).await;
                        n
                    }
                    .tokio_wait()
                })
            })
            .collect();
        let sum: u64 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 4950);
    });
}

#[test]
fn contexts_nest() {
    run(|| {
        let (x, y) = (another(), another());
        let [x_id, y_id] = [&x, &y].map(|runtime| Some(runtime.handle().id()));
        bast_tokio::run_on(x.handle(), || {
            assert_eq!(here(), x_id);
            bast::yield_now();
            // The one that is there is kept.
            assert_eq!(async { here() }.tokio_wait(), x_id);
            let nested = Tokio::on(y.handle(), async {
                assert_eq!(here(), y_id);
                bast::yield_now();
                assert_eq!(bast_tokio::run_on(x.handle(), here), x_id);
                here()
            });
            assert_eq!(nested.wait(), y_id);
            assert_eq!(here(), x_id);
        });
        assert_eq!(here(), None);
        // A blocking pool is stopped by blocking: not on a worker.
        bast::blocking(|| drop((x, y)));
    });
}

/// The neighbours on one worker, each in a context of its own or in none, suspended inside it again and again,
/// also by a poll.
#[test]
fn a_poll_that_suspends_disturbs_no_neighbour() {
    run(|| {
        let runtimes: Vec<_> = (0..3).map(|_| another()).collect();
        let mut fibers = Vec::new();
        for n in 0..12_u64 {
            let handle = runtimes.get(n as usize % 4).map(|runtime| runtime.handle().clone());
            fibers.push(bast::spawn_local(move || {
                let id = handle.as_ref().map(|handle| handle.id());
                for round in 0..20 {
                    let pause = || match (n + round) % 3 {
                        0 => bast::yield_now(),
                        1 => bast::sleep(ms(n % 3)),
                        _ => bast_tokio::wait(async { tokio::time::sleep(ms(n % 2)).await }),
                    };
                    let polled = |expected| {
                        poll_fn(move |_| {
                            assert_eq!(here(), expected);
                            pause();
                            assert_eq!(here(), expected);
                            Poll::Ready(())
                        })
                    };
                    match &handle {
                        Some(handle) if n % 2 == 0 => Tokio::on(handle, polled(id)).wait(),
                        Some(handle) => bast_tokio::run_on(handle, || polled(id).wait()),
                        None if n % 2 == 0 => polled(background()).tokio_wait(),
                        None => polled(None).wait(),
                    }
                    assert_eq!(here(), None);
                }
            }));
        }
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        bast::blocking(|| drop(runtimes));
    });
}

#[test]
fn a_guard_of_the_user_s_own_is_right_if_nothing_suspends() {
    run(|| {
        let runtime = another();
        let id = Some(runtime.handle().id());
        bast_tokio::run(|| {
            let guard = runtime.enter();
            assert_eq!(here(), id);
            assert_eq!(async { here() }.tokio_wait(), id);
            assert_eq!(bast_tokio::run_on(bast_tokio::handle(), here), background());
            drop(guard);
            bast::yield_now();
            assert_eq!(here(), background());
        });
        assert_eq!(here(), None);
        bast::blocking(|| drop(runtime));
    });
}

/// It leaves a context on its worker, so it has a thread of its own.
#[test]
fn a_guard_of_the_user_s_own_held_across_a_suspension_is_told() {
    let fiber = bast::Builder::new().bound().spawn(|| {
        let runtime = another();
        let result = catch_unwind(AssertUnwindSafe(|| {
            bast_tokio::run(|| {
                let _guard = runtime.enter();
                bast::sleep(ms(1));
            })
        }));
        let payload = result.unwrap_err();
        assert!(message(&*payload).contains("use `bast_tokio::run_on("), "{}", message(&*payload));
        // And it can go on.
        let id = Some(runtime.handle().id());
        let seen = bast_tokio::run_on(runtime.handle(), || {
            bast::yield_now();
            here()
        });
        assert_eq!(seen, id);
        bast::blocking(|| drop(runtime));
    });
    fiber.unwrap().join().unwrap();
}

#[test]
fn what_a_fiber_in_the_context_spawns_begins_outside_it() {
    run(|| {
        bast_tokio::run(|| {
            assert_eq!(bast::spawn(here).join().unwrap(), None);
            assert_eq!(bast::spawn_local(here).join().unwrap(), None);
            let inside = bast::spawn(|| bast_tokio::run(here));
            assert_eq!(inside.wait().unwrap(), background());
        });
    });
}
