//! Waiting for futures that behave badly, and for good ones under bad conditions.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bast::future::Wait;
use bast::promise::Promise;
use bast::sync::mpsc;
use bast::{Builder, Cancelled, Runtime, block_on};

use crate::harness::on_bast::run;
use crate::harness::{message, on_std};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Pending for ever; counts its polls and drops, and keeps its last waker, if told to.
#[derive(Default)]
struct Never {
    polls: AtomicUsize,
    drops: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

struct Pending {
    never: Arc<Never>,
    keeps: bool,
}

impl Never {
    fn future(self: &Arc<Never>, keeps: bool) -> Pending {
        Pending { never: Arc::clone(self), keeps }
    }

    fn until_polled(&self) {
        while self.polls.load(SeqCst) == 0 {
            bast::yield_now();
        }
    }
}

impl Future for Pending {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = self.keeps.then(|| context.waker().clone());
        *self.never.waker.lock().unwrap() = waker;
        self.never.polls.fetch_add(1, SeqCst);
        Poll::Pending
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.never.drops.fetch_add(1, SeqCst);
    }
}

#[test]
fn whose_waker_is_dropped_can_be_seen_and_cancelled() {
    run(|| {
        let never = Arc::<Never>::default();
        let future = never.future(false);
        let name = "its waker is dropped";
        let fiber = Builder::new().name(name.into()).spawn(|| future.wait()).unwrap();
        never.until_polled();
        let waits = |dump: &bast::Dump| {
            dump.fibers().any(|f| f.name() == Some(name) && f.waits_in() == Some("a future"))
        };
        while !waits(&bast::dump()) {
            bast::yield_now();
        }
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        assert_eq!((never.polls.load(SeqCst), never.drops.load(SeqCst)), (1, 1));
    });
}

#[test]
fn whose_waker_is_called_by_many_threads_before_and_after_the_end() {
    let body = || {
        for _ in 0..50 {
            let (ready, start) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(4)));
            let waker = Arc::<Mutex<Option<Waker>>>::default();
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (ready, start) = (Arc::clone(&ready), Arc::clone(&start));
                    let waker = Arc::clone(&waker);
                    std::thread::spawn(move || {
                        start.wait();
                        let waker = loop {
                            if let Some(waker) = waker.lock().unwrap().clone() {
                                break waker;
                            }
                            std::thread::yield_now();
                        };
                        (0..50).for_each(|_| waker.wake_by_ref());
                        ready.store(true, SeqCst);
                        // The wait may be over from here on.
                        (0..50).for_each(|_| waker.wake_by_ref());
                        waker.wake();
                    })
                })
                .collect();
            start.wait();
            poll_fn(|context| {
                waker.lock().unwrap().get_or_insert_with(|| context.waker().clone());
                if ready.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            })
            .wait();
            // A wait for something else, while they still wake.
            let (send, receive) = mpsc::channel();
            let sender = bast::spawn(move || send.send(7));
            assert_eq!(receive.recv(), Ok(7));
            sender.join().unwrap().unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    };
    run(body);
    on_std::run(body);
}

#[test]
fn that_panic_in_poll_are_dropped_once_and_harm_nobody() {
    run(|| {
        let never = Arc::<Never>::default();
        for later in [false, true] {
            let guard = never.future(false);
            let fiber = bast::spawn(move || {
                async move {
                    let _guard = guard;
                    if later {
                        bast::spawn(|| bast::sleep(ms(1))).await.unwrap();
                    }
                    panic!("a poll, on purpose");
                }
                .wait();
            });
            assert_eq!(message(&*fiber.join().unwrap_err()), "a poll, on purpose");
        }
        assert_eq!(never.drops.load(SeqCst), 2);
        assert_eq!(block_on(async { 1 }), 1);
    });
}

#[test]
fn that_panic_in_drop_do_so_to_the_caller_and_keep_no_value() {
    struct Angry;
    impl Drop for Angry {
        fn drop(&mut self) {
            panic!("a drop, on purpose");
        }
    }
    impl Future for Angry {
        type Output = Rc<()>;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Rc<()>> {
            Poll::Ready(Rc::new(()))
        }
    }
    let body = || {
        let panic = std::panic::catch_unwind(|| drop(Angry.wait())).unwrap_err();
        assert_eq!(message(&*panic), "a drop, on purpose");
        // The fiber is as good as before.
        assert_eq!(block_on(bast::spawn(|| 1)).unwrap(), 1);
    };
    run(body);
    on_std::run(body);
    // While a cancellation unwinds: a destructor that panics then aborts, so it must see that.
    run(|| {
        struct Polite(Arc<Never>);
        impl Drop for Polite {
            fn drop(&mut self) {
                assert!(std::thread::panicking());
                // Suspends, as destructors may.
                bast::sleep(ms(1));
                self.0.drops.fetch_add(1, SeqCst);
            }
        }
        let never = Arc::<Never>::default();
        let (future, polite) = (never.future(true), Polite(Arc::clone(&never)));
        let fiber = bast::spawn(move || {
            async move {
                let _polite = polite;
                future.await;
            }
            .wait();
        });
        never.until_polled();
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        assert_eq!(never.drops.load(SeqCst), 2);
    });
}

