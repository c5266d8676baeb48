//! Stackless tasks: with fibers, with plain threads, and everything that can go wrong with one.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bast::future::Wait;
use bast::{Cancelled, Runtime, task};

use crate::harness::on_bast::run;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
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
        std::future::pending::<()>().await;
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
        let runtime = Runtime::builder().workers(workers).build().unwrap();
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
            task::spawn(async { bast::block_on(std::future::pending()) }),
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
        let _: Box<_> = spinning.join().map(|()| ()).unwrap_err();
    });
}

#[test]
fn wakers_are_called_late_and_from_anywhere() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let runtime = Runtime::builder().workers(2).build().unwrap();
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
