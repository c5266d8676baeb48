//! Every name of waiting, stopping and looking that users need is had from `bast` alone: this file names no other
//! crate of ours. What is no longer exported does not compile here.

use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bast::fiber::{AccessError, Interrupted, LocalKey};
use bast::group::{
    DropGuard, Group, GroupJoinHandle, join, par_map_unordered, race_ok, try_join_all,
};
use bast::hook::SwitchHook;
use bast::inspect::{FiberDump, Frame, RuntimeMetrics, WorkerMetrics};
use bast::select::{
    Arm, Event, Select, after, at, cancelled, changed, closed, put, read, recv, recv_next,
    recv_once, send, send_from, take,
};
use bast::sync::{
    AcquireError, Barrier, BarrierWaitResult, Condvar, LazyLock, LockResult, MVar, Mutex,
    MutexGuard, Notify, Once, OnceLock, OnceState, OwnedSemaphorePermit, PoisonError, Pool,
    PoolError, PoolStatus, Pooled, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
    SemaphorePermit, TryAcquireError, TryLockError, TryLockResult, WaitGroup, WaitTimeoutResult,
    broadcast, mpmc, mpsc, oneshot, watch,
};
use bast::time::Instant;
use bast::{
    Builder, CancelToken, Cancelled, DriverKind, Dump, Elapsed, Fiber, FiberId, JoinHandle,
    Metrics, Runtime, RuntimeBuilder, Scope, ScopedJoinHandle, StackError, StackGuards,
    StillRunning, fiber_local, for_each_concurrent, group, join_all, par_map, race,
};

use crate::harness::on_bast::run;
use crate::harness::until;

/// A type that exists, for those that a test gets no value of.
fn named<T: ?Sized>() -> &'static str {
    std::any::type_name::<T>()
}