#[test]
fn cancelled_at_any_moment_the_future_is_dropped_once() {
    run(|| {
        for round in 0..300_usize {
            let never = Arc::<Never>::default();
            let future = never.future(true);
            let fiber = bast::spawn(move || future.wait());
            (0..round % 4).for_each(|_| bast::yield_now());
            if round % 2 == 0 {
                never.until_polled();
                // A wake and the cancellation at once.
                let waker = never.waker.lock().unwrap().clone();
                waker.into_iter().for_each(Waker::wake);
            }
            fiber.cancel();
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
            assert_eq!(never.drops.load(SeqCst), 1);
            // Long after the end.
            let waker = never.waker.lock().unwrap().take();
            waker.into_iter().for_each(Waker::wake);
        }
    });
}

#[test]
fn that_are_pending_when_the_runtime_is_dropped_are_dropped() {
    let never = Arc::<Never>::default();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let inside = Arc::clone(&never);
    let fibers = runtime.run(move || {
        let fibers: Vec<_> = (0..10)
            .map(|n| {
                let (future, other) = (inside.future(n % 2 == 0), inside.future(true));
                bast::spawn(move || {
                    // Nested, in some.
                    if n % 3 == 0 {
                        poll_fn(|_| {
                            other.never.future(true).wait();
                            Poll::Ready(())
                        })
                        .wait();
                    }
                    future.wait();
                })
            })
            .collect();
        while inside.polls.load(SeqCst) < 10 {
            bast::yield_now();
        }
        fibers
    });
    drop(runtime);
    for fiber in fibers {
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
    }
    assert_eq!(Arc::strong_count(&never), 1, "all futures are gone");
    let waker = never.waker.lock().unwrap().take();
    waker.into_iter().for_each(Waker::wake);
}

#[test]
fn inside_select_timeouts_masks_and_each_other() {
    run(|| {
        let never = Arc::<Never>::default();
        // Nested, and given up from outside.
        let nested = bast::timeout(ms(3), || {
            poll_fn(|_| {
                never.future(true).wait();
                Poll::Ready(())
            })
            .wait();
        });
        assert!(nested.is_err());
        assert_eq!(never.drops.load(SeqCst), 1);
        // The outer one does not miss what came while it waited inside.
        let value = poll_fn(|context| {
            let waker = context.waker().clone();
            let inner = block_on(async move {
                waker.wake();
                bast::spawn(|| 20).await.unwrap()
            });
            Poll::Ready(inner + block_on(async { 1 }))
        });
        assert_eq!(value.wait(), 21);
        // A mask holds the cancellation off until the wait is over.
        let (promise, resolver) = Promise::new();
        let masked = Arc::new(AtomicBool::new(false));
        let is_masked = Arc::clone(&masked);
        let fiber = bast::spawn(move || {
            bast::mask(|| {
                is_masked.store(true, SeqCst);
                promise.wait().unwrap()
            });
            bast::park();
        });
        while !masked.load(SeqCst) {
            bast::yield_now();
        }
        fiber.cancel();
        bast::sleep(ms(1));
        assert!(!fiber.is_finished());
        resolver.resolve(1);
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        // One arm of a `select!` is a fiber that awaits.
        let future = never.future(true);
        let mut waiting = bast::spawn(move || future.wait());
        let (send, receive) = mpsc::channel();
        send.send(5).unwrap();
        let got = bast::select! {
            got = bast::select::recv(&receive) => got.unwrap(),
            _ = bast::select::join(&mut waiting) => unreachable!("it never ends"),
        };
        assert_eq!(got, 5);
        drop(waiting.cancel_on_drop());
        while never.drops.load(SeqCst) < 2 {
            bast::yield_now();
        }
    });
}

#[test]
fn a_handle_that_cancels_when_it_is_dropped() {
    run(|| {
        let (send, receive) = mpsc::channel::<()>();
        let endless = || {
            let send = send.clone();
            bast::spawn(move || {
                let _send = send;
                bast::park();
                1
            })
        };
        // Dropped by a future that is given up, by hand, and with the fiber that joins.
        let awaits = endless().cancel_on_drop();
        assert!(bast::timeout(ms(2), || awaits.wait()).is_err());
        drop(endless().cancel_on_drop());
        let (joins, inner) = (endless().cancel_on_drop(), endless());
        let joining = bast::spawn(move || joins.join());
        bast::sleep(ms(1));
        joining.cancel();
        assert!(joining.join().unwrap_err().is::<Cancelled>());
        drop(send);
        inner.fiber().unpark();
        assert_eq!(inner.join().unwrap(), 1);
        assert!(receive.recv().is_err(), "all have gone");

        let handle = bast::spawn(|| 2).cancel_on_drop();
        assert_eq!(handle.join().unwrap(), 2);
        assert_eq!(bast::spawn(|| 3).cancel_on_drop().wait().unwrap(), 3);
        let kept = bast::spawn(bast::yield_now).cancel_on_drop().into_inner();
        kept.join().unwrap();
    });
}
