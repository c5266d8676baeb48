//! The cell under loom: every interleaving of those who resolve, wait, chain and cancel.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p bast-sync --release --lib loom_promise`
//!
//! A wake or a callback that is lost shows as a deadlock. Each cell is used once before there are threads (see `shim`).
//! The models have been seen to fail, each with one of these faults: `poll` that leaves its waker without a second look;
//! `attach` that does not look whether it is done; `put` that takes a merged cell for its own; `expect` that ignores `cancelled`; `merge` that
//! takes one lock at a time.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;
use loom::thread;

use super::{Promise, Resolver};

struct Note(Notify);

impl Wake for Note {
    fn wake(self: Arc<Note>) {
        self.0.notify();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let note = Arc::new(Note(Notify::new()));
    let waker = Waker::from(Arc::clone(&note));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => note.0.wait(),
        }
    }
}

fn pair() -> (Promise<u32>, Resolver<u32>) {
    let (promise, resolver) = Promise::new();
    assert!(!promise.is_resolved());
    (promise, resolver)
}

#[test]
fn loom_promise_resolve_and_wait() {
    loom::model(|| {
        let (promise, resolver) = pair();
        let resolving = thread::spawn(move || resolver.resolve(1));
        assert_eq!(block_on(promise).unwrap(), 1);
        resolving.join().unwrap();
    });
}

#[test]
fn loom_promise_resolve_and_chain() {
    loom::model(|| {
        let (promise, resolver) = pair();
        let resolving = thread::spawn(move || resolver.resolve(1));
        assert_eq!(block_on(promise.map(|n| n + 1)).unwrap(), 2);
        resolving.join().unwrap();
    });
}

/// The inner one is resolved while it becomes a name of the outer one, and the outer one of another.
#[test]
fn loom_promise_resolve_and_merge() {
    loom::model(|| {
        let ((inner, resolver), (ready, go), (last, end)) = (pair(), pair(), pair());
        let outer = ready.and_then(move |_| inner);
        let outest = last.and_then(move |_| outer);
        let threads =
            [thread::spawn(move || resolver.resolve(7)), thread::spawn(move || go.resolve(0))];
        end.resolve(0);
        assert_eq!(block_on(outest).unwrap(), 7);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Whenever the cancellation comes, it finds the resolver behind the callback: nothing else ends the promise.
#[test]
fn loom_promise_cancel_and_merge() {
    loom::model(|| {
        let ((inner, resolver), (ready, go)) = (pair(), pair());
        let outer = ready.and_then(move |_| inner).catch(|_| Promise::ready(9));
        // Once, so that cancelling does not reach the first of them.
        go.on_cancel(|| ());
        let going = thread::spawn(move || go.resolve(0));
        outer.cancel();
        assert_eq!(block_on(outer).unwrap(), 9);
        going.join().unwrap();
        assert!(resolver.is_cancelled());
    });
}

/// Each of two is to be resolved as the other. Whoever comes second finds that, and nobody walks in a circle.
#[test]
fn loom_promise_circle() {
    loom::model(|| {
        let ((one, go_one), (two, go_two)) = (pair(), pair());
        let slots = [(); 2].map(|()| Arc::new(Mutex::new(None::<Promise<u32>>)));
        let [left, right] = slots.clone();
        let one = one.and_then(move |_| left.lock().unwrap().take().unwrap());
        let two = two.and_then(move |_| right.lock().unwrap().take().unwrap());
        *slots[0].lock().unwrap() = Some(two);
        *slots[1].lock().unwrap() = Some(one);
        let going = thread::spawn(move || go_one.resolve(0));
        go_two.resolve(0);
        going.join().unwrap();
    });
}

#[test]
fn loom_promise_cancel_and_resolve() {
    loom::model(|| {
        let (promise, resolver) = pair();
        let promise = promise.map(|n| n + 1);
        let resolving = thread::spawn(move || resolver.resolve(1));
        promise.cancel();
        match block_on(promise) {
            Ok(n) => assert_eq!(n, 2),
            Err(error) => assert!(error.is_cancelled()),
        }
        resolving.join().unwrap();
    });
}

#[test]
fn loom_promise_two_at_once() {
    loom::model(|| {
        let ((one, resolve_one), (two, resolve_two)) = (pair(), pair());
        let all = Promise::all([one, two]);
        let resolving = thread::spawn(move || resolve_one.resolve(1));
        resolve_two.resolve(2);
        assert_eq!(block_on(all).unwrap(), [1, 2]);
        resolving.join().unwrap();
        let ((one, resolve_one), (two, resolve_two)) = (pair(), pair());
        let first = Promise::pick([one, two]);
        let resolving = thread::spawn(move || resolve_one.resolve(1));
        resolve_two.resolve(2);
        assert!((1..=2).contains(&block_on(first).unwrap()));
        resolving.join().unwrap();
    });
}
