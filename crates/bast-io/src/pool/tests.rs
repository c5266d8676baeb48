//! The pool by itself: records that no driver keeps.

use super::*;
use crate::Waker;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn home() -> Arc<Remote> {
    Arc::new(Remote::new(Waker::new().expect("eventfd")))
}

fn record(call: unsafe fn(*mut ()) -> i32, data: *mut ()) -> Record {
    Record::new(Op::Call { call, data, interruptible: false, limited: false }, std::ptr::null_mut())
}

fn wait_for(home: &Remote, n: usize) -> Vec<Outcome> {
    let end = Instant::now() + Duration::from_secs(100);
    let mut got = Vec::new();
    while got.len() < n && Instant::now() < end {
        home.waker().wait(Some(Duration::from_millis(100)));
        let mut next = home.take();
        while let Some(r) = next {
            // SAFETY: the record is ours again; it lives in the test's frame.
            let r = unsafe { r.as_ref() };
            next = r.next;
            got.push(r.outcome);
        }
    }
    got
}

unsafe fn gate(data: *mut ()) -> i32 {
    // SAFETY: the tests pass a counter that outlives the call.
    let gate = unsafe { &*data.cast::<AtomicUsize>() };
    while gate.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    5
}

unsafe fn panics(_: *mut ()) -> i32 {
    std::panic::resume_unwind(Box::new("on purpose"));
}

#[test]
fn runs_cancels_and_survives_a_panic() {
    let (pool, home) = (Pool::new(1), home());
    let open = AtomicUsize::new(0);
    let data = (&raw const open).cast_mut().cast::<()>();
    let mut running = record(gate, data);
    let mut queued = record(gate, data);
    let mut bad = record(panics, data);
    let (r, q, b) = ((&mut running).into(), (&mut queued).into(), (&mut bad).into());
    // SAFETY: the records and the gate outlive the wait below.
    unsafe {
        pool.submit(r, &home).expect("thread");
        while !pool.shared.lock().queue.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        pool.submit(b, &home).expect("thread");
        pool.submit(q, &home).expect("thread");
        assert!(pool.cancel(q), "it waits behind the running one");
        assert!(!pool.cancel(q), "and is gone");
        assert!(!pool.cancel(r), "a running one runs to its end");
    }
    open.store(1, Ordering::Release);
    let mut got = wait_for(&home, 2);
    got.sort_by_key(|o| o.0);
    assert_eq!(got, [Outcome::from_errno(c::EIO), Outcome(5)]);
    assert_eq!(pool.threads(), 1, "the bound holds and the panic ended nothing");
}

#[test]
fn threads_come_on_demand_and_go_when_idle() {
    let (pool, home) = (short_lived(0, 8), home());
    let open = AtomicUsize::new(0);
    let data = (&raw const open).cast_mut().cast::<()>();
    let mut records: Vec<_> = (0..12).map(|_| record(gate, data)).collect();
    for r in &mut records {
        // SAFETY: the records and the gate outlive the wait below.
        unsafe { pool.submit(r.into(), &home) }.expect("thread");
    }
    assert_eq!(pool.threads(), 8);
    open.store(1, Ordering::Release);
    assert_eq!(wait_for(&home, 12), vec![Outcome(5); 12]);
    let end = Instant::now() + Duration::from_secs(100);
    while pool.threads() > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(pool.threads(), 0);
}

