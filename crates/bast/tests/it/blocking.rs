//! The pool for blocking calls, seen from fibers: exhausted, full, idle, broken into.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bast::{BlockingError, Runtime, RuntimeBuilder, blocking, try_blocking};

use crate::fs::Temp;
use crate::harness::{needs_kernel, until};

fn pool(threads: usize) -> RuntimeBuilder {
    Runtime::builder().workers(1).blocking_threads(threads)
}

/// Fills all `threads` of the pool until the sender goes.
fn occupy(runtime: &Runtime, threads: usize) -> (mpsc::Sender<()>, Vec<bast::JoinHandle<()>>) {
    let (open, gate) = mpsc::channel();
    let gate = Arc::new(Mutex::new(gate));
    let fibers = (0..threads).map(|_| {
        let gate = Arc::clone(&gate);
        runtime.spawn(move || blocking(move || gate.lock().unwrap().recv().unwrap_or_default()))
    });
    let fibers = fibers.collect();
    until("all threads have work", || {
        let metrics = runtime.metrics();
        metrics.blocking_calls == threads as u64 && metrics.blocking_queued == 0
    });
    (open, fibers)
}

/// Fibers without blocking calls go on; those with one wait their turn; files are slow, and never refused.
#[test]
fn an_exhausted_pool_makes_calls_wait_in_order() {
    needs_kernel!();
    let runtime = pool(2).blocking_queue(0).build().unwrap();
    let dir = Temp::new();
    let path = dir.join("file");
    std::fs::write(&path, "text").unwrap();
    let (open, fibers) = occupy(&runtime, 2);
    let order = Arc::new(Mutex::new(Vec::new()));
    let waiting: Vec<_> = (0..10)
        .map(|n| {
            let push = Arc::clone(&order);
            let fiber = runtime.spawn(move || blocking(move || push.lock().unwrap().push(n)));
            until("it is queued", || runtime.metrics().blocking_queued == n + 1);
            fiber
        })
        .collect();
    let file = runtime.spawn(move || bast::fs::metadata(&path).unwrap().len());
    until("so is the file", || runtime.metrics().blocking_queued == 11);
    runtime.run(|| bast::sleep(Duration::from_millis(2)));
    assert!(order.lock().unwrap().is_empty() && !file.is_finished());
    drop(open);
    for fiber in fibers.into_iter().chain(waiting) {
        fiber.join().unwrap();
    }
    assert_eq!(file.join().unwrap(), 4);
    let mut order = order.lock().unwrap().clone();
    // Two threads take them in order, but either may be held up before it comes to the list: when a call
    // is there, at most one that was taken before it is not.
    for (at, call) in order.iter().enumerate() {
        let late = order[at..].iter().filter(|&later| later < call).count();
        assert!(late <= 1, "{order:?}");
    }
    order.sort_unstable();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    let metrics = runtime.metrics();
    assert_eq!(
        (metrics.blocking_calls, metrics.blocking_waits, metrics.blocking_refused),
        (13, 11, 0)
    );
    assert_eq!((metrics.blocking_busy_most, metrics.blocking_queued_most), (2, 11));
    assert!(metrics.blocking_waited >= Duration::from_millis(2), "{metrics}");
    assert!(metrics.to_string().contains("11 waited for a thread"), "{metrics}");
}

#[test]
fn a_full_queue_is_an_error_that_says_what_to_do() {
    needs_kernel!();
    let runtime = pool(1).blocking_queue(1).build().unwrap();
    let (open, fibers) = occupy(&runtime, 1);
    let waits = runtime.spawn(|| try_blocking(|| 1));
    until("it waits", || runtime.metrics().blocking_queued == 1);
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = Arc::clone(&ran);
    let error = runtime.run(move || try_blocking(|| runs.fetch_add(1, SeqCst)).unwrap_err());
    assert!(matches!(error, BlockingError::Full { queue: 1, threads: 1, .. }), "{error:?}");
    let text = error.to_string();
    for part in
        ["1 threads have work", "1 calls wait", "BAST_BLOCKING_THREADS", "BAST_BLOCKING_QUEUE"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::ResourceBusy);
    drop(open);
    assert_eq!(waits.join().unwrap().unwrap(), 1);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert_eq!(runtime.run(|| try_blocking(|| 2)).unwrap(), 2);
    assert_eq!((ran.load(SeqCst), runtime.metrics().blocking_refused), (0, 1));
}

#[test]
fn threads_have_names_survive_panics_and_go_when_idle() {
    needs_kernel!();
    let keep_alive = Duration::from_millis(20);
    let runtime = pool(4).blocking_min_threads(1).blocking_keep_alive(keep_alive).build().unwrap();
    let name = runtime.run(|| blocking(|| std::thread::current().name().map(str::to_owned)));
    assert_eq!(name.as_deref(), Some("bast-blocking-0"));
    for _ in 0..20 {
        let fibers: Vec<_> = (0_usize..8)
            .map(|n| {
                runtime.spawn(move || {
                    blocking(|| std::panic::resume_unwind(Box::new(n)));
                })
            })
            .collect();
        for (n, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.join().unwrap_err().downcast_ref(), Some(&n));
        }
    }
    assert!((1..=4).contains(&runtime.metrics().blocking_threads));
    until("one stays", || runtime.metrics().blocking_threads == 1);
    assert_eq!(runtime.run(|| blocking(|| 5)), 5);
}

/// A fiber that is cancelled while its call waits is gone from the queue; a limited one, too.
#[test]
fn cancelled_calls_leave_room() {
    needs_kernel!();
    let runtime = pool(1).blocking_queue(1).build().unwrap();
    let (open, fibers) = occupy(&runtime, 1);
    for _ in 0..50 {
        let waits = runtime.spawn(|| bast::blocking_interruptible(|| Ok(())));
        until("it waits", || runtime.metrics().blocking_queued == 1);
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<bast::Cancelled>());
        assert_eq!(runtime.metrics().blocking_queued, 0);
    }
    drop(open);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

#[test]
fn outside_fibers_nothing_is_refused() {
    assert_eq!(try_blocking(|| 7).unwrap(), 7);
}
