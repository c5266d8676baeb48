//! Stackless tasks: with fibers, with plain threads, and everything that can go wrong with one.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bast::future::Wait;
use bast::{Cancelled, Runtime, task};

use crate::harness::on_bast::run;
use crate::harness::{message, simulated, until};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The simulator has one worker.
fn runtime(workers: usize) -> Runtime {
    let workers = if simulated() { 1 } else { workers };
    Runtime::builder().workers(workers).build().unwrap()
}

/// Notes its drop.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn never(drops: &Arc<AtomicUsize>) -> impl Future<Output = ()> + Send + use<> {
    let dropped = Dropped(Arc::clone(drops));
    async move {
        let _dropped = dropped;
        pending::<()>().await;
    }
}

#[test]
fn a_task_is_started_and_joined_by_threads_fibers_and_tasks() {
    assert_eq!(task::spawn(async { 6 * 7 }).join().unwrap(), 42);
    run(|| {
        assert_eq!(task::spawn(async { 6 * 7 }).join().unwrap(), 42);
        let outer = task::spawn(async {
            let inner: Vec<_> = (0..100).map(|n| task::spawn(async move { n })).collect();
            let mut sum = 0;
            for task in inner {
                sum += task.await.unwrap();
            }
            sum + bast::spawn(|| 50).await.unwrap()
        });
        assert_eq!(outer.wait().unwrap(), 5000);
    });
}