fn short_lived(min_threads: usize, max_threads: usize) -> Pool {
    let idle_for = Duration::from_millis(30);
    Pool::with_bounds(Bounds { min_threads, max_threads, idle_for, queue: 2 })
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(100);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_least_number_of_threads_stays() {
    let (pool, home) = (short_lived(2, 6), home());
    let open = AtomicUsize::new(0);
    let data = (&raw const open).cast_mut().cast::<()>();
    let mut records: Vec<_> = (0..6).map(|_| record(gate, data)).collect();
    for r in &mut records {
        // SAFETY: the records and the gate outlive the wait below.
        unsafe { pool.submit(r.into(), &home) }.expect("thread");
    }
    open.store(1, Ordering::Release);
    assert_eq!(wait_for(&home, 6), vec![Outcome(5); 6]);
    until("all but two end", || pool.threads() == 2);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(pool.threads(), 2);
}

#[cfg(unix)]
unsafe fn own_id(_: *mut ()) -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

#[cfg(unix)]
/// Ticks of processor time that a thread of this process has used.
fn ticks(thread: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// A thread that is to stay does not ask again and again whether it may go.
#[cfg(unix)]
#[test]
fn threads_that_stay_sleep() {
    let bounds = Bounds { min_threads: 1, idle_for: Duration::ZERO, ..Bounds::DEFAULT };
    let (pool, home) = (Pool::with_bounds(bounds), home());
    let mut r = record(own_id, std::ptr::null_mut());
    // SAFETY: the record outlives the wait below.
    unsafe { pool.submit((&mut r).into(), &home) }.expect("thread");
    let thread = wait_for(&home, 1)[0].0;
    std::thread::sleep(Duration::from_millis(400));
    let used = ticks(thread);
    assert!(used < 5, "{used} ticks of processor time, for nothing");
    assert_eq!(pool.threads(), 1);
}

/// The queue's limit concerns limited calls only, and everything is counted.
#[test]
fn a_full_queue_refuses_limited_calls() {
    let (pool, home) = (short_lived(0, 1), home());
    let open = AtomicUsize::new(0);
    let data = (&raw const open).cast_mut().cast::<()>();
    let limited = || {
        let op = Op::Call { call: gate, data, interruptible: false, limited: true };
        Record::new(op, std::ptr::null_mut())
    };
    let mut taken = [limited(), limited(), limited()];
    let (mut refused, mut patient) = (limited(), record(gate, data));
    // SAFETY: the records and the gate outlive the wait below.
    unsafe {
        for r in &mut taken {
            pool.submit(r.into(), &home).expect("one runs, two wait");
        }
        let full = Err(Outcome::from_errno(c::EBUSY));
        assert_eq!(pool.submit((&mut refused).into(), &home), full);
        pool.submit((&mut patient).into(), &home).expect("it waits, however many there are");
    }
    until("the thread has begun", || pool.stats().queued == 3);
    std::thread::sleep(Duration::from_millis(5));
    open.store(1, Ordering::Release);
    assert_eq!(wait_for(&home, 4), vec![Outcome(5); 4]);
    let stats = pool.stats();
    assert_eq!((stats.calls, stats.waits, stats.refused), (4, 3, 1));
    assert_eq!((stats.queued, stats.busy_most), (0, 1));
    assert!((3..=5).contains(&stats.queued_most), "{stats:?}");
    assert!(stats.waited >= Duration::from_millis(15), "three, for 5 ms: {stats:?}");
}

/// More address space than there is, so that no thread can be made.
const TOO_MUCH: Option<usize> = Some(1 << 60);

#[test]
fn without_threads_a_call_is_an_error_and_with_one_it_waits() {
    let (pool, home) = (short_lived(1, 4), home());
    let open = AtomicUsize::new(0);
    let data = (&raw const open).cast_mut().cast::<()>();
    let mut records: Vec<_> = (0..5).map(|_| record(gate, data)).collect();
    pool.shared.lock().stack_size = TOO_MUCH;
    // SAFETY: the records and the gate outlive the wait below.
    unsafe {
        let none = Err(Outcome::from_errno(c::EAGAIN));
        assert_eq!(pool.submit((&mut records[0]).into(), &home), none);
        pool.shared.lock().stack_size = None;
        pool.submit((&mut records[0]).into(), &home).expect("a thread can be made");
        pool.shared.lock().stack_size = TOO_MUCH;
        for r in &mut records[1..] {
            pool.submit(r.into(), &home).expect("the one thread will come to it");
        }
    }
    assert_eq!(pool.threads(), 1);
    open.store(1, Ordering::Release);
    assert_eq!(wait_for(&home, 5), vec![Outcome(5); 5]);
}

#[test]
fn dropping_the_pool_ends_its_threads() {
    let (pool, home) = (Pool::new(2), home());
    let open = AtomicUsize::new(1);
    let mut r = record(gate, (&raw const open).cast_mut().cast());
    // SAFETY: the record and the gate outlive the wait below.
    unsafe { pool.submit((&mut r).into(), &home) }.expect("thread");
    assert_eq!(wait_for(&home, 1), [Outcome(5)]);
    let shared = Arc::clone(&pool.shared);
    drop(pool);
    let end = Instant::now() + Duration::from_secs(100);
    while shared.lock().threads > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(shared.lock().threads, 0, "long before they would have been idle for too long");
}