#[test]
fn types() {
    let names = [
        named::<AccessError>(),
        named::<AcquireError>(),
        named::<BarrierWaitResult>(),
        named::<Cancelled>(),
        named::<Elapsed>(),
        named::<Interrupted>(),
        named::<LocalKey<Cell<u8>>>(),
        named::<LockResult<MutexGuard<'_, u8>>>(),
        named::<TryLockResult<RwLockReadGuard<'_, u8>>>(),
        named::<TryLockError<RwLockWriteGuard<'_, u8>>>(),
        named::<PoisonError<u8>>(),
        named::<OnceState>(),
        named::<TryAcquireError>(),
        named::<SemaphorePermit<'_>>(),
        named::<OwnedSemaphorePermit>(),
        named::<WaitTimeoutResult>(),
        named::<(Pool<u8, u8>, PoolError<u8>, PoolStatus, Pooled<'_, u8, u8>)>(),
        named::<(mpsc::SyncSender<u8>, mpsc::TrySendError<u8>, mpsc::RecvTimeoutError)>(),
        named::<(mpsc::Iter<'_, u8>, mpsc::TryIter<'_, u8>, mpsc::IntoIter<u8>, mpsc::SendError<u8>)>(
        ),
        named::<(mpmc::SendTimeoutError<u8>, mpmc::RecvError, mpmc::TryRecvError)>(),
        named::<(oneshot::RecvTimeoutError<u8>, oneshot::TryRecvError<u8>)>(),
        named::<(broadcast::RecvError, broadcast::TryRecvError, broadcast::RecvTimeoutError)>(),
        named::<(watch::Ref<'_, u8>, watch::RecvError, watch::SendError<u8>)>(),
        named::<(Group<'_, '_, u8>, GroupJoinHandle<'_, u8>, DropGuard)>(),
        named::<(Scope<'_, '_>, ScopedJoinHandle<'_, u8>, Fiber, FiberId, JoinHandle<u8>)>(),
        named::<(Dump, FiberDump, Frame, Metrics, RuntimeMetrics, WorkerMetrics)>(),
        named::<(Runtime, RuntimeBuilder, StackError, StackGuards, StillRunning, DriverKind)>(),
        named::<dyn Arm>(),
        named::<dyn SwitchHook<Saved = ()>>(),
    ];
    // They are bast's or std's, as the file says.
    assert!(names.iter().all(|name| name.contains("bast") || name.contains("std")), "{names:?}");
}

#[test]
fn locks_and_cells() {
    static LAZY: LazyLock<u8> = LazyLock::new(|| 1);
    run(|| {
        let (mutex, condvar, rwlock) = (Mutex::new(1), Condvar::new(), RwLock::new(1));
        let (once, cell, barrier) = (Once::new(), OnceLock::new(), Barrier::new(1));
        assert_eq!(*LAZY + *mutex.lock().unwrap() + *rwlock.read().unwrap(), 3);
        let (guard, ended) = condvar.wait_timeout(mutex.lock().unwrap(), Duration::ZERO).unwrap();
        assert!(ended.timed_out());
        drop(guard);
        once.call_once(|| *rwlock.write().unwrap() += *cell.get_or_init(|| 1));
        assert!(barrier.wait().is_leader() && once.is_completed());

        let (semaphore, notify, group) =
            (Arc::new(Semaphore::new(1)), Notify::new(), WaitGroup::new());
        let permit = Arc::clone(&semaphore).acquire_owned().unwrap();
        assert!(semaphore.try_acquire().is_err());
        drop(permit);
        notify.notify_one();
        notify.wait();
        group.wait();
        let mvar = MVar::new(1);
        mvar.modify(|value| *value += 1);
        assert_eq!(mvar.take(), 2);
    });
}

#[test]
fn events() {
    run(|| {
        fn first<T>(event: impl Event<Output = T>) -> T {
            bast::select! { value = event => value }
        }
        let (tx, rx) = mpsc::channel();
        first(send(&tx, 1)).unwrap();
        let mut slot = Some(2);
        first(send_from(&tx, &mut slot)).unwrap();
        assert_eq!((first(recv(&rx)).unwrap(), first(recv(&rx)).unwrap(), slot), (1, 2, None));
        let (tx, mut rx) = oneshot::channel();
        tx.send(3).unwrap();
        assert_eq!(first(recv_once(&mut rx)).unwrap(), 3);
        let (tx, rx) = oneshot::channel::<u8>();
        drop(rx);
        first(closed(&tx));
        let (tx, mut rx) = broadcast::channel(1);
        tx.send(4).unwrap();
        assert_eq!(first(recv_next(&mut rx)).unwrap(), 4);
        let (tx, mut rx) = watch::channel(5);
        tx.send(6).unwrap();
        first(changed(&mut rx)).unwrap();
        let mvar = MVar::new_empty();
        first(put(&mvar, 7));
        assert_eq!((first(read(&mvar)), first(take(&mvar))), (7, 7));
        let (token, mut fiber) = (CancelToken::new(), bast::spawn(|| 8));
        token.cancel();
        first(cancelled(&token));
        assert_eq!(first(bast::select::join(&mut fiber)).unwrap(), 8);
        first(after(Duration::ZERO));
        first(at(Instant::now()));
        let (tx, rx) = mpmc::channel();
        tx.send(9).unwrap();
        assert_eq!(Select::new().on(recv(&rx), Result::unwrap).try_wait(), Some(9));
    });
}

#[test]
fn groups() {
    run(|| {
        assert_eq!(join(|| 1, || 2), (1, 2));
        assert!(join_all([|| 1, || 1]).into_iter().all(|ended| ended.unwrap() == 1));
        assert_eq!(try_join_all([|| Ok(1), || Err(2)]), Err(2));
        assert_eq!(race([|| 3]), 3);
        assert_eq!(race_ok([|| Err(1), || Ok(2)]), Ok(2));
        assert_eq!(par_map([1, 2], 2, |n| n * 2), [2, 4]);
        let (mut sum, mut count) = (0, 0);
        par_map_unordered([1, 2], 2, |n| n * 2, |n| sum += n);
        let counted = Mutex::new(&mut count);
        for_each_concurrent([1, 2], 2, |n| **counted.lock().unwrap() += n);
        assert_eq!((sum, count), (6, 3));
        let failed: Result<(), Cancelled> = group(|g: &Group<'_, '_, Cancelled>| {
            g.spawn(|| Result::<(), _>::Err(Cancelled::new()));
            Ok(())
        });
        assert_eq!(failed, Err(Cancelled::new()));
    });
}

#[test]
fn stopping_and_looking() {
    fiber_local! {
        static OWN: Cell<u8> = const { Cell::new(1) };
    }
    struct Nothing;
    impl SwitchHook for Nothing {
        type Saved = ();
        fn suspend(&self) {}
        fn resume(&self, (): ()) {}
    }
    // Taken as a value: a hook is for the whole process, and the other tests are in it.
    let _: fn() = || bast::hook::add(Nothing);
    let _: fn() -> std::io::Result<()> = bast::dump_on_signal;
    run(|| {
        assert_eq!(OWN.get(), 1);
        assert_eq!(bast::timeout(Duration::MAX, || bast::mask(|| 2)), Ok(2));
        assert!(bast::deadline(Instant::now(), bast::park).is_err());
        assert!(!bast::stop_requested());
        let fiber = Builder::new().name("named".into()).spawn(bast::park).unwrap();
        // Another worker may start it, and a dump shows those that have begun.
        let seen = || bast::dump().fibers().any(|fiber| fiber.name() == Some("named"));
        until("it is seen", seen);
        assert!(bast::metrics().to_string().contains("spawned"));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        let error = bast::timeout(Duration::ZERO, bast::park).map_err(std::io::Error::from);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::TimedOut);
    });
}