#[test]
fn local_tasks_stay_on_their_worker() {
    run(|| {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                task::spawn_local(async {
                    let thread = Rc::new(std::thread::current().id());
                    for _ in 0..20 {
                        task::yield_now().await;
                        // Woken by another thread.
                        let fiber = bast::spawn(|| bast::sleep(Duration::from_micros(20)));
                        fiber.await.unwrap();
                        assert_eq!(*thread, std::thread::current().id());
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
    let panicked = std::thread::spawn(|| task::spawn_local(async {})).join().unwrap_err();
    let message = panicked.downcast_ref::<&str>().unwrap();
    assert!(message.contains("no worker"), "{message}");
}

#[test]
fn panics_are_the_handle_s() {
    run(|| {
        let task = task::spawn(async { panic!("in a poll, on purpose") });
        let payload = Result::<(), _>::unwrap_err(task.join());
        assert_eq!(payload.downcast_ref(), Some(&"in a poll, on purpose"));
        assert_eq!(task::spawn(async { 1 }).join().unwrap(), 1);
    });
}

#[test]
fn cancelling_drops_the_future() {
    run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let task = task::spawn(never(&drops));
        bast::sleep(ms(1));
        assert!(!task.is_finished());
        task.cancel();
        assert!(task.join().unwrap_err().is::<Cancelled>());
        assert_eq!(drops.load(SeqCst), 1);
    });
}

#[test]
fn a_runtime_drops_the_futures_that_are_pending() {
    for workers in [1, 2, 8] {
        let drops = Arc::new(AtomicUsize::new(0));
        let runtime = runtime(workers);
        let handles: Vec<_> = (0..100).map(|_| runtime.spawn_task(never(&drops))).collect();
        let theirs = Arc::clone(&drops);
        runtime.run(move || {
            (0..100).for_each(|_| drop(task::spawn_local(never(&theirs))));
        });
        drop(runtime);
        assert_eq!(drops.load(SeqCst), 200);
        for handle in handles {
            assert!(handle.join().unwrap_err().is::<Cancelled>());
        }
    }
}

#[test]
fn a_call_that_would_block_panics() {
    run(|| {
        let mutex = Arc::new(bast::sync::Mutex::new(0));
        let theirs = Arc::clone(&mutex);
        task::spawn(async move { *theirs.lock().unwrap() += 1 }).join().unwrap();
        let held = mutex.lock().unwrap();
        let theirs = Arc::clone(&mutex);
        let waits = [
            task::spawn(async { bast::sleep(ms(1)) }),
            task::spawn(async { bast::yield_now() }),
            task::spawn(async { bast::park() }),
            task::spawn(async { bast::blocking(|| ()) }),
            task::spawn(async { bast::block_on(pending()) }),
            task::spawn(async { bast::spawn(|| bast::sleep(ms(50))).join().unwrap() }),
            task::spawn(async move { *theirs.lock().unwrap() = 2 }),
        ];
        for wait in waits {
            let payload = wait.join().unwrap_err();
            let message = payload.downcast_ref::<String>().unwrap();
            assert!(message.contains("bast::spawn"), "{message}");
        }
        drop(held);
    });
}

#[test]
fn a_task_that_wakes_itself_lets_others_go_on() {
    run(|| {
        let spinning = task::spawn(async {
            loop {
                task::yield_now().await;
            }
        });
        for _ in 0..10 {
            bast::sleep(ms(1));
            bast::spawn(bast::yield_now).join().unwrap();
        }
        spinning.cancel();
        let _: Box<_> = spinning.join().unwrap_err();
    });
}

#[test]
fn wakers_are_called_late_and_from_anywhere() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let runtime = runtime(2);
    let keep = Arc::clone(&kept);
    let task = runtime.spawn_task(poll_fn(move |context| {
        let mut kept = keep.lock().unwrap();
        kept.push(context.waker().clone());
        if kept.len() > 3 { Poll::Ready(()) } else { Poll::Pending }
    }));
    for polled in 1..4 {
        while kept.lock().unwrap().len() < polled {
            std::thread::yield_now();
        }
        let waker = kept.lock().unwrap()[polled - 1].clone();
        waker.wake();
    }
    task.join().unwrap();
    kept.lock().unwrap()[0].wake_by_ref();
    drop(runtime);
    for waker in kept.lock().unwrap().drain(..) {
        waker.wake_by_ref();
        waker.wake();
    }
}

/// Panics in its destructor, without a message.
struct Angry(&'static str);

impl Drop for Angry {
    fn drop(&mut self) {
        resume_unwind(Box::new(self.0));
    }
}

fn said<T>(result: std::thread::Result<T>) -> String {
    result.map(drop).map_err(|payload| message(&*payload).to_owned()).unwrap_err()
}

#[test]
fn a_panic_in_a_destructor_is_the_handle_s() {
    run(|| {
        let angry = |what| {
            let angry = Angry(what);
            async move {
                let _angry = angry;
                pending::<()>().await;
            }
        };
        // Cancelled before its first poll, and after.
        for polled in [false, true] {
            let task = task::spawn(angry("in drop"));
            if polled {
                bast::sleep(ms(1));
            }
            task.cancel();
            assert_eq!(said(task.join()), "in drop");
        }
        // The first panic counts.
        let task = task::spawn(poll_fn({
            let angry = Angry("in drop");
            move |_| -> Poll<()> {
                let _ = &angry;
                resume_unwind(Box::new("in a poll"))
            }
        }));
        assert_eq!(said(task.join()), "in a poll");
        // Ready, but it cannot be dropped.
        let task = task::spawn(poll_fn({
            let angry = Angry("in drop");
            move |_| {
                let _ = &angry;
                Poll::Ready(())
            }
        }));
        assert_eq!(said(task.join()), "in drop");
        // Nobody wants what cannot be dropped.
        drop(task::spawn(async { Angry("a result") }));
        let detached = task::spawn(async { Angry("a result") });
        bast::sleep(ms(1));
        drop(detached);
        assert_eq!(task::spawn(async { 7 }).join().unwrap(), 7);
    });
}

#[test]
fn a_runtime_ends_whatever_the_futures_do_about_it() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            bast::sleep(ms(1));
        }
    }
    let runtime = runtime(2);
    let polled = Arc::new(AtomicUsize::new(0));
    let (first, second, third) = (polled.clone(), polled.clone(), polled.clone());
    let angry = Angry("at the end");
    let angry = runtime.spawn_task(async move {
        let _angry = angry;
        first.fetch_add(1, SeqCst);
        pending::<()>().await;
    });
    let waits = runtime.spawn_task(async move {
        let _waits = Waits;
        second.fetch_add(1, SeqCst);
        pending::<()>().await;
    });
    let spins = runtime.spawn_task(async move {
        third.fetch_add(1, SeqCst);
        loop {
            task::yield_now().await;
        }
    });
    // One that has not been polled has nothing that would wait.
    until("all have been polled", || polled.load(SeqCst) == 3);
    drop(runtime);
    assert_eq!(said(angry.join()), "at the end");
    assert!(said(waits.join()).contains("(bast::spawn)"));
    let _: Cancelled = *spins.join().unwrap_err().downcast().unwrap();
}

#[test]
fn a_task_whose_waker_is_lost_stays_until_it_is_cancelled() {
    run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let task = task::spawn(never(&drops));
        let waited = bast::timeout(ms(5), || poll_fn(|_| Poll::<()>::Pending).wait());
        assert!(waited.is_err() && !task.is_finished() && drops.load(SeqCst) == 0);
        task.cancel();
        task.cancel();
        assert!(task.join().unwrap_err().is::<Cancelled>());
        assert_eq!(drops.load(SeqCst), 1);
    });
}

