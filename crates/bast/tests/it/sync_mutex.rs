//! Twins: `Mutex` and `Condvar`.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use crate::harness::{message, twins, until};

const SHORT: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(60);

fn sync<T: Send + Sync>() {}
fn unwind<T: UnwindSafe + RefUnwindSafe>() {}

/// Ambiguous, and so no program, if `T: Send`.
trait NotSend<A> {
    fn check() {}
}
impl<T: ?Sized> NotSend<()> for T {}
struct IsSend;
impl<T: ?Sized + Send> NotSend<IsSend> for T {}

/// As `NotSend`.
trait NotSync<A> {
    fn check() {}
}
impl<T: ?Sized> NotSync<()> for T {}
struct IsSync;
impl<T: ?Sized + Sync> NotSync<IsSync> for T {}

twins! {
    fn bounds() {
        sync::<Mutex<std::cell::Cell<u8>>>();
        unwind::<Mutex<std::cell::Cell<u8>>>();
        <Mutex<*const u8> as NotSend<_>>::check();
        <Mutex<*const u8> as NotSync<_>>::check();
        <MutexGuard<'static, u8> as NotSend<_>>::check();
        <MutexGuard<'static, std::cell::Cell<u8>> as NotSync<_>>::check();
        fn shared<T: Sync>() {}
        shared::<MutexGuard<'static, u8>>();
        sync::<Condvar>();
        unwind::<Condvar>();
        fn default<T: Default + From<u8> + Debug>() {}
        default::<Mutex<u8>>();
    }

    fn statics_and_constants() {
        static COUNT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        static CHANGED: Condvar = Condvar::new();
        let others: Vec<_> = (0..8).map(|n| spawn(move || {
            COUNT.lock().unwrap().push(n);
            CHANGED.notify_one();
        })).collect();
        let mut seen = CHANGED.wait_while(COUNT.lock().unwrap(), |count| count.len() < 8).unwrap();
        seen.sort_unstable();
        assert_eq!(*seen, [0, 1, 2, 3, 4, 5, 6, 7]);
        drop(seen);
        others.into_iter().for_each(|other| other.join().unwrap());
    }

    fn one_at_a_time() {
        let (mutex, inside) = (Arc::new(Mutex::new(0_usize)), Arc::new(AtomicUsize::new(0)));
        let others: Vec<_> = (0..10).map(|_| {
            let (mutex, inside) = (Arc::clone(&mutex), Arc::clone(&inside));
            spawn(move || {
                for round in 0..200 {
                    let mut guard = mutex.lock().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    *guard += 1;
                    if round % 8 == 0 {
                        yield_now();
                    }
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            })
        }).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 2000);
    }

    fn try_lock() {
        let mutex = Mutex::new(1);
        {
            let mut guard = mutex.try_lock().unwrap();
            *guard += 1;
            assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
            let error = mutex.try_lock().unwrap_err().to_string();
            assert_eq!(error, "try_lock failed because the operation would block");
        }
        assert_eq!(*mutex.try_lock().unwrap(), 2);
    }

    fn of_unsized_values() {
        let mutex: &Mutex<[i32]> = &Mutex::new([1, 2, 3]);
        mutex.lock().unwrap()[0] = 4;
        assert_eq!(*mutex.lock().unwrap(), [4, 2, 3]);
    }

    fn into_inner_and_get_mut() {
        let mut mutex = Mutex::from(String::from("a"));
        mutex.get_mut().unwrap().push('b');
        assert_eq!(mutex.into_inner().unwrap(), "ab");
        assert_eq!(Mutex::<u8>::default().into_inner().unwrap(), 0);
        let token = Arc::new(());
        drop(Mutex::new(Arc::clone(&token)));
        assert_eq!(Arc::strong_count(&token), 1);
    }

    fn poison() {
        let mut mutex = Mutex::new(1);
        assert!(!mutex.is_poisoned());
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = mutex.lock().unwrap();
            *guard = 2;
            panic!("expected");
        }));
        assert!(panic.is_err());
        assert!(mutex.is_poisoned());
        let error: PoisonError<_> = mutex.lock().unwrap_err();
        assert_eq!(**error.get_ref(), 2);
        assert_eq!(error.to_string(), "poisoned lock: another task failed inside");
        *error.into_inner() = 3;
        assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(e)) if **e.get_ref() == 3));
        assert_eq!(mutex.get_mut().unwrap_err().into_inner(), &mut 3);
        assert!(mutex.is_poisoned());
        mutex.clear_poison();
        assert!(!mutex.is_poisoned());
        assert_eq!(*mutex.lock().unwrap(), 3);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _guard = mutex.lock();
            panic!("expected");
        }));
        assert_eq!(mutex.into_inner().unwrap_err().into_inner(), 3);
    }

    fn a_panic_elsewhere_poisons() {
        let mutex = Arc::new(Mutex::new(()));
        let theirs = Arc::clone(&mutex);
        let fiber = spawn(move || {
            let _guard = theirs.lock().unwrap();
            panic!("expected");
        });
        assert!(fiber.join().is_err());
        assert!(mutex.is_poisoned());
    }

    fn what_is_locked_while_unwinding_is_not_poisoned() {
        struct Locks<'a>(&'a Mutex<u32>);
        impl Drop for Locks<'_> {
            fn drop(&mut self) {
                *self.0.lock().unwrap() += 1;
            }
        }
        let mutex = Mutex::new(0);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _locks = Locks(&mutex);
            panic!("expected");
        }));
        assert!(panic.is_err());
        assert_eq!(*mutex.lock().unwrap(), 1);
    }

    fn a_guard_that_was_dropped_before_the_panic_does_not_poison() {
        let mutex = Mutex::new(0);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            drop(mutex.lock().unwrap());
            panic!("expected");
        }));
        assert!(panic.is_err() && !mutex.is_poisoned());
    }

    fn a_forgotten_guard_keeps_the_lock() {
        let mutex = Mutex::new(0);
        std::mem::forget(mutex.lock().unwrap());
        assert!(mutex.try_lock().is_err());
    }

    fn debug() {
        let mutex = Mutex::new(7);
        assert_eq!(format!("{mutex:?}"), "Mutex { data: 7, poisoned: false, .. }");
        let guard = mutex.lock().unwrap();
        assert_eq!(format!("{mutex:?}"), "Mutex { data: \"<locked>\", poisoned: false, .. }");
        assert_eq!(format!("{guard:?} {guard}"), "7 7");
        drop(guard);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _guard = mutex.lock();
            panic!("expected");
        }));
        assert_eq!(format!("{mutex:?}"), "Mutex { data: 7, poisoned: true, .. }");
        assert_eq!(format!("{:?}", Condvar::new()), "Condvar { .. }");
        assert_eq!(format!("{:?}", Condvar::default()), "Condvar { .. }");
    }

    fn notify_one_wakes_one() {
        let shared = Arc::new((Mutex::new((0, 0)), Condvar::new()));
        let waiters: Vec<_> = (0..3).map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                let mut state = shared.0.lock().unwrap();
                state.0 += 1;
                while state.1 == 0 {
                    state = shared.1.wait(state).unwrap();
                }
                state.1 -= 1;
            })
        }).collect();
        while shared.0.lock().unwrap().0 < 3 {
            yield_now();
        }
        for left in (0..3).rev() {
            shared.0.lock().unwrap().1 = 1;
            shared.1.notify_one();
            while shared.0.lock().unwrap().1 != 0 {
                yield_now();
            }
            sleep(Duration::from_millis(2));
            // The one that was woken may take its time to end.
            let waiting = || waiters.iter().filter(|w| !w.is_finished()).count();
            until("one has ended", || waiting() <= left);
            assert_eq!(waiting(), left);
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    }

    fn notify_all_wakes_all() {
        let shared = Arc::new((Mutex::new((0, false)), Condvar::new()));
        let waiters: Vec<_> = (0..40).map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                let mut state = shared.0.lock().unwrap();
                state.0 += 1;
                drop(shared.1.wait_while(state, |state| !state.1).unwrap());
            })
        }).collect();
        while shared.0.lock().unwrap().0 < 40 {
            yield_now();
        }
        shared.0.lock().unwrap().1 = true;
        shared.1.notify_all();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    }

    fn a_notification_without_waiters_is_not_kept() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        condvar.notify_one();
        condvar.notify_all();
        let start = Instant::now();
        let (_guard, result) = condvar
            .wait_timeout_while(mutex.lock().unwrap(), SHORT, |()| true)
            .unwrap();
        assert!(result.timed_out() && start.elapsed() >= SHORT);
    }

    fn wait_timeout() {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        // Nobody comes. (Spurious wake-ups are allowed.)
        let start = Instant::now();
        let mut guard = shared.0.lock().unwrap();
        loop {
            let (again, result) = shared.1.wait_timeout(guard, SHORT).unwrap();
            guard = again;
            if result.timed_out() {
                break;
            }
        }
        assert!(start.elapsed() >= SHORT);
        drop(guard);
        // Somebody comes.
        let theirs = Arc::clone(&shared);
        let other = spawn(move || {
            sleep(SHORT);
            *theirs.0.lock().unwrap() = true;
            theirs.1.notify_all();
        });
        for patience in [LONG, Duration::MAX] {
            let (guard, result) = shared.1
                .wait_timeout_while(shared.0.lock().unwrap(), patience, |done| !*done)
                .unwrap();
            assert!(*guard && !result.timed_out());
        }
        other.join().unwrap();
        // A time of zero asks once.
        let mut asked = 0;
        let (_guard, result) = shared.1
            .wait_timeout_while(shared.0.lock().unwrap(), Duration::ZERO, |_| { asked += 1; true })
            .unwrap();
        assert!(result.timed_out());
        assert_eq!(asked, 1);
        assert_eq!(format!("{result:?}"), "WaitTimeoutResult(true)");
        assert_eq!(result, result.clone());
    }

    fn waiting_lets_go_of_the_mutex() {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let guard = shared.0.lock().unwrap();
        let other = spawn(move || {
            *theirs.0.lock().unwrap() = 1;
            theirs.1.notify_one();
        });
        let guard = shared.1.wait_while(guard, |n| *n == 0).unwrap();
        assert_eq!(*guard, 1);
        assert!(shared.0.try_lock().is_err());
        drop(guard);
        other.join().unwrap();
    }

    fn waiting_on_a_poisoned_mutex() {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let guard = shared.0.lock().unwrap();
        let other = spawn(move || {
            let mut guard = theirs.0.lock().unwrap();
            *guard = 1;
            theirs.1.notify_one();
            panic!("expected");
        });
        let error = shared.1.wait_while(guard, |n| *n == 0).unwrap_err();
        assert_eq!(*error.into_inner(), 1);
        assert!(other.join().is_err());
        let guard = shared.0.lock().unwrap_err().into_inner();
        let (_guard, result) = shared.1.wait_timeout(guard, Duration::ZERO).unwrap_err().into_inner();
        assert!(result.timed_out());
    }

    fn a_panic_in_the_condition() {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let guard = mutex.lock().unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            drop(condvar.wait_while(guard, |_| panic!("expected")));
        }));
        assert_eq!(message(&*panic.unwrap_err()), "expected");
        assert!(mutex.is_poisoned());
    }

    fn a_bounded_buffer() {
        const COUNT: usize = 2000;
        let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new(), Condvar::new()));
        let done = Arc::new(AtomicBool::new(false));
        let producer = {
            let shared = Arc::clone(&shared);
            let done = Arc::clone(&done);
            spawn(move || {
                for n in 0..COUNT {
                    let mut buffer = shared.1.wait_while(shared.0.lock().unwrap(), |b| b.len() == 4).unwrap();
                    buffer.push(n);
                    shared.2.notify_one();
                }
                done.store(true, Ordering::Relaxed);
            })
        };
        let mut sum = 0;
        for _ in 0..COUNT {
            let mut buffer = shared.2.wait_while(shared.0.lock().unwrap(), |b| b.is_empty()).unwrap();
            sum += buffer.remove(0);
            shared.1.notify_one();
        }
        assert_eq!(sum, COUNT * (COUNT - 1) / 2);
        producer.join().unwrap();
        assert!(done.load(Ordering::Relaxed));
    }
}
