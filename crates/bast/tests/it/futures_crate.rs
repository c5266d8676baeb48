//! The combinators and channels of the `futures` crate, driven by fibers and plain threads, as users will do.

use std::time::Duration;

use bast::future::Wait;
use bast::promise::{Promise, pause, start};
use futures::channel::{mpsc, oneshot};
use futures::future::{self, Either};
use futures::stream::{self, FuturesUnordered};
use futures::{SinkExt, StreamExt, TryFutureExt};

use crate::harness::on_bast::run;
use crate::harness::on_std;

fn both(body: fn()) {
    run(body);
    on_std::run(body);
}

#[test]
fn join_all_and_futures_unordered() {
    both(|| {
        let fiber = |n: u64| {
            bast::spawn(move || {
                bast::sleep(Duration::from_millis(n % 3));
                n
            })
        };
        let all = future::join_all((0..20).map(fiber)).wait();
        assert!(all.into_iter().map(Result::unwrap).eq(0..20));
        let mut some: Vec<_> = (0..100)
            .map(fiber)
            .collect::<FuturesUnordered<_>>()
            .map(Result::unwrap)
            .collect::<Vec<_>>()
            .wait();
        some.sort_unstable();
        assert!(some.into_iter().eq(0..100));
        // Promises too.
        let promises = (0..50).map(|n| start(move || n).and_then(|n| pause().map(move |()| n)));
        assert_eq!(future::try_join_all(promises).wait().unwrap().len(), 50);
    });
}

#[test]
fn select_and_its_loser() {
    both(|| {
        let (send, receive) = oneshot::channel::<u32>();
        let never = future::pending::<()>();
        let sender = bast::spawn(move || send.send(7));
        let Either::Left((got, _loser)) = future::select(receive, never).wait() else { panic!() };
        assert_eq!(got, Ok(7));
        sender.join().unwrap().unwrap();
        let quick = start(|| 1).map_err(|why| why.to_string());
        let slow = bast::spawn(bast::park).cancel_on_drop();
        let Either::Left((got, slow)) = future::select(quick, slow).wait() else { panic!() };
        assert_eq!(got, Ok(1));
        drop(slow);
    });
}

#[test]
fn channels_between_fibers_threads_and_async_code() {
    both(|| {
        let (mut send, receive) = mpsc::channel::<u32>(2);
        let producer = bast::spawn(move || {
            for n in 0..500 {
                send.send(n).wait().unwrap();
            }
        });
        assert_eq!(receive.fold(0, |sum, n| future::ready(sum + n)).wait(), 499 * 250);
        producer.join().unwrap();

        let (send, mut receive) = mpsc::unbounded();
        let thread = std::thread::spawn(move || {
            (0..500).for_each(|n| send.unbounded_send(n).unwrap());
        });
        let mut next = 0;
        while let Some(n) = receive.next().wait() {
            assert_eq!(n, next);
            next += 1;
        }
        assert_eq!(next, 500);
        thread.join().unwrap();

        let (send, receive) = oneshot::channel::<()>();
        drop(send);
        assert!(receive.wait().is_err());
    });
}

#[test]
fn streams_with_fibers_inside() {
    both(|| {
        let squares = stream::iter(1..=30_u64)
            .map(|n| bast::spawn(move || n * n))
            .buffered(4)
            .map(Result::unwrap)
            .take_while(|&n| future::ready(n < 500))
            .collect::<Vec<_>>()
            .wait();
        assert_eq!(squares.len(), 22);
        let sum = Promise::of(stream::iter(squares).fold(0, |a, b| future::ready(a + b)));
        assert_eq!(sum.wait().unwrap(), (1..=22_u64).map(|n| n * n).sum());
    });
}