#[test]
fn cancelling_one_who_waits_leaves_the_other() {
    run(|| {
        // A fiber waits for a task. The fiber is cancelled: the task goes on.
        let done = Arc::new(AtomicUsize::new(0));
        let (send, receive) = bast::sync::mpsc::channel();
        let theirs = Arc::clone(&done);
        let gate = bast::spawn(move || receive.recv().unwrap());
        let task = task::spawn(async move {
            gate.await.unwrap();
            theirs.fetch_add(1, SeqCst);
        });
        let fiber = bast::spawn(move || task.join().unwrap());
        bast::sleep(ms(1));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        send.send(()).unwrap();
        while done.load(SeqCst) == 0 {
            bast::yield_now();
        }
        // The task is cancelled: the fiber hears of it.
        let task = Arc::new(task::spawn(pending::<()>()));
        let theirs = Arc::clone(&task);
        let fiber = bast::spawn(move || {
            bast::sleep(ms(1));
            theirs.cancel();
        });
        fiber.join().unwrap();
        let task = Arc::into_inner(task).unwrap();
        assert!(bast::spawn(|| task.join()).join().unwrap().unwrap_err().is::<Cancelled>());
        // A task waits for a fiber, likewise both ways.
        let sleeper = bast::spawn(|| bast::sleep(Duration::from_secs(1000)));
        let id = sleeper.fiber();
        let task = task::spawn(sleeper);
        bast::sleep(ms(1));
        id.cancel();
        assert!(task.join().unwrap().unwrap_err().is::<Cancelled>());
        let (send, receive) = bast::sync::mpsc::channel();
        let task = task::spawn(bast::spawn(move || receive.recv().unwrap()));
        bast::sleep(ms(1));
        task.cancel();
        assert!(task.join().unwrap_err().is::<Cancelled>());
        // The fiber has been detached, and still listens.
        send.send(7).unwrap();
    });
}

#[test]
fn a_waker_that_panics_ends_nothing_else() {
    struct Loud;
    impl Wake for Loud {
        fn wake(self: Arc<Loud>) {
            panic!("a waker, on purpose");
        }
    }
    run(|| {
        let fiber = bast::spawn(|| bast::sleep(ms(1)));
        let mut task = task::spawn(fiber);
        let waker = Waker::from(Arc::new(Loud));
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
        while !task.is_finished() {
            bast::yield_now();
        }
        task.join().unwrap().unwrap();
    });
}

#[test]
fn what_need_not_wait_goes_through_in_a_task() {
    run(|| {
        task::spawn(async {
            assert_eq!(bast::block_on(async { 7 }), 7);
            let (send, receive) = bast::sync::mpsc::channel();
            send.send(1).unwrap();
            assert_eq!(receive.recv(), Ok(1));
            let mut fiber = bast::spawn(|| 2);
            (&mut fiber).await.unwrap();
            assert!(fiber.is_finished());
            assert_eq!(bast::timeout(ms(1000), || 3), Ok(3));
        })
        .join()
        .unwrap();
    });
}

#[test]
fn what_borrows_the_caller_s_frame_does_not_begin_in_a_task() {
    let calls: [fn(); 4] = [
        || bast::scope(|s| drop(s.spawn(bast::park))),
        || drop(bast::par_map(0..2, 2, |n| n)),
        || {
            drop(bast::group(|g| {
                drop(g.spawn(|| Ok(())));
                Ok::<_, Cancelled>(())
            }))
        },
        || Runtime::builder().workers(1).build().unwrap().run(|| ()),
    ];
    run(move || {
        for call in calls {
            let said = said(task::spawn(async move { call() }).join());
            assert!(said.contains("(bast::spawn)"), "{said}");
        }
    });
}

/// Who is refused has not come: the barrier waits for as many as before.
#[test]
fn a_barrier_does_not_count_the_task_that_it_refuses() {
    run(|| {
        let barrier = Arc::new(bast::sync::Barrier::new(2));
        let theirs = Arc::clone(&barrier);
        let said = said(task::spawn(async move { theirs.wait().is_leader() }).join());
        assert!(said.contains("Barrier::wait"), "{said}");
        let leads = bast::scope(|s| {
            let both = [(); 2].map(|()| s.spawn(|| barrier.wait().is_leader()));
            both.map(|fiber| fiber.join().unwrap())
        });
        assert!(leads[0] ^ leads[1], "{leads:?}");
    });
}

bast::fiber_local! {
    static STEPS: Cell<u32> = const { Cell::new(0) };
    inherit static NAME: &'static str = "nobody";
}

#[test]
fn a_task_has_no_fiber_locals() {
    run(|| {
        STEPS.set(5);
        NAME.with(|_| ());
        let task = task::spawn(async {
            assert!(STEPS.try_with(|_| ()).unwrap_err().to_string().contains("a task has no"));
            assert_eq!(bast::spawn(|| NAME.with(|name| *name)).await.unwrap(), "nobody");
            STEPS.get()
        });
        assert!(said(task.join()).contains("a task has no fiber-local"));
        assert_eq!(STEPS.get(), 5);
    });
}
