//! Fibers and plain threads that wait for futures, and futures that wait for fibers.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bast::future::Wait;
use bast::{Cancelled, block_on};

use crate::harness::on_bast::run;
use crate::harness::{on_std, rounds};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Something that becomes ready once, and the waker of who waits for it.
#[derive(Default)]
struct Event(Mutex<(bool, Option<Waker>)>);

impl Event {
    fn new() -> Arc<Event> {
        Arc::default()
    }

    fn set(&self) {
        let waker = {
            let mut event = self.0.lock().unwrap();
            event.0 = true;
            event.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut event = self.0.lock().unwrap();
        if event.0 {
            return Poll::Ready(());
        }
        event.1 = Some(context.waker().clone());
        Poll::Pending
    }

    async fn wait(self: Arc<Event>) {
        poll_fn(|context| self.poll(context)).await;
    }
}

/// Pending once, having woken itself.
async fn pause() {
    let mut paused = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn what_is_ready_is_given_at_once() {
    let body = || {
        // Not Send, and borrowed.
        let text = Rc::new(RefCell::new(String::from("a")));
        let borrowed = &text;
        async { borrowed.borrow_mut().push('b') }.wait();
        assert_eq!(*text.borrow(), "ab");
        assert_eq!(block_on(std::future::ready(3)), 3);
    };
    run(body);
    on_std::run(body);
}

#[test]
fn a_waker_may_be_called_before_during_and_after_the_park() {
    let body = || {
        for round in 0..rounds(200) {
            let event = Event::new();
            let other = Arc::clone(&event);
            let thread = std::thread::spawn(move || {
                for _ in 0..round % 20 * 500 {
                    std::hint::spin_loop();
                }
                other.set();
            });
            event.wait().wait();
            thread.join().unwrap();
        }
    };
    run(body);
    on_std::run(body);
}

#[test]
fn a_neighbour_on_the_same_worker_wakes() {
    run(|| {
        for _ in 0..1000 {
            let event = Event::new();
            let other = Arc::clone(&event);
            let fiber = bast::spawn_local(move || other.set());
            event.wait().wait();
            fiber.join().unwrap();
        }
    });
}

#[test]
fn a_future_that_wakes_itself_lets_others_run() {
    run(|| {
        let turns = Rc::new(RefCell::new(Vec::new()));
        let neighbour = Rc::clone(&turns);
        let fiber = bast::spawn_local(move || {
            for _ in 0..3 {
                neighbour.borrow_mut().push('n');
                bast::yield_now();
            }
        });
        async {
            for _ in 0..6 {
                pause().await;
                turns.borrow_mut().push('f');
            }
        }
        .wait();
        fiber.join().unwrap();
        let turns: String = turns.borrow().iter().collect();
        assert!(turns.contains("fn") && turns.starts_with('n'), "{turns}");
    });
    on_std::run(|| pause().wait());
}

/// What is polled is code like any other: it may suspend. A wake for the future that comes meanwhile must
/// not be used up by that.
#[test]
fn a_wake_that_comes_while_the_poll_itself_waits_is_not_lost() {
    run(|| {
        let event = Event::new();
        let other = Arc::clone(&event);
        let local = bast::spawn_local(move || {
            bast::sleep(ms(1));
            other.set();
        });
        poll_fn(|context| {
            let polled = event.poll(context);
            bast::sleep(ms(5));
            polled
        })
        .wait();
        local.join().unwrap();
        // From another thread, and with a future inside.
        for inner in [false, true] {
            let event = Event::new();
            let other = Arc::clone(&event);
            let thread = std::thread::spawn(move || {
                std::thread::sleep(ms(1));
                other.set();
            });
            poll_fn(|context| {
                let polled = event.poll(context);
                let later = Event::new();
                let set = Arc::clone(&later);
                let neighbour = bast::spawn(move || {
                    bast::sleep(ms(5));
                    set.set();
                });
                if inner {
                    later.wait().wait();
                }
                neighbour.join().unwrap();
                polled
            })
            .wait();
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_waker_outlives_the_wait_and_the_fiber() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let fiber = bast::spawn(move || {
        poll_fn(|context| {
            let mut kept = keep.lock().unwrap();
            kept.push(context.waker().clone());
            if kept.len() == 3 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .wait();
        // A wake for what is over is no reason to end another wait.
        keep.lock().unwrap()[0].wake_by_ref();
        let (send, receive) = bast::sync::mpsc::channel();
        let sender = bast::spawn(move || {
            bast::sleep(ms(5));
            send.send(7).unwrap();
        });
        assert_eq!(receive.recv(), Ok(7));
        sender.join().unwrap();
    });
    fiber.join().unwrap();
    for waker in kept.lock().unwrap().drain(..) {
        let clone = waker.clone();
        assert!(clone.will_wake(&waker));
        waker.wake();
        clone.wake_by_ref();
    }
}

/// Notes its drop.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn cancelling_and_timeouts_end_the_wait_and_drop_the_future() {
    run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let never = |drops: &Arc<AtomicUsize>| {
            let dropped = Dropped(Arc::clone(drops));
            async move {
                let _dropped = dropped;
                std::future::pending::<()>().await;
            }
        };
        assert!(bast::timeout(ms(2), || never(&drops).wait()).is_err());
        assert_eq!(drops.load(SeqCst), 1);
        let future = never(&drops);
        let fiber = bast::spawn(move || future.wait());
        bast::sleep(ms(2));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        assert_eq!(drops.load(SeqCst), 2);
        // One that never stops waking itself can be ended too.
        assert!(
            bast::timeout(ms(2), || async {
                loop {
                    pause().await
                }
            }
            .wait())
            .is_err()
        );
    });
    on_std::run(|| {
        assert!(bast::timeout(ms(2), || std::future::pending::<()>().wait()).is_err());
    });
}

/// Both values, awaited at once.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    poll_fn(move |context| {
        if left.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(context)
        {
            left = Some(value);
        }
        if right.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(context)
        {
            right = Some(value);
        }
        match (left.take(), right.take()) {
            (Some(l), Some(r)) => Poll::Ready((l, r)),
            (l, r) => {
                (left, right) = (l, r);
                Poll::Pending
            }
        }
    })
    .await
}

#[test]
fn a_join_handle_is_a_future() {
    let body = || {
        for _ in 0..100 {
            let slow = bast::spawn(|| {
                bast::sleep(ms(1));
                1
            });
            let quick = bast::spawn(|| 2);
            let (one, two) = both(slow, quick).wait();
            assert_eq!((one.unwrap(), two.unwrap()), (1, 2));
        }
        let panics = bast::spawn(|| std::panic::resume_unwind(Box::new("no")));
        let result: std::thread::Result<()> = panics.wait();
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&"no"));
    };
    run(body);
    on_std::run(body);
}

/// Counts its wakes.
#[derive(Default)]
struct Counter(AtomicUsize);

impl std::task::Wake for Counter {
    fn wake(self: Arc<Counter>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_handle_that_has_been_polled_can_still_be_joined_dropped_selected_and_polled_by_another() {
    run(|| {
        for round in 0..400_u32 {
            let [first, second] = [(); 2].map(|()| Arc::<Counter>::default());
            let [one, two] = [&first, &second].map(|c| Waker::from(Arc::clone(c)));
            let mut fiber = bast::spawn(move || {
                for _ in 0..round % 7 {
                    bast::yield_now();
                }
                round
            });
            if Pin::new(&mut fiber).poll(&mut Context::from_waker(&one)).is_ready() {
                continue;
            }
            match round % 4 {
                0 => assert_eq!(fiber.join().unwrap(), round),
                1 => drop(fiber),
                2 => assert_eq!(
                    bast::select! { done = bast::select::join(&mut fiber) => done.unwrap() },
                    round
                ),
                _ => {
                    let mut context = Context::from_waker(&two);
                    let mut polled = Pin::new(&mut fiber).poll(&mut context);
                    let at_once = polled.is_ready();
                    while polled.is_pending() {
                        bast::yield_now();
                        polled = Pin::new(&mut fiber).poll(&mut context);
                    }
                    let Poll::Ready(result) = polled else { unreachable!() };
                    assert_eq!(result.unwrap(), round);
                    // Whoever polled last is woken, and nobody else.
                    assert!(at_once || first.0.load(SeqCst) == 0);
                }
            }
            assert!(first.0.load(SeqCst) + second.0.load(SeqCst) <= 1);
        }
    });
}

#[test]
fn a_waker_that_panics_ends_nothing_else() {
    struct Angry;
    impl std::task::Wake for Angry {
        fn wake(self: Arc<Angry>) {
            panic!("a waker, on purpose");
        }
    }
    run(|| {
        let mut fiber = bast::spawn(bast::park);
        let waker = Waker::from(Arc::new(Angry));
        assert!(Pin::new(&mut fiber).poll(&mut Context::from_waker(&waker)).is_pending());
        fiber.fiber().unpark();
        fiber.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "its future, on purpose")]
fn the_future_s_panic_is_the_caller_s() {
    run(|| async { panic!("its future, on purpose") }.wait());
}
